"""The judge of plans: a plan does what its tiling says, and no two live buffers share a byte of memory."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.artefact import digest
from deployer.core.errors import VerifyFailed
from deployer.core.ir import DTYPES
from deployer.core.level import L_HOME, L_INNER
from deployer.core.operator import execution_of, operator_of
from deployer.core.plan import Home, Plan, PlanOperand, PlanStep, Step, StepTiling, Tiling
from deployer.core.target import Target
from deployer.core.traits.execution import CARRIED
from deployer.verify.boxes import Span, axis_spans, cuts, largest_box, lasting, steady_addresses, step_pieces
from deployer.verify.cross_step import (
    check_cached_storages,
    check_cross_step,
    check_fused_launches,
    check_residencies,
    check_variant,
    cross_step_lifetimes,
    outer_slots,
)
from deployer.verify.tiling import check_tables, need, target_of, verify_running

OF_OPERAND = ("tensor", "mode", "view", "axes", "overwrite_on_first_pass", "at_home")
"""Fields of an operand that a plan has from its operator."""
COMPARED = 256
"""So many buffers are compared with all others at a time: pairs of all at once are most of a large plan's memory."""


@dataclass(frozen=True)
class Buffer:
    """The bytes offset..offset+bytes of a level, in use from step `first` to step `last`, both included."""

    name: str
    offset: int
    bytes: int
    first: int
    last: int


