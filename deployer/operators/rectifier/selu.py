"""Selu: Y = gamma X where X > 0, else gamma alpha (e^X - 1)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from deployer.core.forms import Rule, without
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.formulas.functions import ZERO
from deployer.formulas.tree import Setting, call, choose
from deployer.operators.declared import Pointwise, X, declare

_ROUGH: dict[str, AttrValue] = {"alpha": 1.6732, "gamma": 1.0507}


def _rough(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the same numbers to four digits where the node has none."""
    current = without(node, "consumed_inputs")
    return [replace(current, attrs=_ROUGH | current.attrs)]


@declare
class Selu(Pointwise):
    """Elementwise."""

    name = "Selu"
    versions = (6, 22)
    older: ClassVar[dict[int, Rule]] = {1: _rough}
    formula = Setting("gamma") * choose(X > 0.0, X, Setting("alpha") * call("expm1", X))
    settings: ClassVar = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
    kinks: ClassVar = {"x": (ZERO,)}
    trials = ({"alpha": 0.7, "gamma": 1.5},)
