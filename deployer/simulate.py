"""The generated program's timeline in Python: exactly the transfers, waits and kernel calls the emitter prints."""

import itertools
from dataclasses import dataclass

from deployer.access import Operand, tiles, transfer
from deployer.cost import Clock, kernel_cost, kernel_cycles
from deployer.operator import operator_of
from deployer.plan import Step, StepTiling, Timeline
from deployer.target import Target

Span = tuple[int, int]


@dataclass(frozen=True)
class StepRun:
    """What a step costs under the model: cycles in all, of each kernel call, waits per tile, and bytes moved."""

    cycles: int
    tile_cycles: tuple[int, ...]
    timeline: Timeline
    bytes_in: int
    bytes_out: int


@dataclass
class _Mover:
    """One operand's transfers over the tiles: `begins[t]`/`ends[t]` say that tile t starts/finishes a box."""

    operand: Operand
    slots: int
    begins: list[bool]
    ends: list[bool]
    moves: list[tuple[int, int]]
    reads: bool

    def __post_init__(self) -> None:
        """Number the boxes once; tiles can be many."""
        self.boxes = list(itertools.accumulate(self.begins))

    def slot(self, tile: int) -> int:
        """Slot of the box that tile belongs to."""
        return (self.boxes[tile] - 1) % self.slots


@dataclass
class _Waits:
    """Cycles spent waiting, per tile."""

    ingress: list[int]
    egress: list[int]


def simulate(step: Step, choice: StepTiling, target: Target, fresh: bool) -> StepRun:
    """Walk the step's loop. `fresh` says that the pass runs with the lazy-reset flag set."""
    walk = list(tiles(step.access, choice.tile, choice.order))
    operator = operator_of(step.node)
    costs = {}
    for tile in walk:
        key = tuple(tile[d.name][1] for d in step.access.dims)
        if key not in costs:
            work = operator.work(step.node, step.access, {d.name: tile[d.name][1] for d in step.access.dims})
            costs[key] = kernel_cycles(target, step.kernel.symbol, work)
    form = operator.work(step.node, step.access, choice.tile).form
    cold = kernel_cost(target, step.kernel.symbol, form).cold if step.cold else 0
    extra = (cold, *([target.tile] * (len(walk) - 1)))
    lengths = (tuple(tile[d.name][1] for d in step.access.dims) for tile in walk)
    kernels = tuple(costs[key] + more for key, more in zip(lengths, extra, strict=True))
    movers = []
    for operand in step.access.operands:
        if choice.slots[operand.arg]:
            movers.append(_mover(operand, choice.slots[operand.arg], step, choice, walk, fresh))
    clock = Clock(target.hops[0], target.contention if choice.buffering == "double" else 0)
    clock.run(target.step)
    waits = _Waits([0] * len(kernels), [0] * len(kernels))
    if choice.buffering == "double":
        _double(clock, movers, kernels, waits)
    else:
        _single(clock, movers, kernels, waits)
    moved_in = sum(size for m in movers if m.reads for (size, _), b in zip(m.moves, m.begins, strict=True) if b)
    moved_out = sum(size for m in movers if m.operand.writes for (size, _), e in zip(m.moves, m.ends, strict=True) if e)
    timeline = Timeline(tuple(waits.ingress), tuple(waits.egress))
    return StepRun(clock.now, kernels, timeline, moved_in, moved_out)


def _mover(
    operand: Operand, slots: int, step: Step, choice: StepTiling, walk: list[dict[str, Span]], fresh: bool
) -> _Mover:
    """The box stays while only dims inside of the innermost split dim it depends on advance, as in the emitted loop."""
    split = [name for name in choice.order if choice.tile[name] < step.access.dim(name).size]
    last = max((i for i, name in enumerate(split) if name in operand.dims), default=-1)
    inner = [(name, step.access.dim(name).size) for name in split[last + 1 :]]
    begins = [all(tile[name][0] == 0 for name, _ in inner) for tile in walk]
    ends = [all(sum(tile[name]) == size for name, size in inner) for tile in walk]
    moves, known = [], {}
    for tile in walk:
        box = tuple(length for _, length in operand.box(tile))
        if box not in known:
            shape = transfer(operand.view, box)
            known[box] = (shape.elements * 4, shape.lines)
        moves.append(known[box])
    return _Mover(operand, slots, begins, ends, moves, operand.reads and not (operand.fresh_on_flag and fresh))


def _single(clock: Clock, movers: list[_Mover], kernels: tuple[int, ...], waits: _Waits) -> None:
    for tile, cycles in enumerate(kernels):
        begin = clock.now
        for ticket in [clock.start("in", *m.moves[tile]) for m in movers if m.reads and m.begins[tile]]:
            clock.wait(ticket)
        waits.ingress[tile] = clock.now - begin
        clock.run(cycles)
        begin = clock.now
        for ticket in [clock.start("out", *m.moves[tile]) for m in movers if m.operand.writes and m.ends[tile]]:
            clock.wait(ticket)
        waits.egress[tile] = clock.now - begin


def _double(clock: Clock, movers: list[_Mover], kernels: tuple[int, ...], waits: _Waits) -> None:
    arriving = [[0] * m.slots for m in movers]
    leaving = [[0] * m.slots for m in movers]

    def settle(index: int, slot: int, tile: int) -> None:
        begin = clock.now
        clock.wait(leaving[index][slot])
        leaving[index][slot] = 0
        waits.egress[tile] += clock.now - begin

    for turn in range(len(kernels) + 1):
        if turn < len(kernels):
            for i, m in enumerate(movers):
                if m.operand.reads and m.begins[turn]:
                    if m.operand.writes:
                        settle(i, m.slot(turn), turn)
                    if m.reads:
                        arriving[i][m.slot(turn)] = clock.start("in", *m.moves[turn])
        if turn == 0:
            continue
        tile = turn - 1
        for i, m in enumerate(movers):
            begin = clock.now
            if m.reads and m.begins[tile]:
                clock.wait(arriving[i][m.slot(tile)])
                waits.ingress[tile] += clock.now - begin
            elif not m.operand.reads and m.begins[tile]:
                settle(i, m.slot(tile), tile)
        clock.run(kernels[tile])
        for i, m in enumerate(movers):
            if m.operand.writes and m.ends[tile]:
                leaving[i][m.slot(tile)] = clock.start("out", *m.moves[tile])
    for i, m in enumerate(movers):
        for slot in range(m.slots):
            settle(i, slot, len(kernels) - 1)
