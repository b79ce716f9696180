"""Fault classes of kernel calls: their operands, their scalars, the calls themselves."""

from collections.abc import Callable, Iterator

from deployer.core.kernel import First, Flag, Last
from deployer.core.plan import PlanOperand, PlanStep

from . import printed
from .census import Call, Place
from .fault import EVERY, Action, Op, Point, Sites, fault_class
from .program import Program

Pointer = tuple[PlanStep, PlanOperand, int]
"""Step, operand and its field's number."""


def pointers(program: Program) -> Iterator[tuple[Pointer, int, Place]]:
    """Every operand of every kernel call that has it."""
    for step in program.plan.steps:
        names = printed.field_names(step)
        for operand in step.operands:
            field = names.index(operand.arg)
            for ordinal, call in enumerate(program.census.calls(step.index)):
                place = call.values[field]
                if isinstance(place, tuple) and place[0] >= 0:
                    yield (step, operand, field), ordinal, place


def moved(pointer: Pointer, ordinal: int, delta: int) -> tuple[int, str, str, tuple[Action, ...]]:
    """A site that moves a pointer."""
    step, operand, field = pointer
    action = Action(Point.CALL, Op.POINTER, step.index, ordinal=ordinal, values=(field, delta))
    return step.index, operand.arg, f"call {ordinal}: {delta:+d} B", (action,)


@fault_class("operands", "pointer off by an element")
def off_by_an_element(program: Program) -> Sites:
    """One element before or after the tile."""
    for pointer, ordinal, _ in pointers(program):
        for delta in (4, -4):
            yield moved(pointer, ordinal, delta)


@fault_class("operands", "pointer of another tile")
def another_tile(program: Program) -> Sites:
    """The pointer of the next call, or of the one before."""
    for pointer, ordinal, place in pointers(program):
        step, _, field = pointer
        calls = program.census.calls(step.index)
        for other in (ordinal - 1, ordinal + 1):
            address = calls[other].values[field] if 0 <= other < len(calls) else place
            if isinstance(address, tuple) and address[0] == place[0] and address != place:
                yield moved(pointer, ordinal, address[1] - place[1])


@fault_class("operands", "pointer to the other slot")
def other_slot(program: Program) -> Sites:
    """Another half of the double buffer."""
    for pointer, ordinal, place in pointers(program):
        step, operand, _ = pointer
        for other in range(operand.slots):
            region = next(r for r in program.regions(step) if r.arg == operand.arg and r.hop == 0)
            delta = other * region.part - (place[1] - region.start)
            if delta:
                yield moved(pointer, ordinal, delta)


@fault_class("operands", "pointer to the beginning of the home")
def beginning(program: Program) -> Sites:
    """A resident operand whose tile's offset is forgotten."""
    for pointer, ordinal, place in pointers(program):
        operand = pointer[1]
        delta = program.home(operand).start - place[1]
        if not operand.slots and delta:
            yield moved(pointer, ordinal, delta)


@fault_class("operands", "pointer NULL")
def null(program: Program) -> Sites:
    """An operand that is taken for absent."""
    for (step, operand, field), ordinal, _ in pointers(program):
        action = Action(Point.CALL, Op.PLACE, step.index, ordinal=ordinal, values=(field, -1))
        yield step.index, operand.arg, f"call {ordinal}", (action,)


@fault_class("operands", "pointer to another tensor")
def another_tensor(program: Program) -> Sites:
    """Another home of at least that size in the level of the tile."""
    for (step, operand, field), ordinal, place in pointers(program):
        size = program.home(operand).end - program.home(operand).start
        for buffer in program.live(step):
            fits = buffer.level == place[0] and buffer.storage != operand.storage
            if fits and not buffer.arg and buffer.end - buffer.start >= size:
                action = Action(
                    Point.CALL, Op.PLACE, step.index, ordinal=ordinal, values=(field, buffer.level, buffer.start)
                )
                yield step.index, operand.arg, f"call {ordinal}: {buffer.name}", (action,)


@fault_class("operands", "two pointers exchanged")
def exchanged(program: Program) -> Sites:
    """Two operands of a call, each in the other's place."""
    yield from exchanges(program, lambda step: True)


@fault_class("operands", "w and g of SGD exchanged")
def exchanged_update(program: Program) -> Sites:
    """The weight and its gradient."""
    yield from exchanges(program, lambda step: step.op == "SGD")


