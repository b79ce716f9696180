"""The judge of options in an artefact: a file's options obey the rules of the command line."""

import math

from deployer.core.errors import OptionProblem
from deployer.core.plan import Options, RunOptions
from deployer.core.target import Target, load, names
from deployer.tilers.strategies.strategy import registry

MOST_PASSES = (1 << 31) - 1
LARGEST_FLOAT = 3.4028234663852886e38
"""The largest float32: the harness compares losses in that type."""


def verify_options(options: Options) -> Target:
    """The target with the options' budgets and cores; raises OptionProblem for options that it cannot have."""
    _need(options.target in names(), f"there is no target {options.target!r}")
    _need(options.strategy in registry(), f"there is no buffering {options.strategy!r}")
    _need(1 <= options.accumulate <= MOST_PASSES, f"{options.accumulate} passes per update")
    try:
        target = load(options.target).with_options(options.budgets or {}, options.cores)
        target.within(options.outermost)
    except OptionProblem as problem:
        hint = f"make the artefact again with other options: {problem.hint}"
        raise OptionProblem(f"the options do not fit: {problem.cause}", problem.facts, hint) from problem
    return target


def verify_running(running: RunOptions) -> None:
    """Raise OptionProblem for numbers of passes or a tolerance of the loss that a harness cannot have."""
    _need(1 <= running.passes <= MOST_PASSES, f"{running.passes} passes")
    tolerable = math.isfinite(running.tolerance) and 0 <= running.tolerance <= LARGEST_FLOAT
    _need(tolerable, f"a tolerance of {running.tolerance}")
    _need(0 <= running.checked <= running.passes, f"{running.checked} of {running.passes} passes to check")


def _need(holds: bool, cause: str) -> None:
    if not holds:
        raise OptionProblem(f"the options do not fit: {cause}", hint="make the artefact again with other options")
