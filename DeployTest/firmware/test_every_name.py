"""Names of libraries: each that is taken compiles, whatever the sources, the kernels and C call their own."""

import random
import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.errors import OptionProblem, ToolFailed
from deployer.core.plan import Options
from deployer.firmware.bill import LONGEST, check_name, reserved
from deployer.firmware.library import Material, library_files
from deployer.firmware.sources import library_rules
from deployer.sizing.needs import material
from deployer.sizing.objects import compile_here, run_tool
from DeployTest.firmware import nets
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
ROOT = Path(__file__).resolve().parents[2]
DRAWN = 120
"""Names that are compiled."""
NASTY = (
    *("head", "slot", "sink", "source", "parts", "exact_fault", "gemm_f32", "gemm_f32_args", "gemm_f32_at", "train"),
    *(
        "home",
        "home_fc1",
        "put",
        "can",
        "step",
        "sample",
        "samples",
        "samples_of",
        "words",
        "model",
        "at",
        "f32",
        "u32",
    ),
    *(
        "linux",
        "unix",
        "x",
        "i386",
        "null",
        "eof",
        "true1",
        "class",
        "namespace",
        "template",
        "operator",
        "this",
        "errno_t",
    ),
)
"""Names that the generated C uses in some place, macros of compilers, and keywords of C++."""
SHARING = ("{0}.c", "{0}_state.c")
"""The sources that have the interface and the library's own names in one."""


@cache
def made(folder: Path, case: str) -> Material:
    """Return the inputs of the library of one of the cases."""
    written = getattr(nets, f"{case}_case")(folder / case)
    return material(pipeline.load_training(written), "net", Options(target=library_rules().target), "", print)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for cases."""
    return tmp_path_factory.mktemp("names")


def named(what: Material, name: str) -> dict[str, str | bytes]:
    """The files of the library under another name."""
    return library_files(replace(what, name=check_name(name)))


def drawn_names(count: int) -> Iterable[str]:
    """Names of all lengths, from a seed."""
    draw = np.random.default_rng(5)
    for _ in range(count):
        length = int(draw.integers(1, LONGEST + 1))
        text = "".join(draw.choice([*"abcdefghijklmnopqrstuvwxyz0123456789_"], length))
        yield re.sub(r"_+", "_", "n" + text[1:]).strip("_")


@pytest.mark.parametrize("name", [*NASTY, *drawn_names(5)])
def test_compiles(name: str, place: Path) -> None:
    """Library and example compile by the build file's own flags."""
    compile_here(named(made(place, "dense"), name), name)


def identifiers(texts: Iterable[str]) -> set[str]:
    """The words of C sources, in small letters."""
    return {word.lower() for text in texts for word in re.findall(r"[A-Za-z]\w*", text)}


@pytest.mark.slow
def test_every_identifier(place: Path, tmp_path: Path) -> None:
    """Drawn identifiers of sources, and beginnings of some there or in a kernel, are names or are refused."""
    files = named(made(place, "normed"), "net")
    names = identifiers(str(text) for path, text in files.items() if path.endswith((".c", ".h")))
    words = names | identifiers(path.read_text() for path in (ROOT / "targets/common").rglob("*.[ch]"))
    names |= {"_".join(word.split("_")[:end]) for word in words for end in range(1, word.count("_") + 1)}
    flags = [
        f"-std=c{library_rules().standard}",
        *library_rules().flags,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
    ]
    tried = 0
    for name in random.Random(3).sample(sorted(names), DRAWN):
        try:
            files = named(made(place, "normed"), name)
        except OptionProblem:
            continue
        shutil.rmtree(tmp_path)
        for path, text in files.items():
            if path.endswith((".c", ".h")):
                (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / path).write_text(str(text))
        sources = [f"src/{pattern.format(name)}" for pattern in SHARING]
        run_tool(["gcc", *flags, "-Iinclude", *sources, "examples/main.c"], tmp_path)
        tried += 1
    assert tried > DRAWN / 2
    print(f"{tried} of {len(names)} names")


def test_refused(place: Path) -> None:
    """Names by which a header, a type or a library of C would no longer be found are refused, with what has them."""
    for words in reserved().values():
        for word in words:
            with pytest.raises(OptionProblem, match=r"build tools'|is not a valid library name"):
                check_name(word)


def test_headers_of_this_machine_are_refused() -> None:
    """No header of this machine's C library is a name: the interface's header would be found in its place."""
    headers = [path.stem for path in Path("/usr/include").glob("*.h") if "free software foundation" in head_of(path)]
    assert {"features", "stdio"} <= {*headers}
    for name in headers:
        with pytest.raises(OptionProblem):
            check_name(name)


def head_of(path: Path) -> str:
    """The first lines of a header of the C library, in small letters; of others none."""
    return (
        path.read_text(errors="replace")[:1500].lower() if "GNU C Library" in path.read_text(errors="replace") else ""
    )


def test_what_does_not_compile_is_not_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A library that this machine's compiler refuses, or a missing compiler, ends the command; an option goes on."""
    case, folder = nets.dense_case(tmp_path / "case"), tmp_path / "lib"
    words = ("package", case, "--name", "net", "-o", folder)
    monkeypatch.setenv("CC", "gcc -ffast-math")
    message = refused(capsys, *words)
    assert "library net does not compile with gcc" in message
    assert "compiled with -ffast-math, results would differ in bits" in message
    assert "--no-compile" in message
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "or --no-compile, which writes" in refused(capsys, *words)
    assert not folder.exists()
    assert deployer(*words, "--no-compile") == 0
    assert (folder / "src/net.c").is_file()
    monkeypatch.setenv("CC", "gcc")
    broken = {**named(made(place, "dense"), "net"), "src/net_own.h": "int"}
    with pytest.raises(ToolFailed, match="library net does not compile"):
        compile_here(broken, "net")
