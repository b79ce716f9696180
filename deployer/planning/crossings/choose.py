"""Which transfers cross steps: first ingresses that start earlier, and last egresses that are awaited later.

A first ingress goes back to earlier steps, and a last egress on to later ones, until their cycles hide it, as far as no
step there touches the tensor in a way that forbids it, and the slots have room in all of them. Slots may move: where
they lie changes no cycle. The plan with the crossings is taken if it is the quicker one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.cost import rounded
from deployer.core.level import RESIDENT, USUAL, Crossing
from deployer.core.plan import LevelUse, Plan, PlanOperand, PlanStep, target_of
from deployer.planning.crossings.graph_run import timed
from deployer.planning.loop_program import Way

FARTHEST = 8
"""Steps that a transfer may cross, at most."""


def outermost(operand: PlanOperand) -> int | None:
    """The level of the operand's slots that its home feeds; None where it has no slots."""
    return max((number for number, slots in enumerate(operand.places) if slots.count), default=None)


def slot_life(plan: Plan, step: PlanStep, operand: PlanOperand, level: int) -> tuple[int, int]:
    """The first and the last step in which an operand's slots in a level are in use."""
    own = level == outermost(operand)
    ends = [c.at for c in plan.crossings if own and (c.step, c.arg) == (step.index, operand.arg)]
    return min([step.index, *ends]), max([step.index, *ends])


def with_crossings(plan: Plan) -> Plan:
    """The plan with the transfers that cross steps, or the same plan where that is not quicker."""
    if not target_of(plan.options).hops:
        return plan
    crossed = timed(_Choice(plan).chosen())
    return crossed if _cycles(crossed) < _cycles(plan) else plan


def _cycles(plan: Plan) -> int:
    return sum(s.cycles * (plan.options.accumulate if s.graph == "train" else 1) for s in plan.steps)


@dataclass(frozen=True)
class _Candidate:
    """A transfer that may cross: of an operand through the hop of a level, `cycles` long."""

    step: int
    operand: PlanOperand
    way: Way
    level: int
    cycles: int


class _Room:
    """The buffers of a level: offsets, ends and lives, which change with the crossings."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.rows: dict[tuple[int, str], list[int]] = {}
        self.fixed: list[list[int]] = []

    def add(self, key: tuple[int, str] | None, offset: int, size: int, first: int, last: int) -> None:
        """A buffer; slots have the key of their operand."""
        row = [offset, offset + size, first, last]
        if key is None:
            self.fixed.append(row)
        else:
            self.rows[key] = row

    def place_for(self, key: tuple[int, str], first: int, last: int) -> int | None:
        """An offset at which an operand's slots have room from step `first` to `last`: their own, or the lowest."""
        begin, end, _, _ = self.rows[key]
        others = np.array([*self.fixed, *(row for other, row in self.rows.items() if other != key)], np.int64)
        others = others.reshape(-1, 4)
        near = others[(others[:, 2] <= last) & (others[:, 3] >= first)]
        if not ((near[:, 0] < end) & (near[:, 1] > begin)).any():
            return begin
        near = near[np.argsort(near[:, 0])]
        below = np.maximum.accumulate(np.concatenate(([0], near[:, 1])))
        free = np.flatnonzero(below + (end - begin) <= np.concatenate((near[:, 0], [self.budget])))
        return int(below[free[0]]) if len(free) else None

    def take(self, key: tuple[int, str], offset: int, first: int, last: int) -> None:
        """Let an operand's slots lie there, in use from step `first` to `last`."""
        begin, end, _, _ = self.rows[key]
        self.rows[key] = [offset, offset + end - begin, first, last]

    def use(self, level: LevelUse) -> LevelUse:
        """What of the level is in use."""
        rows = np.array([*self.fixed, *self.rows.values()], np.int64).reshape(-1, 4)
        change = np.zeros(int(rows[:, 3].max(initial=0)) + 2, np.int64)
        np.add.at(change, rows[:, 2], rows[:, 1] - rows[:, 0])
        np.add.at(change, rows[:, 3] + 1, rows[:, 0] - rows[:, 1])
        return replace(level, peak=int(rows[:, 1].max(initial=0)), bound=int(change.cumsum().max()))


