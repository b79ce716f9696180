"""Libraries built by other tools and for other machines, and those of all models: one digest of the final state."""

import itertools
import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import RunFailed
from deployer.core.target import TARGETS_DIR
from deployer.firmware.sources import library_rules
from deployer.firmware.state import fnv1a
from deployer.sizing.boards import CORES as CORES_DIR
from deployer.sizing.boards import Core, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.commands.hostile_names import MARK, PIECES, rename_case
from DeployTest.firmware import nets
from DeployTest.firmware.test_library import WARNINGS, packaged, ran, trained
from DeployTest.models import simple_mlp
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow]
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/firmware.md"
MODELS = sorted(path.stem for path in (HERE.parent / "models").glob("*.py") if "\ndef generate(" in path.read_text())
CORES = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m3", "cortex-m0plus")
"""Cores on which the example runs."""
CONSUMER = """cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(dense REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE dense::dense)
"""
SUPERPROJECT = """cmake_minimum_required(VERSION 3.13)
project(firmware C)
add_subdirectory({library} dense)
add_executable(firmware main.c)
target_link_libraries(firmware PRIVATE dense::dense m)
"""


def needed(*tools: str) -> None:
    """Skip where a tool is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@cache
def dense(root: Path) -> Path:
    """The library of the dense net."""
    return packaged("dense", nets.dense_case(root / "dense_case"), root / "dense_library")


@cache
def printed(root: Path) -> str:
    """Output of the library's example on this machine."""
    ran("make", "-s", "-C", dense(root))
    return ran(dense(root) / "build/dense_example")


def expected_digest(folder: Path, usual: dict[str, "np.ndarray"]) -> int:
    """The digest of a library's state with the weights of the usual run: the header of its first image, then these."""
    state = json.loads((folder / "manifest.json").read_text())["state"]
    head = (folder / "weights.bin").read_bytes()[: state[0]["at"]]
    return fnv1a(head + b"".join(usual[tensor["name"]].tobytes() for tensor in state))


@pytest.mark.parametrize("model", MODELS)
def test_models(model: str, models_root: Path, tmp_path: Path) -> None:
    """Losses and the final state of every model are those of the usual run, and its C has no warnings."""
    case = case_dir(model, models_root)
    folder = packaged("net", case, tmp_path / "library")
    ran("make", "-s", "-j2", "-C", folder, f"CFLAGS=-O2 {' '.join(WARNINGS)}")
    lines = [line.split() for line in ran(folder / "build/net_example").splitlines()]
    usual = trained(case, tmp_path / "run")
    losses = np.array([int(line[2], 16) for line in lines if line[0] == "loss"], np.uint32)
    assert losses.tobytes() == usual["loss"].tobytes()
    assert int(lines[-1][1], 16) == expected_digest(folder, usual)


def shown_blocks() -> dict[str, str]:
    """The blocks of the pages by their names."""
    text = PAGE.read_text() + PAGE.with_name("firmware-state.md").read_text()
    return dict(re.findall(r"<!-- shown: ([\w ]+) -->\n```\w+\n(.*?)```\n", text, re.S))


@pytest.mark.cortex_m
def test_page_on_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a model and samples to a firmware, by the page's lines: it prints under QEMU what it prints here."""
    needs_core("cortex-m4")
    monkeypatch.chdir(tmp_path)
    shown = shown_blocks()
    assert shown["firmware program"].count("\n") + shown["firmware start"].count("\n") < 30
    [model] = nets.dense_case(Path("other")).parent.glob("*.onnx")
    model.rename("model.onnx")
    ends = onnx.load("model.onnx").graph.input
    draw = np.random.default_rng(3)
    shape = [4, *(axis.dim_value for axis in ends[0].type.tensor_type.shape.dim)]
    labels = draw.integers(0, 10, shape[:2])
    np.savez("data.npz", **{ends[0].name: draw.standard_normal(shape).astype(np.float32), "labels": labels})
    install, *lines = shown["firmware commands"].splitlines()
    assert install == "pip install ."
    train, package, build, run = map(shlex.split, lines)
    assert deployer(*train[1:]) == deployer(*package[1:]) == 0
    Path("start.c").write_text(shown["firmware start"])
    Path("main.c").write_text(shown["firmware program"])
    assert {*core_of("cortex-m4").flags, *library_rules().flags} <= {*build}
    ran("sh", "-c", shlex.join(build).replace("'keyword/src/*.c'", "keyword/src/*.c"))
    ran("make", "-s", "-C", "keyword")
    ran("gcc", "-std=c11", *WARNINGS, "-Ikeyword/include", "main.c", "keyword/build/libkeyword.a", "-lm", "-o", "main")
    here = ran("./main")
    assert here.startswith("loss ")
    assert ran(*run) == here


