"""Choice of cross-step transfers: prefetches that start in earlier steps, and write-backs awaited in later ones.

A first ingress goes back to earlier steps, and a last egress on to later ones, until their cycles hide it, as far as
no step there touches the tensor in a way that forbids it, and the slots have room in all of them. Slots may move:
where they lie changes no cycle. A transfer stays in its step if it takes no longer than a start in another step
costs, or if hiding it is not worth the code; so do all of a graph that is no quicker with them.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deployer.core.cost import rounded
from deployer.core.level import L_HOME, L_INNER, CrossStepTransfer, LevelUse
from deployer.core.plan import Plan, PlanOperand, PlanStep, target_of
from deployer.loops.graph_program import Lowered, structure_of, timed
from deployer.loops.loop_program import Direction
from deployer.loops.moves import copies, outermost

# Starting and awaiting cross-step transfers is code for all steps of one structure. In a step whose own transfer does
# not cross, such a start or wait gains nothing, and is priced like the start of one that does. So the transfers of a
# structure have to gain that for its other steps, and those that start in steps of a structure for what these fetch.


class Ended(NamedTuple):
    """Candidate for a cross-step transfer: the first ingress of an operand of a step, or its last egress."""

    step: int
    direction: Direction
    arg: str


def ended(transfer: CrossStepTransfer) -> Ended:
    """The candidate that a cross-step transfer was."""
    return Ended(transfer.step, transfer.direction, transfer.arg)


def passes(step: PlanStep, operand: PlanOperand, direction: Direction) -> bool:
    """Whether the step's outermost loop moves the operand in that direction."""
    moved = outermost(operand) == (L_HOME if step.staging else L_INNER)
    return moved and operand.mode in (direction, "inout")


def unworthy(
    plan: Plan, cross_step_transfers: Sequence[CrossStepTransfer], gains: Mapping[Ended, int]
) -> tuple[set[Ended], set[int]]:
    """The transfers that should not cross, and the steps in which none of later ones should start.

    `gains` are the cycles that each of the cross-step transfers hides.
    """
    price = target_of(plan.options).prefetch_issue
    net = {key: gain - (price if key.direction == "in" else 0) for key, gain in gains.items()}
    alike: dict[Hashable, list[PlanStep]] = defaultdict(list)
    for step in plan.steps:
        alike[step.graph, structure_of(step)].append(step)
    structure = {step.index: key for key, steps in alike.items() for step in steps}
    own: dict[tuple[Hashable, Direction, str], list[Ended]] = defaultdict(list)
    guests: dict[Hashable, list[Ended]] = defaultdict(list)
    for c in cross_step_transfers:
        own[structure[c.step], c.direction, c.arg].append(ended(c))
        if c.direction == "in":
            guests[structure[c.at]].append(ended(c))
    stay, closed = set[Ended](), set[int]()
    for (key, _, _), transfer in own.items():
        if sum(net[c] for c in transfer) <= price * (len(alike[key]) - len(transfer)):
            stay.update(transfer)
    for key, transfer in guests.items():
        fetched = [o.arg for o in alike[key][0].operands if passes(alike[key][0], o, "in")]
        begun = sum((key, "in", arg) not in own for arg in fetched) * len(alike[key])
        if sum(net[c] for c in transfer) <= price * begun:
            closed.update(step.index for step in alike[key])
    return stay, closed


Row = tuple[int, int, int, int]
"""A buffer of a level: offset and end in bytes, first and last step in which it is in use."""
FARTHEST = 8
"""Steps that a transfer may cross, at most."""


def with_cross_step_transfers(plan: Plan, lowered: Lowered) -> Plan:
    """The plan with the transfers that cross steps in the graphs that they make quicker; the same plan if none is.

    `lowered` is for speed.
    """
    if not target_of(plan.options).hops:
        return plan
    plan = timed(plan, lowered) if plan.residencies else plan
    stay, closed = set[Ended](), set[int]()
    while True:
        choice = _Choice(plan, stay, closed)
        cross_step_transfers = choice.chosen()
        if not cross_step_transfers:
            return plan
        costly, hosts = unworthy(plan, cross_step_transfers, choice.gains)
        if not costly and not hosts:
            better = timed(choice.applied(), lowered)
            slow = [graph for graph in plan.graphs if better.cycles(graph) >= plan.cycles(graph)]
            costly = {ended(c) for c in better.cross_step_transfers if plan.steps[c.step].graph in slow}
        if not costly and not hosts:
            return better
        stay |= costly
        closed |= hosts


