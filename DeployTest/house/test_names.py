"""Operators are known by what they declare: nothing but they themselves has their names."""

import ast
import re

import pytest

from deployer.core.operator import losses, optimizers, registry
from DeployTest.house.test_layout import ROOT, code, strings

pytestmark = [pytest.mark.host]


def _names() -> set[str]:
    """Operators, and the names of losses and optimizers on the command line."""
    return {*registry(), *losses(), *optimizers()}


def _mentions(text: str) -> set[str]:
    """Names in the strings of a module, without its docstrings and those that follow an assignment."""
    tree = ast.parse(text)
    notes = {n.value.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    words = {word for s in strings(text) if s not in notes for word in re.findall(r"\w+", s)}
    return words & _names()


def test_mentions_are_seen() -> None:
    """The search finds a name alone, one in a message, and one on the command line, and overlooks a docstring."""
    assert _mentions('"""Relu."""\na = "Gemm"\n"""SGD."""\nb = f"of MatMul {a}"\nc = ("mse",)') == {
        "Gemm",
        "MatMul",
        "mse",
    }


def test_no_operator_is_named() -> None:
    """Names are below `deployer/operators`, where gradients and lowered forms are made of other operators, and below
    `deployer/torch`, which writes ONNX files.
    """
    for path in code("deployer", "tilers", "templates"):
        place = path.relative_to(ROOT)
        if place.parts[:2] in (("deployer", "operators"), ("deployer", "torch")):
            continue
        if path.suffix == ".py":
            assert not _mentions(path.read_text()), f"{place} names {sorted(_mentions(path.read_text()))}"
        else:
            mentions = set(re.findall(r"\w+", path.read_text())) & {
                name for name in _names() if name[1:] != name[1:].lower()
            }
            assert not mentions, f"{place} names {sorted(mentions)}"


def test_one_of_each() -> None:
    """One accumulator is written, one optimizer is usual, and each choice is one operator's."""
    operators = set(registry().values())
    assert sum(op.accumulator is not None and op.accumulator.usual for op in operators) == 1
    assert [op.optimizer.usual for op in optimizers().values() if op.optimizer].count(True) == 1
    assert len(losses()) == sum(op.loss is not None for op in operators)
    assert len(optimizers()) == sum(op.optimizer is not None for op in operators)