class _Choice:
    """The choice for one plan; egresses come first, as an ingress may not read what one of them still writes."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.target = plan, target_of(plan.options)
        self.crossings: list[Crossing] = []
        self.homes = {home.storage: home for home in plan.homes}
        self.touched: dict[str, list[tuple[int, bool]]] = {}
        for step in plan.steps:
            for o in step.operands:
                self.touched.setdefault(o.storage, []).append((step.index, o.mode != "in"))
        self.late: dict[str, list[tuple[int, int]]] = {}
        self.rooms = [_Room(level.budget) for level in plan.levels]
        number = {level.name: i for i, level in enumerate(plan.levels)}
        self.rooms[RESIDENT].add(None, 0, plan.table_bytes, 0, len(plan.steps))
        for home in plan.homes:
            size = rounded(home.bytes, self.target.alignment)
            self.rooms[number[home.level]].add(None, home.offset, size, home.first, home.last)
        for step in plan.steps:
            for o in step.operands:
                for room, slots in zip(self.rooms, o.places, strict=False):
                    if slots.count:
                        size = slots.count * slots.bytes
                        room.add((step.index, o.arg), slots.offset, size, step.index, step.index)

    def chosen(self) -> Plan:
        """The plan with its crossings and its slots where these have room; its cycles are still those without."""
        for way in ("out", "in"):
            for graph in self.plan.graphs:
                for candidate in self._candidates(graph, way):
                    self._cross(candidate, graph)
        steps = tuple(replace(s, operands=tuple(self._moved(s, o) for o in s.operands)) for s in self.plan.steps)
        levels = tuple(room.use(level) for room, level in zip(self.rooms, self.plan.levels, strict=True))
        crossings = tuple(sorted(self.crossings, key=lambda c: (c.step, c.arg, c.way)))
        return replace(self.plan, steps=steps, levels=levels, crossings=crossings)

    def _moved(self, step: PlanStep, operand: PlanOperand) -> PlanOperand:
        """The operand with its slots where they lie now."""
        places = list(operand.places)
        for level, room in enumerate(self.rooms[: len(places)]):
            row = room.rows.get((step.index, operand.arg))
            places[level] = replace(places[level], offset=row[0]) if row else places[level]
        return operand.at(places)

    def _candidates(self, graph: str, way: Way) -> Iterator[_Candidate]:
        """The operands whose first ingress, or last egress, is waited for."""
        for step in (s for s in self.plan.steps if s.graph == graph):
            waits = step.timeline.ingress_wait[0] if way == "in" else step.timeline.egress_wait[-1]
            for o in step.operands:
                level = outermost(o)
                passes = level is not None and level == (USUAL if step.staging else RESIDENT)
                waited = waits if level == RESIDENT else step.staging.wait if step.staging else 0
                fresh = o.fresh_on_flag and self.plan.options.sole_pass and way == "in"
                if level is None or not passes or not waited or fresh or o.mode == ("out" if way == "in" else "in"):
                    continue
                hop = self.target.hops[level]
                channel = hop.inward if way == "in" else hop.outward
                size = o.places[level].bytes
                yield _Candidate(step.index, o, way, level, channel.cycles(size, 1, self.target.contention))

    def _cross(self, c: _Candidate, graph: str) -> None:
        """Let the transfer cross as many steps as hide it, if some step can."""
        key, hidden, found = (c.step, c.operand.arg), 0, None
        first, last = self.rooms[c.level].rows[key][2:]
        for at in self._steps(c, graph):
            ends = (min(first, at), max(last, at))
            offset = self.rooms[c.level].place_for(key, *ends)
            if offset is None:
                break
            found = at, offset, ends
            hidden += self.plan.steps[at].cycles
            if hidden >= c.cycles:
                break
        if found is None:
            return
        at, offset, ends = found
        self.rooms[c.level].take(key, offset, *ends)
        self.crossings.append(Crossing(c.step, c.operand.arg, c.way, at))
        if c.way == "out":
            self.late.setdefault(c.operand.storage, []).append((c.step, at))

    def _steps(self, c: _Candidate, graph: str) -> Iterator[int]:
        """The steps that the transfer may cross, from the nearest on."""
        storage, steps = c.operand.storage, self.plan.steps
        home, touched = self.homes[storage], self.touched[storage]
        step = -1 if c.way == "in" else 1
        for at in range(c.step + step, c.step + step * (FARTHEST + 1), step):
            if not 0 <= at < len(steps) or steps[at].graph != graph or not home.first <= at <= home.last:
                return
            if any(index == at and (writes or c.way == "out") for index, writes in touched):
                return
            if c.way == "in" and any(first <= at <= last for first, last in self.late.get(storage, ())):
                return
            yield at
