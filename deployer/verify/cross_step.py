"""Checks of what goes beyond one step: cross-step transfers, cached copies, fused launches; and of kernel variants."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from deployer.core.access import At, Broadcast, Windowed
from deployer.core.errors import InternalError, VerifyFailed
from deployer.core.kernel import ArgValue, Const, Extent, First, Flag, Last, Length, Offset, Stride, UpdateNumber
from deployer.core.level import L_HOME, L_INNER, L_OUTER, CrossStepTransfer, FusedLaunch, Residency
from deployer.core.plan import Home, Plan, PlanOperand, PlanStep, Tiling
from deployer.core.target import Target
from deployer.kernel_variants.conditions import variants_of
from deployer.verify.boxes import Span, step_pieces
from deployer.verify.tiling import need

# Rule `transfer`: no cross-step transfer reads or writes memory that a step in between writes or needs. Room for the
# slots in all of these steps is checked by rule `overlap`, with the lives below.

Lives = Mapping[tuple[int, str], tuple[int, int]]
"""First and last step in which the outermost slots of a cross-step transfer are in use, by step and argument."""


def cross_step_lifetimes(plan: Plan) -> Lives:
    """The lives of the slots of cross-step transfers; other slots are in use in their step alone."""
    lives: dict[tuple[int, str], tuple[int, int]] = {}
    for c in plan.cross_step_transfers:
        first, last = lives.get((c.step, c.arg), (c.step, c.step))
        lives[c.step, c.arg] = min(first, c.at), max(last, c.at)
    return lives


def outer_slots(operand: PlanOperand) -> int:
    """The number of the level in which its home's transfers end; -1 where it is resident."""
    return L_HOME if operand.stage_slots else L_INNER if operand.slots else -1


def check_cross_step(plan: Plan) -> None:
    """Each cross-step transfer is one that its step makes, and no step that it crosses forbids it."""
    homes = {home.storage: home for home in plan.homes}
    twice = [
        key
        for key, count in Counter((c.step, c.arg, c.direction) for c in plan.cross_step_transfers).items()
        if count > 1
    ]
    need(not twice, "transfer", f"transfer {twice[:1]} crosses twice")
    need(
        plan.options.cross_step_prefetch or not plan.cross_step_transfers,
        "transfer",
        "transfers cross steps, which the options forbid",
    )
    for c in plan.cross_step_transfers:
        need(
            0 <= c.step < len(plan.steps),
            "transfer",
            f"a transfer crosses from or to step {c.step}, which there is not",
        )
        step = plan.steps[c.step]
        place = (
            f"step {step.index} {step.name!r} ({step.op}): the transfer {c.direction} of {c.arg!r} crosses step {c.at}"
        )
        operand = next((o for o in step.operands if o.arg == c.arg), None)
        if operand is None:
            raise VerifyFailed("transfer", f"{place}, and there is no such operand")
        moves = outer_slots(operand) == (L_HOME if step.staging else L_INNER)
        moves = moves and operand.mode != ("out" if c.direction == "in" else "in")
        need(moves, "transfer", f"{place}, and the step's outermost loop moves no such operand")
        _check_between(c, plan, operand, homes[operand.storage], place)


def _check_between(c: CrossStepTransfer, plan: Plan, operand: PlanOperand, home: Home, place: str) -> None:
    """Check the steps from the other end of the transfer to the operand's own, which is not among them."""
    ordered = c.at < c.step if c.direction == "in" else c.at > c.step
    need(
        ordered and 0 <= c.at < len(plan.steps),
        "transfer",
        f"{place}, which is not {'before' if c.direction == 'in' else 'after'} it",
    )
    steps = plan.steps[c.at : c.step] if c.direction == "in" else plan.steps[c.step + 1 : c.at + 1]
    graphs = {step.graph for step in steps} | {plan.steps[c.step].graph}
    need(len(graphs) == 1, "transfer", f"{place}, of another graph")
    need(home.first <= c.at <= home.last, "transfer", f"{place}, in which {operand.storage!r} does not live")
    for step in steps:
        against = _against(step, operand.storage, c)
        need(not against, "transfer", f"{place}, and step {step.index} {step.name!r} {against} {operand.storage!r}")
    if c.direction == "out":
        return
    for other in plan.cross_step_transfers:
        if other.direction == "out" and other.step < c.at <= other.at:
            written = next(o for o in plan.steps[other.step].operands if o.arg == other.arg).storage
            same = written == operand.storage
            need(not same, "transfer", f"{place}, until whose end step {other.step} still writes {written!r}")


