"""Fault classes of steps, graphs and resets, and of the harness around them."""

from deployer.core.kernel import First, Flag, Last
from deployer.core.plan import PlanStep

from . import printed
from .fault import EVERY, Action, Op, Point, Sites, fault_class
from .program import Program

TRAIN, OPTIMIZER = range(2)
GRAPHS = ("train", "optimizer")


def stepping(kind: str, op: Op) -> None:
    """Register a class that holds for any step."""

    @fault_class("steps", kind)
    def propose(program: Program) -> Sites:
        for step in program.plan.steps:
            yield step.index, "", "", (Action(Point.STEP, op, step.index),)


stepping("a step left out", Op.DROP)
stepping("a step run twice", Op.TWICE)


@fault_class("steps", "an optimizer step left out")
def update_left_out(program: Program) -> Sites:
    """A weight that is never updated."""
    for step in program.plan.steps:
        if step.graph == "optimizer":
            yield step.index, "", "", (Action(Point.STEP, Op.DROP, step.index),)


def depends(before: PlanStep, after: PlanStep) -> bool:
    """Whether one of two steps writes what the other touches: exchanging them changes data."""
    accesses = [{o.storage for o in s.operands} for s in (before, after)]
    outputs = [{o.storage for o in s.operands if o.mode != "in"} for s in (before, after)]
    return bool(outputs[0] & accesses[1] or outputs[1] & accesses[0])


@fault_class("steps", "two neighbours exchanged")
def exchanged(program: Program) -> Sites:
    """A step after the one that needs it."""
    for before, after in zip(program.plan.steps, program.plan.steps[1:], strict=False):
        if before.graph == after.graph and depends(before, after):
            yield before.index, "", f"with step {after.index}", (Action(Point.STEP, Op.NEXT, before.index),)


@fault_class("steps", "a wrong step number")
def wrong_number(program: Program) -> Sites:
    """The number of the step before or after, or one that no step has."""
    count = len(program.plan.steps)
    for step in program.plan.steps:
        for number in (step.index + 1, step.index - 1, count):
            if number >= 0:
                action = Action(Point.STEP, Op.NUMBER, step.index, values=(number,))
                yield step.index, "", f"{number} instead", (action,)


def times(program: Program, graph: int) -> int:
    """Return the number of times a graph runs."""
    passes = program.plan.running.passes
    return passes if graph == TRAIN else passes // program.plan.options.accumulate


def graph_left(kind: str, graph: int, op: Op) -> None:
    """Register a fault class that affects a graph, in one pass or in all."""

    @fault_class("steps", kind)
    def propose(program: Program) -> Sites:
        for ordinal in (EVERY, *range(times(program, graph))):
            when = "every time" if ordinal == EVERY else f"time {ordinal}"
            yield -1, "", when, (Action(Point.GRAPH, op, graph, ordinal=ordinal),)


graph_left("the training graph left out", TRAIN, Op.DROP)
graph_left("the training graph run twice", TRAIN, Op.TWICE)
graph_left("the optimizer left out at an update", OPTIMIZER, Op.DROP)
graph_left("the optimizer run twice", OPTIMIZER, Op.TWICE)


@fault_class("steps", "the optimizer run at the wrong pass")
def wrong_pass(program: Program) -> Sites:
    """After another pass than the last of an update, besides or instead."""
    accumulate = program.plan.options.accumulate
    for pass_ in range(program.plan.running.passes):
        update = pass_ // accumulate
        if pass_ % accumulate != accumulate - 1:
            extra = Action(Point.GRAPH, Op.EXTRA, TRAIN, ordinal=pass_)
            yield -1, "", f"also after pass {pass_}", (extra,)
            instead = Action(Point.GRAPH, Op.DROP, OPTIMIZER, ordinal=update + 1)
            yield -1, "", f"after pass {pass_} instead of update {update}", (extra, instead)


# ---- resets ----


def resetting(kind: str, op: Op, *values: int) -> None:
    """Register a fault class that affects the flag of the training graph, in one pass or in all."""

    @fault_class("resets", kind)
    def propose(program: Program) -> Sites:
        for ordinal in (EVERY, *range(program.plan.running.passes)):
            when = "in every pass" if ordinal == EVERY else f"in pass {ordinal}"
            yield -1, "", when, (Action(Point.GRAPH, op, TRAIN, ordinal=ordinal, values=values),)


