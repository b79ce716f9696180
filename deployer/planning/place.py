"""Place: an address for every home, slot and table in every level, and with it the plan."""

from collections.abc import Mapping
from dataclasses import replace

from deployer.core.access import box_shape
from deployer.core.artefact import digest
from deployer.core.cost import rounded
from deployer.core.errors import PlacementInfeasible
from deployer.core.ir import Tensor
from deployer.core.plan import (
    Home,
    LevelUse,
    Lifetime,
    Plan,
    PlanStep,
    Running,
    Step,
    StepTiling,
    Tiling,
)
from deployer.core.target import Level, Target, target_for
from deployer.planning.timeline import drafted, simulate
from deployer.tilers.addresses.placement import Item, Placement, place


class PackingGap(Exception):
    """Live buffers fit a level in sum but were not packed into it; tile again with these bytes withheld per level.

    What is withheld is what lay between buffers, which is more than before and more than what was `beyond` the budgets:
    a plan that is smaller by the latter alone may be the same one, and lose as much again.
    """

    def __init__(self, gaps: tuple[int, int], beyond: tuple[int, int]) -> None:
        super().__init__(" and ".join(f"{gap} B" for gap in gaps))
        self.gaps, self.beyond = gaps, beyond


def run(tiling: Tiling, running: Running) -> Plan:
    """Pack all levels. Raises PackingGap where the tiling can make room, PlacementInfeasible where it cannot."""
    schedule = tiling.lifetimes.schedule
    target = target_for(schedule)
    levels = target.levels[: 3 if tiling.spilled else 2]
    homes = {
        level.name: [x for x in tiling.lifetimes.storages if home_level(x, tiling) == i]
        for i, level in enumerate(levels)
    }
    placed = {}
    for i, level in enumerate(levels):
        base = tiling.table_bytes if i == 0 else 0
        items = [*(_home_item(x, target) for x in homes[level.name]), *_slot_items(tiling, target, i)]
        placed[level.name] = _above(place(items, level.budget - base, target.alignment), base)
        over = placed[level.name].height - level.budget
        if over > 0 and (i == 0 or (i == 1 and schedule.options.outermost != level.name)):
            lost, gaps = placed[level.name].height - placed[level.name].bound, tiling.gaps
            raise PackingGap((lost, gaps[1]), (over, 0)) if i == 0 else PackingGap((gaps[0], lost), (0, over))
        if over > 0:
            raise _full(level, placed[level.name], homes[level.name], target)
    tensors = schedule.program.tensors
    plan_homes = [
        _home(x, tensors[x.storage], level.name, placed[level.name].offsets[f"home {x.storage}"])
        for level in levels
        for x in homes[level.name]
    ]
    steps = [
        _step(step, choice, tiling, target, [placed[x.name] for x in levels[:2]])
        for step, choice in zip(schedule.steps, tiling.steps, strict=True)
    ]
    used = [LevelUse(x.name, x.budget, placed[x.name].height, placed[x.name].bound) for x in levels]
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
        running=running,
    )


def home_level(life: Lifetime, tiling: Tiling) -> int:
    """Number of the level a storage has its home in."""
    return 0 if life.storage in tiling.resident else 2 if life.storage in tiling.spilled else 1


def _above(placement: Placement, base: int) -> Placement:
    """The same packing with `base` bytes below it: the argument tables lie at offset 0."""
    offsets = {name: at + base for name, at in placement.offsets.items()}
    return Placement(offsets, placement.height + base, placement.bound + base)


def _home_item(life: Lifetime, target: Target) -> Item:
    return Item(f"home {life.storage}", rounded(life.bytes, target.alignment), life.first, life.last)


def _slot_name(step: Step, arg: str) -> str:
    return f"slot {step.index} {arg}"


def _slot_bytes(step: Step, lengths: Mapping[str, int], arg: str, target: Target) -> int:
    """Bytes of one slot: the largest box of the operand, on the alignment."""
    operand = step.access.operand(arg)
    size = 4
    for length in box_shape(operand, step.access, lengths):
        size *= length
    return rounded(size, target.alignment)


def _slot_items(tiling: Tiling, target: Target, level: int) -> list[Item]:
    """The slots of one operand are one buffer, live in its step alone."""
    items = []
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        stage = choice.stage.slots if choice.stage else {}
        slots, lengths = [(choice.slots, choice.tile), (stage, choice.outer(step.access)), ({}, {})][level]
        for arg, count in slots.items():
            if count:
                size = count * _slot_bytes(step, lengths, arg, target)
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


def _step(step: Step, choice: StepTiling, tiling: Tiling, target: Target, placed: list[Placement]) -> PlanStep:
    program = tiling.lifetimes.schedule.program
    sole = tiling.lifetimes.schedule.options.sole_pass
    result, draft = simulate(step, choice, target, sole), drafted(step, choice)
    inner, between = placed
    outer = choice.outer(step.access)
    operands = []
    for o in draft.operands:
        name = _slot_name(step, o.arg)
        operands.append(
            replace(
                o,
                storage=program.storage(o.tensor),
                slot_bytes=_slot_bytes(step, choice.tile, o.arg, target) if o.slots else 0,
                slot_offset=inner.offsets[name] if o.slots else 0,
                stage_bytes=_slot_bytes(step, outer, o.arg, target) if o.stage_slots else 0,
                stage_offset=between.offsets[name] if o.stage_slots else 0,
            )
        )
    return replace(
        draft,
        operands=tuple(operands),
        tile_cycles=result.tile_cycles,
        timeline=result.timeline,
        cycles=result.cycles,
        bytes_in=result.bytes_in,
        bytes_out=result.bytes_out,
        staging=result.staging,
    )


def _full(level: Level, placed: Placement, homes: list[Lifetime], target: Target) -> PlacementInfeasible:
    largest = sorted(homes, key=lambda x: (-x.bytes, x.storage))[:3]
    facts = [
        ("needed", f"{placed.height} B, {placed.bound} B live at once"),
        ("available", f"{level.budget} B"),
        ("largest", ", ".join(f"{x.storage} {x.bytes} B" for x in largest)),
    ]
    further = [x.name for x in target.levels if x.name > level.name]
    other = f"--defaultMemLevel {further[0]}, " if further else ""
    hint = f"--{level.name.lower()} {placed.height}, {other}or fewer trainable weights"
    return PlacementInfeasible(f"the tensors do not fit {level.name} of target {target.name!r}", facts, hint)