def _against(step: PlanStep, storage: str, transfer: CrossStepTransfer) -> str:
    """Name the access of a step that its storage's cross-step transfer forbids; empty if there is none."""
    for o in step.operands:
        if o.storage == storage and o.mode != "in":
            return "writes"
        if o.storage == storage and transfer.direction == "out":
            return "reads"
    return ""


# Rule `residency`: copies in the middle level hold the content that the steps expect. Room for them is checked by rule
# `overlap`, as copies have homes.

Moves = dict[int, list[tuple[str, str]]]
"""By the step in which they start, or in which they are awaited, the homes from and to which copies go."""


def check_residencies(plan: Plan) -> None:
    """No step finds old content, nor changes what a copy under way reads or writes, and no copy leaves its graph."""
    homes = {home.storage: home for home in plan.homes}
    residencies: dict[str, list[Residency]] = defaultdict(list)
    for residency in plan.residencies:
        residencies[residency.storage].append(residency)
    need(
        plan.options.cross_step_prefetch or not plan.residencies,
        "residency",
        "storages are copied between steps, which the options forbid",
    )
    starts: Moves = defaultdict(list)
    ends: Moves = defaultdict(list)
    for storage, group in residencies.items():
        before = -1
        for number, residency in enumerate(group):
            text = f"residency {number} of {storage!r}, in steps {residency.begin}..{residency.end}"
            _outline(plan, residency, homes, text)
            need(before < residency.begin, "residency", f"{text}, begins before the one before it ends")
            before = residency.end
            if residency.begin < residency.first:
                starts[residency.begin].append((storage, residency.name))
                ends[residency.first - 1].append((storage, residency.name))
            if residency is not group[-1]:
                written = max((s.index for s in plan.steps if residency.name in _written(s)), default=residency.end)
                need(
                    residency.first <= written < residency.end,
                    "residency",
                    f"{text}, goes out without being written before",
                )
                starts[written + 1].append((residency.name, storage))
                ends[residency.end].append((residency.name, storage))
    _contents(plan, starts, ends)


def check_cached_storages(tiling: Tiling) -> None:
    """Copies are of spilled storages, and each step that uses such a storage is in one of its residencies."""
    spans = [(v.storage, range(v.first, v.last + 1)) for v in tiling.residencies]
    of = {storage for storage, _ in spans}
    need(
        of <= set(tiling.spilled),
        "residency",
        f"{sorted(of - set(tiling.spilled))} have residencies, and are not spilled",
    )
    ordered = [(v.first, v.storage) for v in tiling.residencies] == sorted(
        (v.first, v.storage) for v in tiling.residencies
    )
    need(ordered, "residency", "the residencies are not in the order of their first steps")
    program = tiling.lifetimes.schedule.program
    names = [residency.name for residency in tiling.residencies]
    need(len({*names, *program.tensors}) == len(names) + len(program.tensors), "residency", "copies share a name")
    for step in tiling.lifetimes.schedule.steps:
        for storage in {program.storage(o.tensor) for o in step.access.operands} & of:
            count = sum(name == storage and step.index in span for name, span in spans)
            need(
                count == 1,
                "residency",
                f"step {step.index} {step.name!r} uses {storage!r}, and is in {count} of its residencies",
            )


def _written(step: PlanStep) -> set[str]:
    return {o.storage for o in step.operands if o.mode != "in"}


def _outline(plan: Plan, residency: Residency, homes: dict[str, Home], text: str) -> None:
    """The storage is a value at home in the outermost level, and has a copy as large in the middle level."""
    need(
        residency.storage in homes and residency.name in homes,
        "residency",
        f"{text}: there is no home, or none of the copy",
    )
    home, copy = homes[residency.storage], homes[residency.name]
    levels = [level.name for level in plan.levels]
    need(
        [home.level, copy.level] == [*levels[L_OUTER:], levels[L_HOME]],
        "residency",
        f"{text}: the homes are in other levels",
    )
    need(not (home.loaded or home.persistent), "residency", f"{text}: the storage is not a value")
    need(home.type == copy.type, "residency", f"{text}: the copy is a {copy.type}, the storage a {home.type}")
    ordered = home.first <= residency.begin <= residency.first <= residency.last <= residency.end <= home.last
    need(
        ordered and (copy.first, copy.last) == (residency.begin, residency.end),
        "residency",
        f"{text}: the copy has another life",
    )
    graphs = {step.graph for step in plan.steps[residency.begin : residency.end + 1]}
    need(len(graphs) == 1, "residency", f"{text}: it is of several graphs")