def exchanges(program: Program, predicate: Callable[[PlanStep], bool]) -> Sites:
    """Pairs of present pointers, in one call or in all."""
    for step in program.plan.steps:
        names, calls = printed.field_names(step), program.census.calls(step.index)
        if not predicate(step):
            continue
        present = [
            o for o in step.operands if isinstance(p := calls[0].values[names.index(o.arg)], tuple) and p[0] >= 0
        ]
        for i, one in enumerate(present):
            for other in present[i + 1 :]:
                for ordinal in (EVERY, *range(step.tiles)):
                    values = names.index(one.arg), names.index(other.arg)
                    action = Action(Point.CALL, Op.EXCHANGE, step.index, ordinal=ordinal, values=values)
                    when = "every call" if ordinal == EVERY else f"call {ordinal}"
                    yield step.index, one.arg, f"with {other.arg}, {when}", (action,)


# ---- scalars ----


def scaling(kind: str, letters: str, op: Op, value: int) -> None:
    """Register a class that changes a scalar, in one call or in all; flags are classes of their own."""

    @fault_class("scalars", kind)
    def propose(program: Program) -> Sites:
        for step in program.plan.steps:
            kinds = printed.layout(step.kernel)
            for field, name in enumerate(printed.field_names(step)):
                if kinds[field] not in letters or isinstance(step.args.get(name), (First, Last, Flag)):
                    continue
                for ordinal in (EVERY, *(range(step.tiles) if step.tiles > 1 else ())):
                    action = Action(Point.CALL, op, step.index, ordinal=ordinal, values=(field, value))
                    when = "every call" if ordinal == EVERY else f"call {ordinal}"
                    yield step.index, name, when, (action,)


scaling("integer + 1", "ui", Op.ADD, 1)
scaling("integer - 1", "ui", Op.ADD, -1)
scaling("integer 0", "ui", Op.SET, 0)
scaling("integer doubled", "ui", Op.SCALE, 2000)
scaling("integer negated", "ui", Op.SCALE, -1000)
scaling("float + 1", "f", Op.ADD, 1)
scaling("float - 1", "f", Op.ADD, -1)
scaling("float 0", "f", Op.SET, 0)
scaling("float doubled", "f", Op.SCALE, 2000)
scaling("float negated", "f", Op.SCALE, -1000)
scaling("float 5 % more", "f", Op.SCALE, 1050)
scaling("float 5 % less", "f", Op.SCALE, 950)


# ---- calls ----


def calls_of(program: Program) -> Iterator[tuple[PlanStep, int, Call]]:
    """Every kernel call."""
    for step in program.plan.steps:
        for ordinal, call in enumerate(program.census.calls(step.index)):
            yield step, ordinal, call


@fault_class("kernel calls", "call left out")
def left_out(program: Program) -> Sites:
    """A tile that is never computed."""
    for step, ordinal, _ in calls_of(program):
        yield step.index, "", f"call {ordinal}", (Action(Point.CALL, Op.DROP, step.index, ordinal=ordinal),)


@fault_class("kernel calls", "call doubled")
def doubled(program: Program) -> Sites:
    """A tile that is computed twice."""
    for step, ordinal, _ in calls_of(program):
        yield step.index, "", f"call {ordinal}", (Action(Point.CALL, Op.TWICE, step.index, ordinal=ordinal),)


@fault_class("kernel calls", "the arguments of the tile before")
def arguments_before(program: Program) -> Sites:
    """A call whose arguments were not renewed."""
    for step, ordinal, call in calls_of(program):
        if ordinal and program.census.calls(step.index)[ordinal - 1].values != call.values:
            action = Action(Point.CALL, Op.BEFORE, step.index, ordinal=ordinal)
            yield step.index, "", f"call {ordinal}", (action,)


@fault_class("kernel calls", "another kernel of the same signature")
def another_kernel(program: Program) -> Sites:
    """A kernel whose argument struct has the same layout: same fields by type, in the same order."""
    kernels = printed.kernels(program.plan)
    for step, ordinal, _ in calls_of(program):
        for number, other in enumerate(kernels):
            if other.symbol == step.kernel.symbol or printed.layout(other) != printed.layout(step.kernel):
                continue
            for when in (ordinal,) if ordinal else (EVERY, 0):
                action = Action(Point.CALL, Op.KERNEL, step.index, ordinal=when, values=(number,))
                yield step.index, "", f"{other.symbol} in {'every call' if when < 0 else f'call {when}'}", (action,)
