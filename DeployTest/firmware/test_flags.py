"""Flags by which a compiler computes otherwise than is written: libraries built with them are refused, never wrong."""

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from deployer.core.errors import RunFailed
from deployer.core.target import TARGETS_DIR
from deployer.firmware.sources import library_rules
from deployer.sizing.boards import CORES as CORES_DIR
from deployer.sizing.boards import core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.firmware import nets
from DeployTest.firmware.test_builds import needed
from DeployTest.firmware.test_library import packaged, ran
from DeployTest.targets.simulators import build_source, needs_core, needs_simulator, simulate

pytestmark = [pytest.mark.host, pytest.mark.training]
ASSOCIATIVE = "-fassociative-math -fno-signed-zeros -fno-trapping-math"
FLAGS = ("-ffast-math", "-funsafe-math-optimizations", ASSOCIATIVE, "-freciprocal-math", "-ffinite-math-only")
OTHERS = ("-fno-signed-zeros", "-mfma -ffp-contract=fast")
MACROS = ("FAST_MATH", "FINITE_MATH_ONLY", "ASSOCIATIVE_MATH", "RECIPROCAL_MATH", "NO_SIGNED_ZEROS")
SILENT = tuple(f"-U__{macro}__" for macro in MACROS)
"""For a compiler without the macros that say which flags it has, as older ones are."""
STOPPED = re.compile(r"#error \"compiled with -f[a-z-]+, ")
CORE_HEADERS = Path("/usr/lib/arm-none-eabi/include")
"""The headers of newlib, as Debian has them."""
FLOATS = re.compile(r"\b(?:add|mul|sub|div|comi|ucomi)s[sd]\b")
"""Instructions of x86 that compute with floats."""
REFUSED = "error: a source is compiled with flags that change results, such as -ffast-math\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose sums, quotients and checks any of the flags would change; nobody writes into it."""
    folder = tmp_path_factory.mktemp("flags")
    return packaged("normed", nets.normed_case(folder / "case"), folder / "normed")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of few kernels; nobody writes into it."""
    folder = tmp_path_factory.mktemp("small")
    return packaged("dense", nets.dense_case(folder / "case"), folder / "dense")


@cache
def right(library: Path) -> str:
    """Output of the example, built as intended."""
    ran("make", "-s", "-C", library)
    return ran(library / f"build/{library.name}_example")


def words_of(compiler: str, library: Path) -> list[str]:
    """A compiler with the flags that the library's own build files have."""
    return [compiler, "-w", f"-std=c{library_rules().standard}", *library_rules().flags, f"-I{library}/include"]


def example(library: Path) -> list[str]:
    """The sources of the library and its example."""
    return [*map(str, sorted(library.glob("src/*.c"))), str(library / "examples/main.c")]


def outcome(words: Sequence[str], program: Path) -> str:
    """Compile and run a program; return "stopped" if the compiler refuses it, else its output."""
    done = subprocess.run([*words, "-o", str(program)], capture_output=True, text=True, check=False)
    if done.returncode:
        assert STOPPED.search(done.stderr), done.stderr
        return "stopped"
    return subprocess.run([program], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("level", ["-O2", *(pytest.param(level, marks=pytest.mark.slow) for level in ("-Os",))])
@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        *(("gcc", flags) for flags in (*FLAGS, *OTHERS)),
        ("clang", FLAGS[0]),
        *(pytest.param("clang", flags, marks=pytest.mark.slow) for flags in (*FLAGS[1:], *OTHERS)),
    ],
)
def test_refused(compiler: str, flags: str, level: str, small: Path, tmp_path: Path) -> None:
    """The preprocessor stops, or `init` refuses: with the macros and as if there were none."""
    needed(compiler)
    for silent in ((), SILENT):
        words = [*words_of(compiler, small), level, *flags.split(), *silent, *example(small), "-lm"]
        found = outcome(words, tmp_path / "program")
        assert found == REFUSED or (found == "stopped" and not silent), f"{silent}: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_taken(compiler: str, library: Path, tmp_path: Path) -> None:
    """Flags that change no bit give the bits: without optimization, with it, and what a compiler ignores."""
    needed(compiler)
    for flags in ("-O0", "-O1", "-O3", "-Os", "-O3 -march=haswell", "-O2 -fassociative-math", "-O2 -fno-trapping-math"):
        words = [*words_of(compiler, library), *flags.split(), *example(library), "-lm"]
        assert outcome(words, tmp_path / "program") == right(library), flags


