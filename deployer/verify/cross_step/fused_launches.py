"""Judge of batched dispatches: steps that share one start of the cores call one kernel, in any order.

Rule: bundle. Cores are at different steps of a bundle at the same time, so none may touch a byte that another writes.
"""

import itertools
from collections import Counter
from collections.abc import Mapping

from deployer.core.level import FusedLaunch
from deployer.core.operator import Flag
from deployer.core.plan import Home, Plan, PlanStep
from deployer.core.traits import UpdateNumber
from deployer.verify.tiling import need


def check_fused_launches(plan: Plan) -> None:
    """Each bundle is some steps of one graph without transfers, and none of them writes what another one touches."""
    _need(plan.options.fuse or not plan.fused_launches, "steps share a start, which the options forbid")
    homes, end = {home.storage: home for home in plan.homes}, 0
    for launch in plan.fused_launches:
        place = f"steps {launch.first} to {launch.last} share a start"
        _need(end <= launch.first < launch.last < len(plan.steps), f"{place}, and are not two or more behind others")
        end = launch.last + 1
        steps = plan.steps[launch.first : end]
        _alike(plan, launch, steps, place)
        for one, other in itertools.combinations([_touched(step, homes) for step in steps], 2):
            _apart(one, other, place)


def _need(holds: bool, cause: str) -> None:
    need(holds, "bundle", cause)


def _alike(plan: Plan, launch: FusedLaunch, steps: tuple[PlanStep, ...], place: str) -> None:
    """The steps are of one graph and kernel, their tables lie side by side, and only their kernels run in them."""
    users, first = Counter(plan.tables), steps[0]
    for step in steps:
        at = f"{place}, and step {step.index} {step.name!r}"
        _need(step.graph == first.graph and step.kernel == first.kernel, f"{at} is of another graph or kernel")
        _need(_set_at_run_time(step) == _set_at_run_time(first), f"{at} has other arguments that passes change")
        _need(len(step.tile_cycles) == 1, f"{at} has {len(step.tile_cycles)} tiles")
        moved = [o.arg for o in step.operands if o.slots or o.stage_slots]
        _need(not moved, f"{at} moves {moved[:1]}")
        _need(not plan.tables or users[plan.tables[step.index]] == 1, f"{at} shares its argument table")
        crossed = [c.step for c in plan.cross_step_transfers if c.at == step.index]
        _need(not crossed, f"transfers of step {crossed[:1]} begin or end in step {step.index}")
    fetching = [step for step in launch.followers if step in plan.groups]
    _need(not fetching, f"{place}, and a group of argument tables begins at step {fetching[:1]}")


def _set_at_run_time(step: PlanStep) -> dict[str, object]:
    return {name: value for name, value in step.args.items() if isinstance(value, Flag | UpdateNumber)}


def _touched(step: PlanStep, homes: Mapping[str, Home]) -> list[tuple[Home, bool]]:
    """The homes of a step's operands, and whether it writes them."""
    return [(homes[o.storage], o.mode != "in") for o in step.operands]


def _apart(one: list[tuple[Home, bool]], other: list[tuple[Home, bool]], place: str) -> None:
    """No byte that the one step writes is among those that the other reads or writes."""
    for (a, writes), (b, changes) in itertools.product(one, other):
        apart = a.level != b.level or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        _need(apart or not (writes or changes), f"{place}, and two use bytes of {a.storage!r} that one of them writes")
