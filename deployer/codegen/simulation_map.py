"""The render model of SimulationMap.c: the tables of a plan with which the host simulator checks the program."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from deployer.codegen.c_names import MemoryNames, memory_name
from deployer.codegen.render import used_kernels
from deployer.codegen.simulation_trace import NONE, Loops, TracePlace, TraceTables, TraceTableView
from deployer.core.level import L_INNER, Channel, CrossStepTransfer
from deployer.core.plan import Plan, PlanStep
from deployer.core.safe_text import CText, c_string, code, identifier
from deployer.core.target import Target
from deployer.loops.graph_program import begin_cycles, contention_of
from deployer.loops.moves import copies, slot_life
from deployer.tilers.levels.tables import group_spans

SUFFIXES = ("", " stage")
"""Suffixes of the names of slots, by the number of their level."""
ALWAYS = identifier("HAL_SIM_ALWAYS")
HOME, SLOT, TABLE = identifier("HAL_SIM_HOME"), identifier("HAL_SIM_SLOT"), identifier("HAL_SIM_TABLE")


@dataclass(frozen=True)
class LevelView:
    """A simulated memory."""

    name: CText
    array: CText
    bytes: int


@dataclass(frozen=True)
class HopView:
    """A simulated DMA engine."""

    inward: CText
    outward: CText
    issue: int
    wait: int
    shared: int


@dataclass(frozen=True)
class BufferView:
    """A home, the slots of an operand, or the argument tables of a group of steps."""

    name: CText
    kind: CText
    level: int
    address: int
    bytes: int | CText
    blocks: int
    first: CText
    last: CText
    loaded: int


@dataclass(frozen=True)
class SimStepView:
    """A step for the simulator: names of its tables, their lengths, and its contention in thousandths."""

    name: CText
    dims: CText
    stage_order: CText
    dim_count: int
    operands: CText
    operand_count: int
    scalars: CText
    scalar_count: int
    tile_cycles: CText
    tiles: int
    cycles: int
    contention: int


@dataclass(frozen=True)
class GraphView:
    """The `count` steps of a graph from number `first` on, which run in each `every`-th pass, or the last, too."""

    name: CText
    first: int
    count: int
    every: int | CText


@dataclass(frozen=True)
class CrossStepView:
    """A transfer of an operand, by its number, of a step that begins or ends in the step `at`."""

    step: int
    operand: int
    inward: int
    at: int


@dataclass(frozen=True)
class CopyView:
    """A copy between the homes of two levels, by their numbers, from the step `start` to the step `until`."""

    inner: int
    outer: int
    inward: int
    start: int
    until: int


@dataclass(frozen=True)
class SimulationView:
    """Everything SimulationMap.c prints; `cross_step_transfers` is one list of them, or none, and so is `copies`."""

    provenance: CText
    kernels: tuple[CText, ...]
    levels: tuple[LevelView, ...]
    hops: tuple[HopView, ...]
    buffers: tuple[BufferView, ...]
    tables: tuple[TraceTableView, ...]
    steps: tuple[SimStepView, ...]
    graphs: tuple[GraphView, ...]
    passes: int
    accumulate: int
    cores: int
    cross_step_transfers: tuple[tuple[CrossStepView, ...], ...]
    copies: tuple[tuple[CopyView, ...], ...]


def simulation_view(plan: Plan, target: Target, origin: CText) -> SimulationView:
    """Buffers, coverage and costs of a plan on a target whose memories are simulated."""
    memory = MemoryNames(plan, target)
    number = {level.name: i for i, level in enumerate(plan.levels)}
    buffers: list[BufferView] = []
    index: dict[str, int] = {}
    for home in plan.homes:
        index[home.storage] = len(buffers)
        first, last = (code("0"), ALWAYS) if home.persistent else (code(f"{home.first}u"), code(f"{home.last}u"))
        address = memory.address(home.level, home.offset)
        buffers.append(
            BufferView(
                c_string(home.storage),
                HOME,
                number[home.level],
                address,
                home.bytes,
                1,
                first,
                last,
                int(home.loaded),
            )
        )
    places: dict[tuple[int, str], TracePlace] = {}
    for step in plan.steps:
        for o in step.operands:
            slot_buffers: list[int | str] = []
            for level, slots, suffix in zip(plan.levels, o.places, SUFFIXES, strict=False):
                slot_buffers.append(len(buffers) if slots.count else NONE)
                if slots.count:
                    address = memory.address(level.name, slots.offset)
                    first, last = (code(f"{x}u") for x in slot_life(plan, step, o, number[level.name]))
                    name, size = c_string(f"{step.name}.{o.arg}{suffix}"), slots.count * slots.bytes
                    at = number[level.name]
                    buffers.append(BufferView(name, SLOT, at, address, size, slots.count, first, last, 0))
            slot_buffers += [NONE] * (len(o.places) - len(slot_buffers))
            places[step.index, o.arg] = TracePlace(index[o.storage], tuple(slot_buffers))
    buffers += _table_buffers(plan, memory)
    copied = tuple(
        CopyView(index[c.name], index[c.storage], int(c.direction == "in"), c.start, c.end) for c in copies(plan)
    )
    tables, steps = TraceTables(), []
    for s, begin in zip(plan.steps, begin_cycles(plan, target), strict=True):
        where = [places[s.index, o.arg] for o in s.operands]
        steps.append(_step(s, where, tables, begin, contention_of(s, target)))
    return SimulationView(
        provenance=origin,
        kernels=used_kernels(plan.steps),
        levels=tuple(LevelView(c_string(x.name), memory_name(x.name), memory.sizes[x.name]) for x in plan.levels),
        hops=tuple(
            HopView(_channel(h.inward), _channel(h.outward), h.issue, h.wait, int(h.shared))
            for h in target.hops[: len(plan.levels) - 1]
        ),
        buffers=tuple(buffers),
        tables=tables.views(),
        steps=tuple(steps),
        graphs=tuple(_graphs(plan)),
        passes=plan.running.passes,
        accumulate=plan.options.accumulate,
        cores=target.cores,
        cross_step_transfers=(tuple(_cross_step_view(plan.steps[c.step], c) for c in plan.cross_step_transfers),)
        if plan.cross_step_transfers
        else (),
        copies=(copied,) if copied else (),
    )


def _cross_step_view(step: PlanStep, transfer: CrossStepTransfer) -> CrossStepView:
    operand = next(i for i, o in enumerate(step.operands) if o.arg == transfer.arg)
    return CrossStepView(step.index, operand, int(transfer.direction == "in"), transfer.at)


def _graphs(plan: Plan) -> Iterator[GraphView]:
    """The graphs in their order; the optimizer's runs once per update, the others in each pass."""
    first = 0
    for name in plan.graphs:
        count = sum(step.graph == name for step in plan.steps)
        often = plan.options.accumulate if name == "optimizer" else 1
        every = code(f"{often} | HAL_SIM_AND_LAST") if plan.running.flush and often > 1 else often
        yield GraphView(identifier(name), first, count, every)
        first += count