resetting("lazy-reset flag constant 0", Op.SET, 0)
resetting("lazy-reset flag constant 1", Op.SET, 1)
resetting("lazy-reset flag off by a pass", Op.INVERT)


def flagging(kind: str, which: type, op: Op, *values: int) -> None:
    """Register a class about a flag among a kernel's arguments, in one call or in all."""

    @fault_class("resets", kind)
    def propose(program: Program) -> Sites:
        for step in program.plan.steps:
            names = printed.field_names(step)
            for name, value in step.args.items():
                if isinstance(value, which):
                    for ordinal in (EVERY, *range(step.tiles)):
                        action = Action(
                            Point.CALL, op, step.index, ordinal=ordinal, values=(names.index(name), *values)
                        )
                        yield step.index, name, f"in call {ordinal}" if ordinal >= 0 else "in every call", (action,)


flagging("a kernel's reset flag constant 0", Flag, Op.SET, 0)
flagging("a kernel's reset flag constant 1", Flag, Op.SET, 1)
flagging("first flag of a reduction constant 0", First, Op.SET, 0)
flagging("first flag of a reduction constant 1", First, Op.SET, 1)
flagging("first flag of a reduction inverted", First, Op.INVERT)
flagging("last flag of a reduction constant 0", Last, Op.SET, 0)
flagging("last flag of a reduction constant 1", Last, Op.SET, 1)
flagging("last flag of a reduction inverted", Last, Op.INVERT)


# ---- data and harness ----


def loaded(program: Program) -> tuple[list[int], list[list[int]]]:
    """Numbers of the harness's reads: of the weights, and of each pass's data."""
    references = [i for i, (place, _, _) in enumerate(program.census.reads) if place[0] < 0]
    ends = [*references[1:], len(program.census.reads)]
    passes = [list(range(i + 1, end)) for i, end in zip(references, ends, strict=True)]
    return list(range(references[0])), passes


@fault_class("data", "the sample of another pass")
def wrong_sample(program: Program) -> Sites:
    """One of the data inputs comes from another sample."""
    _, passes = loaded(program)
    for at, reads in enumerate(passes):
        for number, other in zip(reads, passes[(at + 1) % len(passes)], strict=True):
            _, size, own = program.census.reads[number]
            values = own, program.census.reads[other][2], size
            action = Action(Point.READ, Op.OTHER, ordinal=number, values=values)
            yield -1, "", f"data input {number - reads[0]} in pass {at}", (action,)


@fault_class("data", "a weight not loaded")
def not_loaded(program: Program) -> Sites:
    """Its bytes are read and go nowhere."""
    for number in loaded(program)[0]:
        yield -1, "", f"weight {number}", (Action(Point.READ, Op.DROP, ordinal=number),)


@fault_class("data", "weights loaded short by a tensor")
def loaded_short(program: Program) -> Sites:
    """A read is missing, so that all after it get the bytes before theirs."""
    for number in loaded(program)[0]:
        yield -1, "", f"weight {number}", (Action(Point.READ, Op.NEXT, ordinal=number),)


@fault_class("harness", "the loss read from elsewhere")
def wrong_loss(program: Program) -> Sites:
    """Another word than the loss's home, in one pass or in all."""
    home = program.storage(program.plan.storage_of[program.plan.outputs[0]])
    for ordinal in (EVERY, *range(program.plan.running.passes)):
        for other in program.kept():
            if (other.level, other.start) != (home.level, home.start):
                values = home.level, home.start, other.level, other.start
                action = Action(Point.LOSS, Op.OTHER, ordinal=ordinal, values=values)
                yield -1, "", f"from {other.name}", (action,)


@fault_class("harness", "a weight dumped from elsewhere")
def wrong_dump(program: Program) -> Sites:
    """The bytes of another buffer of at least that size, or an element further on."""
    for number, (place, size) in enumerate(program.census.writes):
        for other in program.kept():
            if place[0] >= 0 and (other.level, other.start) != place and other.end - other.start >= size:
                action = Action(Point.WRITE, Op.OTHER, ordinal=number, values=(other.level, other.start))
                yield -1, "", f"dump {number} from {other.name}", (action,)
        if place[0] >= 0:
            action = Action(Point.WRITE, Op.OTHER, ordinal=number, values=(place[0], place[1] + 4))
            yield -1, "", f"dump {number} an element late", (action,)
