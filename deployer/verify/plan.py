"""The judge of plans: what is printed keeps to its tiling, and everything in memory has room of its own."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.artefact import digest
from deployer.core.declarations import CARRIED
from deployer.core.errors import VerifyFailed
from deployer.core.ir import DTYPES
from deployer.core.level import RESIDENT, USUAL
from deployer.core.operator import Const, operator_of
from deployer.core.plan import Home, Plan, PlanOperand, PlanStep, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.verify.boxes import Span, axis_spans, cuts, cuts_within, largest_box
from deployer.verify.options import verify_running
from deployer.verify.tiling import check_tables, need, target_of


@dataclass(frozen=True)
class Buffer:
    """Bytes offset..offset+bytes of a level, taken from step `first` to step `last`."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


def verify_plan(plan: Plan, tiling: Tiling) -> None:
    """Raises VerifyFailed with the rule.

    Rules: digest, plan, ingress, egress, lifetime, table, alignment, overlap, budget or cycles.
    """
    need(plan.digest == digest(tiling), "digest", "the plan is of another tiling", ("plan", plan.digest))
    target = target_of(tiling)
    _outline(plan, tiling, target)
    homes = {home.storage: home for home in plan.homes}
    _homes(plan, tiling, target)
    for step, declared, choice in zip(plan.steps, tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        check_moves(step, declared, homes, target)
        _step(step, declared, choice, tiling)
        check_kernel(step, tiling)
    check_room(plan, target)


def check_room(plan: Plan, target: Target) -> None:
    """Everything has bytes of its own in each level and fits it, and the cycles and bytes of the steps are theirs.

    Rules: table, alignment, overlap, budget or cycles.
    """
    check_tables([s.kernel for s in plan.steps], plan.table_bytes, target)
    buffers = _buffers(plan, target)
    for level, found in buffers.items():
        _alignment(level, found, target)
        _overlap(level, found)
    _budgets(plan, buffers, target)
    for step in plan.steps:
        _cycles(step, plan)


def _place(step: PlanStep) -> str:
    return f"step {step.index} {step.name!r} ({step.op})"


def _outline(plan: Plan, tiling: Tiling, target: Target) -> None:
    """Levels, steps, storages and the program's interface are those of the target and the tiling."""
    schedule = tiling.lifetimes.schedule
    names = [level.name for level in plan.levels]
    known = [x.name for x in target.levels]
    need(names == known[: len(names)], "plan", f"levels {names} are not the target's {known}")
    need(len(names) > USUAL, "plan", f"levels {names} are not at least two")
    need(plan.options == schedule.options, "plan", "the options differ from the tiling's")
    verify_running(plan.running)
    tables = f"tables have {plan.table_bytes} B, tiled {tiling.table_bytes}"
    need(plan.table_bytes == tiling.table_bytes, "table", tables)
    found = [(s.index, s.name, s.graph, s.op) for s in plan.steps]
    expected = [(s.index, s.name, s.graph, s.node.op) for s in schedule.steps]
    need(found == expected, "plan", "the steps are not those of the schedule")
    program = schedule.program
    interface = (plan.data, plan.weights, plan.outputs)
    same = interface == (program.data, program.weights, program.outputs)
    need(same, "plan", "data, weights or outputs are not the program's")
    storages = {name: program.storage(name) for names in interface for name in names}
    need(plan.storage_of == storages, "plan", "storages of data, weights or outputs are not the program's")


def _homes(plan: Plan, tiling: Tiling, target: Target) -> None:
    """One home per lifetime, as large and as long; in the inner level where resident, else further out."""
    levels = [level.name for level in target.levels]
    tensors = tiling.lifetimes.schedule.program.tensors
    homes = {home.storage: home for home in plan.homes}
    lives = {life.storage: life for life in tiling.lifetimes.storages}
    need(len(homes) == len(plan.homes), "plan", "a storage has two homes")
    for storage, life in lives.items():
        rule = "ingress" if life.loaded else "egress"
        need(storage in homes, rule, f"{storage!r} has no home")
        home = homes[storage]
        size = ("bytes", f"{home.bytes}, the tensor has {tensors[storage].type.bytes}")
        fits = home.type == tensors[storage].type and home.bytes == home.type.bytes
        need(fits, rule, f"the home of {storage!r} is not made for {tensors[storage].type}", size)
        known = home.level in [level.name for level in plan.levels]
        need(known, "plan", f"the home of {storage!r} is in {home.level!r}, which the plan does not use")
        wanted = levels[tiling.home_level(storage)]
        need(home.level == wanted, "plan", f"{storage!r} has its home in {home.level}, tiled {wanted}")
        found = (home.first, home.last, home.loaded, home.persistent)
        same = found == (life.first, life.last, life.loaded, life.persistent)
        steps = ("steps", f"{home.first}..{home.last}, must be {life.first}..{life.last}")
        need(same, "lifetime", f"the home of {storage!r} has another lifetime", steps)
    need(set(homes) == set(lives), "plan", f"homes {sorted(set(homes) - set(lives))} have no lifetime")
    used = {o.storage for s in plan.steps for o in s.operands}
    for name in (*plan.outputs, *plan.weights, *plan.data):
        storage = plan.storage_of[name]
        optional = name in plan.data and storage not in used
        rule = "egress" if name in plan.outputs else "ingress"
        need(optional or storage in homes, rule, f"{name!r} has no home")


def check_moves(step: PlanStep, declared: Step, homes: dict[str, Home], target: Target) -> None:
    """Each operand that is not resident has slots for its largest box, and a home further out."""
    number = {level.name: i for i, level in enumerate(target.levels)}
    found = {o.arg: o for o in step.operands}
    for d in step.dims:
        text = f"{_place(step)}: tile {d.name}={d.tile} is not within 1..{d.size}"
        need(1 <= d.tile <= d.outer <= d.size, "plan", text)
    pieces = {d.name: cuts_within(d.size, d.outer, d.tile) for d in step.dims}
    loops = pieces, {d.name: cuts(d.size, d.outer) for d in step.dims}
    for o in declared.access.operands:
        rule = "ingress" if o.reads else "egress"
        place = f"{_place(step)}: operand {o.arg!r}"
        need(o.arg in found, rule, f"{place} is not there")
        given = found[o.arg]
        need(given.storage in homes, rule, f"{place} has no home")
        need(set(o.dims) <= set(pieces), "plan", f"{place} depends on dims that the step does not have")
        level = homes[given.storage].level
        for here, slots, cut in zip(target.levels, given.places, loops, strict=False):
            passes = number[level] > number[here.name]
            text = f"{place} has {slots.count} slots in {here.name}, its home is in {level}"
            need(passes == (slots.count > 0), rule, text)
            bytes_needed = largest_box(o, cut) * _element(step, o.arg)
            facts = ("bytes", f"slot {slots.bytes}, largest box {bytes_needed}")
            fits = not passes or slots.bytes >= bytes_needed
            need(fits, rule, f"{place} does not fit its slot in {here.name}", facts)


def _element(step: PlanStep, arg: str) -> int:
    """Bytes of an element of an operand."""
    return next(DTYPES[dtype] for name, dtype, _ in step.kernel.pointers if name == arg)


def _rounded(size: int, target: Target) -> int:
    return -(-size // target.alignment) * target.alignment


def _buffers(plan: Plan, target: Target) -> dict[str, list[Buffer]]:
    """Everything that lies in each level: tables, homes, slots."""
    end = len(plan.steps)
    buffers: dict[str, list[Buffer]] = {level.name: [] for level in plan.levels}
    found = [buffers[level.name] for level in plan.levels]
    found[RESIDENT].append(Buffer("argument tables", 0, plan.table_bytes, 0, end))
    for home in plan.homes:
        size = _rounded(home.bytes, target)
        name = f"home of {home.storage}"
        buffers[home.level].append(Buffer(name, home.offset, size, home.first, home.last))
    for step in plan.steps:
        for o in step.operands:
            for here, slots in zip(found, o.places, strict=False):
                for slot in range(slots.count):
                    name = f"slot {slot} of {o.arg} in step {step.index}"
                    at, size = slots.offset + slot * slots.bytes, _rounded(slots.bytes, target)
                    here.append(Buffer(name, at, size, step.index, step.index))
    return buffers


def _alignment(level: str, buffers: list[Buffer], target: Target) -> None:
    for b in buffers:
        aligned = b.offset >= 0 and b.offset % target.alignment == 0
        need(aligned, "alignment", f"{b.name} is at {level}+{b.offset}, not on {target.alignment} B")


def _overlap(level: str, buffers: list[Buffer]) -> None:
    """No two buffers that are live in one step share a byte."""
    start = np.array([b.offset for b in buffers])
    end = start + np.array([b.bytes for b in buffers])
    first, last = (np.array([getattr(b, side) for b in buffers]) for side in ("first", "last"))
    clash = (start[:, None] < end) & (start < end[:, None])
    clash &= (first[:, None] <= last) & (first <= last[:, None])
    np.fill_diagonal(clash, False)
    if clash.any():
        both = [buffers[int(i)] for i in np.argwhere(clash)[0]]
        facts = [(b.name, f"{b.offset}..{b.offset + b.bytes}, steps {b.first}..{b.last}") for b in both]
        raise VerifyFailed("overlap", f"{both[0].name} and {both[1].name} share bytes of {level}", facts)


def _budgets(plan: Plan, buffers: dict[str, list[Buffer]], target: Target) -> None:
    """What lies in each level is what the plan says and within the budget, which is the target's."""
    for use, level in zip(plan.levels, target.levels, strict=False):
        text = f"{use.name} has {use.budget} B, by the options {level.budget} B"
        need(use.budget == level.budget, "budget", text)
        physical = level.budget + level.reserved <= level.bytes
        need(physical, "budget", f"{use.name}: {level.budget} + {level.reserved} B exceed {level.bytes} B")
        found = buffers[use.name]
        peak = max((b.offset + b.bytes for b in found), default=0)
        need(use.peak == peak, "budget", f"{use.name} is used up to {peak} B, the plan says {use.peak}")
        need(peak <= use.budget, "budget", f"{use.name} is used up to {peak} B of {use.budget} B")
        change = np.zeros(len(plan.steps) + 2, np.int64)
        for b in found:
            change[b.first] += b.bytes
            change[b.last + 1] -= b.bytes
        live = int(change.cumsum().max())
        need(use.bound == live, "budget", f"{use.name} holds {live} B at once, the plan says {use.bound}")


def _step(step: PlanStep, declared: Step, choice: StepTiling, tiling: Tiling) -> None:
    """Dims, buffering, kernel, arguments and operands are those of the schedule and the tiling."""
    program, place = tiling.lifetimes.schedule.program, _place(step)
    dims = [(d.name, d.size, d.outer, d.tile, d.reduction) for d in step.dims]
    by_name, outer = {d.name: d for d in declared.access.dims}, choice.outer(declared.access)
    expected = [(n, by_name[n].size, outer[n], choice.tile[n], by_name[n].kind == "reduction") for n in choice.order]
    facts = ("dims", f"{dims}, tiled {expected}")
    need(dims == expected, "plan", f"{place}: the dims are not the tiling's", facts)
    need(step.buffering == choice.buffering, "plan", f"{place} is {step.buffering}, tiled {choice.buffering}")
    same = step.kernel == declared.kernel and step.args == declared.args
    need(same, "plan", f"{place}: another kernel or arguments")
    need(
        [o.arg for o in step.operands] == [o.arg for o in declared.access.operands],
        "plan",
        f"{place}: other operands",
    )
    for o, source in zip(step.operands, declared.access.operands, strict=True):
        found = (o.tensor, o.mode, o.view, o.axes, o.fresh_on_flag)
        same = found == (source.tensor, source.mode, source.view, source.axes, source.fresh_on_flag)
        need(same, "plan", f"{place}: operand {o.arg!r} is not the operator's")
        same = o.storage == program.storage(o.tensor)
        need(same, "plan", f"{place}: operand {o.arg!r} has another storage")
        counts = [slots.count for slots in o.places]
        tiled = [loop.slots.get(o.arg, 0) for loop in choice.loops]
        tiled += [0] * (len(counts) - len(tiled))
        need(counts == tiled, "plan", f"{place}: operand {o.arg!r} has {counts} slots by level, tiled {tiled}")
    found_stage = (step.staging.order, step.staging.buffering) if step.staging else None
    wanted = (choice.stage.order, choice.stage.buffering) if choice.stage else None
    need(found_stage == wanted, "plan", f"{place}: the stage is {found_stage}, tiled {wanted}")


def check_kernel(step: PlanStep, tiling: Tiling) -> None:
    """The kernel's struct is filled: a value per scalar, pointers of the right type and direction."""
    tensors, place, kernel = tiling.lifetimes.schedule.program.tensors, _place(step), step.kernel
    missing = [name for name, _ in kernel.scalars if name not in step.args]
    need(not missing, "plan", f"{place}: kernel arguments {missing} have no value")
    pointers = {name: (dtype, written) for name, dtype, written in kernel.pointers}
    for o in step.operands:
        found = (tensors[o.tensor].type.dtype, o.mode != "in")
        text = f"{place}: operand {o.arg!r} does not fit the kernel's pointer"
        need(pointers.get(o.arg) == found, "plan", text)
    absent = {name for name, (_, written) in pointers.items() if written} - {o.arg for o in step.operands}
    source = tiling.lifetimes.schedule.steps[step.index]
    sums = operator_of(source.node).sums
    block = sums.block_length(source.access) if sums else 0
    unused = {CARRIED} if sums and not block else set()
    need(absent == unused, "plan", f"{place}: pointers {sorted(absent ^ unused)} wrongly have an operand or none")
    if sums:
        need(step.args["block"] == Const(block), "plan", f"{place}: blocks of {step.args['block']}, declared {block}")


def _cycles(step: PlanStep, plan: Plan) -> None:
    """A cost per kernel call, none more than the step's; the bytes moved are those of the boxes."""
    tiles = math.prod(len(cuts_within(d.size, d.outer, d.tile)) for d in step.dims)
    place = _place(step)
    need(len(step.tile_cycles) == tiles, "cycles", f"{place}: {tiles} tiles, {len(step.tile_cycles)} costs")
    need(min(step.tile_cycles) > 0, "cycles", f"{place} has a tile without cost")
    total = sum(step.tile_cycles)
    need(step.cycles >= total, "cycles", f"{place} takes {step.cycles} cycles, its kernels {total}")
    waits = (*step.timeline.ingress_wait, *step.timeline.egress_wait, step.staging.wait if step.staging else 0)
    waited = len(waits) == 2 * tiles + 1 == 2 * len(step.timeline.ingress_wait) + 1 and min(waits) >= 0
    waited = waited and total + sum(waits) <= step.cycles
    need(waited, "cycles", f"{place}: the timeline is not one of {tiles} tiles in {step.cycles} cycles")
    fresh = plan.options.sole_pass
    moved = [(o, not (o.fresh_on_flag and fresh)) for o in step.operands if o.slots]
    bytes_in = sum(_moved(step, o) for o, old in moved if o.mode != "out" and old)
    bytes_out = sum(_moved(step, o) for o, _ in moved if o.mode != "in")
    same = (step.bytes_in, step.bytes_out) == (bytes_in, bytes_out)
    facts = ("bytes", f"{step.bytes_in} in, {step.bytes_out} out; the boxes have {bytes_in} and {bytes_out}")
    need(same, "cycles", f"{place} moves other bytes than it says", facts)
    if step.staging is None:
        return
    staged = [(o, old) for o, old in moved if o.places[USUAL].count]
    lengths = {d.name: (d.size, d.outer) for d in step.dims}
    order = [(n, *lengths[n]) for n in step.staging.order]
    bytes_in = sum(_loop_bytes(step, o, order) for o, old in staged if o.mode != "out" and old)
    bytes_out = sum(_loop_bytes(step, o, order) for o, _ in staged if o.mode != "in")
    found = (step.staging.bytes_in, step.staging.bytes_out)
    facts = ("bytes", f"{found[0]} in, {found[1]} out; the boxes have {bytes_in} and {bytes_out}")
    need(found == (bytes_in, bytes_out), "cycles", f"{place} moves other bytes through its stage than it says", facts)


def _moved(step: PlanStep, operand: PlanOperand) -> int:
    """Bytes of all boxes of an operand through the inner hop, each as often as the loops come to it."""
    order = step.staging.order if step.staging else tuple(d.name for d in step.dims)
    by_name = {d.name: d for d in step.dims}
    total = 0
    for part in itertools.product(*(cuts(by_name[n].size, by_name[n].outer) for n in order)):
        within = dict(zip(order, part, strict=True))
        total += _loop_bytes(step, operand, [(d.name, within[d.name], d.tile) for d in step.dims])
    return total


def _loop_bytes(step: PlanStep, operand: PlanOperand, loop: Sequence[tuple[str, int | Span, int]]) -> int:
    """Bytes of the boxes of a loop over (dim, size or span, tile), outermost first."""
    pieces: dict[str, list[Span]] = {}
    for name, space, tile in loop:
        first, size = (0, space) if isinstance(space, int) else space
        pieces[name] = [(first + s, n) for s, n in cuts(size, tile)]
    elements, depends = 1, set[str]()
    for axis, extent in zip(operand.axes, operand.view, strict=True):
        spans = axis_spans(axis, extent, pieces)
        elements *= sum(n for _, n in spans)
        depends |= {axis.dim} if len(spans) > 1 and hasattr(axis, "dim") else set()
    names = [name for name, _, _ in loop]
    inner = max((i for i, n in enumerate(names) if n in depends), default=-1)
    again = math.prod(len(pieces[n]) for n in names[: inner + 1] if n not in depends)
    return elements * again * _element(step, operand.arg)
