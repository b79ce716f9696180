"""Transfers and waits: of a step's loop over one hop, tile by tile, of its graph across steps, and of cached copies.

A single-buffered loop fetches, waits, computes, stores and waits. A double-buffered one fetches one tile ahead. Where
transfers cross steps, the graph starts the first ingress of each operand and waits for the last egress.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from deployer.core.level import L_HOME, L_INNER
from deployer.core.plan import Plan, PlanOperand, PlanStep
from deployer.expressions.tree import Expr, Var
from deployer.expressions.words import add, all_of, mul, word
from deployer.loops.leaves import HomeExpr, SlotExpr, sized
from deployer.loops.loop_program import (
    Direction,
    Done,
    IfStmt,
    Let,
    Rotate,
    StartStmt,
    Statement,
    Ticket,
    TicketArray,
    Transfer,
    Wait,
    WaitAll,
)
from deployer.loops.tile_loop import FLAG, TileLoop

Guarded = tuple[tuple[Expr, ...], Statement]
"""Conditions that must all hold, and a statement."""
Opens = frozenset[tuple[Direction, str]]
"""Directions and operands."""
DIRECTIONS: tuple[Direction, ...] = ("in", "out")
Rotation = tuple[int, tuple[str, ...]]
"""A number of slots, and the innermost dims of the loop along which a slot stays in use."""


@dataclass(frozen=True)
class Port:
    """A step's use of a hop: the addresses of its operands at both ends, their slots, and names of variables.

    `opens` are the directions and operands whose ends the graph handles: it starts their first ingress, and
    waits for their last egress.
    """

    step: PlanStep
    staged: bool
    opens: Opens = frozenset()

    @property
    def hop(self) -> int:
        """The number of the level that it feeds."""
        return L_HOME if self.staged else L_INNER

    def moved(self) -> list[PlanOperand]:
        """The operands that pass through the hop."""
        return [o for o in self.step.operands if self.slots(o)]

    def slots(self, o: PlanOperand) -> int:
        """Number of the operand's slots at the inner end."""
        return o.stage_slots if self.staged else o.slots

    def variable(self, o: PlanOperand, what: str) -> str:
        """The name of a variable that belongs to the operand."""
        return f"{o.arg}_stage_{what}" if self.staged else f"{o.arg}_{what}"

    @cached_property
    def rotations(self) -> dict[str, Rotation]:
        """Return each operand's slot rotation; operands that rotate alike share the slot numbers."""
        loop = TileLoop(self.step, staged=self.staged)
        return {o.arg: (self.slots(o), tuple(loop.inner(o))) for o in self.moved()}

    def alike(self, o: PlanOperand) -> list[PlanOperand]:
        """The operands whose slots rotate as this one's do, itself among them."""
        return [other for other in self.moved() if self.rotations[other.arg] == self.rotations[o.arg]]

    def shared(self, o: PlanOperand, what: str) -> str:
        """The name of a variable, such as the number of the slot to "fill", of all operands that rotate alike.

        It is named after the first of them, but for two slots that change with each tile.
        """
        if self.rotations[o.arg] == (2, ()):
            return f"stage_{what}" if self.staged else what
        return self.variable(self.alike(o)[0], what)

    def opened(self, o: PlanOperand, direction: Direction) -> bool:
        """Whether the graph has a part in the operand's transfers."""
        return (direction, o.arg) in self.opens

    def first(self, o: PlanOperand) -> Ticket:
        """The ticket of the first ingress, which the graph started."""
        return Ticket(self.variable(o, "first"), "in")

    def last(self, o: PlanOperand, slot: int = 0) -> Ticket:
        """The ticket of the last egress of a slot, for which the graph waits."""
        return Ticket(self.variable(o, "last"), "out", (slot,))

    def outer(self, o: PlanOperand) -> Expr:
        """Address at the outer end: of the home, or of the stage's slot in use."""
        return home_of(self.step, o) if self.staged or not o.stage_slots else Port(self.step, True).slot(o, "use")

    def slot(self, o: PlanOperand, which: str = "") -> Expr:
        """Address of a slot at the inner end; of several, the one whose number the variable `which` holds."""
        base = SlotExpr(self.step.index, o.arg, self.staged)
        size = o.stage_bytes if self.staged else o.slot_bytes
        if not which or self.slots(o) == 1:
            return base
        count = size // self.step.kernel.element_bytes(o.arg)
        return add(base, mul(Var(self.shared(o, which)), sized(count, self.variable(o, "size"))))

    def transfer(self, loop: TileLoop, o: PlanOperand, direction: Direction, which: str = "") -> Transfer:
        """The transfer of a tile's box from or to a slot."""
        name = f"{o.arg}_stage" if self.staged else o.arg
        return loop.move(o).transfer(direction, self.hop, self.outer(o), self.slot(o, which), name)


