"""Clock of the middle level: cycles of a whole program, step by step, and of the engine to the outermost level.

The solver's model adds up steps, each by itself. But the engine serves one transfer after the other: what one step or a
residency asks of it, the next ones wait for. The clock runs the steps with these transfers alone, and of a choice that
differs little from an earlier one few of them.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from deployer.core.level import L_HOME, Hop, Residency
from deployer.core.plan import Schedule
from deployer.core.target import Target
from deployer.tilers.levels.grid import Ints
from deployer.tilers.levels.model import HomeProblem
from deployer.tilers.levels.staging import StageCost, StageTraffic

IN, OUT = 0, 1
Lags = tuple[int, int]
"""For how many cycles from now on the engine is busy inwards, and outwards."""
_Run = tuple[int, Lags]
"""Cycles of a step, and the lags behind it."""
_Copy = tuple[str, int, int, int]
"""The storage of a copy, its direction, its cycles, and the step at whose end it is awaited."""
_Engine = tuple[int, int, tuple[tuple[int, int], ...]]
"""The lags of the engine before a step, and those of copies behind which later steps, by number, end."""
IDLE: _Engine = (0, 0, ())


@dataclass
class _Kept:
    """A choice and its cycles; by step, its cycles and the engine's state before it."""

    picks: Sequence[int]
    cached: AbstractSet[str]
    engines: list[_Engine]
    spent: list[int]
    cycles: int


@dataclass
class _Asked:
    """A choice and its cycles; for the steps that ran for it, the engine's state before each and its cycles."""

    picks: Sequence[int]
    cached: AbstractSet[str]
    runs: list[tuple[int, _Engine, int]]
    cycles: int


class DmaTimeline:
    """Runs a problem's choices; the result of a step after equal lags is computed once."""

    def __init__(
        self,
        problem: HomeProblem,
        residencies: Sequence[Residency],
        schedule: Schedule,
        target: Target,
        cost: Callable[[int, int], StageCost],
    ) -> None:
        """`cost` gives the cost of a step's candidate that has a stage, by the numbers of both."""
        self.hop, self._cost = target.hops[L_HOME], cost
        self._begin = self.hop.issue + target.prefetch_issue
        self._graphs = _spans(schedule)
        self._weights = problem.weights
        self._whole = [[None if c.slots else c.cycles for c in candidates] for candidates in problem.candidates]
        self._runs: list[dict[int, dict[Lags, _Run]]] = [{} for _ in problem.candidates]
        self._costs: dict[tuple[int, int], StageCost] = {}
        self._known: dict[StageCost, dict[Lags, _Run]] = {}
        self._clocked: dict[StageCost, _Clocked] = {}
        bytes_of = {life.storage: life.bytes for life in problem.eligible}
        outwards = IN if self.hop.shared else OUT
        self._copies: dict[int, list[_Copy]] = {}
        self._starts: dict[str, tuple[int, int]] = {}
        for first, second in zip(residencies[::2], residencies[1::2], strict=True):
            size, name = bytes_of[first.storage], first.storage
            out, into = self.hop.outward.cycles(size, 1), self.hop.inward.cycles(size, 1)
            self._starts[name] = first.first + 1, second.begin
            self._copies.setdefault(first.first + 1, []).append((name, outwards, out, first.end))
            self._copies.setdefault(second.begin, []).append((name, IN, into, second.first - 1))
        self._kept: _Kept | None = None
        self._asked: _Asked | None = None

    def cycles(self, picks: Sequence[int], cached: Iterable[str], differing: Collection[int] | None = None) -> int:
        """Cycles of one update under a choice, whose picks differ from the kept ones at most in `differing` steps.

        Steps run that differ from those of the choice that was kept, and the ones behind them until the engine is as
        it was there; of all others the cycles are known.
        """
        kept, here = self._kept, frozenset(cached)
        if kept is None:
            count, differing = len(picks), None
            kept = self._kept = _Kept([-1] * count, frozenset(), [IDLE] * count, [0] * count, 0)
        asked_of = range(len(picks)) if differing is None else differing
        changed = {step for step in asked_of if picks[step] != kept.picks[step]}
        for storage in here ^ kept.cached:
            changed.update(self._starts[storage])
        self._asked = asked = _Asked(picks, here, [], kept.cycles)
        due, weights = sorted(changed), self._weights
        for steps in self._graphs:
            before, first, last = len(asked.runs), *(bisect_left(due, end) for end in (steps.start, steps.stop))
            end = steps.start
            for step in due[first:last]:
                if step >= end:
                    end = self._rerun(range(step, steps.stop), changed, kept, asked)
            more = sum(spent - kept.spent[step] for step, _, spent in asked.runs[before:])
            asked.cycles += weights[steps.start] * more
        if kept.picks[:1] == [-1]:
            self.keep()
        return asked.cycles

    def keep(self) -> None:
        """Let the choice whose cycles were asked for last be the one with which the next ones are compared."""
        kept, asked = self._kept, self._asked
        assert kept is not None
        assert asked is not None
        for step, engine, spent in asked.runs:
            kept.engines[step], kept.spent[step] = engine, spent
        kept.picks, kept.cached, kept.cycles = list(asked.picks), asked.cached, asked.cycles

    def _rerun(self, steps: range, changed: AbstractSet[int], kept: "_Kept", asked: "_Asked") -> int:
        """Run steps from the first on until the engine is as it was, and nothing changed; the step at which it is."""
        inward, outward, pending = engine = kept.engines[steps.start]
        now, free, awaited = 0, [inward, outward], dict(pending)
        for step in steps:
            begin = now
            if step not in changed and engine == kept.engines[step]:
                return step
            if step in self._copies:
                for name, direction, cycles, end in self._copies[step]:
                    if name in asked.cached:
                        now += self._begin
                        free[direction] = max(now, free[direction]) + cycles
                        awaited[end] = max(awaited.get(end, 0), free[direction])
            pick = asked.picks[step]
            whole = self._whole[step][pick]
            if whole is not None:
                now += whole
            else:
                known = self._runs[step].get(pick)
                lags = max(free[IN] - now, 0), max(free[OUT] - now, 0)
                run = known.get(lags) if known else None
                cycles, (inward, outward) = run or self._computed(step, pick, lags)
                now += cycles
                free = [now + inward, now + outward]
            if awaited:
                now = max(now, awaited.pop(step, 0))
            asked.runs.append((step, engine, now - begin))
            pending = tuple(sorted((end, at - now) for end, at in awaited.items() if at > now)) if awaited else ()
            engine = max(free[IN] - now, 0), max(free[OUT] - now, 0), pending
        return steps.stop

    def _computed(self, step: int, pick: int, lags: Lags) -> _Run:
        """The run of a step's candidate that has a stage."""
        if pick not in self._runs[step]:
            cost = self._costs[step, pick] = self._cost(step, pick)
            if cost not in self._known:
                self._known[cost] = {}
                self._clocked[cost] = _Clocked(cost, self.hop)
            self._runs[step][pick] = self._known[cost]
        known = self._runs[step][pick]
        if lags not in known:
            known[lags] = self._clocked[self._costs[step, pick]].run(lags)
        return known[lags]


