"""The judge of tilings: schedule, lifetimes, tiles and slots, one rule per function; nothing here calls the planner."""

import itertools
import math
from dataclasses import dataclass

from deployer.core.errors import OptionProblem, VerifyFailed
from deployer.core.ir import Program, Role
from deployer.core.kernel import SCALARS, Kernel
from deployer.core.operator import execution_of, operator_of, registry
from deployer.core.plan import Lifetime, Options, RunOptions, Step, StepTiling, Tiling
from deployer.core.target import Target, load, names
from deployer.lr_schedules.run_time import kernel_args
from deployer.tilers.strategies import strategy
from deployer.verify.boxes import (
    all_pieces,
    axis_spans,
    strided_levels,
    written_once,
)

MOST_PASSES = (1 << 31) - 1
LARGEST_FLOAT = 3.4028234663852886e38
"""The largest float32: the harness compares losses in that type."""
DMA_LEVELS = 2
"""Strided levels a transfer of the HAL has besides its contiguous run."""


def verify_tiling(tiling: Tiling) -> None:
    """Raise VerifyFailed where a tiling breaks a rule: schedule, lifetime, tile, sums, stage, slots, cover or table."""
    verify_options(tiling.lifetimes.schedule.options)
    _order(tiling)
    _declared(tiling)
    _dataflow(tiling)
    _lifetimes(tiling)
    target = target_of(tiling)
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        check_choice(step, choice, tiling, target)
    packing_slack = len(tiling.packing_slack) == len(target.hops) and min(tiling.packing_slack, default=0) >= 0
    need(packing_slack, "tile", f"{tiling.packing_slack} B are withheld from {len(target.levels)} levels")
    check_depth(tiling.depth, tiling.lifetimes.schedule.options, target)
    steps = [(s.graph, s.kernel) for s in tiling.lifetimes.schedule.steps]
    check_tables(steps, tiling.table_bytes, tiling.groups, target, tiling.tables)


def check_choice(step: Step, choice: StepTiling, tiling: Tiling, target: Target) -> None:
    """A step's tile, stage and slots are valid, its boxes lie inside its tensors, and it writes each output once.

    `target` is the tiling's.
    """
    _tile(step, choice)
    _whole_sums(step, choice, target)
    _stage(step, choice, tiling)
    _slots(step, choice, tiling)
    _inside(step, choice, tiling.lifetimes.schedule.program)
    _covers(step, choice)


def need(holds: bool, rule: str, cause: str, *facts: tuple[str, str]) -> None:
    """Raise VerifyFailed with the rule, the cause and the facts unless the condition holds."""
    if not holds:
        raise VerifyFailed(rule, cause, facts)


def target_of(tiling: Tiling) -> Target:
    """The target with the budgets and cores of the tiling's options."""
    options = tiling.lifetimes.schedule.options
    return load(options.target).with_options(options.budgets or {}, options.cores)


def check_depth(depth: int, options: Options, target: Target) -> None:
    """A tiling uses no level further out than its options allow; `depth` is the number of levels in use."""
    reach = len(target.within(options.outermost))
    need(depth <= reach, "stage", f"tensors lie in {depth} levels, by the options in {reach}")