@pytest.mark.slow
def test_each_source(library: Path, tmp_path: Path) -> None:
    """A single source with such flags is enough, whichever it is, of all that compute with floats."""
    objects, computing = {source: tmp_path / f"{Path(source).stem}.o" for source in example(library)}, 0
    words = [*words_of("gcc", library), "-O2", "-c"]
    for source, built in objects.items():
        ran(*words, source, "-o", built)
    for source, built in objects.items():
        floats = FLOATS.search(ran("objdump", "-d", built)) and "/src/" in source and "fma_f32" not in source
        other = tmp_path / "other"
        ran(*words, "-ffast-math", *SILENT, source, "-o", other)
        ran("gcc", *(other if path == built else path for path in objects.values()), "-lm", "-o", tmp_path / "program")
        found = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False).stdout
        assert found == (REFUSED if floats else right(library)), source
        computing += bool(floats)
    assert computing > 5


@pytest.mark.slow
def test_own_fma(library: Path, tmp_path: Path) -> None:
    """A library with its own `fmaf` proves the source of that, too."""
    words = [*words_of("gcc", library), "-O2", "-DHAL_OWN_FMA"]
    sources = [source for source in example(library) if "fma_f32" not in source]
    for flags, printed in (((), right(library)), (("-ffast-math", *SILENT), REFUSED)):
        ran(*words, *flags, "-c", library / "src/normed_fma_f32.c", "-o", tmp_path / "fma.o")
        assert outcome([*words, *sources, str(tmp_path / "fma.o"), "-lm"], tmp_path / "program") == printed


@pytest.mark.slow
@pytest.mark.cortex_m
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus"])
def test_on_a_core(core: str, flags: str, small: Path, tmp_path: Path) -> None:
    """Under QEMU, with a floating-point unit and without: macros stop the compiler, without them `init` refuses."""
    needs_core(core)
    what = core_of(core)
    sources = [*example(small), str(CORES_DIR / "start.c")]
    words = [*compile_words(what), "-w", *flags.split(), f"-I{small}/include", *sources, *link_words(what)]
    done = subprocess.run([*words, "-o", str(tmp_path / "no.elf")], capture_output=True, text=True, check=False)
    assert STOPPED.search(done.stderr), done.stderr
    program = tmp_path / "program.elf"
    ran(*words, *SILENT, "-o", program)
    with pytest.raises(RunFailed, match=REFUSED.strip()):
        run_program(what, program)
    ran(*compile_words(what), f"-I{small}/include", *sources, *link_words(what), "-o", program)
    assert run_program(what, program) == right(small)


ON_RISCV = """
#include "hal.h"
#include "exact_flags.h"
const uint32_t hal_plan_cores = 8;
extern uint8_t hal_memory_l1[], hal_memory_l2[], hal_memory_l3[];
EXACT_FLAGS(results_of)
int main(int argc, char **argv) {
    const volatile union { uint32_t bits[EXACT_OPERANDS]; float values[EXACT_OPERANDS]; } operands = {
        {0x4b800000u, 0x40a00000u, 0x7f800000u, 0x80000000u, 0x3f800800u, 0xbf801000u}};
    volatile union { float values[EXACT_RESULTS]; uint32_t bits[EXACT_RESULTS]; } results;
    hal_init(argc, argv);
    results_of(operands.values, results.values);
    hal_exit(results.bits[0] == 0x40800000u && results.bits[1] == 0x3fd55555u && !results.bits[2] && !results.bits[3] &&
             (results.bits[4] & 0x7fffffffu) > 0x7f800000u ? 0 : 9);
}
"""
"""What a library's `init` compares, in a program without C's library."""