def verify_plan(plan: Plan, tiling: Tiling) -> None:
    """Raise VerifyFailed where the plan breaks a rule against its tiling.

    Rules: digest, plan, variant, ingress, egress, lifetime, table, residency, transfer, fused launch, alignment,
    overlap, budget, cycles.
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
        check_variant(step, target)
    check_room(plan, target)


def check_room(plan: Plan, target: Target) -> None:
    """The buffers of each level fit its budget and do not overlap, and each step's cycles and bytes add up.

    Rules: residency, table, transfer, fused launch, alignment, overlap, budget or cycles.
    """
    check_residencies(plan)
    check_cross_step(plan)
    check_fused_launches(plan)
    kernels = [(s.graph, s.kernel) for s in plan.steps]
    fetched = check_tables(kernels, plan.table_bytes, plan.groups, target, plan.tables)
    _sharing(plan)
    buffers = _buffers(plan, target)
    for level, contents in buffers.items():
        _alignment(level, contents, target)
        _overlap(level, contents)
    _budgets(plan, buffers, target)
    users = Counter(plan.tables)
    for step in plan.steps:
        shares = bool(users) and users[plan.tables[step.index]] > 1
        own = target.arg_patch * steady_addresses(step) if shares else 0
        _cycles(step, plan, _fetch_cycles(fetched.get(step.index, 0), target) + own)


def _place(step: PlanStep) -> str:
    return f"step {step.index} {step.name!r} ({step.op})"


def _outline(plan: Plan, tiling: Tiling, target: Target) -> None:
    """The plan has the levels of its target, and the steps, storages, inputs and outputs of its tiling."""
    schedule = tiling.lifetimes.schedule
    names = [level.name for level in plan.levels]
    target_names = [x.name for x in target.levels]
    need(names == target_names[: len(names)], "plan", f"levels {names} are not the target's {target_names}")
    least = target.least_depth
    need(len(names) >= least, "plan", f"levels {names} are not the first {least} or more of {target_names}")
    need(plan.options == schedule.options, "plan", "the options differ from the tiling's")
    verify_running(plan.running)
    tables = f"tables have {plan.table_bytes} B, tiled {tiling.table_bytes}"
    need(plan.table_bytes == tiling.table_bytes, "table", tables)
    need(plan.groups == tiling.groups, "table", f"groups begin at steps {plan.groups}, tiled {tiling.groups}")
    need(plan.tables == tiling.tables, "table", "steps share other argument tables than tiled")
    need(plan.residencies == tiling.residencies, "residency", "storages have other residencies than tiled")
    check_cached_storages(tiling)
    steps = [(s.index, s.name, s.graph, s.op) for s in plan.steps]
    expected = [(s.index, s.name, s.graph, s.node.op) for s in schedule.steps]
    need(steps == expected, "plan", "the steps are not those of the schedule")
    program = schedule.program
    interface = (plan.data, plan.weights, plan.outputs)
    same = interface == (program.data, program.weights, program.outputs)
    need(same, "plan", "data, weights or outputs are not the program's")
    need(plan.rewrites == program.rewrites, "plan", "rewrites are not those of the program")
    left_out = sorted(set(plan.rewrites) & set(plan.options.disabled_rewrites))
    need(not left_out, "plan", f"fusions {left_out} were applied, which the options leave out")
    storages = {name: program.storage(name) for names in interface for name in names}
    need(plan.storage_of == storages, "plan", "storages of data, weights or outputs are not the program's")


def _homes(plan: Plan, tiling: Tiling, target: Target) -> None:
    """Each storage has one home, with its size in bytes, its lifetime in steps, and the level that the tiling chose."""
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
        in_plan = home.level in [level.name for level in plan.levels]
        need(in_plan, "plan", f"the home of {storage!r} is in {home.level!r}, which the plan does not use")
        expected = levels[tiling.home_level(storage)]
        need(home.level == expected, "plan", f"{storage!r} has its home in {home.level}, tiled {expected}")
        lifetime = (home.first, home.last, home.loaded, home.persistent)
        same = lifetime == (life.first, life.last, life.loaded, life.persistent)
        steps = ("steps", f"{home.first}..{home.last}, must be {life.first}..{life.last}")
        need(same, "lifetime", f"the home of {storage!r} has another lifetime", steps)
    lives |= {residency.name: lives[residency.storage] for residency in tiling.residencies}
    need(set(homes) == set(lives), "plan", f"homes {sorted(set(homes) - set(lives))} have no lifetime")
    used = {o.storage for s in plan.steps for o in s.operands}
    for name in (*plan.outputs, *plan.weights, *plan.data):
        storage = plan.storage_of[name]
        optional = name in plan.data and storage not in used
        rule = "egress" if name in plan.outputs else "ingress"
        need(optional or storage in homes, rule, f"{name!r} has no home")


def check_moves(step: PlanStep, declared: Step, homes: dict[str, Home], target: Target) -> None:
    """In each level between its home and the kernel, an operand has slots of at least the bytes of its largest box.

    Where it is used at home, and that is the next level, it has none.
    """
    number = {level.name: i for i, level in enumerate(target.levels)}
    operands = {o.arg: o for o in step.operands}
    for d in step.dims:
        text = f"{_place(step)}: tile {d.name}={d.tile} is not within 1..{d.size}"
        need(1 <= d.tile <= d.outer <= d.size, "plan", text)
    pieces = step_pieces(step)
    loops = pieces, {d.name: cuts(d.size, d.outer) for d in step.dims}
    for o in declared.access.operands:
        rule = "ingress" if o.reads else "egress"
        place = f"{_place(step)}: operand {o.arg!r}"
        need(o.arg in operands, rule, f"{place} is not there")
        operand = operands[o.arg]
        need(operand.storage in homes, rule, f"{place} has no home")
        need(set(o.dims) <= set(pieces), "plan", f"{place} depends on dims that the step does not have")
        home_level = homes[operand.storage].level
        for level, slots, loop in zip(target.levels, operand.places, loops, strict=False):
            passes = number[home_level] > number[level.name] and not (o.at_home and number[home_level] == L_HOME)
            text = f"{place} has {slots.count} slots in {level.name}, its home is in {home_level}"
            need(passes == (slots.count > 0), rule, text)
            box_bytes = largest_box(o, loop) * _element(step, o.arg)
            facts = ("bytes", f"slot {slots.bytes}, largest box {box_bytes}")
            fits = not passes or slots.bytes >= box_bytes
            need(fits, rule, f"{place} does not fit its slot in {level.name}", facts)


def _sharing(plan: Plan) -> None:
    """Steps that share a table have the same operands, and for each other argument one value or none that stays."""
    for step, table in zip(plan.steps, plan.tables, strict=False):
        first, place = plan.steps[table], f"{_place(step)} has the table of step {table}"
        pointers = [{o.arg for o in s.operands} for s in (first, step)]
        need(pointers[0] == pointers[1], "table", f"{place}, whose operands are {sorted(pointers[0])}")
        for name, _ in step.kernel.scalars:
            one, other = (lasting(s, s.args[name]) for s in (first, step))
            text = f"{place}, in which {name!r} is {_lasting(one)}, and is to be {_lasting(other)}"
            need(repr(one) == repr(other), "table", text)


def _lasting(value: float | None) -> str:
    return "set by each step" if value is None else f"{value} for good"


def _element(step: PlanStep, arg: str) -> int:
    """Bytes of one element of a kernel operand."""
    return next(DTYPES[dtype] for name, dtype, _ in step.kernel.pointers if name == arg)


def _rounded(size: int, target: Target) -> int:
    return -(-size // target.alignment) * target.alignment


def _buffers(plan: Plan, target: Target) -> dict[str, list[Buffer]]:
    """The buffers of each level by its name: argument tables, homes and slots."""
    end, lives = len(plan.steps), cross_step_lifetimes(plan)
    buffers: dict[str, list[Buffer]] = {level.name: [] for level in plan.levels}
    contents = [buffers[level.name] for level in plan.levels]
    contents[L_INNER].append(Buffer("argument tables", 0, plan.table_bytes, 0, end))
    for home in plan.homes:
        size = _rounded(home.bytes, target)
        name = f"home of {home.storage}"
        buffers[home.level].append(Buffer(name, home.offset, size, home.first, home.last))
    for step in plan.steps:
        for o in step.operands:
            for number, (level_buffers, slots) in enumerate(zip(contents, o.places, strict=False)):
                own = (step.index, step.index)
                life = lives.get((step.index, o.arg), own) if number == outer_slots(o) else own
                for slot in range(slots.count):
                    name = f"slot {slot} of {o.arg} in step {step.index}"
                    at, size = slots.offset + slot * slots.bytes, _rounded(slots.bytes, target)
                    level_buffers.append(Buffer(name, at, size, *life))
    return buffers


def _alignment(level: str, buffers: list[Buffer], target: Target) -> None:
    for b in buffers:
        aligned = b.offset >= 0 and b.offset % target.alignment == 0
        need(aligned, "alignment", f"{b.name} is at {level}+{b.offset}, not on {target.alignment} B")


def _overlap(level: str, buffers: list[Buffer]) -> None:
    """No two buffers of a level that are live in the same step share a byte."""
    start = np.array([b.offset for b in buffers])
    end = start + np.array([b.bytes for b in buffers])
    first, last = (np.array([getattr(b, side) for b in buffers]) for side in ("first", "last"))
    for begin in range(0, len(buffers), COMPARED):
        rows = slice(begin, begin + COMPARED)
        clash = (start[rows, None] < end) & (start < end[rows, None])
        clash &= (first[rows, None] <= last) & (first <= last[rows, None])
        np.fill_diagonal(clash[:, begin:], False)
        if clash.any():
            one, other = np.argwhere(clash)[0].tolist()
            pair = buffers[begin + one], buffers[other]
            facts = [(b.name, f"{b.offset}..{b.offset + b.bytes}, steps {b.first}..{b.last}") for b in pair]
            raise VerifyFailed("overlap", f"{pair[0].name} and {pair[1].name} share bytes of {level}", facts)


def _budgets(plan: Plan, buffers: dict[str, list[Buffer]], target: Target) -> None:
    """The bytes in use of each level are those that the plan records, and within the target's budget."""
    for use, level in zip(plan.levels, target.levels, strict=False):
        text = f"{use.name} has {use.budget} B, by the options {level.budget} B"
        need(use.budget == level.budget, "budget", text)
        physical = level.budget + level.reserved <= level.bytes
        need(physical, "budget", f"{use.name}: {level.budget} + {level.reserved} B exceed {level.bytes} B")
        contents = buffers[use.name]
        peak = max((b.offset + b.bytes for b in contents), default=0)
        need(use.peak == peak, "budget", f"{use.name} is used up to {peak} B, the plan says {use.peak}")
        need(peak <= use.budget, "budget", f"{use.name} is used up to {peak} B of {use.budget} B")
        change = np.zeros(len(plan.steps) + 2, np.int64)
        for b in contents:
            change[b.first] += b.bytes
            change[b.last + 1] -= b.bytes
        live = int(change.cumsum().max())
        need(use.bound == live, "budget", f"{use.name} holds {live} B at once, the plan says {use.bound}")


