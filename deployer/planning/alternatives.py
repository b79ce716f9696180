"""Candidate plan: the tiling of a program under one strategy; workers prepare what depends on no other candidate."""

from typing import NamedTuple

from deployer.core.errors import InternalError
from deployer.core.level import L_INNER
from deployer.core.plan import Tiling
from deployer.planning.workers import ProgressCounter, Workers
from deployer.tilers.levels.inner import InnerLevel, carried
from deployer.tilers.levels.middle_level import MiddleLevel, fits
from deployer.tilers.levels.model import HomeProblem, HomeSelection, fewest, greedy, improved
from deployer.tilers.levels.staging import NOTHING, Spill


class Prepared(NamedTuple):
    """The inner level's problem under what is spilled, and its greedy choice.

    `solved` says that the solver has been started there already, and `choice` is what it found.
    """

    spill: Spill
    problem: HomeProblem
    start: HomeSelection | None
    solved: bool
    choice: HomeSelection | None


class Alternative:
    """One strategy and the levels it tiles. Storages are spilled only if the homes do not fit the middle level."""

    def __init__(
        self,
        name: str,
        inner: InnerLevel,
        middle: MiddleLevel,
        packing_slack: tuple[int, ...],
        workers: Workers,
        progress: ProgressCounter,
        others: tuple[str, ...] = (),
        searched: bool = False,
    ) -> None:
        """Workers begin at once. One behind `others`, which are names, is likely to start from another's tiling, and
        waits for that. With `searched` the homes of the middle level are those that its clock prefers.
        """
        self.progress, self.others, self.searched = progress, others, searched
        self.name, self.inner, self.middle, self.packing_slack, self.workers = (
            name,
            inner,
            middle,
            packing_slack,
            workers,
        )
        self.may_spill = inner.lifetimes.schedule.options.outermost != inner.target.usual.name
        # Homes in the innermost level may make up for some that do not fit.
        most = middle.capacity + inner.target.levels[L_INNER].budget
        self.spills_first = self.may_spill and not self._fit(most, frozenset())
        progress.expect(2 + self.spills_first)
        self._result = workers.call(self._prepared, self.spills_first, workers.jobs > 1 and not others)

    def tiling(self, earlier: Tiling | None) -> Tiling:
        """The strategy's tiling; by the solver's estimate no worse than an `earlier` one that it could have, too."""
        tiling = self._solved(self._result(), earlier)
        room = self.middle.capacity
        if self.may_spill and not self.spills_first and not self._fit(room, frozenset(tiling.resident)):
            self.progress.expect(3)
            return self._solved(self._prepared(True, False), earlier)
        return tiling

    def _fit(self, room: int, resident: frozenset[str]) -> bool:
        return fits(self.inner.lifetimes, self.inner.target, room, resident)

    def _prepared(self, spills: bool, solves: bool) -> Prepared:
        """Prepare the comparison with an earlier candidate; `solves` improves the greedy choice by the solver."""
        spill = NOTHING
        if spills:
            spill = self.middle.spill(self.name, self.inner, self.searched, self.others)
            self._end(f"{self.inner.target.usual.name} tiled")
        problem = self.inner.problem(self.name, spill)
        start = greedy(problem)
        self._end(f"candidates of {self.inner.level.name}")
        return Prepared(spill, problem, start, solves, improved(problem, start) if solves else None)

    def _end(self, what: str) -> None:
        """One part is done; a worker stops here where nobody asks for the next."""
        self.workers.proceed()
        self.progress.end(f"{self.name}: {what}")

    def _solved(self, prepared: Prepared, earlier: Tiling | None) -> Tiling:
        """The solver's tiling from the `earlier` one or from the greedy choice, whichever takes fewer cycles."""
        spill, problem = prepared.spill, prepared.problem
        hint = carried(problem, earlier, spill) if earlier else None
        start = fewest(hint, prepared.start)
        choice = prepared.choice if prepared.solved and start is prepared.start else improved(problem, start)
        if choice is None:
            raise InternalError("every step fits alone, and the tiling model found nothing")
        self._end(f"{self.inner.level.name} tiled")
        return self.inner.tiling(problem, choice, spill, self.packing_slack)