@dataclass(frozen=True)
class _Candidate:
    """Candidate for a cross-step transfer of an operand through the hop of a level, `cycles` long or `waited` for."""

    step: int
    operand: PlanOperand
    direction: Direction
    level: int
    cycles: int
    waited: int


class _Room:
    """Buffers of a level: offsets, ends and lives, which change with the cross-step transfers."""

    def __init__(self, budget: int, fixed: Sequence[Row], slots: Mapping[tuple[int, str], Row]) -> None:
        """`slots` are of operands, by step and argument; all else is `fixed`."""
        self.budget = budget
        self.places = {key: len(fixed) + i for i, key in enumerate(slots)}
        self.rows = np.array([*fixed, *slots.values()], np.int64).reshape(-1, 4)

    def place_for(self, key: tuple[int, str], first: int, last: int) -> int | None:
        """An offset at which an operand's slots have room from step `first` to `last`: their own, or the lowest."""
        own = self.places[key]
        begin, end = self.rows[own, :2].tolist()
        meets = (self.rows[:, 2] <= last) & (self.rows[:, 3] >= first)
        meets[own] = False
        near = self.rows[meets]
        if not ((near[:, 0] < end) & (near[:, 1] > begin)).any():
            return int(begin)
        near = near[np.argsort(near[:, 0])]
        below = np.maximum.accumulate(np.concatenate(([0], near[:, 1])))
        free = np.flatnonzero(below + (end - begin) <= np.concatenate((near[:, 0], [self.budget])))
        return int(below[free[0]]) if len(free) else None

    def life(self, key: tuple[int, str]) -> tuple[int, int]:
        """The first and the last step in which an operand's slots are in use."""
        first, last = self.rows[self.places[key], 2:].tolist()
        return first, last

    def offset(self, key: tuple[int, str]) -> int | None:
        """Return the offset of an operand's slots; None if it has none in this level."""
        return int(self.rows[self.places[key], 0]) if key in self.places else None

    def take(self, key: tuple[int, str], offset: int, first: int, last: int) -> None:
        """Let an operand's slots lie there, in use from step `first` to `last`."""
        row = self.rows[self.places[key]]
        row[:] = offset, offset + row[1] - row[0], first, last

    def use(self, level: LevelUse) -> LevelUse:
        """Return the level's use with the current peak and bound."""
        rows = self.rows
        change = np.zeros(int(rows[:, 3].max(initial=0)) + 2, np.int64)
        np.add.at(change, rows[:, 2], rows[:, 1] - rows[:, 0])
        np.add.at(change, rows[:, 3] + 1, rows[:, 0] - rows[:, 1])
        return replace(level, peak=int(rows[:, 1].max(initial=0)), bound=int(change.cumsum().max()))