def _step(step: PlanStep, declared: Step, choice: StepTiling, tiling: Tiling) -> None:
    """The step has the dims, buffering and stage of the tiling, the kernel, arguments and operands of the schedule."""
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
        fields = (o.tensor, o.mode, o.view, o.axes, o.overwrite_on_first_pass, o.at_home)
        same = fields == tuple(getattr(source, name) for name in OF_OPERAND)
        need(same, "plan", f"{place}: operand {o.arg!r} is not the operator's")
        storage = program.storage(o.tensor)
        residencies = (v.name for v in tiling.residencies if v.storage == storage and v.first <= step.index <= v.last)
        same = o.storage == next(residencies, storage)
        need(same, "plan", f"{place}: operand {o.arg!r} has another storage")
        counts = [slots.count for slots in o.places]
        tiled = [loop.slots.get(o.arg, 0) for loop in choice.loops]
        tiled += [0] * (len(counts) - len(tiled))
        need(counts == tiled, "plan", f"{place}: operand {o.arg!r} has {counts} slots by level, tiled {tiled}")
    stage = (step.staging.order, step.staging.buffering) if step.staging else None
    tiled_stage = (choice.stage.order, choice.stage.buffering) if choice.stage else None
    need(stage == tiled_stage, "plan", f"{place}: the stage is {stage}, tiled {tiled_stage}")


