"""The judge of a plan without its tiling: each step is a valid call of a kernel, and each buffer has its own memory.

It does not check that the plan computes the user's model; the artefact's seal shows that the deployer wrote the plan.
"""

import math
from dataclasses import replace

from deployer.core.access import Access, Dim, Operand, Windowed
from deployer.core.errors import VerifyFailed
from deployer.core.ir import DTYPES, Node, Program, Tensor
from deployer.core.kernel import (
    MOST_NUMBERS,
    ArgValue,
    Const,
    Extent,
    Flag,
    Length,
    Offset,
    Start,
    Stride,
    UpdateNumber,
)
from deployer.core.level import DEPTH, L_HOME, L_INNER, L_OUTER
from deployer.core.operator import execution_of, fused_update, registry
from deployer.core.plan import (
    Home,
    Lifetimes,
    Plan,
    PlanOperand,
    PlanStep,
    Schedule,
    Stage,
    Step,
    StepTiling,
    Tiling,
)
from deployer.core.target import Target
from deployer.core.traits.training import Optimizer
from deployer.verify.cross_step import check_variant
from deployer.verify.plan import check_kernel, check_moves, check_room
from deployer.verify.tiling import check_choice, check_depth, need, verify_options, verify_running

GRAPHS = (("train", "optimizer"), ("train",), ("infer",))
LARGEST = (1 << 31) - 1
RANGES = {"u32": (0, (1 << 32) - 1), "i32": (-(1 << 31), (1 << 31) - 1)}
MOST_SLOTS = 3


