"""The generated program's timeline in Python: exactly the transfers, waits and kernel calls the emitter prints."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deployer.core.access import Operand, Span, transfer, whole_axes
from deployer.core.cost import Clock, kernel_cost, kernel_cycles
from deployer.core.operator import operator_of
from deployer.core.plan import Buffering, Staging, Step, StepTiling, Timeline
from deployer.core.target import Target

Tiles = list[dict[str, Span]]


@dataclass(frozen=True)
class StepRun:
    """What a step costs under the model: cycles in all, of each kernel call, waits per tile, and bytes moved."""

    cycles: int
    tile_cycles: tuple[int, ...]
    timeline: Timeline
    bytes_in: int
    bytes_out: int
    staging: Staging | None


@dataclass
class _Mover:
    """One operand's transfers over a loop: `begins[t]`/`ends[t]` say that tile t starts/finishes a box."""

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

    @property
    def bytes_in(self) -> int:
        """Bytes of all boxes that come in."""
        return sum(size for (size, _), b in zip(self.moves, self.begins, strict=True) if b) if self.reads else 0

    @property
    def bytes_out(self) -> int:
        """Bytes of all boxes that go out."""
        return sum(size for (size, _), e in zip(self.moves, self.ends, strict=True) if e) if self.operand.writes else 0


@dataclass
class _Loop:
    """A loop of a step, over its tiles or its stage's, with the moves of one hop around what each tile does."""

    clock: Clock
    hop: int
    movers: list[_Mover]
    body: Callable[[int], None]
    ingress: list[int] = field(default_factory=list)
    egress: list[int] = field(default_factory=list)

    def run(self, tiles: int, buffering: Buffering) -> None:
        """Walk it."""
        self.ingress, self.egress = [0] * tiles, [0] * tiles
        if buffering == "double":
            self._double(tiles)
        else:
            self._single(tiles)

    def _single(self, tiles: int) -> None:
        clock, hop = self.clock, self.hop
        for tile in range(tiles):
            begin = clock.now
            for ticket in [clock.start(hop, "in", *m.moves[tile]) for m in self.movers if m.reads and m.begins[tile]]:
                clock.wait(hop, ticket)
            self.ingress[tile] = clock.now - begin
            self.body(tile)
            begin = clock.now
            for ticket in [
                clock.start(hop, "out", *m.moves[tile]) for m in self.movers if m.operand.writes and m.ends[tile]
            ]:
                clock.wait(hop, ticket)
            self.egress[tile] = clock.now - begin

    def _double(self, tiles: int) -> None:
        clock, hop = self.clock, self.hop
        arriving = [[0] * m.slots for m in self.movers]
        leaving = [[0] * m.slots for m in self.movers]

        def settle(index: int, slot: int, tile: int) -> None:
            begin = clock.now
            clock.wait(hop, leaving[index][slot])
            leaving[index][slot] = 0
            self.egress[tile] += clock.now - begin

        for turn in range(tiles + 1):
            if turn < tiles:
                for i, m in enumerate(self.movers):
                    if m.operand.reads and m.begins[turn]:
                        if m.operand.writes:
                            settle(i, m.slot(turn), turn)
                        if m.reads:
                            arriving[i][m.slot(turn)] = clock.start(hop, "in", *m.moves[turn])
            if turn == 0:
                continue
            tile = turn - 1
            for i, m in enumerate(self.movers):
                begin = clock.now
                if m.reads and m.begins[tile]:
                    clock.wait(hop, arriving[i][m.slot(tile)])
                    self.ingress[tile] += clock.now - begin
                elif not m.operand.reads and m.begins[tile]:
                    settle(i, m.slot(tile), tile)
            self.body(tile)
            for i, m in enumerate(self.movers):
                if m.operand.writes and m.ends[tile]:
                    leaving[i][m.slot(tile)] = clock.start(hop, "out", *m.moves[tile])
        for i, m in enumerate(self.movers):
            for slot in range(m.slots):
                settle(i, slot, tiles - 1)


