"""Samplers choose the values of the next runs: a grid, a random generator, or a study of Optuna."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

from deployer.core.errors import OptionProblem, ToolMissing
from deployer.sweeps.axes import SweptOption, Values, drawn_values, grid
from deployer.sweeps.options import GRID, RANDOM
from deployer.sweeps.records import SweptResult

Goal = tuple[str, str]
"""A column of the table, and whether to minimize or maximize it."""
MOST_RUNS = 100_000


class RunSampler(Protocol):
    """Gives the values of runs until it has none, and is told in order what came of them."""

    def ask(self) -> list[Values]:
        """The values of the next runs; none at the end."""

    def tell(self, results: Sequence[SweptResult]) -> None:
        """Take the results of the runs that were asked for, in their order."""


class Listed:
    """Runs that are known from the beginning: all of a grid, or as many drawn ones."""

    def __init__(self, values: Sequence[Values]) -> None:
        """All at once."""
        self.values = list(values)

    def ask(self) -> list[Values]:
        """All of them, then none."""
        asked, self.values = self.values, []
        return asked

    def tell(self, results: Sequence[SweptResult]) -> None:
        """Learn nothing."""


class OptunaStudy:
    """A study that proposes runs by its seed and what it was told: the same for any number of workers.

    Raises ToolMissing without the package.
    """

    def __init__(self, options: Sequence[SweptOption], goals: Sequence[Goal], seed: int, runs: int, batch: int) -> None:
        """A study in memory: a resumed sweep tells it again what lies in the folder."""
        try:
            import optuna
        except ImportError as error:
            raise ToolMissing("Optuna is not installed", hint="pip install optuna, or --sampler random") from error
        if not goals:
            raise OptionProblem("--sampler optuna has no goal", hint="--minimize loss, or --maximize COLUMN")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.options, self.goals, self.left, self.batch = options, goals, runs, batch
        directions = [direction for _, direction in goals]
        self.study = optuna.create_study(directions=directions, sampler=optuna.samplers.TPESampler(seed=seed))
        self.failed = optuna.trial.TrialState.FAIL
        self.asked: list[Any] = []

    def ask(self) -> list[Values]:
        """The next ones, as many as are always asked for at once."""
        self.asked = [self.study.ask() for _ in range(min(self.batch, self.left))]
        self.left -= len(self.asked)
        return [{o.name: self._suggested(trial, o) for o in self.options} for trial in self.asked]

    def _suggested(self, trial: Any, option: SweptOption) -> str:
        if option.choices:
            return str(trial.suggest_categorical(option.name, option.choices))
        return option.value(trial.suggest_float(option.name, 0.0, 1.0))

    def tell(self, results: Sequence[SweptResult]) -> None:
        """Take the goals' numbers; a run without one of them has failed."""
        for trial, result in zip(self.asked, results, strict=True):
            numbers = [result.numbers.get(column) for column, _ in self.goals]
            if result.outcome != "passed" or None in numbers:
                self.study.tell(trial, state=self.failed)
            else:
                self.study.tell(trial, numbers)


def sampler_of(
    name: str, options: Sequence[SweptOption], goals: Sequence[Goal], seed: int, runs: int | None, batch: int
) -> RunSampler:
    """The sampler of a name; `runs` bounds it, `batch` is how many runs are asked for at once.

    Raises OptionProblem where the number of runs is missing, or above 100 000.
    """
    if name == GRID:
        values = list(islice(grid(options), MOST_RUNS + 1))
        if len(values) > MOST_RUNS:
            raise OptionProblem(f"the grid has more than {MOST_RUNS} runs", hint="--sampler random --runs N")
        return Listed(values[:runs])
    if runs is None:
        raise OptionProblem(f"--sampler {name} has no number of runs", hint="--runs N")
    if name == RANDOM:
        return Listed([drawn_values(options, seed, number) for number in range(runs)])
    return OptunaStudy(options, goals, seed, runs, batch)