def verify_plan_alone(plan: Plan) -> None:
    """Raise VerifyFailed where the plan breaks a rule, and OptionProblem for invalid options.

    Rules: plan, variant, dataflow, lifetime, ingress, egress, tile, sums, stage, slots, cover, residency,
    table, transfer, fused launch, alignment, overlap, budget or cycles.
    """
    target = verify_options(plan.options)
    verify_running(plan.running)
    _interface(plan, target)
    homes = _homes(plan)
    for position, step in enumerate(plan.steps):
        _outline(step, position, plan, homes)
    tiling = _as_tiling(plan)
    for step, declared, choice in zip(plan.steps, tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        _arguments(step)
        check_choice(declared, choice, tiling, target)
        check_moves(step, declared, homes, target)
        check_kernel(step, tiling)
        check_variant(step, target)
    _dataflow(plan, homes)
    check_room(plan, target)


def _place(step: PlanStep) -> str:
    return f"step {step.index} {step.name!r} ({step.op})"


def _distinct(names: tuple[str, ...], label: str) -> None:
    need(len(set(names)) == len(names), "plan", f"{label} are not distinct")


def _interface(plan: Plan, target: Target) -> None:
    """The levels are the target's innermost, a harness runs the graphs, and each input and output has a storage."""
    names = [level.name for level in plan.levels]
    target_names = [level.name for level in target.levels]
    need(target.least_depth <= len(names) <= DEPTH, "plan", f"a plan does not use {len(names)} levels")
    need(names == target_names[: len(names)], "plan", f"levels {names} are not the target's {target_names}")
    check_depth(len(names), plan.options, target)
    need(plan.graphs in GRAPHS, "plan", f"there is no harness for graphs {plan.graphs}")
    need(0 <= plan.table_bytes <= LARGEST, "table", f"tables have {plan.table_bytes} B")
    _distinct(plan.data, "data inputs")
    _distinct(plan.weights, "weights")
    _distinct(plan.outputs, "outputs")
    need(bool(plan.outputs), "plan", "there are no outputs")
    need("train" not in plan.graphs or len(plan.outputs) == 1, "plan", "a training graph has one output, its loss")
    interface = {*plan.data, *plan.weights, *plan.outputs}
    need(set(plan.storage_of) == interface, "plan", "storages are not those of data, weights and outputs")


def _homes(plan: Plan) -> dict[str, Home]:
    """The home of each storage; it has the bytes of its type, and a home for data, weights and outputs exists."""
    homes, final = {home.storage: home for home in plan.homes}, max(len(plan.steps) - 1, 0)
    _distinct(tuple(home.storage for home in plan.homes), "homes")
    levels = [level.name for level in plan.levels]
    data = {plan.storage_of[name] for name in plan.data}
    weights = {plan.storage_of[name] for name in plan.weights}
    for home in plan.homes:
        place, kind = f"the home of {home.storage!r}", home.type
        valid = kind.dtype in DTYPES and all(1 <= n <= LARGEST for n in kind.shape)
        need(valid and home.bytes == kind.bytes <= LARGEST, "plan", f"{place} is not made for {kind}")
        need(home.level in levels, "plan", f"{place} is in {home.level!r}, which the plan does not use")
        need(0 <= home.offset <= LARGEST, "alignment", f"{place} is at {home.offset}")
        span = f"{place} is live in steps {home.first}..{home.last} of 0..{final}"
        need(0 <= home.first <= home.last <= final, "lifetime", span)
        need(not home.persistent or (home.first, home.last) == (0, final), "lifetime", f"{span}, and persistent")
        need(not home.loaded or home.first == 0, "lifetime", f"{span}, and loaded")
        need(home.loaded or not home.persistent or "train" in plan.graphs, "lifetime", f"{place} is never filled")
        need(not home.loaded or home.persistent or home.storage in data, "lifetime", f"{place} is never filled")
    for storage in sorted(weights):
        lasting = storage in homes and homes[storage].loaded and homes[storage].persistent
        need(lasting, "ingress", f"weight {storage!r} has no home that is filled and kept")
    for storage in sorted(data & set(homes)):
        need(homes[storage].loaded, "ingress", f"the home of {storage!r} is not filled")
    for storage in sorted({plan.storage_of[name] for name in plan.outputs}):
        need(storage in homes, "egress", f"output {storage!r} has no home")
    loss = homes[plan.storage_of[plan.outputs[0]]].type
    scalar = loss.dtype == "float32" and loss.size == 1
    need(scalar or "train" not in plan.graphs, "plan", f"the loss is a {loss}")
    return homes


def _outline(step: PlanStep, position: int, plan: Plan, homes: dict[str, Home]) -> None:
    """The step stands at its index in its graph, calls a registered kernel, and has valid dims and operands."""
    place = _place(step)
    need(step.index == position, "plan", f"{place} stands at position {position}")
    order = [
        plan.graphs.index(s.graph) if s.graph in plan.graphs else -1 for s in plan.steps[position - 1 : position + 1]
    ]
    need(
        step.graph in plan.graphs and order == sorted(order),
        "plan",
        f"{place} is in graph {step.graph!r}, out of order",
    )
    operator = registry().get(step.op)
    need(
        operator is not None and operator.kernel == step.kernel,
        "plan",
        f"{place} is not what kernel {step.kernel.symbol!r} does",
    )
    _distinct(tuple(d.name for d in step.dims), f"{place}: dims")
    tiles = 1
    for d in step.dims:
        text = f"{place}: tile {d.name}={d.tile} of {d.outer} of {d.size}"
        need(1 <= d.tile <= d.outer <= d.size <= LARGEST, "plan", text)
        full, remainder = divmod(d.size, d.outer)
        tiles *= full * -(-d.outer // d.tile) + -(-remainder // d.tile)
    need(tiles == len(step.tile_cycles), "cycles", f"{place}: {tiles} tiles, {len(step.tile_cycles)} costs")
    pointers = [name for name, _, _ in step.kernel.pointers]
    args = [o.arg for o in step.operands]
    need(args == [p for p in pointers if p in args], "plan", f"{place}: operands {args}, the kernel has {pointers}")
    staged = any(o.places[L_HOME].count for o in step.operands)
    need(staged == (step.staging is not None), "stage", f"{place}: its stage is not that of its operands")
    if step.staging is not None:
        same = sorted(step.staging.order) == sorted(d.name for d in step.dims)
        need(same, "stage", f"{place}: the stage's order {step.staging.order} is not over its dims")
    for o in step.operands:
        _operand(step, o, homes)


def _operand(step: PlanStep, operand: PlanOperand, homes: dict[str, Home]) -> None:
    """An operand is a view of a home that is live in the step, and its axes depend on dims of the step only."""
    place = f"{_place(step)}: operand {operand.arg!r}"
    need(operand.storage in homes, "plan", f"{place} has no home")
    home = homes[operand.storage]
    lives = home.first <= step.index <= home.last
    need(lives, "lifetime", f"{place} lies in {operand.storage!r}, which lives in steps {home.first}..{home.last}")
    need(len(operand.axes) == len(operand.view), "plan", f"{place} has {len(operand.axes)} axes over {operand.view}")
    extents = all(1 <= n <= LARGEST for n in operand.view) and math.prod(operand.view) == home.type.size
    need(extents, "cover", f"{place}, seen as {list(operand.view)}, is not {home.type}")
    need(not operand.overwrite_on_first_pass or operand.mode == "inout", "plan", f"{place} is fresh and not in place")
    for axis in operand.axes:
        dim = getattr(axis, "dim", None)
        valid = dim is None or dim in {d.name for d in step.dims}
        need(valid, "plan", f"{place} depends on {dim!r}, which is not a dim of the step")
        if isinstance(axis, Windowed):
            sizes = (axis.kernel, axis.stride, axis.dilation, getattr(axis, "count", 1))
            sound = all(1 <= n <= LARGEST for n in sizes) and abs(axis.pad) <= LARGEST
            need(sound, "plan", f"{place} has the window {axis}")
    for slots in operand.places:
        bounded = 0 <= slots.count <= MOST_SLOTS and 0 <= slots.bytes <= LARGEST and 0 <= slots.offset <= LARGEST
        need(bounded, "slots", f"{place} has {slots.count} slots of {slots.bytes} B at {slots.offset}")


def _as_tiling(plan: Plan) -> Tiling:
    """A tiling rebuilt from the plan, so that the rules of tilings can judge it."""
    tensors = {h.storage: Tensor(h.storage, h.type, "value", h.storage) for h in plan.homes}
    original = {residency.name: residency.storage for residency in plan.residencies}
    for step in plan.steps:
        for o in step.operands:
            storage, kind = original.get(o.storage, o.storage), replace(tensors[o.storage].type, shape=o.view)
            tensor = tensors.setdefault(o.tensor, Tensor(o.tensor, kind, "value", storage))
            same = tensor.storage == storage
            need(same, "plan", f"{_place(step)}: {o.tensor!r} lies in {o.storage!r}, elsewhere in {tensor.storage!r}")
    number = {use.name: i for i, use in enumerate(plan.levels)}
    resident, spilled = (
        tuple(home.storage for home in plan.homes if number[home.level] == level) for level in (L_INNER, L_OUTER)
    )
    program = Program(tensors, (), plan.data, plan.weights, (), "", plan.outputs, {})
    schedule = Schedule(plan.options, program, tuple(_step(step) for step in plan.steps))
    choices = tuple(_choice(step) for step in plan.steps)
    lives, tables = Lifetimes(schedule, ()), (plan.groups, plan.tables)
    return Tiling(lives, resident, spilled, choices, plan.table_bytes, (), *tables, plan.residencies)


def _step(step: PlanStep) -> Step:
    dims = tuple(Dim(d.name, d.size, "reduction" if d.reduction else "parallel") for d in step.dims)
    operands = tuple(Operand(o.arg, o.tensor, o.mode, o.view, o.axes, o.overwrite_on_first_pass) for o in step.operands)
    node = Node(step.name, step.op, (), _outputs(step))
    return Step(step.index, step.graph, node, step.kernel, Access(dims, operands), step.args, 0)


def _outputs(step: PlanStep) -> tuple[str, ...]:
    """The outputs of a step in their places, empty where the kernel leaves an optional one out."""
    optional_outputs = execution_of(registry()[step.op]).optional_outputs if step.op in registry() else {}
    there = {optional_outputs[o.arg]: o.tensor for o in step.operands if o.arg in optional_outputs}
    return tuple(there.get(place, "") for place in range(max(there, default=-1) + 1))


def _choice(step: PlanStep) -> StepTiling:
    stage = None
    if step.staging is not None:
        slots = {o.arg: o.places[L_HOME].count for o in step.operands if o.places[L_HOME].count}
        stage = Stage({d.name: d.outer for d in step.dims}, step.staging.order, step.staging.buffering, slots)
    else:
        split = [d.name for d in step.dims if d.outer != d.size]
        need(not split, "stage", f"{_place(step)} has no stage, which cuts {split}")
    order = tuple(d.name for d in step.dims)
    tile, slots = {d.name: d.tile for d in step.dims}, {o.arg: o.places[L_INNER].count for o in step.operands}
    return StepTiling(step.name, tile, order, step.buffering, slots, stage)


def _arguments(step: PlanStep) -> None:
    """Each scalar of the kernel has a value of its type, and refers to existing dims and axes only."""
    place, scalars = _place(step), dict(step.kernel.scalars)
    need(
        set(step.args) == set(scalars),
        "plan",
        f"{place}: arguments {sorted(step.args)}, the kernel has {sorted(scalars)}",
    )
    for name, value in step.args.items():
        need(_sound(step, value, scalars[name]), "plan", f"{place}: argument {name} cannot be {value}")


def _sound(step: PlanStep, value: ArgValue, kind: str) -> bool:
    match value:
        case Const(number):
            low, high = RANGES.get(kind, (-math.inf, math.inf))
            return (kind == "f32" or isinstance(number, int)) and low <= number <= high
        case Extent(dim) | Start(dim):
            return kind != "f32" and dim in {d.name for d in step.dims}
        case Stride(arg, axis) | Length(arg, axis):
            return kind != "f32" and _axis(step, arg, axis) is not None
        case Offset(arg, axis):
            return kind == "i32" and isinstance(_axis(step, arg, axis), Windowed)
        case Flag():
            return kind != "f32" and step.graph == "train"
        case UpdateNumber(place):
            operator = registry().get(step.op)
            updates = bool(operator and (operator.role(Optimizer) or fused_update(operator)))
            return kind == "f32" and updates and 0 <= place < MOST_NUMBERS
    return kind != "f32"


def _axis(step: PlanStep, arg: str, index: int) -> object:
    operand = next((o for o in step.operands if o.arg == arg), None)
    return operand.axes[index] if operand is not None and 0 <= index < len(operand.axes) else None


def _dataflow(plan: Plan, homes: dict[str, Home]) -> None:
    """Each read storage was loaded, is persistent or was written by an earlier step; some step writes each output.

    What is in which copy of a storage is judged with its residencies.
    """
    defined = {home.storage for home in homes.values() if home.loaded or home.persistent}
    copied = {residency.name for residency in plan.residencies}
    for step in plan.steps:
        for o in step.operands:
            available = o.storage in defined | copied or o.mode == "out" or o.overwrite_on_first_pass
            need(available, "dataflow", f"{_place(step)} reads {o.storage!r} before it is made")
        defined |= {o.storage for o in step.operands if o.mode != "in"}
    for name in plan.outputs:
        if plan.storage_of[name] not in defined:
            raise VerifyFailed("dataflow", f"no step makes the output {name!r}")
