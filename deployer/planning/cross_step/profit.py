"""Find cross-step transfers that gain too little: starting and awaiting them is code for all steps of a form.

Of a step whose own transfer does not cross, such a start or wait gains nothing. It is priced like the start of one that
does. The transfers of a form that cross have to gain that for those that do not, and those that start in steps of a
form for what these steps fetch themselves.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from deployer.core.level import L_HOME, L_INNER, CrossStepTransfer
from deployer.core.plan import Plan, PlanOperand, PlanStep, target_of
from deployer.planning.cross_step.graph_program import form_of
from deployer.planning.loop_program import Direction


class Ended(NamedTuple):
    """Candidate for a cross-step transfer: the first ingress of an operand of a step, or its last egress."""

    step: int
    direction: Direction
    arg: str


def ended(transfer: CrossStepTransfer) -> Ended:
    """The transfer that crosses."""
    return Ended(transfer.step, transfer.direction, transfer.arg)


def outermost(operand: PlanOperand) -> int | None:
    """The level of the operand's slots that its home feeds; None where it has no slots."""
    return max((number for number, slots in enumerate(operand.places) if slots.count), default=None)


def passes(step: PlanStep, operand: PlanOperand, direction: Direction) -> bool:
    """Whether the step's outermost loop moves the operand that way."""
    moved = outermost(operand) == (L_HOME if step.staging else L_INNER)
    return moved and operand.mode in (direction, "inout")


def unworthy(
    plan: Plan, cross_step_transfers: Sequence[CrossStepTransfer], gains: Mapping[Ended, int]
) -> tuple[set[Ended], set[int]]:
    """The transfers that should not cross, and the steps in which none of later ones should start.

    `gains` are the cycles that each of the crossings hides.
    """
    price = target_of(plan.options).prefetch_issue
    net = {key: gain - (price if key.direction == "in" else 0) for key, gain in gains.items()}
    forms: dict[Hashable, list[PlanStep]] = defaultdict(list)
    for step in plan.steps:
        forms[step.graph, form_of(step)].append(step)
    form = {step.index: key for key, steps in forms.items() for step in steps}
    own: dict[tuple[Hashable, Direction, str], list[Ended]] = defaultdict(list)
    guests: dict[Hashable, list[Ended]] = defaultdict(list)
    for c in cross_step_transfers:
        own[form[c.step], c.direction, c.arg].append(ended(c))
        if c.direction == "in":
            guests[form[c.at]].append(ended(c))
    stay, closed = set[Ended](), set[int]()
    for (key, _, _), transfer in own.items():
        if sum(net[c] for c in transfer) <= price * (len(forms[key]) - len(transfer)):
            stay.update(transfer)
    for key, transfer in guests.items():
        fetched = [o.arg for o in forms[key][0].operands if passes(forms[key][0], o, "in")]
        begun = sum((key, "in", arg) not in own for arg in fetched) * len(forms[key])
        if sum(net[c] for c in transfer) <= price * begun:
            closed.update(step.index for step in forms[key])
    return stay, closed
