"""Programs of a run's segments, planned and built; and the learning-rate schedule of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import artefact
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan, RunOptions
from deployer.frontend.dataset import NO_RATES
from deployer.lr_schedules.lr_schedule import LrSchedule
from deployer.lr_schedules.windows import Updates
from deployer.planning.plan_choice import Progress, silent
from deployer.running import build, output
from deployer.training.problem import Problem
from deployer.verify.tolerances import TOLERANCES

UNTIL_TOLD = RunOptions((1 << 31) - 1, TOLERANCES.loss, 0)
"""Running of programs whose input says how many passes they make."""


def build_segment(
    program: Program, options: Options, directory: Path, force: bool = False, progress: Progress = silent
) -> Plan:
    """Plan a program and build what makes stretches of its run, in a folder; the plan."""
    plan = pipeline.plan_program(program, options, progress, UNTIL_TOLD)[1]
    progress("build")
    files = {**generate.segment_files(plan), "plan.json": artefact.dumps(plan)}
    with output.opened(directory, files, force):
        pipeline.write_files(files, directory, force)
        build.build_program(plan, directory)
    return plan


@dataclass(frozen=True, eq=False)
class Rates:
    """Learning rate of each update of a run, by its schedule if it has one.

    `shown` are those of parameters that have none of their own.
    """

    problem: Problem
    lr_schedule: LrSchedule | None
    updates: Updates
    shown: Array

    def of_pass(self, index: int) -> float:
        """The rate of the update that the pass of that index is in."""
        if not self.shown.size:
            return self.problem.learning_rate
        return float(self.shown[min(index // self.updates.each, len(self.shown) - 1)])

    def rated(self, program: Program) -> tuple[Program, Array, tuple[float, ...]]:
        """The program, the rates that it takes when it runs, float32 [updates, groups], and the groups' own rates.

        No rates without a course.
        """
        if self.lr_schedule is None:
            return program, NO_RATES, ()
        return self.problem.rated(program, self.lr_schedule, self.updates.count)

    def follow(self, trained: Array, bases: Sequence[float], values: Sequence[float], passes: int) -> None:
        """Set the rates of the updates after `passes`, by the monitored metric of each epoch, where a schedule does so.

        `trained` are those that the program takes, by the groups' own rates `bases`; they and `shown` change in place.
        """
        if self.lr_schedule is None or not self.lr_schedule.watches or not values:
            return
        first = passes // self.updates.each
        trained[first:] = self.lr_schedule.after_epochs(bases, values)
        self.shown[first:] = self.lr_schedule.after_epochs([self.problem.learning_rate], values)[0]

    @property
    def origin(self) -> str:
        """Key of the rates that determine a run's bits: all rates with a schedule, a constant without one."""
        if self.lr_schedule is None:
            return "constant"
        digest = sha256(self.shown.tobytes()).hexdigest()[:16]
        return f"{self.lr_schedule.schedule.name}, {self.updates.count} updates, {digest}"


def rates_of(problem: Problem, lr_schedule: LrSchedule | None, updates: Updates) -> Rates:
    """The rates of a run with these updates; OptionProblem, as `LrSchedule.rates` has it, for a course that is none."""
    shown = NO_RATES
    if lr_schedule is not None:
        own = [problem.learning_rate, *(rule.rate for rule in problem.rules.values())]
        shown = lr_schedule.rates(own, updates.count, problem.learning_rate)[:, 0]
    return Rates(problem, lr_schedule, updates, shown)
