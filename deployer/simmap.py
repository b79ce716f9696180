"""The render model of SimulationMap.c: what the host simulator may know of the plan to check the program against it."""

from dataclasses import dataclass

from deployer.access import At, Broadcast, Whole
from deployer.naming import Memory, memory_name
from deployer.plan import Plan, PlanOperand, PlanStep
from deployer.render import provenance, used_kernels
from deployer.safe_text import CText, c_string, code, identifier
from deployer.target import Channel, Target

ALWAYS = identifier("HAL_SIM_ALWAYS")
HOME, SLOT = identifier("HAL_SIM_HOME"), identifier("HAL_SIM_SLOT")


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
    """A home or the slots of an operand."""

    name: CText
    kind: CText
    level: int
    address: int
    bytes: int
    parts: int
    first: CText
    last: CText
    loaded: int


@dataclass(frozen=True)
class OperandView:
    """A pointer field of the kernel's arguments."""

    arg: CText
    reads: int
    writes: int


@dataclass(frozen=True)
class CoverView:
    """A tensor the step moves."""

    buffer: int
    hop: int
    offset: int
    bytes: int
    read: int
    write: int


@dataclass(frozen=True)
class SimStepView:
    """A step as the simulator checks it."""

    index: int
    name: CText
    kernel: CText
    operands: tuple[OperandView, ...]
    covers: tuple[CoverView, ...]
    cover_count: int
    tile_cycles: CText
    tiles: int
    contention: int


@dataclass(frozen=True)
class SimulationView:
    """Everything SimulationMap.c prints."""

    provenance: CText
    kernels: tuple[CText, ...]
    levels: tuple[LevelView, ...]
    hops: tuple[HopView, ...]
    buffers: tuple[BufferView, ...]
    steps: tuple[SimStepView, ...]
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
    inner, between = (level.name for level in plan.levels[:2])
    for step in plan.steps:
        for o in step.operands:
            if o.slots:
                address, when = memory.address(inner, o.slot_offset), code(f"{step.index}u")
                name = c_string(f"{step.name}.{o.arg}")
                buffers.append(BufferView(name, SLOT, 0, address, o.slots * o.slot_bytes, o.slots, when, when, 0))
            if o.stage_slots:
                address, when = memory.address(between, o.stage_offset), code(f"{step.index}u")
                name, size = c_string(f"{step.name}.{o.arg} stage"), o.stage_slots * o.stage_bytes
                buffers.append(BufferView(name, SLOT, 1, address, size, o.stage_slots, when, when, 0))
    return SimulationView(
        provenance=provenance(plan),
        kernels=used_kernels(plan.steps),
        levels=tuple(LevelView(c_string(x.name), memory_name(x.name), memory.sizes[x.name]) for x in plan.levels),
        hops=tuple(
            HopView(_channel(h.inward), _channel(h.outward), h.issue, h.wait, int(h.shared))
            for h in target.hops[: len(plan.levels) - 1]
        ),
        buffers=tuple(buffers),
        steps=tuple(_step(step, index, target) for step in plan.steps),
        step_cycles=target.sized(len(plan.steps)).step,
        cores=target.cores,
    )


def _step(step: PlanStep, index: dict[str, int], target: Target) -> SimStepView:
    covers = tuple(
        CoverView(index[o.storage], int(o.stage_slots > 0), 0, _bytes(o), _read_cover(o), int(o.mode != "in"))
        for o in step.operands
        if o.slots
    )
    return SimStepView(
        index=step.index,
        name=c_string(step.name),
        kernel=identifier(step.kernel.symbol),
        operands=tuple(
            OperandView(identifier(o.arg), int(o.mode != "out"), int(o.mode != "in")) for o in step.operands
        ),
        covers=covers or (CoverView(0, 0, 0, 0, 0, 0),),
        cover_count=len(covers),
        tile_cycles=code(", ".join(map(str, step.tile_cycles))),
        tiles=step.tiles,
        contention=target.contention if step.buffering == "double" else 0,
    )


def _bytes(operand: PlanOperand) -> int:
    size = 4
    for extent in operand.view:
        size *= extent
    return size


def _read_cover(operand: PlanOperand) -> int:
    """How the tiles together read the tensor: 2 every byte equally often, 1 at least once, 0 nothing is promised.

    Windows overlap and may skip elements; what is fresh under the lazy-reset flag may not be read at all.
    """
    if operand.mode == "out" or operand.fresh_on_flag:
        return 0
    return 2 if all(isinstance(a, (At, Whole, Broadcast)) for a in operand.axes) else 0


def _channel(channel: Channel) -> CText:
    return code(f"{channel.setup}, {channel.byte_milli}, {channel.line_milli}")
