"""The clock of the level between: cycles of a whole program, step by step, and of the engine to the outermost level.

The solver's model adds up steps, each by itself. But the engine serves one transfer after the other: what one step or a
visit asks of it, the next ones wait for. The clock runs all steps with these transfers alone, in less than a
millisecond.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from deployer.core.level import USUAL, Hop, Visit
from deployer.core.plan import Schedule
from deployer.core.target import Target
from deployer.tilers.levels.model import Problem
from deployer.tilers.levels.staging import Flow, Passage

IN, OUT = 0, 1
Lags = tuple[int, int]
"""For how many cycles from now on the engine is busy inwards, and outwards."""
_Run = tuple[int, Lags]
"""Cycles of a step, and the lags behind it."""
_Copy = tuple[int, int, int, int]
"""The step at whose beginning a copy starts, its direction, its cycles, and the step at whose end it is awaited."""


class BetweenClock:
    """Runs a problem's choices; what a step does behind equal lags is computed once."""

    def __init__(
        self,
        problem: Problem,
        visits: Sequence[Visit],
        schedule: Schedule,
        target: Target,
        flow: Callable[[int, int], Flow],
    ) -> None:
        """`flow` has the flow of a step's candidate that has a stage, by the numbers of both."""
        self.hop, self._flow = target.hops[USUAL], flow
        self._begin = self.hop.issue + target.crossing
        self._graphs = _spans(schedule)
        self._weights = problem.weights
        self._whole = [[None if c.slots else c.cycles for c in candidates] for candidates in problem.candidates]
        self._runs: list[dict[int, dict[Lags, _Run]]] = [{} for _ in problem.candidates]
        self._flows: dict[tuple[int, int], Flow] = {}
        self._known: dict[Flow, dict[Lags, _Run]] = {}
        self._copies: dict[str, tuple[_Copy, _Copy]] = {}
        bytes_of = {life.storage: life.bytes for life in problem.eligible}
        outwards = IN if self.hop.shared else OUT
        for first, second in zip(visits[::2], visits[1::2], strict=True):
            size = bytes_of[first.storage]
            out, into = self.hop.outward.cycles(size, 1), self.hop.inward.cycles(size, 1)
            self._copies[first.storage] = (
                (first.first + 1, outwards, out, first.end),
                (second.begin, IN, into, second.first - 1),
            )

    def cycles(self, picks: Sequence[int], visiting: Iterable[str]) -> int:
        """Cycles of one update under a choice."""
        starts: dict[int, list[_Copy]] = {}
        for copy in (copy for storage in visiting for copy in self._copies[storage]):
            starts.setdefault(copy[0], []).append(copy)
        return sum(self._weights[steps.start] * self._graph(steps, picks, starts) for steps in self._graphs)

    def _graph(self, steps: range, picks: Sequence[int], starts: Mapping[int, Sequence[_Copy]]) -> int:
        """Cycles of the steps of a graph, in which these copies start."""
        awaited: dict[int, int] = {}
        now, free = 0, [0, 0]
        for step in steps:
            if step in starts:
                for _, way, cycles, end in starts[step]:
                    now += self._begin
                    free[way] = max(now, free[way]) + cycles
                    awaited[end] = max(awaited.get(end, 0), free[way])
            pick = picks[step]
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
            if step in awaited:
                now = max(now, awaited.pop(step))
        return now

    def _computed(self, step: int, pick: int, lags: Lags) -> _Run:
        """The run of a step's candidate that has a stage."""
        if pick not in self._runs[step]:
            flow = self._flows[step, pick] = self._flow(step, pick)
            self._runs[step][pick] = self._known.setdefault(flow, {})
        known = self._runs[step][pick]
        if lags not in known:
            known[lags] = _run(self._flows[step, pick], lags, self.hop)
        return known[lags]


def _spans(schedule: Schedule) -> list[range]:
    """The steps of each graph."""
    graphs = itertools.groupby(schedule.steps, key=lambda step: step.graph)
    indices = ([step.index for step in steps] for _, steps in graphs)
    return [range(steps[0], steps[-1] + 1) for steps in indices]


def _run(flow: Flow, lags: Lags, hop: Hop) -> _Run:
    """A step on the clock: with double buffering the next tile comes and the last one goes while one is worked on."""
    free, now = list(lags), 0
    ways = IN, IN if hop.shared else OUT

    def start(passages: Sequence[Passage], tile: int, way: int) -> int:
        """Start the transfers of a tile whose boxes differ from those of the tile before, or the one behind."""
        nonlocal now
        near = tile - 1 if way == IN else tile + 1
        for cycles, count in passages:
            if not 0 <= near < flow.tiles or tile * count // flow.tiles != near * count // flow.tiles:
                now += hop.issue
                free[ways[way]] = max(now, free[ways[way]]) + cycles
        return free[ways[way]] if passages else 0

    double, ended = flow.buffering == "double", [0, 0]
    fetched = start(flow.inward, 0, IN) if double else 0
    for tile in range(flow.tiles):
        awaited = fetched if double else start(flow.inward, tile, IN)
        if double and tile + 1 < flow.tiles:
            fetched = start(flow.inward, tile + 1, IN)
        now = max(now, awaited, ended[-2]) + flow.inner
        ended.append(start(flow.outward, tile, OUT))
        if not double:
            now = max(now, ended[-1])
    now = max(now, ended[-1])
    return now, (max(free[IN] - now, 0), max(free[ways[OUT]] - now, 0))
