"""Programs of a run in stretches, planned and built; and the course that the rates of such a run take."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from deployer import pipeline
from deployer.codegen import generate
from deployer.core import artefact
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options, Plan, Running
from deployer.frontend.dataset import NO_RATES
from deployer.planning.plan_choice import Progress, silent
from deployer.rates.course import Course
from deployer.rates.windows import Updates
from deployer.running import build, output
from deployer.training.problem import Problem
from deployer.verify.tolerances import TOLERANCES

UNTIL_TOLD = Running((1 << 31) - 1, TOLERANCES.loss, 0)
"""Running of programs whose input says how many passes they make."""


def build_stretch(
    program: Program, options: Options, directory: Path, force: bool = False, progress: Progress = silent
) -> Plan:
    """Plan a program and build what makes stretches of its run, in a folder; the plan."""
    plan = pipeline.plan_program(program, options, progress, UNTIL_TOLD)[1]
    progress("build")
    files = {**generate.stretch_files(plan), "plan.json": artefact.dumps(plan)}
    with output.opened(directory, files, force):
        pipeline.write_files(files, directory, force)
        build.build_program(plan, directory)
    return plan


@dataclass(frozen=True, eq=False)
class Rates:
    """The rate of each of the updates that a run makes, by its course if it has one.

    `shown` are those of parameters that have none of their own.
    """

    problem: Problem
    course: Course | None
    updates: Updates
    shown: Array

    def of_pass(self, index: int) -> float:
        """The rate of the update that the pass of that index is in."""
        if not self.shown.size:
            return self.problem.learning_rate
        return float(self.shown[min(index // self.updates.each, len(self.shown) - 1)])

    def rated(self, program: Program) -> tuple[Program, Array]:
        """The program, and the rates that it takes when it runs, float32 [updates, groups]; none without a course."""
        return (
            (program, NO_RATES) if self.course is None else self.problem.rated(program, self.course, self.updates.count)
        )

    @property
    def origin(self) -> str:
        """What the bits of a run follow from: without a course not the number of updates, with one all their rates."""
        if self.course is None:
            return "constant"
        digest = sha256(self.shown.tobytes()).hexdigest()[:16]
        return f"{self.course.schedule.name}, {self.updates.count} updates, {digest}"


def rates_of(problem: Problem, course: Course | None, updates: Updates) -> Rates:
    """The rates of a run with these updates; OptionProblem, as `Course.rates` has it, for a course that is none."""
    shown = NO_RATES
    if course is not None:
        own = [problem.learning_rate, *(rule.rate for rule in problem.rules.values())]
        shown = course.rates(own, updates.count, problem.learning_rate)[:, 0]
    return Rates(problem, course, updates, shown)
