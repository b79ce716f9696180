"""The tiling of a target with one level: every tensor lies there, and each step is one kernel call on the homes."""

from deployer.core.errors import OptionProblem
from deployer.core.plan import Lifetimes, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.tilers.levels.candidates import canonical_order
from deployer.tilers.levels.tables import resident_tables
from deployer.tilers.strategies.strategy import strategy


def flat_tiling(lifetimes: Lifetimes, target: Target) -> Tiling:
    """The only tiling there is; placement finds out whether it fits. OptionProblem where steps must have two slots."""
    schedule = lifetimes.schedule
    for step in schedule.steps:
        _need_no_slots(step, lifetimes, target)
    tables = resident_tables(schedule.steps, target).bytes
    storages = tuple(sorted(life.storage for life in lifetimes.storages))
    return Tiling(lifetimes, storages, (), tuple(map(_whole, schedule.steps)), tables, ())


def _whole(step: Step) -> StepTiling:
    """The step as one tile that needs no slots."""
    sizes = step.access.sizes
    order = canonical_order(tuple(sizes), sizes, step.access)
    return StepTiling(step.name, dict(sizes), order, "single", {o.arg: 0 for o in step.access.operands})


def _need_no_slots(step: Step, lifetimes: Lifetimes, target: Target) -> None:
    """Raise OptionProblem unless the strategy leaves the step the choice of single buffering."""
    options = lifetimes.schedule.options
    chosen = strategy(options.strategy)
    if "single" in chosen.modes(step, options) and "single" in chosen.stage_modes(step, options):
        return
    levels = ", ".join(level.name for level in target.levels)
    raise OptionProblem(
        f"{options.strategy} buffering has no effect on target {target.name!r}",
        [("levels", f"only {levels}: nothing is transferred"), ("step", f"{step.name!r} ({step.node.op})")],
        "leave it out, or --buffering auto",
    )
