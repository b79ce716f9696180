"""Place: an address for every home, slot and table in every level, and with it the plan."""

from deployer.access import box_shape, loads
from deployer.artefact import digest
from deployer.errors import PlacementInfeasible
from deployer.ir import Tensor
from deployer.plan import (
    Home,
    LevelUse,
    Lifetime,
    Plan,
    PlanDim,
    PlanOperand,
    PlanStep,
    Step,
    StepTiling,
    Tiling,
)
from deployer.simulate import simulate
from deployer.stages.tile import target_for
from deployer.target import Target
from deployer.tilers.candidates import rounded
from deployer.tilers.placement import Item, Placement, place


class PackingGap(Exception):
    """Live buffers fit the inner level in sum but were not packed into it; tile again with `gap` bytes less."""

    def __init__(self, gap: int) -> None:
        super().__init__(f"{gap} B")
        self.gap = gap


def run(tiling: Tiling) -> Plan:
    """Pack both levels. Raises PackingGap for the inner one, PlacementInfeasible for the outer."""
    schedule = tiling.lifetimes.schedule
    target = target_for(schedule)
    inner, outer = target.levels[0], target.levels[1]
    resident = set(tiling.resident)
    homes = {
        level: [x for x in tiling.lifetimes.storages if (x.storage in resident) == (level == inner.name)]
        for level in (inner.name, outer.name)
    }
    slots = _slot_items(tiling, target)
    items = [*(_home_item(x, target) for x in homes[inner.name]), *slots]
    placed = {inner.name: _above(place(items, inner.budget - tiling.table_bytes, target.alignment), tiling.table_bytes)}
    if placed[inner.name].height > inner.budget:
        raise PackingGap(tiling.gap + placed[inner.name].height - inner.budget)
    placed[outer.name] = place([_home_item(x, target) for x in homes[outer.name]], outer.budget, target.alignment)
    if placed[outer.name].height > outer.budget:
        raise _outer_full(placed[outer.name], homes[outer.name], target)
    tensors = schedule.program.tensors
    plan_homes = [
        _home(x, tensors[x.storage], level.name, placed[level.name].offsets[f"home {x.storage}"])
        for level in (inner, outer)
        for x in homes[level.name]
    ]
    steps = [
        _step(step, choice, tiling, target, placed[inner.name])
        for step, choice in zip(schedule.steps, tiling.steps, strict=True)
    ]
    used = [LevelUse(x.name, x.budget, placed[x.name].height, placed[x.name].bound) for x in (inner, outer)]
    program = schedule.program
    return Plan(
        options=schedule.options,
        digest=digest(tiling),
        levels=tuple(used),
        table_bytes=tiling.table_bytes,
        homes=tuple(plan_homes),
        graphs=tuple(graph.name for graph in program.graphs),
        steps=tuple(steps),
        data=program.data,
        weights=program.weights,
        outputs=program.outputs,
        storage_of={n: program.storage(n) for n in (*program.data, *program.weights, *program.outputs)},
    )


def _above(placement: Placement, base: int) -> Placement:
    """The same packing with `base` bytes below it: the argument tables lie at offset 0."""
    offsets = {name: at + base for name, at in placement.offsets.items()}
    return Placement(offsets, placement.height + base, placement.bound + base)


def _home_item(life: Lifetime, target: Target) -> Item:
    return Item(f"home {life.storage}", rounded(life.bytes, target.alignment), life.first, life.last)


def _slot_name(step: Step, arg: str) -> str:
    return f"slot {step.index} {arg}"


def _slot_bytes(step: Step, choice: StepTiling, arg: str, target: Target) -> int:
    """Bytes of one slot: the largest box of the operand, on the alignment."""
    operand = step.access.operand(arg)
    size = 4
    for length in box_shape(operand, step.access, choice.tile):
        size *= length
    return rounded(size, target.alignment)


def _slot_items(tiling: Tiling, target: Target) -> list[Item]:
    """The slots of one operand are one buffer, live in its step alone."""
    items = []
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        for arg, count in choice.slots.items():
            if count:
                size = count * _slot_bytes(step, choice, arg, target)
                items.append(Item(_slot_name(step, arg), size, step.index, step.index))
    return items


def _home(life: Lifetime, tensor: Tensor, level: str, offset: int) -> Home:
    return Home(
        life.storage,
        tensor.type,
        level,
        offset,
        life.bytes,
        life.first,
        life.last,
        life.loaded,
        life.persistent,
    )


def _step(step: Step, choice: StepTiling, tiling: Tiling, target: Target, placed: Placement) -> PlanStep:
    program = tiling.lifetimes.schedule.program
    fresh = tiling.lifetimes.schedule.options.accumulate == 1
    result = simulate(step, choice, target, fresh)
    operands = []
    for o in step.access.operands:
        slots = choice.slots[o.arg]
        offset = placed.offsets[_slot_name(step, o.arg)] if slots else 0
        size = _slot_bytes(step, choice, o.arg, target) if slots else 0
        operands.append(
            PlanOperand(
                o.arg,
                o.tensor,
                program.storage(o.tensor),
                o.mode,
                o.view,
                o.axes,
                o.fresh_on_flag,
                slots,
                size,
                offset,
            )
        )
        assert slots < 2 or loads(o, step.access, choice.tile, choice.order) > 1
    dims = [
        PlanDim(d.name, d.size, choice.tile[d.name], d.kind == "reduction")
        for d in (step.access.dim(name) for name in choice.order)
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
        tile_cycles=result.tile_cycles,
        timeline=result.timeline,
        cycles=result.cycles,
        bytes_in=result.bytes_in,
        bytes_out=result.bytes_out,
    )


def _outer_full(placed: Placement, homes: list[Lifetime], target: Target) -> PlacementInfeasible:
    level = target.levels[1]
    largest = sorted(homes, key=lambda x: (-x.bytes, x.storage))[:3]
    facts = [
        ("needed", f"{placed.height} B, {placed.bound} B live at once"),
        ("available", f"{level.budget} B"),
        ("largest", ", ".join(f"{x.storage} {x.bytes} B" for x in largest)),
    ]
    hint = f"--{level.name.lower()} {placed.height}, or fewer trainable weights"
    return PlacementInfeasible(f"the tensors do not fit {level.name} of target {target.name!r}", facts, hint)
