"""Geometry of steps: steps of equal geometry have equal costs, so candidates are computed once for all of them."""

from collections.abc import Hashable, Mapping, Sequence

from deployer.core.plan import Stage, Step, StepTiling

Places = tuple[int, ...]
"""For each operand of a step, the number of its storage among those of the step, in the order of the operands."""


def geometry(step: Step) -> Hashable:
    """All that determines the cost of a step: kernel, operator, attributes, access without tensors."""
    operands = tuple((o.arg, o.mode, o.view, o.axes, o.overwrite_on_first_pass) for o in step.access.operands)
    return step.kernel.symbol, step.node.op, tuple(sorted(step.node.attrs.items())), step.access.dims, operands


def kinds(steps: Sequence[Step]) -> tuple[int, ...]:
    """A number for each step, which is equal for steps of equal geometry: a short key for what they share."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(geometry(step), len(numbers)) for step in steps)


def storages(step: Step, storage_of: Mapping[str, str]) -> tuple[tuple[str, ...], Places]:
    """The step's storages in the order of their first operands, and the place of each operand's among them."""
    names = tuple(dict.fromkeys(storage_of[o.tensor] for o in step.access.operands))
    return names, tuple(names.index(storage_of[o.tensor]) for o in step.access.operands)


def loop_key(loop: StepTiling | Stage | None) -> Hashable:
    """The choices of a loop as a key, without those of its stage; tile lengths are in the order of the dims."""
    return loop and (*loop.tile.items(), loop.order, loop.buffering, *loop.slots.items())
