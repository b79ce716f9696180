"""Support of ATen's core operators: lowered, decomposed, computed while a step is traced, or refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from deployer.torch.graph import LOWERINGS
from deployer.torch.lowerings.absent import ABSENT, SYMBOLIC
from deployer.torch.tracing.draws import DRAWING
from deployer.torch.tracing.trace import _decompositions, operator_name

LOWERED, MADE, KNOWN, DRAWN = "lowered", "made of others", "computed while a step is traced", "drawn by its own stream"
ABSENT_WORD, MISSING = "refused", "missing"


@dataclass(frozen=True)
class Core:
    """An operator, what becomes of it, and why it is refused."""

    name: str
    outcome: str
    reason: str = ""


def overloads() -> dict[str, list[Any]]:
    """The overloads of each operator that has the tag `core`, by its name without overload."""
    found: dict[str, list[Any]] = {}
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            function = getattr(packet, overload)
            if torch.Tag.core in function.tags:
                found.setdefault(operator_name(function), []).append(function)
    return found


def core_operators() -> Iterator[Core]:
    """Support of each core operator, by name."""
    table = _decompositions()
    for name, functions in sorted(overloads().items()):
        takes = any("Tensor" in str(a.type) for f in functions for a in f._schema.arguments)
        if name in LOWERINGS:
            yield Core(name, LOWERED)
        elif name in DRAWING:
            yield Core(name, DRAWN)
        elif name.startswith("sym_"):
            yield Core(name, ABSENT_WORD, SYMBOLIC)
        elif any(f in table for f in functions):
            yield Core(name, MADE)
        elif name in ABSENT:
            yield Core(name, ABSENT_WORD, ABSENT[name][0])
        else:
            yield Core(name, MISSING if takes else KNOWN)
