"""The timeline of a step: its loop program run on the clock of the cost model, transfer by transfer."""

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from deployer.core.access import Broadcast, Span, Whole
from deployer.core.cost import Clock, cold_start, kernel_cycles
from deployer.core.level import L_HOME, L_INNER
from deployer.core.plan import PlanDim, PlanOperand, PlanStep, Schedule, Staging, Step, StepTiling, Timeline
from deployer.core.target import Target
from deployer.kernel_variants.calls import costed_for
from deployer.kernel_variants.conditions import KernelVariant
from deployer.kernel_variants.costs import CostedWork, costed_work
from deployer.loops.lower import lower
from deployer.loops.program_run import ProgramRun
from deployer.loops.tile_loop import FLAG
from deployer.tilers.levels.geometry import kinds, loop_key
from deployer.tilers.levels.tables import fetch_cycles, fetched_bytes, fixed_addresses, sharers

Tiles = list[dict[str, Span]]


@dataclass(frozen=True)
class StepRun:
    """The cost of a step under the model: cycles of the step and of each kernel call, waits per tile, bytes moved."""

    cycles: int
    tile_cycles: tuple[int, ...]
    timeline: Timeline
    bytes_in: int
    bytes_out: int
    staging: Staging | None


def simulate(step: Step, choice: StepTiling, target: Target, fresh: bool, fetched: int = 0) -> StepRun:
    """Run the step's program on the clock. `fresh` says that the lazy-reset flag of the pass is set.

    The step begins with the fetch of that many bytes of argument tables.
    """
    kernels = _kernels(step, choice, target, list(choice.walk(step.access)))
    clock = Clock(target.hops, target.contention if choice.buffering == "double" else 0)
    clock.run(target.step + fetch_cycles(fetched, target, clock.contention))
    run = ProgramRun(clock, kernels, {FLAG.name: int(fresh)})
    run.block(lower(drafted(step, choice), fetched).body)
    staging = None
    if choice.stage is not None:
        stage, moved = choice.stage, run.moved[L_HOME]
        staging = Staging(
            stage.order, stage.buffering, moved["in"], moved["out"], clock.busy.get(L_HOME, 0), run.stage_wait
        )
    timeline = Timeline(tuple(run.waits["in"]), tuple(run.waits["out"]))
    inner = run.moved[L_INNER]
    return StepRun(clock.now, kernels, timeline, inner["in"], inner["out"], staging)


class StepRuns:
    """Runs of a schedule's steps on the clock; one run serves all steps of equal geometry with the same choice.

    It holds no name, and arguments, which the geometry does not cover, cost nothing. The first steps of `groups` fetch
    argument tables; `tables` are those of the steps that share them.
    """

    def __init__(
        self,
        schedule: Schedule,
        target: Target,
        groups: Sequence[int] = (),
        tables: Sequence[int] = (),
        known: "StepRuns | None" = None,
    ) -> None:
        """`known` are those of the same schedule and target with other tables, whose runs serve here as well."""
        self.target, self.fresh, self.kinds = target, schedule.options.updates_every_pass, kinds(schedule.steps)
        self.fetched, self.sharing = fetched_bytes(groups, schedule.steps, target), frozenset(sharers(tables))
        self._runs: dict[Hashable, StepRun] = known._runs if known else {}

    def with_tables(self, tables: Sequence[int]) -> "StepRuns":
        """Those of the same schedule with these tables that steps share, and no groups; both know each other's runs."""
        others = copy(self)
        others.fetched, others.sharing = {}, frozenset(sharers(tables))
        return others

    def of(self, step: Step, choice: StepTiling) -> StepRun:
        """The run of a step of the schedule; one that shares its table first sets the addresses in it."""
        fetched = self.fetched.get(step.index, 0)
        key = (self.kinds[step.index], step.icache_miss_permille, loop_key(choice), loop_key(choice.stage), fetched)
        if key not in self._runs:
            self._runs[key] = simulate(step, choice, self.target, self.fresh, fetched)
        run = self._runs[key]
        if step.index not in self.sharing:
            return run
        return replace(run, cycles=run.cycles + self.target.arg_patch * fixed_addresses(drafted(step, choice)))


def drafted(step: Step, choice: StepTiling) -> PlanStep:
    """The plan's step before placement and simulation: without addresses and cycles, with tensors for storages."""
    access, outer, stage = step.access, choice.outer(step.access), choice.stage
    operands = [
        PlanOperand(
            arg=o.arg,
            tensor=o.tensor,
            storage=o.tensor,
            mode=o.mode,
            view=o.view,
            axes=o.axes,
            overwrite_on_first_pass=o.overwrite_on_first_pass,
            slots=choice.slots[o.arg],
            slot_bytes=0,
            slot_offset=0,
            stage_slots=stage.slots.get(o.arg, 0) if stage else 0,
            stage_bytes=0,
            stage_offset=0,
            at_home=o.at_home,
        )
        for o in access.operands
    ]
    dims = [
        PlanDim(d.name, d.size, outer[d.name], choice.tile[d.name], d.kind == "reduction")
        for d in (access.dim(name) for name in choice.order)
    ]
    return PlanStep(
        index=step.index,
        name=step.name,
        graph=step.graph,
        op=step.node.op,
        kernel=step.kernel,
        args=step.args,
        dims=tuple(dims),
        buffering=choice.buffering,
        operands=tuple(operands),
        tile_cycles=(),
        timeline=Timeline((), ()),
        cycles=0,
        bytes_in=0,
        bytes_out=0,
        staging=Staging(stage.order, stage.buffering, 0, 0, 0, 0) if stage else None,
    )


def _kernels(
    step: Step, choice: StepTiling, target: Target, stages: list[tuple[dict[str, Span], Tiles]]
) -> tuple[int, ...]:
    """Cycles of each kernel call: the first with its cold start and what begins a loop, others with code for a tile."""
    function = costed_for(step, drafted(step, choice), target)
    costs: dict[tuple[int, ...], int] = {}
    moved = [
        (frozenset(a.dim for a in o.axes if not isinstance(a, (Broadcast, Whole))), o.reads + o.writes)
        for o in step.access.operands
        if choice.slots.get(o.arg)
    ]
    cycles: list[int] = []
    before: dict[str, Span] = {}
    for _, walk in stages:
        for tile in walk:
            key = tuple(tile[d.name][1] for d in step.access.dims)
            if key not in costs:
                lengths = {d.name: tile[d.name][1] for d in step.access.dims}
                costs[key] = kernel_cycles(target, *_work(step, function, lengths, target))
            if before:
                changed = {name for name, span in tile.items() if span != before[name]}
                starts = sum(directions for dims, directions in moved if dims & changed)
                cycles.append(costs[key] + target.tile + target.dma_issue * starts)
            else:
                cycles.append(costs[key])
            before = tile
    cold = cold_start(target, *_work(step, function, choice.tile, target))
    cycles[0] += cold * step.icache_miss_permille // 1000
    if len(cycles) > 1:
        cycles[0] += target.double_buffer_setup * (choice.buffering == "double")
    return tuple(cycles)


def _work(step: Step, function: KernelVariant | None, lengths: Mapping[str, int], target: Target) -> CostedWork:
    return costed_work(step.kernel.symbol, function, step.node, step.access, lengths, target.kernel_model)