@pytest.mark.qemu_riscv
@pytest.mark.parametrize("flags", ["", *FLAGS, "-ffp-contract=fast"])
def test_on_riscv(flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's function gives other results with any of the flags on RISC-V, and the right ones without."""
    needs_simulator("qemu_riscv")
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec riscv64-unknown-elf-gcc "$@" {flags} {" ".join(SILENT)}\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("RISCV_GCC", str(compiler))
    source = ON_RISCV.replace('#include "exact_flags.h"', (TARGETS_DIR / "portable/exact_flags.h").read_text())
    build_source("qemu_riscv", source, tmp_path / "c")
    assert simulate("qemu_riscv", tmp_path / "c").status == (9 if flags else 0)


ARDUINO = {
    "cortex-m4": {"": False, "-ffp-contract=off": True, "-Ofast -fno-fast-math -ffp-contract=off": True},
    "cortex-m0plus": {"": True, "-Ofast -fno-fast-math": True},
}
"""Flags behind those of Arduino's cores, and whether the library takes them: GCC fuses where it can, unless told."""


@pytest.mark.slow
@pytest.mark.cortex_m
@pytest.mark.parametrize("core", ARDUINO)
def test_as_arduino_compiles(core: str, small: Path, tmp_path: Path) -> None:
    """The words of Arduino's cores, which say nothing of products and sums, and what the page says to put behind."""
    needs_core(core)
    what, program = core_of(core), tmp_path / "program.elf"
    page = (Path(__file__).parents[2] / "docs/firmware.md").read_text()
    assert "compiler.c.extra_flags=-fno-fast-math -ffp-contract=off" in page
    sources = [*example(small), str(CORES_DIR / "start.c")]
    for flags, taken in ARDUINO[core].items():
        words = [what.compiler, *what.flags, "-c", "-std=gnu11", "-Os", "-ffunction-sections", "-fdata-sections", "-w"]
        objects = [str(tmp_path / f"{Path(source).stem}.o") for source in sources]
        for source, built in zip(sources, objects, strict=True):
            ran(*words, *flags.split(), f"-I{small}/include", source, "-o", built)
        ran(what.compiler, *what.flags, *objects, *link_words(what), "-o", program)
        if taken:
            assert run_program(what, program) == right(small), flags
        else:
            with pytest.raises(RunFailed, match=REFUSED.strip()):
                run_program(what, program)


BY_CLANG = """#!/bin/sh
case "$*" in
*program.c*)
    set -- $(printf '%s\\n' "$@" | grep -v -e -fno-tree -e -march)
    exec clang --target=riscv32-unknown-elf -march=rv32imafc "$@" -w {flags} ;;
esac
exec riscv64-unknown-elf-gcc "$@"
"""
"""A compiler for which clang translates the program's own source, and gcc what is around it."""


@pytest.mark.qemu_riscv
@pytest.mark.parametrize("flags", ["", *FLAGS, "-ffp-contract=fast"])
def test_clang_on_riscv(flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a source that clang compiled, where it has this target."""
    needs_simulator("qemu_riscv")
    needed("clang")
    if "riscv32 " not in ran("clang", "--print-targets"):
        pytest.skip("not installed: clang has no target riscv32")
    compiler = tmp_path / "compiler"
    compiler.write_text(BY_CLANG.format(flags=f"{flags} {' '.join(SILENT)}"))
    compiler.chmod(0o755)
    monkeypatch.setenv("RISCV_GCC", str(compiler))
    source = ON_RISCV.replace('#include "exact_flags.h"', (TARGETS_DIR / "portable/exact_flags.h").read_text())
    build_source("qemu_riscv", source, tmp_path / "c")
    assert b"clang version" in (tmp_path / "c/program.o").read_bytes()
    assert simulate("qemu_riscv", tmp_path / "c").status == (9 if flags else 0)


@pytest.mark.slow
@pytest.mark.cortex_m
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus"])
def test_clang_on_a_core(core: str, small: Path, tmp_path: Path) -> None:
    """Clang under QEMU, which has no macro for two of the flags: `init` refuses these, and other bits are right."""
    needs_core(core)
    needed("clang")
    if not CORE_HEADERS.is_dir():
        pytest.skip(f"not installed: {CORE_HEADERS}")
    what, program = core_of(core), tmp_path / "program.elf"
    common = ["--target=arm-none-eabi", "-fshort-enums", "-isystem", str(CORE_HEADERS), *what.flags, "-O2"]
    for flags, printed in (("", right(small)), ("-freciprocal-math", REFUSED), (ASSOCIATIVE, REFUSED)):
        objects = []
        for source in (*example(small), str(CORES_DIR / "start.c")):
            objects.append(str(tmp_path / f"{Path(source).stem}.o"))
            ran(*words_of("clang", small), *common, *flags.split(), *SILENT, "-c", source, "-o", objects[-1])
        ran(what.compiler, *what.flags, *objects, *link_words(what), "-o", program)
        if printed == REFUSED:
            with pytest.raises(RunFailed, match=REFUSED.strip()):
                run_program(what, program)
        else:
            assert run_program(what, program) == printed
