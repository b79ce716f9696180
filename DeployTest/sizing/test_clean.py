"""Libraries under more compilers and a checker: no warnings, known deviations, sizes and stack in the manifest."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from deployer.sizing.boards import core_of
from deployer.sizing.emulated import run_example
from deployer.sizing.objects import compile_library
from DeployTest.firmware import nets
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow]
PAGE = Path(__file__).resolve().parents[2] / "docs/misra.md"
WARNINGS = (
    *("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wcast-align", "-Wdouble-promotion", "-Wstrict-aliasing=2"),
    "-Werror",
)
ARM = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
COMPILERS = {"gcc": (), "clang": (), "arm-none-eabi-gcc": ARM}
OTHERS = {"knownConditionTrueFalse", "incorrectLogicOperator", "unsignedLessThanZero", "duplicateValueTernary"}
MODELS = ("dense", "normed", "lstm")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that another run compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@cache
def library(model: str, root: Path) -> Path:
    """The library of one of the models."""
    own = {"dense": nets.dense_case, "normed": nets.normed_case}
    case = own[model](root / f"{model}_clean") if model in own else case_dir(model, root)
    assert deployer("package", case, "--name", "model", "-o", root / f"{model}_clean_library") == 0
    return root / f"{model}_clean_library"


def said(words: Sequence[object], folder: Path) -> str:
    """Run a tool that must succeed, and return its output."""
    if shutil.which(str(words[0])) is None:
        pytest.skip(f"not installed: {words[0]}")
    run = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("model", MODELS)
def test_no_warnings(compiler: str, model: str, models_root: Path) -> None:
    """C11 with strict aliasing, of 64 and of 32 bits."""
    folder = library(model, models_root)
    for optimize in ("-O1", "-O3"):
        words = [
            compiler,
            "-std=c11",
            optimize,
            "-ffp-contract=off",
            "-fstrict-aliasing",
            *WARNINGS,
            *COMPILERS[compiler],
        ]
        for source in sorted(folder.glob("src/*.c")):
            said([*words, "-c", source, "-o", "/dev/null"], folder)


@pytest.mark.parametrize("compiler", ["g++", "clang++", "arm-none-eabi-g++"])
def test_from_cpp(compiler: str, models_root: Path) -> None:
    """The header in C++17, pedantic."""
    folder = library("normed", models_root)
    words = [compiler, "-std=c++17", "-pedantic", *WARNINGS, "-fsyntax-only", "-xc++", "include/model.h"]
    said(words, folder)


def test_misra(models_root: Path) -> None:
    """Deviations are those that the page argues."""
    listed = {rule for row in re.findall(r"^\| ([\d., ]+) \|", PAGE.read_text(), re.M) for rule in row.split(", ")}
    folder = library("normed", models_root)
    words = ["cppcheck", "-j2", "--std=c11", "--enable=warning,style,performance,portability", "--addon=misra", "-q"]
    text = said([*words, "-Iinclude", "-Isrc", *sorted(folder.glob("src/*.c"))], folder)
    found = set(re.findall(r"\[([\w.-]+)\]$", text, re.M))
    rules = {name.removeprefix("misra-c2012-") for name in found if name.startswith("misra-")}
    assert rules <= listed
    assert len(listed - rules) <= len(listed) // 4, f"no longer there: {listed - rules}"
    assert {name for name in found if not name.startswith("misra-")} <= OTHERS


@pytest.mark.cortex_m
def test_sizes_of_functions(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The manifest's sizes are the objects'; the bound of the stack holds what a run writes; nothing else changes."""
    core = core_of("cortex-m4")
    needs_core(core.name)
    plain, sized = library("normed", models_root), tmp_path / "sized"
    case = models_root / "normed_clean"
    assert deployer("package", case, "--name", "model", "--core", core.name, "-o", sized) == 0
    manifest = json.loads((sized / "manifest.json").read_text())
    assert manifest["files"]["README.md"] == hashlib.sha256((sized / "README.md").read_bytes()).hexdigest()
    record = manifest["core"]
    assert record["data"] == record["bss"] == 0
    assert record["text"] == sum(row["text"] for row in record["functions"].values())
    assert record["functions"]["model_train_step"]["text"] > 0
    assert f"at most {record['stack']['bytes']} B deep" in (sized / "README.md").read_text()
    before = json.loads((plain / "manifest.json").read_text())
    told = {"README.md": "", "sbom.cdx.json": ""}  # the bill has the digest of the page
    assert {**manifest["files"], **told} == {**before["files"], **told}
    texts = {str(p.relative_to(sized)): p.read_bytes() for p in sized.rglob("*") if p.suffix in (".c", ".h")}
    built = compile_library({name: text.decode() for name, text in texts.items()}, "model", core)
    assert built.stack.bytes == record["stack"]["bytes"]
    run = run_example({name: text.decode() for name, text in texts.items()}, "model", built)
    assert 0 < run.stack <= record["stack"]["bytes"] + 64, "with the frames of the measuring call"
    assert "there is no core" in refused(
        capsys, "package", case, "--name", "model", "--core", "z80", "-o", tmp_path / "x"
    )
