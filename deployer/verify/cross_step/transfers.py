"""Judge of cross-step transfers: none reads or writes memory that a step between forbids.

Rule: crossing. That the slots have room in all of the steps is part of the rule of overlaps, by their lives.
"""

from collections import Counter
from collections.abc import Mapping

from deployer.core.errors import VerifyFailed
from deployer.core.level import L_HOME, L_INNER, CrossStepTransfer
from deployer.core.plan import Home, Plan, PlanOperand, PlanStep
from deployer.verify.tiling import need

Lives = Mapping[tuple[int, str], tuple[int, int]]
"""The first and last step in which an operand's outermost slots are in use, by step and argument, where they cross."""


def cross_step_lifetimes(plan: Plan) -> Lives:
    """The lives of the slots of transfers that cross; other slots are in use in their step alone."""
    lives: dict[tuple[int, str], tuple[int, int]] = {}
    for c in plan.cross_step_transfers:
        first, last = lives.get((c.step, c.arg), (c.step, c.step))
        lives[c.step, c.arg] = min(first, c.at), max(last, c.at)
    return lives


def outer_slots(operand: PlanOperand) -> int:
    """The number of the level in which its home's transfers end; -1 where it is resident."""
    return L_HOME if operand.stage_slots else L_INNER if operand.slots else -1


def check_cross_step(plan: Plan) -> None:
    """Each crossing is of a transfer that its step makes, and no step that it crosses stands against it."""
    homes = {home.storage: home for home in plan.homes}
    twice = [
        key
        for key, count in Counter((c.step, c.arg, c.direction) for c in plan.cross_step_transfers).items()
        if count > 1
    ]
    _need(not twice, f"transfer {twice[:1]} crosses twice")
    _need(not (plan.options.apart and plan.cross_step_transfers), "transfers cross steps, which the options forbid")
    for c in plan.cross_step_transfers:
        _need(0 <= c.step < len(plan.steps), f"a transfer crosses from or to step {c.step}, which there is not")
        step = plan.steps[c.step]
        place = (
            f"step {step.index} {step.name!r} ({step.op}): the transfer {c.direction} of {c.arg!r} crosses step {c.at}"
        )
        operand = next((o for o in step.operands if o.arg == c.arg), None)
        if operand is None:
            raise VerifyFailed("crossing", f"{place}, and there is no such operand")
        moves = outer_slots(operand) == (L_HOME if step.staging else L_INNER)
        moves = moves and operand.mode != ("out" if c.direction == "in" else "in")
        _need(moves, f"{place}, and the step's outermost loop moves no such operand")
        _crossed(c, plan, operand, homes[operand.storage], place)


def _need(holds: bool, cause: str) -> None:
    need(holds, "crossing", cause)


def _crossed(c: CrossStepTransfer, plan: Plan, operand: PlanOperand, home: Home, place: str) -> None:
    """The steps from the other end of the crossing to the operand's own, which is not among them."""
    ordered = c.at < c.step if c.direction == "in" else c.at > c.step
    _need(
        ordered and 0 <= c.at < len(plan.steps),
        f"{place}, which is not {'before' if c.direction == 'in' else 'after'} it",
    )
    steps = plan.steps[c.at : c.step] if c.direction == "in" else plan.steps[c.step + 1 : c.at + 1]
    graphs = {step.graph for step in steps} | {plan.steps[c.step].graph}
    _need(len(graphs) == 1, f"{place}, of another graph")
    _need(home.first <= c.at <= home.last, f"{place}, in which {operand.storage!r} does not live")
    for step in steps:
        against = _against(step, operand.storage, c)
        _need(not against, f"{place}, and step {step.index} {step.name!r} {against} {operand.storage!r}")
    if c.direction == "out":
        return
    for other in plan.cross_step_transfers:
        if other.direction == "out" and other.step < c.at <= other.at:
            written = next(o for o in plan.steps[other.step].operands if o.arg == other.arg).storage
            same = written == operand.storage
            _need(not same, f"{place}, until whose end step {other.step} still writes {written!r}")


def _against(step: PlanStep, storage: str, transfer: CrossStepTransfer) -> str:
    """Name the access of a step that its storage's cross-step transfer forbids; empty if there is none."""
    for o in step.operands:
        if o.storage == storage and o.mode != "in":
            return "writes"
        if o.storage == storage and transfer.direction == "out":
            return "reads"
    return ""