def check_kernel(step: PlanStep, tiling: Tiling) -> None:
    """Each scalar of the kernel's struct has a value, and each operand a pointer of its dtype and direction."""
    tensors, place, kernel = tiling.lifetimes.schedule.program.tensors, _place(step), step.kernel
    absent_scalars = [name for name, _ in kernel.scalars if name not in step.args]
    need(not absent_scalars, "plan", f"{place}: kernel arguments {absent_scalars} have no value")
    pointers = {name: (dtype, is_output) for name, dtype, is_output in kernel.pointers}
    source = tiling.lifetimes.schedule.steps[step.index]
    execution = execution_of(operator_of(source.node))
    for o in step.operands:
        declared, is_output = pointers.get(o.arg, ("", None))
        text = f"{place}: operand {o.arg!r} does not fit the kernel's pointer"
        fits = declared and execution.takes(o.arg, declared, tensors[o.tensor].type.dtype)
        need(bool(fits) and is_output == (o.mode != "in"), "plan", text)
    absent = {name for name, (_, is_output) in pointers.items() if is_output} - {o.arg for o in step.operands}
    outputs = dict(enumerate(source.node.outputs))
    unused = {CARRIED} if execution.sums and not execution.sums.blocks(source.access) else set()
    unused |= {name for name, position in execution.optional_outputs.items() if not outputs.get(position)}
    need(absent == unused, "plan", f"{place}: pointers {sorted(absent ^ unused)} wrongly have an operand or none")


def _fetch_cycles(size: int, target: Target) -> int:
    """Cycles of a transfer of that many bytes of argument tables, at least."""
    hop = target.hops[L_INNER] if size else None
    return hop.issue + hop.inward.setup + size * hop.inward.byte_milli // 1000 + hop.wait if hop else 0


