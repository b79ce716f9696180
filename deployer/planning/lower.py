"""Lowering: the loop program of a step of the plan, with the order of all transfers, waits and slot rotations.

A single-buffered loop fetches, waits, computes, stores and waits, tile by tile. A double-buffered loop fetches one tile
ahead: it starts the ingress of the next box, waits for the current one and computes it, and waits for the egress of a
slot before it fills the slot again. A staged step has a loop over the tiles of its stage around the loop over tiles.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.level import RESIDENT, USUAL
from deployer.core.operator import Const
from deployer.core.plan import Buffering, PlanOperand, PlanStep
from deployer.planning.expr import Choice, Expr, Home, Not, Real, Slot, Tree, Var, add, mul, sized, variables
from deployer.planning.loop_program import (
    Arguments,
    Assign,
    Block,
    Call,
    Declare,
    Done,
    Fetch,
    Group,
    GroupSize,
    If,
    Let,
    Loop,
    LoopProgram,
    Rotate,
    Start,
    Statement,
    Table,
    Ticket,
    Tickets,
    Transfer,
    Wait,
    Way,
)
from deployer.planning.tile_loop import FLAG, TileLoop, all_of

Guarded = tuple[tuple[Expr, ...], Statement]
"""Conditions that must all hold, and a statement."""


@dataclass(frozen=True)
class Port:
    """A step's use of a hop: the addresses of its operands at both ends, their slots, and names of variables."""

    step: PlanStep
    staged: bool

    @property
    def hop(self) -> int:
        """The number of the level that it feeds."""
        return USUAL if self.staged else RESIDENT

    def moved(self) -> list[PlanOperand]:
        """The operands that pass through the hop."""
        return [o for o in self.step.operands if self.slots(o)]

    def slots(self, o: PlanOperand) -> int:
        """Number of the operand's slots at the inner end."""
        return o.stage_slots if self.staged else o.slots

    def variable(self, o: PlanOperand, what: str) -> str:
        """The name of a variable that belongs to the operand."""
        return f"{o.arg}_stage_{what}" if self.staged else f"{o.arg}_{what}"

    def outer(self, o: PlanOperand) -> Expr:
        """Address at the outer end: of the home, or of the stage's slot in use."""
        return _home(self.step, o) if self.staged or not o.stage_slots else Port(self.step, True).slot(o, "use")

    def slot(self, o: PlanOperand, which: str = "") -> Expr:
        """Address of a slot at the inner end; of several, the one whose number the variable `which` holds."""
        base = Slot(self.step.index, o.arg, self.staged)
        size = o.stage_bytes if self.staged else o.slot_bytes
        if not which or self.slots(o) == 1:
            return base
        count = size // self.step.kernel.element_bytes(o.arg)
        return add(base, mul(Var(self.variable(o, which)), sized(count, self.variable(o, "size"))))

    def transfer(self, loop: TileLoop, o: PlanOperand, way: Way, which: str = "") -> Transfer:
        """The transfer of a tile's box from or to a slot."""
        name = f"{o.arg}_stage" if self.staged else o.arg
        return loop.move(o).transfer(way, self.hop, self.outer(o), self.slot(o, which), name)


def grouped(statements: Iterable[Guarded]) -> list[Statement]:
    """The statements in order; consecutive ones with the same conditions are in one `If`."""
    output: list[Statement] = []
    for conditions, group in itertools.groupby(statements, key=lambda pair: pair[0]):
        body = tuple(statement for _, statement in group)
        output += [If(all_of(list(conditions)), body)] if conditions else body
    return output