def _contents(plan: Plan, starts: Moves, ends: Moves) -> None:
    """In the order of the steps: which homes hold what was written last, and which a copy under way reads or writes."""
    names = {name: residency.storage for residency in plan.residencies for name in (residency.name, residency.storage)}
    current, reading, writing = set[str](), list[str](), list[str]()
    for step in plan.steps:
        for source, target in starts[step.index]:
            need(source in current, "residency", f"step {step.index}: {source!r} is copied before it is written")
            need(
                not {source, target} & {*writing},
                "residency",
                f"step {step.index}: {source!r} or {target!r} is being written",
            )
            reading.append(source)
            writing.append(target)
        for o in step.operands:
            if o.storage not in names:
                continue
            text = f"step {step.index} {step.name!r}: operand {o.arg!r} in {o.storage!r}"
            need(o.storage not in writing, "residency", f"{text}, which a copy under way writes")
            need(o.mode == "in" or o.storage not in reading, "residency", f"{text}, which a copy under way reads")
            need(o.mode == "out" or o.storage in current, "residency", f"{text}, which does not hold it")
            if o.mode != "in":
                current -= {name for name, storage in names.items() if storage == names[o.storage]}
                current.add(o.storage)
        for source, target in ends[step.index]:
            reading.remove(source)
            writing.remove(target)
            current.add(target)


# Rule `fused launch`: steps that share one start of the cores call one kernel. Cores are at different steps of a launch
# at the same time, so no step may touch a byte that another writes.


def check_fused_launches(plan: Plan) -> None:
    """Each launch is some steps of one graph without transfers, and none of them writes what another one touches."""
    need(
        plan.options.allow_rewrites or not plan.fused_launches,
        "fused launch",
        "steps share a start, which the options forbid",
    )
    homes, end = {home.storage: home for home in plan.homes}, 0
    for launch in plan.fused_launches:
        place = f"steps {launch.first} to {launch.last} share a start"
        need(
            end <= launch.first < launch.last < len(plan.steps),
            "fused launch",
            f"{place}, and are not two or more behind others",
        )
        end = launch.last + 1
        steps = plan.steps[launch.first : end]
        _alike(plan, launch, steps, place)
        for one, other in itertools.combinations([_touched(step, homes) for step in steps], 2):
            _check_disjoint(one, other, place)


def _alike(plan: Plan, launch: FusedLaunch, steps: tuple[PlanStep, ...], place: str) -> None:
    """The steps are of one graph and kernel, their tables lie side by side, and only their kernels run in them."""
    users, first = Counter(plan.tables), steps[0]
    for step in steps:
        at = f"{place}, and step {step.index} {step.name!r}"
        need(
            step.graph == first.graph and step.kernel == first.kernel,
            "fused launch",
            f"{at} is of another graph or kernel",
        )
        need(
            _set_at_run_time(step) == _set_at_run_time(first),
            "fused launch",
            f"{at} has other arguments that passes change",
        )
        need(len(step.tile_cycles) == 1, "fused launch", f"{at} has {len(step.tile_cycles)} tiles")
        moved = [o.arg for o in step.operands if o.slots or o.stage_slots]
        need(not moved, "fused launch", f"{at} moves {moved[:1]}")
        need(not plan.tables or users[plan.tables[step.index]] == 1, "fused launch", f"{at} shares its argument table")
        moving = [c.step for c in plan.cross_step_transfers if c.at == step.index]
        need(not moving, "fused launch", f"transfers of step {moving[:1]} begin or end in step {step.index}")
    fetching = [step for step in launch.followers if step in plan.groups]
    need(not fetching, "fused launch", f"{place}, and a group of argument tables begins at step {fetching[:1]}")


def _set_at_run_time(step: PlanStep) -> dict[str, object]:
    return {name: value for name, value in step.args.items() if isinstance(value, Flag | UpdateNumber)}


