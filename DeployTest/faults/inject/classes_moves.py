"""Fault classes of transfers and waits: a transfer is the n-th of an operand through a hop in one direction."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from deployer.core.plan import PlanStep

from .census import Move
from .fault import Action, Op, Point, Sites, fault_class
from .printed import Region
from .program import Program

Start = tuple[PlanStep, Region, int, list[Move]]
NUMBERS = ("inner", "outer", "run", "count", "stride", "planes", "pitch")
"""The arguments of a transfer, in the order of an action's values."""
ELEMENT = 4


def starts(program: Program) -> Iterator[tuple[Start, int, Move]]:
    """Every transfer of every step, with its ordinal and those of the same operand, hop and direction."""
    for step in program.plan.steps:
        regions = program.regions(step)
        for (region, _), moves in sorted(program.census.moves(step.index).items()):
            for ordinal, move in enumerate(moves):
                yield (step, regions[region], region, moves), ordinal, move


def site(
    start: Start, ordinal: int, move: Move, note: str, *actions: Action
) -> tuple[int, str, str, tuple[Action, ...]]:
    """A site at a transfer, in words."""
    step, region, *_ = start
    place = f"transfer {ordinal} {'in' if move.inward else 'out'} of {region.arg} through hop {region.hop}"
    return step.index, region.arg, f"{place}{note and ': '}{note}", actions


def at(start: Start, ordinal: int, move: Move, op: Op, point: Point = Point.MOVE) -> Action:
    """An action at a transfer, or at the wait for it."""
    return Action(point, op, start[0].index, start[2], move.inward, ordinal)


def renumbered(start: Start, ordinal: int, move: Move, delta: Mapping[str, int]) -> Action:
    """Something is added to numbers of a transfer."""
    values = tuple(delta.get(name, 0) for name in NUMBERS)
    return replace(at(start, ordinal, move, Op.CHANGE), values=values)


def change(start: Start, ordinal: int, move: Move, **delta: int) -> tuple[int, str, str, tuple[Action, ...]]:
    """A site that changes numbers of a transfer."""
    note = ", ".join(
        f"{name} {value:+d} B" if name in ("inner", "outer", "run") else f"{name} {value:+d}"
        for name, value in delta.items()
    )
    return site(start, ordinal, move, note, renumbered(start, ordinal, move, delta))


def changing(group_kind: str, name: str, least_form: int, *steps: int) -> None:
    """Register a class that adds to one number of transfers of at least that many dimensions."""

    @fault_class("transfers", group_kind)
    def propose(program: Program) -> Sites:
        for start, ordinal, move in starts(program):
            if move.form >= least_form and move.run:
                for step in steps:
                    yield change(start, ordinal, move, **{name: step})


changing("outer address off by an element", "outer", 1, ELEMENT, -ELEMENT)
changing("inner address off by an element", "inner", 1, ELEMENT, -ELEMENT)
changing("run an element longer", "run", 1, ELEMENT)
changing("run an element shorter", "run", 1, -ELEMENT)
changing("a line too many", "count", 2, 1)
changing("a line too few", "count", 2, -1)
changing("line stride off by an element", "stride", 2, ELEMENT, -ELEMENT)
changing("a plane too many", "planes", 3, 1)
changing("a plane too few", "planes", 3, -1)
changing("plane stride off by an element", "pitch", 3, ELEMENT, -ELEMENT)


@fault_class("transfers", "outer address off by a line")
def off_by_a_line(program: Program) -> Sites:
    """A row of the box too early or too late."""
    for start, ordinal, move in starts(program):
        line = move.stride if move.form > 1 else move.run
        for delta in (line, -line) if line else ():
            yield change(start, ordinal, move, outer=delta)


@fault_class("transfers", "the data of the neighbour tile")
def neighbour(program: Program) -> Sites:
    """The outer address of the next transfer of the operand, or of the one before."""
    for start, ordinal, move in starts(program):
        for other in (ordinal + 1, ordinal - 1):
            if not 0 <= other < len(start[3]):
                continue
            outer = start[3][other].outer
            if outer[0] == move.outer[0] and outer != move.outer:
                yield change(start, ordinal, move, outer=outer[1] - move.outer[1])


@fault_class("transfers", "the other slot")
def other_slot(program: Program) -> Sites:
    """Another half of the double buffer."""
    for start, ordinal, move in starts(program):
        region = start[1]
        part = (move.inner[1] - region.start) // region.part
        for other in range(region.bytes // region.part):
            if other != part:
                yield change(start, ordinal, move, inner=(other - part) * region.part)


@fault_class("transfers", "the slot of another operand")
def slot_of_another(program: Program) -> Sites:
    """Tiles of one operand where those of another belong: of its step, or of one that the first fetch crosses."""
    for start, ordinal, move in starts(program):
        step, region, *_ = start
        others = program.regions(step)
        if move.inward and not ordinal:
            others += tuple(r for s in program.crossed(step, region) for r in program.regions(s))
        for other in others:
            if other.hop == region.hop and other.start != region.start:
                yield change(start, ordinal, move, inner=other.start - region.start)


@fault_class("transfers", "dropped")
def dropped(program: Program) -> Sites:
    """The transfer never starts."""
    for start, ordinal, move in starts(program):
        yield site(start, ordinal, move, "", at(start, ordinal, move, Op.DROP))


@fault_class("transfers", "doubled")
def doubled(program: Program) -> Sites:
    """It starts twice, and the first ticket is lost."""
    for start, ordinal, move in starts(program):
        yield site(start, ordinal, move, "", at(start, ordinal, move, Op.TWICE))


@fault_class("transfers", "doubled, both waited for")
def doubled_waited(program: Program) -> Sites:
    """It happens twice, in order."""
    for start, ordinal, move in starts(program):
        yield site(start, ordinal, move, "", at(start, ordinal, move, Op.TWICE_WAITED))


@fault_class("transfers", "turned round")
def turned(program: Program) -> Sites:
    """In instead of out, or out instead of in."""
    for start, ordinal, move in starts(program):
        yield site(start, ordinal, move, "", at(start, ordinal, move, Op.TURN))


@fault_class("transfers", "two of an operand in the wrong order")
def exchanged(program: Program) -> Sites:
    """A transfer and the next of its operand, each with the numbers of the other."""
    for start, ordinal, move in starts(program):
        if ordinal + 1 == len(start[3]):
            continue
        after = start[3][ordinal + 1]
        if move.outer[0] != after.outer[0] or move.form != after.form:
            continue
        delta = {n: getattr(after, n) - getattr(move, n) for n in NUMBERS[2:]}
        delta |= {"inner": after.inner[1] - move.inner[1], "outer": after.outer[1] - move.outer[1]}
        if any(delta.values()):
            back = {n: -d for n, d in delta.items()}
            first, second = renumbered(start, ordinal, move, delta), renumbered(start, ordinal + 1, move, back)
            yield site(start, ordinal, move, "", first, second)


def waiting(kind: str, op: Op) -> None:
    """Register a class of the wait for a transfer."""

    @fault_class("waits", kind)
    def propose(program: Program) -> Sites:
        for start, ordinal, move in starts(program):
            yield site(start, ordinal, move, "", at(start, ordinal, move, op, Point.WAIT))


waiting("wait left out", Op.DROP)
waiting("wait after the kernel", Op.LATE)
waiting("wait doubled", Op.TWICE)
waiting("wait for another ticket", Op.OTHER)
