"""Draw the faults to plant in a program: some of each class, by a seed; every step and operand is met."""

import random
from collections.abc import Sequence

from . import classes_calls, classes_moves, classes_steps, classes_stores, classes_tables
from .fault import CLASSES, Fault
from .program import Program

REGISTERING = (classes_calls, classes_moves, classes_steps, classes_stores, classes_tables)
"""The modules whose import fills CLASSES."""
PER_CLASS = 4
GROUPS = (
    "transfers",
    "waits",
    "argument tables",
    "steps",
    "resets",
    "operands",
    "scalars",
    "kernel calls",
    "overflows",
    "data",
    "harness",
)


def proposals(program: Program) -> dict[str, list[Fault]]:
    """All faults of each class that a program has sites for."""
    return {kind: list(fault_class.faults(program)) for kind, fault_class in sorted(CLASSES.items())}


def draw(
    program: Program, seed: int, per_class: int = PER_CLASS, sites: dict[str, list[Fault]] | None = None
) -> list[Fault]:
    """`per_class` faults of each class, then one for each step and operand that none of them is about."""
    proposed = sites if sites is not None else proposals(program)
    generator = random.Random(f"{seed} {program.name}")
    selection: list[Fault] = []
    met: set[tuple[int, str]] = set()
    for kind in sorted(proposed):
        faults = list(proposed[kind])
        generator.shuffle(faults)
        for _ in range(min(per_class, len(faults))):
            fault = _newest(faults, met)
            faults.remove(fault)
            selection.append(fault)
            met |= {(fault.step, fault.arg), (fault.step, "")}
    operands = {(s.index, o.arg) for s in program.plan.steps for o in s.operands} - met
    rest = [fault for kind in sorted(proposed) for fault in proposed[kind] if (fault.step, fault.arg) in operands]
    generator.shuffle(rest)
    for fault in rest:
        if (fault.step, fault.arg) not in met:
            selection.append(fault)
            met |= {(fault.step, fault.arg), (fault.step, "")}
    return selection


def _newest(faults: Sequence[Fault], met: set[tuple[int, str]]) -> Fault:
    """The first that is about a step and operand not met yet, else the first."""
    return next((f for f in faults if (f.step, f.arg) not in met), faults[0])