def _spans(schedule: Schedule) -> list[range]:
    """The steps of each graph."""
    graphs = itertools.groupby(schedule.steps, key=lambda step: step.graph)
    indices = ([step.index for step in steps] for _, steps in graphs)
    return [range(steps[0], steps[-1] + 1) for steps in indices]


class _Clocked:
    """Traffic of a stage on the clock after any lags; runs that reach the same state at a tile share the rest."""

    def __init__(self, cost: StageCost, hop: Hop) -> None:
        self.cost, self.issue, self.out = cost, hop.issue, IN if hop.shared else OUT
        self.ahead = int(cost.buffering == "double")
        self.comes, coming = self._started(cost.inward, -1)
        self.goes, going = self._started(cost.outward, 1)
        self._alike = self._last_alike(coming, going)
        self.coming, self.going = coming.tolist(), going.tolist()
        self._first: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._ended: _Run = (0, (0, 0))

    def _started(self, operands: Sequence[StageTraffic], by: int) -> tuple[list[tuple[int, ...]], Ints]:
        """The cycles of transfers that may start together, and by tile the number of those that start in it: they are
        of boxes that the tile `by` from it does not have.
        """
        tiles = np.arange(self.cost.tiles)
        started = np.zeros_like(tiles)
        for bit, (_, loads) in enumerate(operands):
            boxes = tiles * loads // self.cost.tiles
            differs = np.diff(boxes, prepend=-1) if by < 0 else np.diff(boxes, append=-1)
            started |= (differs != 0).astype(np.int64) << bit
        sets = range(1 << len(operands))
        return [tuple(cycles for bit, (cycles, _) in enumerate(operands) if of >> bit & 1) for of in sets], started

    def _last_alike(self, coming: Ints, going: Ints) -> list[int]:
        """By tile the last of those from it on in which the same transfers start."""
        last = np.arange(self.cost.tiles)
        if (count := self.cost.tiles - 1 - self.ahead) > 0:
            comes, goes = coming[self.ahead :], going[: count + 1]
            alike = (comes[1:] == comes[:-1]) & (goes[1:] == goes[:-1])
            last[:count][alike] = self.cost.tiles
            last = np.minimum.accumulate(last[::-1])[::-1]
        return list[int](last.tolist())

    def run(self, lags: Lags) -> _Run:
        """With double buffering the next tile comes and the last one goes while one is worked on."""
        first, seen = not self._first, dict[int, tuple[int, tuple[int, ...]]]()
        free, now, issue, inner, out = list(lags), 0, self.issue, self.cost.inner, self.out
        coming, going, ahead, count = self.coming, self.going, self.ahead, self.cost.tiles
        comes, goes = self.comes, self.goes
        before = ended = fetched = begin = 0
        tile, earlier = -ahead - 1, tuple[int, ...]()
        while tile + 1 < count:
            tile += 1
            # Of all that is awaited only what is left of it counts.
            left = tuple([at - now if at > now else 0 for at in (free[IN], free[OUT], fetched, before, ended)])
            if tile > 0 and left == earlier and self._alike[tile - 1] > tile:
                # This tile and those up to the last one alike take as long as the one before.
                now += (now - begin) * (self._alike[tile] - tile)
                tile = self._alike[tile]
                inward, outward, fetched, before, ended = (now + more for more in left)
                free = [inward, outward]
            begin, earlier = now, left
            if first:
                seen[tile] = now, left
            elif tile in self._first and left == self._first[tile][1]:
                cycles, behind = self._ended
                return now + cycles - self._first[tile][0], behind
            awaited = fetched
            if tile + ahead < count:
                for cycles in comes[coming[tile + ahead]]:
                    now += issue
                    free[IN] = max(now, free[IN]) + cycles
                fetched = free[IN] if comes[-1] else 0
            if tile < 0:
                continue
            now = max(now, awaited if ahead else fetched, before) + inner
            before = ended
            for cycles in goes[going[tile]]:
                now += issue
                free[out] = max(now, free[out]) + cycles
            ended = free[out] if goes[-1] else 0
            if not ahead:
                now = max(now, ended)
        now = max(now, ended)
        run = now, (max(free[IN] - now, 0), max(free[out] - now, 0))
        if first:
            self._first, self._ended = seen, run
        return run