def _touched(step: PlanStep, homes: Mapping[str, Home]) -> list[tuple[Home, bool]]:
    """The homes of a step's operands, and whether it writes them."""
    return [(homes[o.storage], o.mode != "in") for o in step.operands]


def _check_disjoint(one: list[tuple[Home, bool]], other: list[tuple[Home, bool]], place: str) -> None:
    """No byte that the one step writes is among those that the other reads or writes."""
    for (a, writes), (b, changes) in itertools.product(one, other):
        disjoint = a.level != b.level or a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        need(
            disjoint or not (writes or changes),
            "fused launch",
            f"{place}, and two use bytes of {a.storage!r} that one of them writes",
        )


# Rule `variant`: the kernel variant that a step calls is valid for each of its calls, whose arguments are computed from
# the plan alone.


def check_variant(step: PlanStep, target: Target) -> None:
    """The target has the function that a step calls, and each of its calls meets what that needs."""
    if not step.variant:
        return
    place = f"step {step.index} {step.name!r} ({step.op})"
    found = next((x for x in variants_of(step.kernel.symbol, target) if x.name == step.variant), None)
    if found is None:
        cause = f"{place}: kernel {step.kernel.symbol} has no variant {step.variant!r} on this target"
        need(False, "variant", cause)
        return
    for tile in _unlike(step):
        values = {name: _argument(step, value, tile) for name, value in step.args.items() if name in found.names}
        pointers = {name: any(o.arg == name for o in step.operands) for name, _, _ in step.kernel.pointers}
        broken = found.broken({**values, **pointers}, target.cores)
        facts = ("tile", ", ".join(f"{dim} {first}..{first + n}" for dim, (first, n) in tile.items()))
        cause = f"{place}: {step.variant!r} is not valid for a call, which needs {broken}"
        need(not broken, "variant", cause, facts)


def _unlike(step: PlanStep) -> Iterator[dict[str, Span]]:
    """A tile of each kind: those whose pieces have the same lengths, ends and windows make equal calls."""
    pieces = step_pieces(step)
    kinds = [
        {_kind(step, name, piece, pieces[name]): piece for piece in reversed(pieces[name])}.values() for name in pieces
    ]
    for spans in itertools.product(*kinds):
        yield dict(zip(pieces, spans, strict=True))


def _kind(step: PlanStep, dim: str, piece: Span, among: list[Span]) -> tuple[object, ...]:
    axes = [(a, e) for o in step.operands for a, e in zip(o.axes, o.view, strict=True) if isinstance(a, Windowed)]
    windows = [(a.span({dim: piece}, e)[1], a.offset({dim: piece}, e)) for a, e in axes if a.dim == dim]
    return piece[1], piece == among[0], piece == among[-1], *windows


def _argument(step: PlanStep, value: ArgValue, tile: Mapping[str, Span]) -> float:
    """A scalar of the call for a tile."""
    sums = [d for d in step.dims if d.reduction]
    match value:
        case Const(number):
            return number
        case Extent(dim):
            return tile[dim][1]
        case First():
            return all(tile[d.name][0] == 0 for d in sums)
        case Last():
            return all(sum(tile[d.name]) == d.size for d in sums)
        case Length(arg, axis):
            return _box(_operand(step, arg), tile)[axis]
        case Stride(arg, axis):
            operand = _operand(step, arg)
            lengths = _box(operand, tile) if operand.slots else operand.view
            return 0 if isinstance(operand.axes[axis], Broadcast) else math.prod(lengths[axis + 1 :])
        case Offset(arg, axis):
            operand = _operand(step, arg)
            mapped = operand.axes[axis]
            if isinstance(mapped, Windowed):
                return mapped.offset({mapped.dim: tile[mapped.dim]}, operand.view[axis])
    raise InternalError(f"a condition asks for {value}, which differs between calls of a kind")


def _operand(step: PlanStep, arg: str) -> PlanOperand:
    return next(o for o in step.operands if o.arg == arg)


def _box(operand: PlanOperand, tile: Mapping[str, Span]) -> list[int]:
    """The lengths of what a tile touches of an operand."""
    spans = {dim: tile[dim] for dim in {a.dim for a in operand.axes if isinstance(a, At | Windowed)}}
    return [axis.span(spans, extent)[1] for axis, extent in zip(operand.axes, operand.view, strict=True)]