def _cycles(step: PlanStep, plan: Plan, fetch: int) -> None:
    """Each tile has a cost in cycles, their sum is within the step's, and transfers have the bytes of the boxes.

    `fetch` cycles of the step, at least, are those of its argument table, and none of the tiles'.
    """
    tiles = math.prod(map(len, step_pieces(step).values()))
    place = _place(step)
    need(len(step.tile_cycles) == tiles, "cycles", f"{place}: {tiles} tiles, {len(step.tile_cycles)} costs")
    need(min(step.tile_cycles) > 0, "cycles", f"{place} has a tile without cost")
    total = sum(step.tile_cycles)
    need(step.cycles >= total, "cycles", f"{place} takes {step.cycles} cycles, its kernels {total}")
    waits = (*step.timeline.ingress_wait, *step.timeline.egress_wait, step.staging.wait if step.staging else 0)
    consistent = len(waits) == 2 * tiles + 1 == 2 * len(step.timeline.ingress_wait) + 1 and min(waits) >= 0
    consistent = consistent and fetch + total + sum(waits) <= step.cycles
    need(consistent, "cycles", f"{place}: the timeline is not one of {tiles} tiles in {step.cycles} cycles")
    fresh = plan.options.updates_every_pass
    transfers = [(o, not (o.overwrite_on_first_pass and fresh)) for o in step.operands if o.slots]
    bytes_in = sum(_transfer_bytes(step, o) for o, old in transfers if o.mode != "out" and old)
    bytes_out = sum(_transfer_bytes(step, o) for o, _ in transfers if o.mode != "in")
    same = (step.bytes_in, step.bytes_out) == (bytes_in, bytes_out)
    facts = ("bytes", f"{step.bytes_in} in, {step.bytes_out} out; the boxes have {bytes_in} and {bytes_out}")
    need(same, "cycles", f"{place} moves other bytes than it says", facts)
    if step.staging is None:
        return
    staged = [(o, old) for o, old in transfers if o.places[L_HOME].count]
    lengths = {d.name: (d.size, d.outer) for d in step.dims}
    order = [(n, *lengths[n]) for n in step.staging.order]
    bytes_in = sum(_loop_bytes(step, o, order) for o, old in staged if o.mode != "out" and old)
    bytes_out = sum(_loop_bytes(step, o, order) for o, _ in staged if o.mode != "in")
    staged_bytes = (step.staging.bytes_in, step.staging.bytes_out)
    facts = ("bytes", f"{staged_bytes[0]} in, {staged_bytes[1]} out; the boxes have {bytes_in} and {bytes_out}")
    need(
        staged_bytes == (bytes_in, bytes_out),
        "cycles",
        f"{place} moves other bytes through its stage than it says",
        facts,
    )


def _transfer_bytes(step: PlanStep, operand: PlanOperand) -> int:
    """Bytes that a step transfers of an operand between the inner level and the next; a revisited box counts again."""
    order = step.staging.order if step.staging else tuple(d.name for d in step.dims)
    by_name = {d.name: d for d in step.dims}
    total = 0
    for outer_tile in itertools.product(*(cuts(by_name[n].size, by_name[n].outer) for n in order)):
        within = dict(zip(order, outer_tile, strict=True))
        total += _loop_bytes(step, operand, [(d.name, within[d.name], d.tile) for d in step.dims])
    return total


def _loop_bytes(step: PlanStep, operand: PlanOperand, loop: Sequence[tuple[str, int | Span, int]]) -> int:
    """Bytes of an operand's boxes in one loop nest.

    `loop` holds (dim, elements or (start, elements), tile length) per loop, the outermost first.
    """
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
    repeats = math.prod(len(pieces[n]) for n in names[: inner + 1] if n not in depends)
    return elements * repeats * _element(step, operand.arg)
