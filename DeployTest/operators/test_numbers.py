"""Numbers in operators are those of ONNX and of formulas; what a machine decides is data."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from deployer.core import kernel_facts
from deployer.core.kernel_facts import FACTS, KernelModel
from DeployTest.house.test_layout import ROOT

pytestmark = [pytest.mark.host, pytest.mark.kernels]
OPERATORS = ROOT / "deployer/operators"
TABLES = {"versions", "older", "static_inputs", "custom", "spread", "trials", "learned", "centre"}
"""Parts of an operator that are tables of versions, positions and counts, or make samples."""
SMALL = 2
LISTED = tomllib.loads(Path(__file__).with_name("literals.toml").read_text())["files"]


def _target(node: ast.AST) -> str:
    match node:
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
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
    versions = (5, 6)
    def work(self, x=8):
        return x[:3] * 2.5 + 1
    def samples(self):
        return 99
"""
    assert sorted(numbers(ast.parse(text))) == [2.5, 3, 7, 8]


def test_every_number_has_a_reason() -> None:
    """Every number in the operators' code is listed with a reason, and every listed number occurs."""
    for path in sorted(p for p in OPERATORS.rglob("*.py") if p.name != "samples.py"):
        place = str(path.relative_to(OPERATORS))
        present, listed = set(numbers(ast.parse(path.read_text()))), LISTED.get(place, [])
        assert present == {number for number, _ in listed}, f"{place} has {sorted(present)}"
        assert all(reason for _, reason in listed)
    assert all((OPERATORS / name).is_file() for name in LISTED)


def test_facts_of_kernels_are_data() -> None:
    """Each is in the file, which has no other; none is below zero, and none is of no account in all of its parts."""
    table = tomllib.loads((kernel_facts.FOLDER / "work.toml").read_text())
    assert set(table) == {f.name for f in fields(KernelModel)}
    for name, value in table.items():
        several = value if isinstance(value, list) else [value]
        assert np.array_equal(getattr(FACTS, name), value), name
        assert min(several) >= 0, name
        assert max(several) > 0, name