class _Choice:
    """The choice for one plan; egresses come first, as an ingress may not read what one of them still writes."""

    def __init__(self, plan: Plan, stay: Collection[Ended], closed: Collection[int]) -> None:
        """`stay` are transfers that do not cross, and `closed` steps in which none of a later one starts."""
        self.plan, self.stay, self.closed, self.target = plan, stay, closed, target_of(plan.options)
        self.gains: dict[Ended, int] = {}
        self.cross_step_transfers: list[CrossStepTransfer] = []
        self.homes = {home.storage: home for home in plan.homes}
        self.touched: dict[str, list[tuple[int, bool]]] = {}
        for step in plan.steps:
            for o in step.operands:
                self.touched.setdefault(o.storage, []).append((step.index, o.mode != "in"))
        for copy in copies(plan):
            for storage, writes in ((copy.storage, copy.direction == "out"), (copy.name, copy.direction == "in")):
                self.touched.setdefault(storage, []).extend((at, writes) for at in range(copy.start, copy.end + 1))
        self.late: dict[str, list[tuple[int, int]]] = {}
        self.rooms = self._rooms()

    def _rooms(self) -> list[_Room]:
        """The levels with their buffers: homes, and slots while their steps run."""
        number = {level.name: i for i, level in enumerate(self.plan.levels)}
        fixed: list[list[Row]] = [[] for _ in number]
        slots: list[dict[tuple[int, str], Row]] = [{} for _ in number]
        fixed[L_INNER].append((0, self.plan.table_bytes, 0, len(self.plan.steps)))
        for home in self.plan.homes:
            end = home.offset + rounded(home.bytes, self.target.alignment)
            fixed[number[home.level]].append((home.offset, end, home.first, home.last))
        for step in self.plan.steps:
            for o in step.operands:
                for rows, s in zip(slots, o.places, strict=False):
                    if s.count:
                        rows[step.index, o.arg] = s.offset, s.offset + s.count * s.bytes, step.index, step.index
        return [_Room(*level) for level in zip([x.budget for x in self.plan.levels], fixed, slots, strict=True)]

    def chosen(self) -> tuple[CrossStepTransfer, ...]:
        """The cross-step transfers, for which slots move to where they have room."""
        for direction in ("out", "in"):
            for graph in self.plan.graphs:
                for candidate in self._candidates(graph, direction):
                    self._extend(candidate, graph)
        self.cross_step_transfers.sort(key=lambda c: (c.step, c.arg, c.direction))
        return tuple(self.cross_step_transfers)

    def applied(self) -> Plan:
        """The plan with what was chosen, and slots where they lie now; its cycles are still those without."""
        steps = tuple(self._with_slots(step) for step in self.plan.steps)
        levels = tuple(room.use(level) for room, level in zip(self.rooms, self.plan.levels, strict=True))
        return replace(self.plan, steps=steps, levels=levels, cross_step_transfers=tuple(self.cross_step_transfers))

    def _with_slots(self, step: PlanStep) -> PlanStep:
        """The step with its slots where they lie now."""
        operands = tuple(self._moved(step, o) for o in step.operands)
        return step if operands == step.operands else replace(step, operands=operands)

    def _moved(self, step: PlanStep, operand: PlanOperand) -> PlanOperand:
        """The operand with its slots where they lie now."""
        places = list(operand.places)
        for level, room in enumerate(self.rooms[: len(places)]):
            offset = room.offset((step.index, operand.arg))
            places[level] = places[level] if offset is None else replace(places[level], offset=offset)
        return operand if tuple(places) == operand.places else operand.at(places)

    def _candidates(self, graph: str, direction: Direction) -> Iterator[_Candidate]:
        """The operands whose first ingress, or last egress, is waited for."""
        for step in (s for s in self.plan.steps if s.graph == graph):
            waits = step.timeline.ingress_wait[0] if direction == "in" else step.timeline.egress_wait[-1]
            for o in step.operands:
                waited = step.staging.wait if step.staging else waits
                fresh = o.overwrite_on_first_pass and self.plan.options.updates_every_pass and direction == "in"
                if not passes(step, o, direction) or not waited or fresh or (step.index, direction, o.arg) in self.stay:
                    continue
                level = L_HOME if step.staging else L_INNER
                hop = self.target.hops[level]
                channel = hop.inward if direction == "in" else hop.outward
                cycles = channel.cycles(o.places[level].bytes, 1, self.target.contention)
                behind = step.staging.wait if step.staging and self.plan.residencies and direction == "in" else 0
                if cycles > self.target.prefetch_issue:
                    yield _Candidate(step.index, o, direction, level, cycles, max(cycles, behind))

    def _extend(self, c: _Candidate, graph: str) -> None:
        """Let the transfer cross as many steps as hide it, if some step can."""
        key, hidden, found = (c.step, c.operand.arg), 0, None
        first, last = self.rooms[c.level].life(key)
        for at in self._steps(c, graph):
            ends = (min(first, at), max(last, at))
            offset = self.rooms[c.level].place_for(key, *ends)
            if offset is None:
                break
            hidden += self.plan.steps[at].cycles
            if c.direction == "in" and at in self.closed:
                continue
            found = at, offset, ends
            if hidden >= c.waited:
                break
        if found is None or hidden <= self.target.prefetch_issue:
            return
        at, offset, ends = found
        self.rooms[c.level].take(key, offset, *ends)
        self.cross_step_transfers.append(CrossStepTransfer(c.step, c.operand.arg, c.direction, at))
        self.gains[Ended(c.step, c.direction, c.operand.arg)] = min(hidden, c.cycles)
        if c.direction == "out":
            self.late.setdefault(c.operand.storage, []).append((c.step, at))

    def _steps(self, c: _Candidate, graph: str) -> Iterator[int]:
        """The steps that the transfer may cross, from the nearest on."""
        storage, steps = c.operand.storage, self.plan.steps
        home, touched = self.homes[storage], self.touched[storage]
        step = -1 if c.direction == "in" else 1
        for at in range(c.step + step, c.step + step * (FARTHEST + 1), step):
            if not 0 <= at < len(steps) or steps[at].graph != graph or not home.first <= at <= home.last:
                return
            if any(index == at and (writes or c.direction == "out") for index, writes in touched):
                return
            if c.direction == "in" and any(first <= at <= last for first, last in self.late.get(storage, ())):
                return
            yield at