def test_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's commands, and its program, which learns the only sample; what the page on its state shows compiles."""
    monkeypatch.chdir(tmp_path)
    shown = shown_blocks()
    make, package, run = map(shlex.split, shown["firmware"].splitlines())
    assert make[:2] + package[:2] == ["python", "-m", "deployer", "package"]
    simple_mlp.generate(Path(make[3]))
    assert deployer(*package[1:]) == 0
    assert len([line for line in ran(*run).splitlines() if line.startswith("loss")]) == 4
    Path("main.c").write_text(shown["firmware program"])
    ran("gcc", "-std=c11", *WARNINGS, "-Ikeyword/include", "main.c", "keyword/build/libkeyword.a", "-lm", "-o", "main")
    Path("flash.c").write_text(shown["flash"])
    ran("gcc", "-std=c11", *WARNINGS, "-Ikeyword/include", "-c", "flash.c", "-o", "flash.o")
    loss = re.fullmatch(r"loss (\d\.\d+), score of class 3 -?\d\.\d+\n", ran("./main"))
    assert loss
    assert float(loss[1]) < np.log(10), "less than chance"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_cmake(compiler: str, models_root: Path, tmp_path: Path) -> None:
    """Configured, built, installed and found by another project, which prints what the Makefile's example prints."""
    needed("cmake", compiler)
    folder, build, prefix = dense(models_root), tmp_path / "build", tmp_path / "prefix"
    words = [f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_C_FLAGS={' '.join(WARNINGS)}", "-DCMAKE_BUILD_TYPE=Release"]
    ran("cmake", "-S", folder, "-B", build, *words, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    ran("cmake", "--build", build, "--target", "install")
    assert ran(build / "dense_example") == printed(models_root)
    consumer = tmp_path / "consumer"
    shutil.copytree(folder / "examples", consumer)
    (consumer / "CMakeLists.txt").write_text(CONSUMER)
    ran("cmake", "-S", consumer, "-B", tmp_path / "other", words[0], f"-DCMAKE_PREFIX_PATH={prefix}")
    ran("cmake", "--build", tmp_path / "other")
    assert ran(tmp_path / "other/consumer") == printed(models_root)


@pytest.mark.parametrize(
    "form", [lambda piece, n: f"n{n}{piece}", lambda piece, n: f"{piece}{n}"], ids=["end", "begin"]
)
def test_hostile_names(form: Callable[[str, int], str], models_root: Path, tmp_path: Path) -> None:
    """Names that C, make, Markdown and JSON would take for their own, in every place: none of it is built or run."""
    pieces, names = itertools.cycle(p for k, p in PIECES.items() if "long" not in k), dict[str, str]()
    train = case_dir("simple_mlp", models_root)
    hostile = rename_case(train, tmp_path / "case", lambda n: names.setdefault(n, form(next(pieces), len(names))))
    folders = [packaged("net", case, tmp_path / name) for name, case in (("one", train), ("other", hostile))]
    for folder in folders:
        ran("make", "-s", "-C", folder, f"CFLAGS=-O1 {' '.join(WARNINGS)}")
    outputs = [ran(folder / "build/net_example").splitlines()[:-1] for folder in folders]
    assert outputs[0] == outputs[1]
    assert not (tmp_path / "other" / MARK).exists()
    page = (tmp_path / "other/README.md").read_text()
    assert page.isascii()
    assert len(page.splitlines()) == len((tmp_path / "one/README.md").read_text().splitlines())


def test_cmake_within_another_project(models_root: Path, tmp_path: Path) -> None:
    """A bare-metal project, for which no program links by itself, takes the library as a folder without its example."""
    needed("cmake")
    (tmp_path / "main.c").write_text(
        '#include "dense.h"\nint main(void) { static dense_t m; return dense_init(&m); }\n'
    )
    (tmp_path / "CMakeLists.txt").write_text(SUPERPROJECT.format(library=dense(models_root)))
    words = ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    ran("cmake", "-S", tmp_path, "-B", tmp_path / "build", *words)
    targets = ran("cmake", "--build", tmp_path / "build", "--target", "help")
    assert "dense" in targets.split()
    assert "dense_example" not in targets
    ran("cmake", "--build", tmp_path / "build")
    ran(tmp_path / "build/firmware")
    ran("cmake", "-S", tmp_path, "-B", tmp_path / "other", *words, "-DDENSE_EXAMPLE=ON")
    assert "dense_example" in ran("cmake", "--build", tmp_path / "other", "--target", "help")


def test_make_install(models_root: Path, tmp_path: Path) -> None:
    """`make install` brings the library and its header."""
    ran("make", "-s", "-C", dense(models_root), "install", f"PREFIX={tmp_path}", f"BUILD={tmp_path / 'objects'}")
    assert (tmp_path / "lib/libdense.a").is_file()
    assert (tmp_path / "include/dense.h").is_file()


def test_sanitizers(models_root: Path, tmp_path: Path) -> None:
    """Neither an address nor a number goes astray."""
    flags = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    ran("make", "-s", "-C", dense(models_root), f"CFLAGS={flags}", f"BUILD={tmp_path}")
    assert ran(tmp_path / "dense_example") == printed(models_root)


def built_for(core: Core, folder: Path, program: Path) -> Path:
    """Build the example for a core, with all warnings."""
    needs_core(core.name)
    sources = [*sorted(folder.glob("src/*.c")), folder / "examples/main.c", CORES_DIR / "start.c"]
    ran(*compile_words(core), *WARNINGS, f"-I{folder}/include", *sources, *link_words(core), "-o", program)
    return program


@pytest.mark.cortex_m
@pytest.mark.parametrize("core", CORES)
def test_cortex_m(core: str, models_root: Path, tmp_path: Path) -> None:
    """The example prints the same under QEMU, with a floating-point unit and without."""
    program = built_for(core_of(core), dense(models_root), tmp_path / "program.elf")
    assert run_program(core_of(core), program) == printed(models_root)


@pytest.mark.cortex_m
def test_machines_that_round_twice(models_root: Path, tmp_path: Path) -> None:
    """A library built with a C library that rounds twice reports that and computes nothing.

    The core is said to have the instruction that would make the library's own function unnecessary.
    """
    core = core_of("cortex-m3")
    without = replace(core, flags=(*core.flags, "-D__ARM_FEATURE_FMA=1"))
    program = built_for(without, dense(models_root), tmp_path / "program.elf")
    with pytest.raises(RunFailed, match="error: this machine rounds in another way"):
        run_program(without, program)


def test_own_fma(tmp_path: Path) -> None:
    """The function by integers has the bits of the C library's, for 10^7 triples of all kinds."""
    flags = ["-std=c11", "-O2", "-ffp-contract=off", *WARNINGS, f"-I{TARGETS_DIR / 'portable'}"]
    sources = [HERE / "check_fma.c", TARGETS_DIR / "portable/fma_f32.c"]
    ran("gcc", *flags, *sources, "-lm", "-o", tmp_path / "check")
    assert ran(tmp_path / "check") == "0 of 10000000\n"


def test_own_fma_is_for_all(models_root: Path, tmp_path: Path) -> None:
    """With the flag no kernel and no header calls another one."""
    folder = packaged("normed", nets.normed_case(tmp_path / "case"), tmp_path / "library")
    ran("make", "-s", "-C", folder, "build/libnormed.a", "CFLAGS=-O1 -DHAL_OWN_FMA")
    words = ran("nm", folder / "build/libnormed.a").split()
    assert "normed_fmaf" in words
    assert "fmaf" not in words
