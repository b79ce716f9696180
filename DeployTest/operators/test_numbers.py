"""Numbers in operators are those of ONNX and of formulas; what a machine decides is data."""

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from deployer.core.kernel_model import KernelModel
from deployer.core.operator import registry
from deployer.core.target import DEFAULT_MODEL, TARGETS_DIR, load
from DeployTest.house.test_layout import ROOT

pytestmark = [pytest.mark.host, pytest.mark.kernels]
OPERATORS = ROOT / "deployer/operators"
TABLES = {"versions", "older", "static_inputs", "custom", "spread", "trials", "learned", "centre"}
"""Parts of operators and of their traits that are tables of versions, positions and counts, or make samples."""
SMALL = 2
MODELS = sorted(TARGETS_DIR.rglob(DEFAULT_MODEL.name))
FEWEST_WORDS, MANY = 4, 1000
NUMBERS = {f.name for f in fields(KernelModel)} - {"work_splits"}
LISTED = tomllib.loads(Path(__file__).with_name("literals.toml").read_text())["files"]


def _target(node: ast.AST) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)) | ast.keyword(arg=str(name)):
            return name
    return ""


def numbers(tree: ast.AST, top: bool = True) -> Iterator[int | float]:
    """Numbers above 2 in code, but for tables and what makes samples."""
    for node in ast.iter_child_nodes(tree):
        makes = isinstance(node, ast.FunctionDef) and (node.name in ("sweep", "drawn") or node.name.endswith("samples"))
        forms = top and _target(node).isupper() and isinstance(getattr(node, "value", None), ast.Tuple | ast.Dict)
        shapes = forms and any(isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node))
        if makes or shapes or _target(node) in TABLES:
            continue
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and abs(node.value) > SMALL:
            yield node.value
        yield from numbers(node, False)


def test_numbers_are_found() -> None:
    """In constants, bodies and defaults; not in tables, nor in what makes samples."""
    text = """
LIMIT = 7
SHAPES = {"a": (9, 9)}
class A:
    file = FileSpec(versions=(5, 6), flags=4)
    def work(self, x=8):
        return x[:3] * 2.5 + 1
    def samples(self):
        return 99
"""
    assert sorted(numbers(ast.parse(text))) == [2.5, 3, 4, 7, 8]


def without_reason(text: str) -> str:
    """The program but for the numbers in lines that end with a comment, which is their reason."""
    return "\n".join(re.sub(r"\d[\d.e+-]*", "0", line) if "  # " in line else line for line in text.splitlines())


def test_a_comment_is_a_reason() -> None:
    """A number with a comment behind it needs no entry in the list."""
    assert set(numbers(ast.parse(without_reason("A = 7  # the standard's\nB = 8\n")))) == {8}


def test_every_number_has_a_reason() -> None:
    """Every number in the operators' code has a comment or is listed with a reason; every listed number occurs."""
    for path in sorted(p for p in OPERATORS.rglob("*.py") if p.name != "samples.py"):
        place = str(path.relative_to(OPERATORS))
        text, listed = path.read_text(), LISTED.get(place, [])
        present = set(numbers(ast.parse(text if listed else without_reason(text))))
        assert present == {number for number, _ in listed}, f"{place} has {sorted(present)}"
        assert all(reason for _, reason in listed)
    assert all((OPERATORS / name).is_file() for name in LISTED)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_kernel_models_are_complete(path: Path) -> None:
    """A kernel model is read from its file; no number is below zero, and none is of no account in all of its parts."""
    table = tomllib.loads(path.read_text())
    assert set(table) == NUMBERS
    model = load("host_flat" if path == DEFAULT_MODEL else path.parent.name).kernel_model
    for name, value in table.items():
        several = value if isinstance(value, list) else [value]
        assert np.array_equal(getattr(model, name), value), name
        assert min(several) >= 0, name
        assert max(several) > 0, name


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name)
def test_every_number_of_a_kernel_model_has_a_comment(path: Path) -> None:
    """A line with a key says behind it what its numbers mean."""
    lines = [line for line in path.read_text().splitlines() if "=" in line.partition("#")[0]]
    assert [line for line in lines if len(line.partition("#")[2].split()) < FEWEST_WORDS] == []
    assert len(lines) == len(NUMBERS)


def test_no_module_holds_a_kernel_model() -> None:
    """A kernel model comes with a target: no module has one of its own, those that test operators included."""
    registry()
    importlib.import_module("deployer.testing.check")
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "deployer"]
    found = [(m.__name__, name, value) for m in modules for name, value in vars(m).items()]
    assert len(found) > MANY
    assert [(module, name) for module, name, value in found if isinstance(value, KernelModel)] == []
