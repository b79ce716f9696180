"""The render model of SimulationMap.c: what the host simulator may know of the plan to check the program against it."""

from collections.abc import Iterator
from dataclasses import dataclass

from deployer.naming import Memory, memory_name
from deployer.plan import Plan, PlanStep
from deployer.render import provenance
from deployer.simtrace import NONE, Loops, Tables, TableView, Where
from deployer.target import Channel, Target

ALWAYS = "HAL_SIM_ALWAYS"


@dataclass(frozen=True)
class LevelView:
    """A simulated memory."""

    name: str
    array: str
    bytes: int


@dataclass(frozen=True)
class HopView:
    """A simulated DMA engine."""

    inward: str
    outward: str
    issue: int
    wait: int
    shared: int


@dataclass(frozen=True)
class BufferView:
    """A home or the slots of an operand."""

    name: str
    kind: str
    level: int
    address: int
    bytes: int
    parts: int
    first: str
    last: str
    loaded: int


@dataclass(frozen=True)
class SimStepView:
    """A step as the simulator checks it: names of tables and numbers."""

    name: str
    dims: str
    stage_order: str
    dim_count: int
    operands: str
    operand_count: int
    scalars: str
    scalar_count: int
    tile_cycles: str
    tiles: int
    contention: int


@dataclass(frozen=True)
class GraphView:
    """A run of steps, in every how manieth pass it comes."""

    name: str
    first: int
    count: int
    every: int


@dataclass(frozen=True)
class SimulationView:
    """Everything SimulationMap.c prints."""

    provenance: str
    kernels: tuple[str, ...]
    levels: tuple[LevelView, ...]
    hops: tuple[HopView, ...]
    buffers: tuple[BufferView, ...]
    tables: tuple[TableView, ...]
    steps: tuple[SimStepView, ...]
    graphs: tuple[GraphView, ...]
    passes: int
    accumulate: int
    step_cycles: int
    cores: int


def simulation_view(plan: Plan, target: Target) -> SimulationView:
    """Buffers, coverage and costs of a plan on a target whose memories are simulated."""
    memory = Memory(plan, target)
    number = {level.name: i for i, level in enumerate(plan.levels)}
    buffers: list[BufferView] = []
    index: dict[str, int] = {}
    for home in plan.homes:
        index[home.storage] = len(buffers)
        first, last = ("0", ALWAYS) if home.persistent else (f"{home.first}u", f"{home.last}u")
        address = memory.address(home.level, home.offset)
        buffers.append(
            BufferView(
                _text(home.storage),
                "HAL_SIM_HOME",
                number[home.level],
                address,
                home.bytes,
                1,
                first,
                last,
                int(home.loaded),
            )
        )
    inner, between = (level.name for level in plan.levels[:2])
    places: dict[tuple[int, str], Where] = {}
    for step in plan.steps:
        for o in step.operands:
            slot: int | str = NONE
            stage: int | str = NONE
            if o.slots:
                slot, address, when = len(buffers), memory.address(inner, o.slot_offset), f"{step.index}u"
                name = _text(f"{step.name}.{o.arg}")
                buffers.append(
                    BufferView(name, "HAL_SIM_SLOT", 0, address, o.slots * o.slot_bytes, o.slots, when, when, 0)
                )
            if o.stage_slots:
                stage, address, when = len(buffers), memory.address(between, o.stage_offset), f"{step.index}u"
                name, size = _text(f"{step.name}.{o.arg} stage"), o.stage_slots * o.stage_bytes
                buffers.append(BufferView(name, "HAL_SIM_SLOT", 1, address, size, o.stage_slots, when, when, 0))
            places[step.index, o.arg] = Where(index[o.storage], slot, stage)
    tables = Tables()
    steps = tuple(_step(s, [places[s.index, o.arg] for o in s.operands], tables, target) for s in plan.steps)
    return SimulationView(
        provenance=provenance(plan),
        kernels=tuple(sorted({s.kernel.symbol for s in plan.steps})),
        levels=tuple(LevelView(x.name, memory_name(x.name), memory.sizes[x.name]) for x in plan.levels),
        hops=tuple(
            HopView(_channel(h.inward), _channel(h.outward), h.issue, h.wait, int(h.shared))
            for h in target.hops[: len(plan.levels) - 1]
        ),
        buffers=tuple(buffers),
        tables=tables.views(),
        steps=steps,
        graphs=tuple(_graphs(plan)),
        passes=plan.options.passes,
        accumulate=plan.options.accumulate,
        step_cycles=target.sized(len(plan.steps)).step,
        cores=target.cores,
    )


def _graphs(plan: Plan) -> Iterator[GraphView]:
    """The graphs in their order; the optimizer's runs once per update, the others in each pass."""
    first = 0
    for name in plan.graphs:
        count = sum(step.graph == name for step in plan.steps)
        yield GraphView(name, first, count, plan.options.accumulate if name == "optimizer" else 1)
        first += count


def _step(step: PlanStep, places: list[Where], tables: Tables, target: Target) -> SimStepView:
    loops = Loops(step)
    dims, order, operands = loops.dims(tables), loops.order_numbers(tables), loops.operands(tables, places)
    scalars, count = loops.scalars(tables)
    return SimStepView(
        name=_text(step.name),
        dims=dims,
        stage_order=order,
        dim_count=len(step.dims),
        operands=operands,
        operand_count=len(step.operands),
        scalars=scalars,
        scalar_count=count,
        tile_cycles=tables.numbers("uint32_t", step.tile_cycles),
        tiles=step.tiles,
        contention=target.contention if step.buffering == "double" else 0,
    )


def _channel(channel: Channel) -> str:
    return f"{channel.setup}, {channel.byte_milli}, {channel.line_milli}"


def _text(name: str) -> str:
    """A name inside a C string."""
    return name.replace("\\", "\\\\").replace('"', '\\"')
