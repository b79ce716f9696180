"""The judge of transfers that begin in one step and end in another: none reads or writes what a step between forbids.

Rule: crossing. That the slots have room in all of the steps is part of the rule of overlaps, by their lives.
"""

from collections import Counter
from collections.abc import Mapping

from deployer.core.errors import VerifyFailed
from deployer.core.level import RESIDENT, USUAL, Crossing
from deployer.core.plan import Home, Plan, PlanOperand, PlanStep
from deployer.verify.tiling import need

Lives = Mapping[tuple[int, str], tuple[int, int]]
"""The first and last step in which an operand's outermost slots are in use, by step and argument, where they cross."""


def crossing_lives(plan: Plan) -> Lives:
    """The lives of the slots of transfers that cross; other slots are in use in their step alone."""
    lives: dict[tuple[int, str], tuple[int, int]] = {}
    for c in plan.crossings:
        first, last = lives.get((c.step, c.arg), (c.step, c.step))
        lives[c.step, c.arg] = min(first, c.at), max(last, c.at)
    return lives


def outer_slots(operand: PlanOperand) -> int:
    """The number of the level in which its home's transfers end; -1 where it is resident."""
    return USUAL if operand.stage_slots else RESIDENT if operand.slots else -1


def check_crossings(plan: Plan) -> None:
    """Each crossing is of a transfer that its step makes, and no step that it crosses stands against it."""
    homes = {home.storage: home for home in plan.homes}
    twice = [key for key, count in Counter((c.step, c.arg, c.way) for c in plan.crossings).items() if count > 1]
    _need(not twice, f"transfer {twice[:1]} crosses twice")
    _need(not (plan.options.apart and plan.crossings), "transfers cross steps, which the options forbid")
    for c in plan.crossings:
        _need(0 <= c.step < len(plan.steps), f"a transfer crosses from or to step {c.step}, which there is not")
        step = plan.steps[c.step]
        place = f"step {step.index} {step.name!r} ({step.op}): the transfer {c.way} of {c.arg!r} crosses step {c.at}"
        operand = next((o for o in step.operands if o.arg == c.arg), None)
        if operand is None:
            raise VerifyFailed("crossing", f"{place}, and there is no such operand")
        moves = outer_slots(operand) == (USUAL if step.staging else RESIDENT)
        moves = moves and operand.mode != ("out" if c.way == "in" else "in")
        _need(moves, f"{place}, and the step's outermost loop moves no such operand")
        _crossed(c, plan, operand, homes[operand.storage], place)


def _need(holds: bool, cause: str) -> None:
    need(holds, "crossing", cause)


def _crossed(c: Crossing, plan: Plan, operand: PlanOperand, home: Home, place: str) -> None:
    """The steps from the other end of the crossing to the operand's own, which is not among them."""
    ordered = c.at < c.step if c.way == "in" else c.at > c.step
    _need(ordered and 0 <= c.at < len(plan.steps), f"{place}, which is not {'before' if c.way == 'in' else 'after'} it")
    steps = plan.steps[c.at : c.step] if c.way == "in" else plan.steps[c.step + 1 : c.at + 1]
    graphs = {step.graph for step in steps} | {plan.steps[c.step].graph}
    _need(len(graphs) == 1, f"{place}, of another graph")
    _need(home.first <= c.at <= home.last, f"{place}, in which {operand.storage!r} does not live")
    for step in steps:
        against = _against(step, operand.storage, c)
        _need(not against, f"{place}, and step {step.index} {step.name!r} {against} {operand.storage!r}")
    if c.way == "out":
        return
    for other in plan.crossings:
        if other.way == "out" and other.step < c.at <= other.at:
            written = next(o for o in plan.steps[other.step].operands if o.arg == other.arg).storage
            same = written == operand.storage
            _need(not same, f"{place}, until whose end step {other.step} still writes {written!r}")


def _against(step: PlanStep, storage: str, crossing: Crossing) -> str:
    """What a step does to the storage that the crossing does not allow; empty for nothing."""
    for o in step.operands:
        if o.storage == storage and o.mode != "in":
            return "writes"
        if o.storage == storage and crossing.way == "out":
            return "reads"
    return ""
