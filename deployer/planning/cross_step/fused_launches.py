"""Fused launches: consecutive steps that need neither transfers nor each other share one start of the cores.

The end of a start is a wait for all cores, and the next one's beginning is core 0's alone. Where the tensors are small
that takes longer than the work: a network's biases and norms have an update of some 60 cycles of work each.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from deployer.core.kernel import Flag, UpdateNumber
from deployer.core.level import FusedLaunch, followers
from deployer.core.plan import Home, Plan, PlanStep, target_of
from deployer.loops.graph_program import Lowered, timed
from deployer.loops.moves import copies
from deployer.tilers.levels.tables import sharers


def with_fused_launches(plan: Plan, lowered: Lowered) -> Plan:
    """The plan with all fused launches that it allows, and the cycles that its steps then have.

    There are none where one core runs the kernels, nor where the options forbid rewrites; a step that `opt_out` names
    is in no fused launch. `lowered` is for speed.
    """
    target = target_of(plan.options)
    if not plan.options.allow_rewrites or target.cores == 1:
        return plan
    fused_launches = tuple(
        FusedLaunch(steps[0].index, steps[-1].index) for steps in _Choice(plan).runs() if len(steps) > 1
    )
    following = followers(fused_launches)
    steps = tuple(_following(s, target.dispatch) if s.index in following else s for s in plan.steps)
    plan = replace(plan, steps=steps, fused_launches=fused_launches)
    return timed(plan, lowered) if (plan.cross_step_transfers or plan.residencies) and fused_launches else plan


def _following(step: PlanStep, dispatch: int) -> PlanStep:
    """A step that runs in the start of another: of its cycles those of its kernel remain."""
    cycles = step.tile_cycles[0] - dispatch
    return replace(step, tile_cycles=(cycles,), cycles=cycles)


class _Choice:
    """Fused launches of one plan, each of as many steps as possible."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.homes = {home.storage: home for home in plan.homes}
        self.busy = {c.at for c in plan.cross_step_transfers} | set(sharers(plan.tables))
        self.busy |= {at for copy in copies(plan) for at in (copy.start, copy.end)}

    def runs(self) -> Iterator[list[PlanStep]]:
        """Consecutive steps that may share a start, in as few runs as there can be."""
        run: list[PlanStep] = []
        for step in self.plan.steps:
            if run and not (self._may_share(step) and self._joins(run, step)):
                yield run
                run = []
            if run or self._may_share(step):
                run.append(step)
        yield run

    def _may_share(self, step: PlanStep) -> bool:
        """Whether a step is one kernel call on homes, around which nothing else happens."""
        whole = all(d.tile == d.size for d in step.dims) and not step.staging
        resident = not any(slots.count for o in step.operands for slots in o.places)
        named = step.name in self.plan.options.opt_out
        return whole and resident and not named and step.index not in self.busy

    def _joins(self, run: Sequence[PlanStep], step: PlanStep) -> bool:
        """Whether a step may share the start of those before it: the same kernel, and none writes what another uses."""
        first = run[0]
        alike = _like(step) == _like(first)
        if not alike or step.index in self.plan.groups:
            return False
        used = [home for other in run for home in self._used(other)]
        written = [home for other in run for home in self._used(other, written=True)]
        return not (_meet(written, self._used(step)) or _meet(used, self._used(step, written=True)))

    def _used(self, step: PlanStep, written: bool = False) -> list[Home]:
        """The homes of a step's operands, or of those that it writes."""
        return [self.homes[o.storage] for o in step.operands if o.mode != "in" or not written]


def _like(step: PlanStep) -> tuple[object, ...]:
    """Return the properties that the steps of a fused launch share."""
    return step.graph, step.kernel, _changing(step)


def _changing(step: PlanStep) -> list[tuple[str, object]]:
    """The kernel arguments that are not the same in all passes; each step of a fused launch gets them alike."""
    return [(name, value) for name, value in step.args.items() if isinstance(value, Flag | UpdateNumber)]


def _meet(some: Iterable[Home], others: Sequence[Home]) -> bool:
    """Whether two homes share bytes: those of tensors that live one after the other may."""
    return any(a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes for a in some for b in others)