class SingleMoves:
    """The transfers and waits of a single-buffered loop; the only transfer of a direction is waited for at once."""

    def __init__(self, port: Port, loop: TileLoop) -> None:
        self.port, self.loop = port, loop
        self.alone = {way: sum(o.mode in (way, "inout") for o in port.moved()) == 1 for way in ("in", "out")}

    def _ticket(self, o: PlanOperand, way: Way) -> Ticket:
        return Ticket(self.port.variable(o, way), way)

    def _start(self, o: PlanOperand, way: Way, conditions: list[Expr]) -> list[Guarded]:
        transfer = self.port.transfer(self.loop, o, way)
        if self.alone[way]:
            return [(tuple(conditions), Wait(transfer))]
        value = Choice(all_of(conditions), transfer, Done()) if conditions else transfer
        return [((), Start(self._ticket(o, way), value))]

    def _wait(self, o: PlanOperand, way: Way) -> list[Guarded]:
        return [] if self.alone[way] else [((), Wait(self._ticket(o, way)))]

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress if this tile is the first of a box and the kernel reads the old content."""
        conditions = [*self.loop.begins(o), *([Not(FLAG)] if o.fresh_on_flag else [])]
        return [] if o.mode == "out" else self._start(o, "in", conditions)

    def arrive(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the ingress."""
        return [] if o.mode == "out" else self._wait(o, "in")

    def leave(self, o: PlanOperand) -> list[Guarded]:
        """Start the egress if this tile is the last of a box."""
        return [] if o.mode == "in" else self._start(o, "out", self.loop.ends(o))

    def settle(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the egress."""
        return [] if o.mode == "in" else self._wait(o, "out")


class DoubleMoves:
    """The transfers and waits of a double-buffered loop; coordinates of `ahead` are those of the next tile."""

    def __init__(self, port: Port, loop: TileLoop, ahead: TileLoop) -> None:
        self.port, self.loop, self.ahead = port, loop, ahead

    def tickets(self) -> tuple[tuple[str, int], ...]:
        """Names of the ticket arrays and their lengths: an element per slot."""
        ways = (("in", "out"), ("out", "in"))
        moved = self.port.moved()
        return tuple(
            (self.port.variable(o, way), self.port.slots(o)) for o in moved for way, other in ways if o.mode != other
        )

    def numbers(self) -> dict[str, Expr]:
        """The variables with the numbers of the slots to fill and to use, all 0 at first."""
        moved = [o for o in self.port.moved() if self.port.slots(o) > 1]
        return {self.port.variable(o, w): 0 for o in moved for w in ("fill", "use") if o.mode != "out" or w == "use"}

    def _ticket(self, o: PlanOperand, way: Way, index: Expr) -> Ticket:
        return Ticket(self.port.variable(o, way), way, (index,))

    def _number(self, o: PlanOperand, which: str) -> Expr:
        return Var(self.port.variable(o, which)) if self.port.slots(o) > 1 else 0

    def _rotate(self, o: PlanOperand, which: str) -> list[Statement]:
        slots = self.port.slots(o)
        return [Rotate(Var(self.port.variable(o, which)), slots)] if slots > 1 else []

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress of the next box; if the kernel also writes the slot, wait first for its egress."""
        if o.mode == "out":
            return []
        number = self._number(o, "fill")
        transfer: Expr = self.port.transfer(self.ahead, o, "in", "fill")
        if o.fresh_on_flag:
            transfer = Choice(FLAG, Done(), transfer)
        wait = [Wait(self._ticket(o, "out", number))] if o.mode == "inout" else []
        statements = [*wait, Start(self._ticket(o, "in", number), transfer), *self._rotate(o, "fill")]
        return [(tuple(self.ahead.begins(o)), statement) for statement in statements]

    def arrive(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the ingress of the box, or, if the kernel only writes it, for the earlier egress of its slot."""
        ticket = self._ticket(o, "out" if o.mode == "out" else "in", self._number(o, "use"))
        return [(tuple(self.loop.begins(o)), Wait(ticket))]

    def leave(self, o: PlanOperand) -> list[Guarded]:
        """Start the egress of a finished box."""
        if o.mode == "in":
            return []
        transfer = self.port.transfer(self.loop, o, "out", "use")
        return [(tuple(self.loop.ends(o)), Start(self._ticket(o, "out", self._number(o, "use")), transfer))]

    def turn(self, o: PlanOperand) -> list[Guarded]:
        """Use the other slot from the next box on."""
        return [(tuple(self.loop.ends(o)), statement) for statement in self._rotate(o, "use")]

    def finish(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the last egress of each slot."""
        return [] if o.mode == "in" else [((), Wait(self._ticket(o, "out", i))) for i in range(self.port.slots(o))]


def lower(step: PlanStep, fetched: int = 0, shared: int | None = None) -> LoopProgram:
    """The loop program of a step, which begins with the fetch of that many bytes of argument tables, if any.

    If its table is `shared`, the one of the step with that number, it sets all of its addresses itself: those that no
    tile changes first of all.
    """
    stage = TileLoop(step, "stage_", staged=True) if step.staging else None
    loop = TileLoop(step, outer=stage)
    fixed, varying = _arguments(step, loop)
    table, kernel = Table(step.index if shared is None else shared), step.kernel.symbol
    own = [(name, value) for name, value in fixed if shared is not None and has_address(value)]
    first = (Arguments(kernel, table),) if varying and not own else ()
    call = Block((*(Assign(name, value) for name, value in varying), Call(kernel, table)))
    ahead = TileLoop(step, "next_", outer=stage)
    body = _loop(Port(step, staged=False), step.buffering, loop, ahead, first, call)
    if stage and step.staging:
        coming = TileLoop(step, "coming_", staged=True)
        body = _loop(Port(step, staged=True), step.staging.buffering, stage, coming, (), body)
    if fetched:
        body = Block((Fetch(Group(step.index), GroupSize(step.index, fetched)), *body.body))
    if own:
        body = Block((Arguments(kernel, table), *(Assign(name, value) for name, value in own), *body.body))
        fixed = tuple(item for item in fixed if item not in own)
    storages = tuple((o.arg, o.storage) for o in step.operands)
    return LoopProgram(step.index, f"{step.op_label} {step.name}", step.kernel, table.step, storages, fixed, body)


def has_address(value: Expr) -> bool:
    """Whether the value is an address of a home or slot."""
    return isinstance(value, Tree) and any(isinstance(node, (Home, Slot)) for node in value.walk())


def _loop(
    port: Port, buffering: Buffering, loop: TileLoop, ahead: TileLoop, first: tuple[Statement, ...], inside: Block
) -> Block:
    """The loop over the tiles of one hop around `inside`, with all transfers; no loop where there is only one tile."""
    moved = port.moved()

    def of_all(phase: Callable[[PlanOperand], list[Guarded]]) -> list[Statement]:
        return grouped(pair for o in moved for pair in phase(o))

    if buffering == "double" and loop.split:
        return _double(port, loop, ahead, first, inside, of_all)
    moves = SingleMoves(port, loop)
    fetch, leave = of_all(moves.fetch), of_all(moves.leave)
    each = [*fetch, *of_all(moves.arrive), inside, *leave, *of_all(moves.settle)]
    if not loop.split:
        return Block((*first, *each))
    total, count = _count(port, loop)
    lengths = _definitions(loop.lengths(), [inside, *leave, *fetch])
    declared = _declared(loop.coordinates())
    body = Loop(_counter(port, "tile"), count, (), (*lengths, *each, *loop.advance()))
    return Block((*total, *first, *declared, body))


def _double(
    port: Port,
    loop: TileLoop,
    ahead: TileLoop,
    first: tuple[Statement, ...],
    inside: Block,
    of_all: Callable[[Callable[[PlanOperand], list[Guarded]]], list[Statement]],
) -> Block:
    """The double-buffered loop; without ingress it has no statements that run ahead."""
    moves = DoubleMoves(port, loop, ahead)
    fetch, leave = of_all(moves.fetch), of_all(moves.leave)
    each = [*of_all(moves.arrive), inside, *leave, *of_all(moves.turn), *loop.advance()]
    work = [*_definitions(loop.lengths(), [inside, *leave]), *each]
    names = variables(tuple(fetch))
    runs_ahead = any(name.startswith(ahead.prefix) for name in names)
    coordinates = loop.coordinates() | (ahead.coordinates() if runs_ahead else {})
    tickets = moves.tickets()
    total, count = _count(port, loop)
    declared: list[Statement] = [
        *total,
        *first,
        *_declared(coordinates | moves.numbers()),
        *([Tickets(*map(tuple, zip(*tickets, strict=True)))] if tickets else []),
    ]
    fetching = [*_definitions(ahead.lengths(), fetch), *fetch, *ahead.advance()] if runs_ahead else fetch
    counter = _counter(port, "turn" if fetching else "tile")
    return Block((*declared, Loop(counter, count, tuple(fetching), tuple(work)), *of_all(moves.finish)))


def _counter(port: Port, what: str) -> Var:
    return Var(f"stage_{what}" if port.staged else what)


def _count(port: Port, loop: TileLoop) -> tuple[list[Statement], Expr]:
    """The number of tiles, and the definition of a variable for it where it varies."""
    count = loop.count()
    if isinstance(count, int):
        return [], sized(count, "stage_tiles" if port.staged else "tiles")
    return [Let("tiles", count)], Var("tiles")


def _declared(first: dict[str, Expr]) -> list[Statement]:
    return [Declare(tuple(first), tuple(first.values()))] if first else []


def _definitions(lengths: Sequence[Let], statements: Sequence[Statement]) -> list[Statement]:
    """The definitions of the variables that the statements use, and of those that these definitions use."""
    names, lets = variables(tuple(statements)), list[Statement]()
    for let in reversed(lengths):
        if let.name in names:
            lets.insert(0, let)
            names |= variables(let)
    return lets


def _arguments(step: PlanStep, loop: TileLoop) -> tuple[tuple[tuple[str, Expr], ...], list[tuple[str, Expr]]]:
    """The arguments that are constant and not zero, and those that change from tile to tile or pass to pass."""
    fixed, varying = list[tuple[str, Expr]](), list[tuple[str, Expr]]()
    for name, value, constant in (*_pointers(step, loop), *_scalars(step, loop)):
        if not constant:
            varying.append((name, value))
        elif not _is_zero(value):
            fixed.append((name, value))
    return tuple(fixed), varying


def _is_zero(value: Expr) -> bool:
    """Whether the value has only zero bits, as a cleared table has; -0.0 has its sign bit set."""
    if isinstance(value, Real):
        nearest = np.float32(value.value)
        return bool(nearest == 0 and not np.signbit(nearest))
    return value == 0


def _home(step: PlanStep, operand: PlanOperand) -> Home:
    """The home of an operand as the kernel's pointer has it."""
    return Home(operand.storage, next(dtype for name, dtype, _ in step.kernel.pointers if name == operand.arg))


def _pointers(step: PlanStep, loop: TileLoop) -> Iterator[tuple[str, Expr, bool]]:
    """For each pointer argument its name, its address, and whether that is the same for all tiles."""
    operands = {o.arg: o for o in step.operands}
    for name, _, _ in step.kernel.pointers:
        operand = operands.get(name)
        if operand is None:
            continue
        if operand.slots == 0:
            offset = loop.element(operand)
            yield name, add(_home(step, operand), offset), isinstance(offset, int)
        else:
            yield name, Port(step, staged=False).slot(operand, "use"), operand.slots == 1


def _scalars(step: PlanStep, loop: TileLoop) -> Iterator[tuple[str, Expr, bool]]:
    """For each scalar argument its name, its value, and whether that is the same for all tiles."""
    for name, _ in step.kernel.scalars:
        value = loop.argument(step.args[name])
        yield name, value, isinstance(step.args[name], Const) or isinstance(value, int)
