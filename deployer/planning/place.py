"""Placement: an address in its level for every home, slot and argument table, and from these the plan."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

from deployer.core.access import box_shape
from deployer.core.artefact import digest
from deployer.core.cost import rounded
from deployer.core.errors import PlacementInfeasible, one_of
from deployer.core.ir import Tensor
from deployer.core.level import L_OUTER, Level, LevelUse, Slots
from deployer.core.plan import (
    Home,
    Lifetime,
    Plan,
    PlanStep,
    RunOptions,
    Step,
    StepTiling,
    Tiling,
    target_for,
)
from deployer.core.target import Target
from deployer.kernel_variants.calls import variant_for
from deployer.planning.timeline import StepRuns, drafted
from deployer.tilers.addresses.placement import Item, Placement, place


class PackingGap(Exception):
    """Live buffers fit a level in sum, but the packing exceeds it; the program is tiled again with `packing_slack`
    withheld.

    `packing_slack` are bytes per level: those that the packing of `level` lost between buffers, which are more than the
    bytes `beyond` its budget. A tiling that is smaller by the latter alone may be the same one and lose as much again.
    """

    def __init__(self, level: Level, packing_slack: tuple[int, ...], beyond: int) -> None:
        super().__init__(f"{level.name}: {beyond} B too many")
        self.level, self.packing_slack, self.beyond = level, packing_slack, beyond


def place_buffers(
    tiling: Tiling, running: RunOptions, last: bool = True, runs: StepRuns | None = None, sealed: bool = True
) -> Plan:
    """Pack all levels. Raises PackingGap where the tiling can make room, PlacementInfeasible where it cannot.

    Where it can, and will as this is not the `last` attempt, packing gives up sooner. `runs` are those of the
    schedule's steps, if there are any yet. A plan that is not `sealed` has no digest, which only the last one needs.
    """
    schedule = tiling.lifetimes.schedule
    target = target_for(schedule)
    levels = target.levels[: tiling.depth]
    homes = {
        level.name: [x for x in tiling.lifetimes.storages if tiling.home_level(x.storage) == number]
        for number, level in enumerate(levels)
    }
    bytes_of = {life.storage: life.bytes for life in tiling.lifetimes.storages}
    copies = {v.name: Lifetime(v.name, bytes_of[v.storage], v.begin, v.end, False, False) for v in tiling.residencies}
    homes[target.usual.name] += copies.values()
    placed = {}
    for number, level in enumerate(levels):
        base = 0 if number else tiling.table_bytes
        items = [*(_home_item(x, target) for x in homes[level.name]), *_slot_items(tiling, target, number)]
        can_shrink = level.name != schedule.options.outermost
        packing = place(items, level.budget - base, target.alignment, last=last or not can_shrink)
        placed[level.name] = _above(packing, base)
        excess = placed[level.name].height - level.budget
        if excess > 0 and can_shrink:
            lost = placed[level.name].height - placed[level.name].bound
            raise PackingGap(level, (*tiling.packing_slack[:number], lost, *tiling.packing_slack[number + 1 :]), excess)
        if excess > 0:
            raise _full(level, placed[level.name], homes[level.name], target)
    tensors = schedule.program.tensors
    of = {residency.name: tensors[residency.storage] for residency in tiling.residencies}
    plan_homes = [
        _home(x, of.get(x.storage) or tensors[x.storage], level.name, placed[level.name].offsets[f"home {x.storage}"])
        for level in levels
        for x in homes[level.name]
    ]
    runs = runs or StepRuns(schedule, target, tiling.groups, tiling.tables)
    steps = [
        _step(step, choice, tiling, runs, [placed[x.name] for x in levels])
        for step, choice in zip(schedule.steps, tiling.steps, strict=True)
    ]
    uses = [LevelUse(x.name, x.budget, placed[x.name].height, placed[x.name].bound) for x in levels]
    program = schedule.program
    return Plan(
        options=schedule.options,
        digest=digest(tiling) if sealed else "",
        levels=tuple(uses),
        table_bytes=tiling.table_bytes,
        homes=tuple(plan_homes),
        graphs=tuple(graph.name for graph in program.graphs),
        steps=tuple(steps),
        data=program.data,
        weights=program.weights,
        outputs=program.outputs,
        storage_of={n: program.storage(n) for n in (*program.data, *program.weights, *program.outputs)},
        running=running,
        groups=tiling.groups,
        tables=tiling.tables,
        residencies=tiling.residencies,
        rewrites=program.rewrites,
    )


def _above(placement: Placement, base: int) -> Placement:
    """The same packing moved up by `base` bytes, which leaves offset 0 to the argument tables."""
    offsets = {name: at + base for name, at in placement.offsets.items()}
    return Placement(offsets, placement.height + base, placement.bound + base)


def _home_item(life: Lifetime, target: Target) -> Item:
    return Item(f"home {life.storage}", rounded(life.bytes, target.alignment), life.first, life.last)


def _slot_name(step: Step, arg: str) -> str:
    return f"slot {step.index} {arg}"


def _slot_bytes(step: Step, lengths: Mapping[str, int], arg: str, target: Target) -> int:
    """Bytes of one slot: the largest box of the operand, rounded up to the alignment."""
    operand = step.access.operand(arg)
    size = step.kernel.element_bytes(arg)
    for length in box_shape(operand, lengths):
        size *= length
    return rounded(size, target.alignment)


def _slot_items(tiling: Tiling, target: Target, number: int) -> list[Item]:
    """The slots to place in a level: those of one operand are one buffer, live in its step alone."""
    items = []
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        for loop in choice.loops[number : number + 1]:
            for arg, count in loop.slots.items():
                if count:
                    size = count * _slot_bytes(step, loop.tile, arg, target)
                    items.append(Item(_slot_name(step, arg), size, step.index, step.index))
    return items


def _places(step: Step, choice: StepTiling, arg: str, target: Target, placed: list[Placement]) -> list[Slots]:
    """The slots of an operand in each level, the innermost first."""
    slots = []
    for loop, placement, _ in itertools.zip_longest(choice.loops, placed[:L_OUTER], range(L_OUTER)):
        count = loop.slots.get(arg, 0) if loop else 0
        size = _slot_bytes(step, loop.tile, arg, target) if count else 0
        slots.append(Slots(count, size, placement.offsets[_slot_name(step, arg)]) if count else Slots())
    return slots


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


def _step(step: Step, choice: StepTiling, tiling: Tiling, runs: StepRuns, placed: list[Placement]) -> PlanStep:
    program = tiling.lifetimes.schedule.program
    result, draft = runs.of(step, choice), drafted(step, choice)
    operands = []
    for o in draft.operands:
        places = _places(step, choice, o.arg, runs.target, placed)
        operands.append(replace(o.at(places), storage=_found_in(tiling, program.storage(o.tensor), step.index)))
    return replace(
        draft,
        operands=tuple(operands),
        tile_cycles=result.tile_cycles,
        timeline=result.timeline,
        cycles=result.cycles,
        bytes_in=result.bytes_in,
        bytes_out=result.bytes_out,
        staging=result.staging,
        variant=variant_for(step, draft, runs.target),
    )


def _found_in(tiling: Tiling, storage: str, step: int) -> str:
    """The name of the home in which a step finds a storage: its own, or that of its copy."""
    residencies = (v.name for v in tiling.residencies if v.storage == storage and v.first <= step <= v.last)
    return next(residencies, storage)


def _full(level: Level, placed: Placement, homes: list[Lifetime], target: Target) -> PlacementInfeasible:
    largest = sorted(homes, key=lambda x: (-x.bytes, x.storage))[:3]
    facts = [
        ("needed", f"{placed.height} B, {placed.bound} B live at once"),
        ("available", f"{level.budget} B"),
        ("largest", ", ".join(f"{x.storage} {x.bytes} B" for x in largest)),
    ]
    further = target.outer_level(level)
    outer = [f"--defaultMemLevel {further.name}"] if further else []
    hint = one_of(*target.larger(level, placed.height), *outer, "fewer trainable weights")
    return PlacementInfeasible(f"the tensors do not fit {level.name} of target {target.name!r}", facts, hint)