def check_tables(
    steps: list[tuple[str, Kernel]], table_bytes: int, groups: tuple[int, ...], target: Target, tables: tuple[int, ...]
) -> dict[int, int]:
    """The argument structs of all steps, or those of each group, fit into `table_bytes` of the inner level.

    `steps` are graphs and kernels. The groups begin at steps in ascending order, and none reaches into another graph.
    `tables` are, if steps share theirs, for each step the first one with the same table, of its graph and kernel. The
    answer is the bytes of each group, by its first step.
    """
    need(table_bytes % target.alignment == 0, "table", f"tables have {table_bytes} B, not on {target.alignment} B")
    need(not groups or len(target.levels) > 1, "table", f"{target.name!r} has no level that tables come from")
    graphs = {i for i, (graph, _) in enumerate(steps) if i == 0 or graph != steps[i - 1][0]}
    ordered = all(first < second for first, second in itertools.pairwise(groups))
    sound = ordered and set(groups) <= set(range(len(steps))) and graphs <= set(groups)
    need(not groups or sound, "table", f"groups begin at steps {groups}, graphs at {sorted(graphs)} of {len(steps)}")
    of_all = tables or range(len(steps))
    firsts = len(of_all) == len(steps) and all(0 <= table <= step for step, table in enumerate(of_all))
    need(firsts, "table", f"{len(tables)} numbers of tables are not those of {len(steps)} steps")
    for step, table in enumerate(of_all):
        same = of_all[table] == table and steps[table] == steps[step]
        need(same, "table", f"step {step} has the table of step {table}, which is none for its graph and kernel")
    need(not (tables and groups), "table", f"argument tables are shared by steps and of groups {groups}")
    starts, sizes = groups or (0,), dict[int, int]()
    for first, end in zip(starts, (*starts[1:], len(steps)), strict=True):
        total = 0
        for step in (step for step in range(first, end) if of_all[step] == step):
            kernel = steps[step][1]
            size = target.pointer_bytes * len(kernel.pointers) + sum(SCALARS[kind] for _, kind in kernel.scalars)
            total += -(-size // target.alignment) * target.alignment
        text = f"argument structs of steps {first}..{end - 1} take {total} B and have {table_bytes} B"
        need(total <= table_bytes, "table", text)
        sizes[first] = total
    return sizes if groups else {}


def _place(step: Step) -> str:
    return f"step {step.index} {step.name!r} ({step.node.op})"


def _order(tiling: Tiling) -> None:
    """The schedule has one step per node, graph by graph, with its position as its index, and one tiling per step."""
    schedule = tiling.lifetimes.schedule
    graphs = [s.graph for s in schedule.steps]
    expected = [g.name for g in schedule.program.graphs for _ in g.nodes]
    need(
        graphs == expected,
        "schedule",
        "the steps are not those of the graphs, one graph after the other",
        ("steps", f"{len(graphs)}, in the program {len(expected)}"),
    )
    for index, step in enumerate(schedule.steps):
        need(step.index == index, "schedule", f"{_place(step)} stands at position {index}")
    for graph in schedule.program.graphs:
        nodes = {n.name: n for n in graph.nodes}
        for step in schedule.steps:
            if step.graph == graph.name:
                same = nodes.pop(step.name, None) == step.node
                need(same, "schedule", f"{_place(step)} is not a node of {graph.name}, or there twice")
    names = [choice.step for choice in tiling.steps]
    need(
        names == [s.name for s in schedule.steps],
        "schedule",
        "the tiled steps are not those of the schedule",
    )


def _declared(tiling: Tiling) -> None:
    """A step has its operator's kernel, access and arguments; it takes its node's operands and writes all outputs."""
    program = tiling.lifetimes.schedule.program
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    model = target_of(tiling).kernel_model
    for step in tiling.lifetimes.schedule.steps:
        place = _place(step)
        operator = registry().get(step.node.op)
        need(operator is not None and operator.kernel == step.kernel, "schedule", f"{place}: another kernel")
        if operator is not None:
            access = operator.access(step.node, types)
            need(step.access == access, "schedule", f"{place}: another access than the operator declares")
            same = step.args == kernel_args(step.node, access, model)
            need(same, "schedule", f"{place}: other arguments than the operator declares")
        for o in step.access.operands:
            belongs = o.tensor in (step.node.outputs if o.mode == "out" else step.node.inputs)
            need(belongs, "schedule", f"{place}: operand {o.arg!r} is {o.tensor!r}, which is not the node's")
        storages = {program.storage(o.tensor) for o in step.access.operands if o.writes}
        outputs = {program.storage(name) for name in step.node.outputs if name}
        need(storages == outputs, "schedule", f"{place} does not write exactly its outputs")
        shared = [o.arg for o in step.access.operands if program.storage(o.tensor) in storages]
        need(
            len(shared) == len(storages),
            "schedule",
            f"{place}: operands {shared} share memory that is written",
        )


def _dataflow(tiling: Tiling) -> None:
    """An earlier step of the same graph computes each value that a step reads, and no step overwrites it in between."""
    program = tiling.lifetimes.schedule.program
    produced = {name for node in program.nodes for name in node.outputs if name}
    graph, defined, newest = "", set[str](), dict[str, str]()
    for step in tiling.lifetimes.schedule.steps:
        if step.graph != graph:
            graph, defined, newest = step.graph, set(), {}
        for name in filter(None, step.node.inputs):
            chain = _chain(program, name)
            source = next((link for link in chain if link in produced), chain[-1])
            available = source in defined if source in produced else program.tensors[source].role != "value"
            need(available, "schedule", f"{_place(step)} reads {name!r} before it is made")
            fresh = newest.get(chain[-1], chain[-1])
            need(fresh in chain, "schedule", f"{_place(step)} reads {name!r}, which {fresh!r} has overwritten")
        for name in filter(None, step.node.outputs):
            defined.add(name)
            newest[_chain(program, name)[-1]] = name


def _chain(program: Program, name: str) -> list[str]:
    """The tensors from `name` along its storage to the tensor that owns the memory, which comes last."""
    chain = [name]
    while program.tensors[chain[-1]].storage != chain[-1]:
        chain.append(program.tensors[chain[-1]].storage)
    return chain


@dataclass
class _Use:
    """The first and the last step in which a storage is in use, and the graphs of these uses."""

    first: int
    last: int
    graphs: set[str]


def _uses(tiling: Tiling) -> dict[str, _Use]:
    """The use of every storage that needs memory.

    An output is read from outside after the last step of the graph that computes it. The harness loads and reads every
    weight, even one that no step uses.
    """
    schedule = tiling.lifetimes.schedule
    uses: dict[str, _Use] = {}
    for step in schedule.steps:
        for operand in step.access.operands:
            use = uses.setdefault(schedule.program.storage(operand.tensor), _Use(step.index, step.index, set()))
            use.last = step.index
            use.graphs.add(step.graph)
    for name in schedule.program.outputs:
        read_in = schedule.program.made_in(name)
        end = max((s.index for s in schedule.steps if s.graph == read_in), default=0)
        use = uses.setdefault(schedule.program.storage(name), _Use(0, 0, set()))
        use.last = max(use.last, end)
        use.graphs.add(read_in)
    for name in schedule.program.weights:
        uses.setdefault(name, _Use(0, 0, set()))
    return uses


def _lifetimes(tiling: Tiling) -> None:
    """Each storage in use has one lifetime, which covers its uses by steps and by the harness, and its bytes."""
    schedule = tiling.lifetimes.schedule
    final, uses = len(schedule.steps) - 1, _uses(tiling)
    storages = [life.storage for life in tiling.lifetimes.storages]
    need(sorted(storages) == sorted(uses), "lifetime", "the storages are not those in use, once each")
    for life in tiling.lifetimes.storages:
        tensor, use = schedule.program.tensors[life.storage], uses[life.storage]
        first = 0 if life.loaded or life.persistent else use.first
        last = final if life.persistent else use.last
        span = ("steps", f"{life.first}..{life.last}, used {first}..{last}")
        covered = 0 <= life.first <= first and last <= life.last <= max(final, 0)
        need(covered, "lifetime", f"{life.storage!r} is not alive all the time it is used", span)
        held = life.storage in schedule.program.held
        role = _keeps_to_role(life, tensor.role, use, schedule.options.updates_every_pass, held)
        need(role, "lifetime", f"{tensor.role} {life.storage!r} is wrongly persistent or loaded", span)
        size = ("bytes", f"{life.bytes}, the tensor has {tensor.type.bytes}")
        need(life.bytes == tensor.type.bytes, "lifetime", f"{life.storage!r} has another size", size)
    unknown = sorted(set(tiling.resident) - set(storages))
    need(not unknown, "lifetime", f"resident {unknown} have no lifetime")
    unknown = sorted(set(tiling.spilled) - set(storages) | set(tiling.spilled) & set(tiling.resident))
    need(not unknown, "lifetime", f"spilled {unknown} have no lifetime, or are resident as well")


def _keeps_to_role(life: Lifetime, role: Role, use: _Use, sole: bool, held: bool) -> bool:
    """Whether a lifetime is loaded and persistent as its role requires.

    The harness loads weights, constants and samples. Weights and constants are persistent, samples where they are
    `held`. So are accumulators, unless each update follows one pass (`sole`). Other values live in one graph.
    """
    if life.loaded != (role in ("weight", "constant", "data")):
        return False
    if role == "accumulator":
        return life.persistent or sole
    if role == "data" and held:
        return life.persistent
    return life.persistent == (role in ("weight", "constant")) and (life.persistent or len(use.graphs) == 1)


def _tile(step: Step, choice: StepTiling) -> None:
    """Tile lengths are within their dims, and the loop order has each dim once, the reductions innermost.

    A reduction may be split only if the tiles of all reductions outside of it have length 1.
    """
    place, dims = _place(step), step.access.dims
    names = sorted(d.name for d in dims)
    need(sorted(choice.tile) == names, "tile", f"{place}: tile {choice.tile} is not over dims {names}")
    need(sorted(choice.order) == names, "tile", f"{place}: order {choice.order} is not over dims {names}")
    for d in dims:
        length = choice.tile[d.name]
        need(1 <= length <= d.size, "tile", f"{place}: tile {d.name}={length} is not within 1..{d.size}")
        need(length == d.size or d.splittable, "tile", f"{place}: {d.name} must not be split")
        text = f"{place}: tile {d.name}={length} ends inside of a block, not at a multiple of {d.quantum}"
        need(d.allows(length), "tile", text)
    reductions = [d for d in dims if d.kind == "reduction"]
    inner = choice.order[len(dims) - len(reductions) :]
    need(
        list(inner) == [d.name for d in reductions],
        "tile",
        f"{place}: the reductions are not innermost and in their order in {choice.order}",
    )
    single = True
    for d in reductions:
        text = f"{place}: {d.name} is split under a reduction with tiles longer than 1"
        need(choice.tile[d.name] == d.size or single, "tile", text)
        single = single and choice.tile[d.name] == 1
    for o in step.access.operands:
        levels = strided_levels(o, step.access, choice.tile) if choice.slots.get(o.arg) else 0
        need(levels <= DMA_LEVELS, "tile", f"{place}: {levels} strided levels for {o.arg!r}")


def _whole_sums(step: Step, choice: StepTiling, target: Target) -> None:
    """A kernel that cannot continue a sum gets no part of one: it would start again in each tile."""
    for d in step.access.dims if step.kernel.symbol in target.whole_sums else ():
        tiles = f"{d.name} has tiles of {choice.tile[d.name]} of {d.size}"
        text = f"{_place(step)}: {step.kernel.symbol} of target {target.name!r} takes whole sums, and {tiles}"
        need(d.kind == "parallel" or choice.tile[d.name] == d.size, "sums", text)


def _stage(step: Step, choice: StepTiling, tiling: Tiling) -> None:
    """A step with a spilled operand has a stage, others have none; it has their slots and splits no reduction."""
    place, program, stage = _place(step), tiling.lifetimes.schedule.program, choice.stage
    staged = set(tiling.spilled) - {residency.storage for residency in tiling.residencies}
    spilled = [o for o in step.access.operands if program.storage(o.tensor) in staged]
    need(
        bool(spilled) == (stage is not None),
        "stage",
        f"{place} has {len(spilled)} spilled operands and the stage {stage}",
    )
    if stage is None:
        return
    sizes = step.access.sizes
    need(sorted(stage.tile) == sorted(sizes), "stage", f"{place}: stage {stage.tile} is not over dims {sorted(sizes)}")
    need(
        sorted(stage.order) == sorted(sizes), "stage", f"{place}: the stage's order {stage.order} is not over its dims"
    )
    for d in step.access.dims:
        length = stage.tile[d.name]
        text = f"{place}: stage {d.name}={length}, tile {choice.tile[d.name]}, size {d.size}"
        need(choice.tile[d.name] <= length <= d.size, "stage", text)
        need(length == d.size or (d.splittable and d.kind == "parallel"), "stage", f"{text}: it must not be split")
    args = sorted(o.arg for o in spilled)
    need(sorted(stage.slots) == args, "stage", f"{place}: stage slots {stage.slots}, spilled operands {args}")
    for o in spilled:
        count = stage.slots[o.arg]
        changes = any(stage.tile[d] < sizes[d] for d in o.dims)
        most = (3 if o.mode == "inout" else 2) if stage.buffering == "double" and changes else 1
        need(1 <= count <= most, "stage", f"{place}: operand {o.arg!r} has {count} stage slots of at most {most}")
        levels = strided_levels(o, step.access, stage.tile)
        need(levels <= DMA_LEVELS, "stage", f"{place}: {levels} strided levels for {o.arg!r}")


def _slots(step: Step, choice: StepTiling, tiling: Tiling) -> None:
    """A resident operand has no slot, nor has one that is used at home unless it is staged; another has one.

    In a double-buffered step an operand whose box changes has two slots, or three if it is read and written.
    """
    place, program = _place(step), tiling.lifetimes.schedule.program
    args = sorted(o.arg for o in step.access.operands)
    need(sorted(choice.slots) == args, "slots", f"{place}: slots {choice.slots} are not over operands {args}")
    resident = set(tiling.resident)
    for o in step.access.operands:
        count, storage = choice.slots[o.arg], program.storage(o.tensor)
        home = f"{storage!r} is {'' if storage in resident else 'not '}resident"
        text = f"{place}: operand {o.arg!r} has {count} slots, and {home}"
        most = 3 if o.mode == "inout" else 2
        stays = storage in resident or (o.at_home and not (choice.stage and o.arg in choice.stage.slots))
        need((count == 0) == stays and 0 <= count <= most, "slots", text)
        outer = choice.outer(step.access)
        changes = any(choice.tile[d] < outer[d] for d in o.dims)
        if choice.buffering == "double" and count:
            moves = "changes" if changes else "stays"
            text = f"{place} is double-buffered: {o.arg!r} has {count} slots, its box {moves}"
            need((count > 1) == changes, "slots", text)
        need(count < 2 or choice.buffering == "double", "slots", f"{place} is single: {o.arg!r} has {count} slots")
    single_tile = choice.tile == choice.outer(step.access)
    need(single_tile or any(choice.slots.values()), "slots", f"{place} is resident and yet has more than one tile")


def _inside(step: Step, choice: StepTiling, program: Program) -> None:
    """Every box lies inside its operand's view, and the view has as many elements as its tensor."""
    pieces = all_pieces(step.access, choice)
    for o in step.access.operands:
        place = f"{_place(step)}: operand {o.arg!r}"
        tensor = program.tensors[o.tensor]
        text = f"{place}, seen as {list(o.view)}, is not {tensor.type}"
        need(math.prod(o.view) == tensor.type.size, "cover", text)
        for axis, extent in zip(o.axes, o.view, strict=True):
            for low, length in axis_spans(axis, extent, pieces):
                inside = low >= 0 and length >= 0 and low + length <= extent
                need(inside, "cover", f"{place} reaches {low}..{low + length} of {extent}")


def _covers(step: Step, choice: StepTiling) -> None:
    """The tiles write each element of each output once; tiles on the same box may differ in reduction dims only.

    The working memory of a kernel is written by each tile.
    """
    working = execution_of(operator_of(step.node)).working
    for o in (o for o in step.access.operands if o.arg not in working):
        text = f"{_place(step)}: the tiles do not write each element of {o.arg!r} exactly once"
        once = not o.writes or written_once(o, step.access, choice)
        need(once, "cover", text, ("tile", str(choice.tile)))


def verify_options(options: Options) -> Target:
    """The target with the options' budgets and cores; raises OptionProblem for options that it cannot have."""
    _need_option(options.target in names(), f"there is no target {options.target!r}")
    _need_option(options.strategy in strategy.registry(), f"there is no buffering {options.strategy!r}")
    _need_option(0 < options.accumulate <= MOST_PASSES, f"{options.accumulate} passes per update")
    try:
        target = load(options.target).with_options(options.budgets or {}, options.cores)
        target.within(options.outermost)
    except OptionProblem as problem:
        hint = f"make the artefact again with other options: {problem.hint}"
        raise OptionProblem(f"the options do not fit: {problem.cause}", problem.facts, hint) from problem
    return target


def verify_running(running: RunOptions) -> None:
    """Raise OptionProblem for numbers of passes or a tolerance of the loss that a harness cannot have."""
    _need_option(1 <= running.passes <= MOST_PASSES, f"{running.passes} passes")
    tolerable = math.isfinite(running.tolerance) and 0 <= running.tolerance <= LARGEST_FLOAT
    _need_option(tolerable, f"a tolerance of {running.tolerance}")
    _need_option(0 <= running.checked <= running.passes, f"{running.checked} of {running.passes} passes to check")


def _need_option(holds: bool, cause: str) -> None:
    if not holds:
        raise OptionProblem(f"the options do not fit: {cause}", hint="make the artefact again with other options")
