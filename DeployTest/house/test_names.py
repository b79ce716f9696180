"""Operators are known by what they declare: nothing but they themselves has their names."""

import ast
import re

import pytest

from deployer.core.level import ALIASES
from deployer.core.operator import file_of, losses, optimizers, registry
from deployer.core.traits.training import Accumulator, Loss, Optimizer
from DeployTest.house.test_layout import ROOT, code, strings

pytestmark = [pytest.mark.host]


WRITERS = (
    *("deployer/operators", "deployer/torch/lowerings", "deployer/torch/graph.py", "deployer/torch/forward_check.py"),
    *("deployer/torch/tracing/composites.py", "deployer/training/tensors/edits.py", "deployer/lm"),
    *("deployer/frontend/quantized", "deployer/quantization"),
)
"""Files that write nodes, and files that name functions of PyTorch."""


def _names() -> set[str]:
    """Operators, and the names of losses and optimizers on the command line, but for one that levels have, too."""
    return {*registry(), *losses(), *optimizers()} - {*ALIASES}


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
    """Names are below `deployer/operators`, where gradients and lowered forms are made of other operators, and where
    `deployer/torch`, `deployer/lm`, the edits of a forward model and quantized ones write ONNX nodes.
    """
    for path in code("deployer", "tilers", "templates"):
        place = path.relative_to(ROOT)
        if any(place.is_relative_to(folder) for folder in WRITERS):
            continue
        if path.suffix == ".py":
            assert not _mentions(path.read_text()), f"{place} names {sorted(_mentions(path.read_text()))}"
        else:
            mentions = set(re.findall(r"\w+", path.read_text())) & {
                name for name in _names() if name[1:] != name[1:].lower()
            }
            assert not mentions, f"{place} names {sorted(mentions)}"


def test_one_of_each() -> None:
    """One accumulator is written, one optimizer is usual, and each choice is one operator's; losses are in order."""
    operators = set(registry().values())
    assert sum(bool((found := op.role(Accumulator)) and found.usual) for op in operators) == 1
    assert [o.usual for op in optimizers().values() if (o := op.role(Optimizer))].count(True) == 1
    assert len(losses()) == sum(op.role(Loss) is not None for op in operators)
    assert [*losses()] == sorted(losses())
    declared = [found for op in operators if (found := op.role(Optimizer))]
    assert set(optimizers()) == {o.choice for o in declared}
    assert len({(o.choice, *sorted(s.name for s in o.settings)) for o in declared}) == len(declared)


def test_settings_are_of_one_kind() -> None:
    """A setting's name is a loss's or an optimizer's, has one kind, and is an attribute of each that has it."""
    owners: dict[str, set[tuple[str, str]]] = {}
    for op in registry().values():
        for role, declared in (("loss", op.role(Loss)), ("optimizer", op.role(Optimizer))):
            for setting in declared.settings if declared else ():
                owners.setdefault(setting.name, set()).add((role, setting.kind))
                assert setting.default is None or setting.fits(setting.default), f"{op.name}: {setting.name}"
                form = file_of(op).custom.attributes if file_of(op).custom else {}
                assert form.get(setting.place, setting.kind) == setting.kind, f"{op.name}: {setting.name}"
    assert {"momentum", "weight-decay"} <= set(owners)
    assert all(len(kinds) == 1 for kinds in owners.values()), owners