def _table_buffers(plan: Plan, memory: MemoryNames) -> Iterator[BufferView]:
    """The tables of each group, which are there from its first step to its last."""
    for span in group_spans(plan.groups, len(plan.steps)):
        name = c_string(f"argument tables of steps {span.start} to {span[-1]}")
        kernels = Counter(plan.steps[step].kernel.symbol for step in span)
        size = code(" + ".join(f"{n} * sizeof({identifier(kernel)}_args_t)" for kernel, n in sorted(kernels.items())))
        address, first, last = memory.address(memory.innermost, 0), code(f"{span.start}u"), code(f"{span[-1]}u")
        yield BufferView(name, TABLE, L_INNER, address, size, 1, first, last, 0)


def _step(step: PlanStep, places: list[TracePlace], tables: TraceTables, cycles: int, contention: int) -> SimStepView:
    """A step that takes so many `cycles` besides its kernels and transfers."""
    loops = Loops(step)
    dims, order, operands = loops.dims(tables), loops.order_numbers(tables), loops.operands(tables, places)
    scalars, count = loops.scalars(tables)
    return SimStepView(
        name=c_string(step.name),
        dims=dims,
        stage_order=order,
        dim_count=len(step.dims),
        operands=operands,
        operand_count=len(step.operands),
        scalars=scalars,
        scalar_count=count,
        tile_cycles=tables.numbers("uint32_t", step.tile_cycles),
        tiles=step.tiles,
        cycles=cycles,
        contention=contention,
    )


def _channel(channel: Channel) -> CText:
    return code(f"{channel.setup}, {channel.byte_milli}, {channel.line_milli}")
