"""What crosses for too little: the graph starts and awaits transfers for all steps of a form, which is code.

Of a step whose own transfer does not cross, such a start or wait gains nothing. It is priced like the start of one that
does. The transfers of a form that cross have to gain that for those that do not, and those that start in steps of a
form for what these steps fetch themselves.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from deployer.core.level import RESIDENT, USUAL, Crossing
from deployer.core.plan import Plan, PlanOperand, PlanStep, target_of
from deployer.planning.crossings.graph_program import form_of
from deployer.planning.loop_program import Way


class Ended(NamedTuple):
    """A transfer that may cross: the first ingress of an operand of a step, or its last egress."""

    step: int
    way: Way
    arg: str


def ended(crossing: Crossing) -> Ended:
    """The transfer that crosses."""
    return Ended(crossing.step, crossing.way, crossing.arg)


def outermost(operand: PlanOperand) -> int | None:
    """The level of the operand's slots that its home feeds; None where it has no slots."""
    return max((number for number, slots in enumerate(operand.places) if slots.count), default=None)


def passes(step: PlanStep, operand: PlanOperand, way: Way) -> bool:
    """Whether the step's outermost loop moves the operand that way."""
    moved = outermost(operand) == (USUAL if step.staging else RESIDENT)
    return moved and operand.mode in (way, "inout")


def unworthy(plan: Plan, crossings: Sequence[Crossing], gains: Mapping[Ended, int]) -> tuple[set[Ended], set[int]]:
    """The transfers that should not cross, and the steps in which none of later ones should start.

    `gains` are the cycles that each of the crossings hides.
    """
    price = target_of(plan.options).crossing
    net = {key: gain - (price if key.way == "in" else 0) for key, gain in gains.items()}
    forms: dict[Hashable, list[PlanStep]] = defaultdict(list)
    for step in plan.steps:
        forms[step.graph, form_of(step)].append(step)
    form = {step.index: key for key, steps in forms.items() for step in steps}
    own: dict[tuple[Hashable, Way, str], list[Ended]] = defaultdict(list)
    guests: dict[Hashable, list[Ended]] = defaultdict(list)
    for c in crossings:
        own[form[c.step], c.way, c.arg].append(ended(c))
        if c.way == "in":
            guests[form[c.at]].append(ended(c))
    stay, closed = set[Ended](), set[int]()
    for (key, _, _), crossing in own.items():
        if sum(net[c] for c in crossing) <= price * (len(forms[key]) - len(crossing)):
            stay.update(crossing)
    for key, crossing in guests.items():
        fetched = [o.arg for o in forms[key][0].operands if passes(forms[key][0], o, "in")]
        begun = sum((key, "in", arg) not in own for arg in fetched) * len(forms[key])
        if sum(net[c] for c in crossing) <= price * begun:
            closed.update(step.index for step in forms[key])
    return stay, closed