def simulate(step: Step, choice: StepTiling, target: Target, fresh: bool) -> StepRun:
    """Walk the step's loops. `fresh` says that the pass runs with the lazy-reset flag set."""
    parts = list(choice.walk(step.access))
    kernels = _kernels(step, choice, target, parts)
    clock = Clock(target.hops, target.contention if choice.buffering == "double" else 0)
    clock.run(target.step)
    ingress: list[int] = []
    egress: list[int] = []
    moved = [0, 0]
    known: dict[tuple[Span, ...], list[_Mover]] = {}

    def tiles_of(part: int) -> None:
        span, walk = parts[part]
        key = tuple(span.values())
        if key not in known:
            known[key] = _movers(step, choice, span, walk, fresh)
        first = len(ingress)
        loop = _Loop(clock, 0, known[key], lambda tile: clock.run(kernels[first + tile]))
        loop.run(len(walk), choice.buffering)
        ingress.extend(loop.ingress)
        egress.extend(loop.egress)
        moved[0] += sum(m.bytes_in for m in known[key])
        moved[1] += sum(m.bytes_out for m in known[key])

    staging = None
    if choice.stage is None:
        tiles_of(0)
    else:
        staged = _stage_movers(step, choice, fresh)
        loop = _Loop(clock, 1, staged, tiles_of)
        loop.run(len(parts), choice.stage.buffering)
        bytes_in, bytes_out = sum(m.bytes_in for m in staged), sum(m.bytes_out for m in staged)
        wait = sum(loop.ingress) + sum(loop.egress)
        stage = choice.stage
        staging = Staging(stage.order, stage.buffering, bytes_in, bytes_out, clock.busy.get(1, 0), wait)
    return StepRun(clock.now, kernels, Timeline(tuple(ingress), tuple(egress)), moved[0], moved[1], staging)


def _kernels(
    step: Step, choice: StepTiling, target: Target, parts: list[tuple[dict[str, Span], Tiles]]
) -> tuple[int, ...]:
    """Cycles of each kernel call and the loop code around it; the first call's code may be cold."""
    operator = operator_of(step.node)
    costs: dict[tuple[int, ...], int] = {}
    found = []
    for _, walk in parts:
        for tile in walk:
            key = tuple(tile[d.name][1] for d in step.access.dims)
            if key not in costs:
                work = operator.work(step.node, step.access, {d.name: tile[d.name][1] for d in step.access.dims})
                costs[key] = kernel_cycles(target, step.kernel.symbol, work)
            found.append(costs[key] + target.tile)
    form = operator.work(step.node, step.access, choice.tile).form
    cold = kernel_cost(target, step.kernel.symbol, form).cold
    found[0] -= target.tile
    if step.cold or (step.switched and cold >= target.evicted):
        found[0] += cold
    return tuple(found)


def _movers(step: Step, choice: StepTiling, part: Mapping[str, Span], walk: Tiles, fresh: bool) -> list[_Mover]:
    """The inner hop's moves in one part: staged operands are cut from their box in it."""
    found = []
    cuts = {n: (size, choice.outer(step.access)[n], choice.tile[n]) for n, size in step.access.sizes.items()}
    for operand in step.access.operands:
        if choice.slots[operand.arg]:
            staged = choice.stage is not None and operand.arg in choice.stage.slots
            view = tuple(n for _, n in operand.box(part)) if staged else operand.view
            whole = whole_axes(operand.axes, operand.view, cuts, staged)
            changing = [n for n in choice.order if choice.tile[n] < cuts[n][1]]
            found.append(_mover(operand, choice.slots[operand.arg], view, whole, part, walk, changing, fresh))
    return found


def _stage_movers(step: Step, choice: StepTiling, fresh: bool) -> list[_Mover]:
    """The outer hop's moves."""
    assert choice.stage is not None
    stage, access = choice.stage, step.access
    cuts = {n: (size, size, stage.tile[n]) for n, size in access.sizes.items()}
    whole_space = {n: (0, size) for n, size in access.sizes.items()}
    walk = [part for part, _ in choice.walk(access)]
    changing = [n for n in stage.order if stage.tile[n] < access.dim(n).size]
    found = []
    for operand in access.operands:
        if operand.arg in stage.slots:
            whole = whole_axes(operand.axes, operand.view, cuts, False)
            slots = stage.slots[operand.arg]
            found.append(_mover(operand, slots, operand.view, whole, whole_space, walk, changing, fresh))
    return found


def _mover(
    operand: Operand,
    slots: int,
    view: tuple[int, ...],
    whole: tuple[bool, ...],
    space: Mapping[str, Span],
    walk: Tiles,
    changing: list[str],
    fresh: bool,
) -> _Mover:
    """The box stays while only dims inside of the innermost changing dim it depends on advance, as in the C loop."""
    last = max((i for i, name in enumerate(changing) if name in operand.dims), default=-1)
    inner = [(name, space[name][0], sum(space[name])) for name in changing[last + 1 :]]
    begins = [all(tile[name][0] == first for name, first, _ in inner) for tile in walk]
    ends = [all(sum(tile[name]) == end for name, _, end in inner) for tile in walk]
    moves: list[tuple[int, int]] = []
    known: dict[tuple[int, ...], tuple[int, int]] = {}
    for tile in walk:
        box = tuple(length for _, length in operand.box(tile))
        if box not in known:
            shape = transfer(view, box, whole)
            known[box] = (shape.elements * 4, shape.lines)
        moves.append(known[box])
    return _Mover(operand, slots, begins, ends, moves, operand.reads and not (operand.fresh_on_flag and fresh))
