"""The verdict on a run: some of its passes repeated in float64, each from the state that the program had before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.frontend.dataset import NO_RATES, Dataset
from deployer.lr_schedules.windows import Updates
from deployer.verify.checks import Judge, PassCheck
from deployer.verify.flips import Budget
from deployer.verify.same_state import OnePass
from deployer.verify.systematic import Systematic
from deployer.verify.tolerances import TOLERANCES


@dataclass(frozen=True)
class FitChecks:
    """Passes of a run that were repeated in float64, of the `passes` that it made: each with its worst error.

    `explained` counts turned decisions. A run that is resumed has those that it checked since.
    """

    passes: int = 0
    rows: tuple[PassCheck, ...] = ()
    explained: int = 0


@dataclass
class SampledPasses:
    """Checks passes of a program as they are made; `rows` and `faults` grow, `explained` counts flipped decisions.

    `updates` are those of the run, `rates` theirs by groups where the program takes them when it runs.
    """

    program: Program
    updates: Updates
    rates: Array = field(default_factory=lambda: NO_RATES)
    rows: list[PassCheck] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    explained: int = 0
    budget: Budget = field(default_factory=Budget)
    sums: Systematic = field(default_factory=Systematic)

    def check(
        self, index: int, before: Mapping[str, Array], after: Mapping[str, Array], loss: float, sample: Sequence[Array]
    ) -> None:
        """Compare one pass with the float64 reference from the same state."""
        each, flush = self.updates.each, self.updates.flushes(index)
        dataset = Dataset((tuple(sample),), {}, index + 1, each, (), {}, rates=self.rates, flush=flush)
        one = OnePass(self.program, dataset, index, before, after, loss)
        judge = Judge(self.program, dataset, TOLERANCES.loss, [one], self.budget, self.sums)
        found = judge.checks()
        self.sums = judge.sums
        self.rows += found.rows
        self.faults += found.faults
        self.explained += len(found.explained)

    @property
    def verdict(self) -> str:
        """As that of the check of a run: passed, explained or failed; unchecked where no pass was."""
        if self.faults:
            return "failed"
        return "explained" if self.explained else "passed" if self.rows else "unchecked"

    def record(self, passes: int) -> FitChecks:
        """The numbers of the check of a run that made so many passes."""
        return FitChecks(passes, tuple(self.rows), self.explained)

    @property
    def text(self) -> str:
        """Summarize the checked passes in one line."""
        if not self.rows:
            return "no pass checked"
        worst = max(self.rows, key=lambda row: row.severity)
        share = f"{100 * worst.severity:.2g} % of the bound (pass {worst.index}, {worst.worst})"
        return f"per-step check: {len(self.rows)} passes checked, at most {share}"