def grouped(statements: Iterable[Guarded]) -> list[Statement]:
    """The statements in order; consecutive ones with the same conditions are in one `IfStmt`."""
    output: list[Statement] = []
    for conditions, group in itertools.groupby(statements, key=lambda pair: pair[0]):
        body = tuple(statement for _, statement in group)
        output += [IfStmt(all_of(list(conditions)), body)] if conditions else body
    return output


class SingleMoves:
    """The transfers and waits of a single-buffered loop; the only transfer of a direction is waited for at once."""

    def __init__(self, port: Port, loop: TileLoop) -> None:
        self.port, self.loop = port, loop
        users = {direction: [o for o in port.moved() if o.mode in (direction, "inout")] for direction in DIRECTIONS}
        self.alone = {
            direction: len(users[direction]) == 1 and not port.opened(users[direction][0], direction)
            for direction in DIRECTIONS
        }

    def _ticket(self, o: PlanOperand, direction: Direction) -> Ticket:
        return Ticket(self.port.variable(o, direction), direction)

    def _start(self, o: PlanOperand, direction: Direction, conditions: list[Expr]) -> list[Guarded]:
        transfer = self.port.transfer(self.loop, o, direction)
        if self.alone[direction]:
            return [(tuple(conditions), Wait(transfer))]
        value = word("choose", all_of(conditions), transfer, Done()) if conditions else transfer
        if self.port.opened(o, direction) and not self.loop.split:
            return [] if direction == "in" else [((), StartStmt(self.port.last(o), value))]
        if direction == "in" and self.port.opened(o, direction):
            value = word("choose", word("equal", tile_counter(self.port, "tile"), 0), self.port.first(o), value)
        return [((), StartStmt(self._ticket(o, direction), value))]

    def _wait(self, o: PlanOperand, direction: Direction) -> list[Guarded]:
        if self.alone[direction]:
            return []
        if not self.port.opened(o, direction) or (direction == "in" and self.loop.split):
            return [((), Wait(self._ticket(o, direction)))]
        if not self.loop.split:
            return [((), Wait(self.port.first(o)))] if direction == "in" else []
        tile, count = tile_counter(self.port, "tile"), tile_count(self.port, self.loop)[1]
        more, at_last = word("greater_equal", count, add(tile, 2)), word("greater_equal", add(tile, 1), count)
        ticket = self._ticket(o, direction)
        return [((more,), Wait(ticket)), ((at_last,), StartStmt(self.port.last(o), ticket))]

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress if this tile is the first of a box and the kernel reads the old content."""
        conditions = [*self.loop.begins(o), *([word("not", FLAG)] if o.overwrite_on_first_pass else [])]
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

    def arrays(self) -> tuple[TicketArray, ...]:
        """The arrays of tickets, in the order of the operands, with their first tickets."""
        arrays = [
            self._array(o, direction)
            for o in self.port.moved()
            for direction in DIRECTIONS
            if o.mode in (direction, "inout")
        ]
        return tuple(dict.fromkeys(arrays))

    def _together(self, o: PlanOperand, direction: Direction) -> list[PlanOperand]:
        """The operands whose tickets are in one array: those that start and are awaited together.

        Egress of an operand that also comes in is awaited when its slot is filled again.
        """
        alike = self.port.alike(o)
        if direction == "in":
            return [other for other in alike if other.mode != "out"]
        return [o] if o.mode == "inout" else [other for other in alike if other.mode == "out"]

    def _array(self, o: PlanOperand, direction: Direction) -> TicketArray:
        together = self._together(o, direction)
        name = self.port.shared(together[0], direction) if len(together) > 1 else self.port.variable(o, direction)
        return TicketArray(name, self.port.slots(o), tuple(self._begun(other, direction) for other in together))

    def _begun(self, o: PlanOperand, direction: Direction) -> Expr:
        """The ticket of the transfer that the graph started, if it did."""
        return self.port.first(o) if direction == "in" and self.port.opened(o, "in") else Done()

    def numbers(self) -> dict[str, Expr]:
        """The variables with the numbers of the slots to fill and to use: 0 at first, but for slots being filled."""
        numbers = dict[str, Expr]()
        for o in self.port.moved():
            if self.port.slots(o) > 1:
                roles = {"fill": int(self._begun_alike(o)), "use": 0} if o.mode != "out" else {"use": 0}
                numbers |= {self.port.shared(o, what): first for what, first in roles.items()}
        return numbers

    def _begun_alike(self, o: PlanOperand) -> bool:
        """Whether the graph starts the first ingress of all operands that share the number of the slot to fill."""
        return all(self.port.opened(other, "in") for other in self._together(o, "in"))

    def _ticket(self, o: PlanOperand, direction: Direction, slot: Expr) -> Ticket:
        array = self._array(o, direction)
        return Ticket(array.name, direction, array.index(slot, self._together(o, direction).index(o)))

    def _all(self, o: PlanOperand, direction: Direction, slot: Expr) -> list[Statement]:
        """The wait for the transfers of a slot of all operands whose tickets are together, at the first of them."""
        array, together = self._array(o, direction), self._together(o, direction)
        if len(together) == 1:
            return [Wait(self._ticket(o, direction, slot))]
        place = (slot,) if array.slots > 1 else ()
        return [WaitAll(Ticket(array.name, direction, place), len(together))] if o == together[0] else []

    def _number(self, o: PlanOperand, which: str) -> Expr:
        return Var(self.port.shared(o, which)) if self.port.slots(o) > 1 else 0

    def _rotate(self, o: PlanOperand, which: str) -> list[Statement]:
        """The next slot, behind the last of the operands that share its number."""
        slots, alike = self.port.slots(o), self._together(o, "in") if which == "fill" else self.port.alike(o)
        return [Rotate(Var(self.port.shared(o, which)), slots)] if slots > 1 and o == alike[-1] else []

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress of the next box; if the kernel also writes the slot, wait first for its egress."""
        begun = self.port.opened(o, "in")
        if o.mode == "out" or (begun and len(self.ahead.inner(o)) == len(self.ahead.split)):
            return []
        number = self._number(o, "fill")
        transfer: Expr = self.port.transfer(self.ahead, o, "in", "fill")
        if o.overwrite_on_first_pass:
            transfer = word("choose", FLAG, Done(), transfer)
        wait = [Wait(self._ticket(o, "out", number))] if o.mode == "inout" else []
        statements = [*wait, StartStmt(self._ticket(o, "in", number), transfer)]
        later = [word("greater_equal", tile_counter(self.port, "iter"), 1)] if begun else []
        begins = self.ahead.begins(o)
        started = [((*later, *begins), statement) for statement in statements]
        rotating = (*(later if self._begun_alike(o) else ()), *begins)
        return [*started, *((rotating, statement) for statement in self._rotate(o, "fill"))]

    def arrive(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the ingress of the box, or, if the kernel only writes it, for the earlier egress of its slot."""
        waits = self._all(o, "out" if o.mode == "out" else "in", self._number(o, "use"))
        return [(tuple(self.loop.begins(o)), wait) for wait in waits]

    def leave(self, o: PlanOperand) -> list[Guarded]:
        """Start the egress of a finished box."""
        if o.mode == "in":
            return []
        transfer = self.port.transfer(self.loop, o, "out", "use")
        return [(tuple(self.loop.ends(o)), StartStmt(self._ticket(o, "out", self._number(o, "use")), transfer))]

    def advance(self, o: PlanOperand) -> list[Guarded]:
        """Use the other slot from the next box on."""
        return [(tuple(self.loop.ends(o)), statement) for statement in self._rotate(o, "use")]

    def drain(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the last egress of each slot, or leave its ticket to the graph."""
        if o.mode == "in":
            return []
        array, together = self._array(o, "out"), self._together(o, "out")
        tickets = [self._ticket(o, "out", i) for i in range(array.slots)]
        if self.port.opened(o, "out"):
            return [((), StartStmt(self.port.last(o, i), ticket)) for i, ticket in enumerate(tickets)]
        if any(self.port.opened(other, "out") for other in together):
            return [((), Wait(ticket)) for ticket in tickets]
        if len(together) == 1 and array.slots > 1:
            return [((), WaitAll(Ticket(array.name, "out"), array.slots))]
        return [((), wait) for i in range(array.slots) for wait in self._all(o, "out", i)]


def tile_counter(port: Port, what: str) -> Var:
    """The loop's counter: of tiles, or of iterations where statements run ahead."""
    return Var(f"stage_{what}" if port.staged else what)


def tile_count(port: Port, loop: TileLoop) -> tuple[list[Statement], Expr]:
    """The number of tiles, and the definition of a variable for it where it varies."""
    count = loop.count()
    if isinstance(count, int):
        return [], sized(count, "stage_tiles" if port.staged else "tiles")
    return [Let("tiles", count)], Var("tiles")


def home_of(step: PlanStep, operand: PlanOperand) -> HomeExpr:
    """The home of an operand as the kernel's pointer has it."""
    return HomeExpr(operand.storage, next(dtype for name, dtype, _ in step.kernel.pointers if name == operand.arg))


# Transfers of cached copies: whole tensors between the outermost level and the middle level, step by step.


@dataclass(frozen=True)
class ResidencyCopy:
    """A transfer between a storage's home and its copy, which starts when step `start` begins and is awaited when step
    `end` ends.
    """

    storage: str
    name: str
    direction: Direction
    start: int
    end: int
    dtype: str
    bytes: int

    @property
    def transfer(self) -> Transfer:
        """The transfer as the graph's program has it: one run of all bytes."""
        home, copy = HomeExpr(self.storage, self.dtype), HomeExpr(self.name, self.dtype)
        target, source = (copy, home) if self.direction == "in" else (home, copy)
        return Transfer(self.direction, L_HOME, target, source, (self.bytes,))


def copies(plan: Plan) -> Iterator[ResidencyCopy]:
    """The copies that a plan's residencies make, in their order."""
    final = {residency.storage: residency for residency in plan.residencies}
    homes = {home.storage: home for home in plan.homes}
    writes = {o.storage: step.index for step in plan.steps for o in step.operands if o.mode != "in"}
    for residency in plan.residencies:
        kind = homes[residency.storage].type
        fields = kind.dtype, kind.bytes
        if residency.begin < residency.first:
            yield ResidencyCopy(residency.storage, residency.name, "in", residency.begin, residency.first - 1, *fields)
        if final[residency.storage] != residency:
            yield ResidencyCopy(
                residency.storage, residency.name, "out", writes[residency.name] + 1, residency.end, *fields
            )


def outermost(operand: PlanOperand) -> int | None:
    """The level of the operand's slots that its home feeds; None where it has no slots."""
    return max((number for number, slots in enumerate(operand.places) if slots.count), default=None)


def slot_life(plan: Plan, step: PlanStep, operand: PlanOperand, level: int) -> tuple[int, int]:
    """The first and the last step in which an operand's slots in a level are in use."""
    own = level == outermost(operand)
    ends = [c.at for c in plan.cross_step_transfers if own and (c.step, c.arg) == (step.index, operand.arg)]
    return min([step.index, *ends]), max([step.index, *ends])
