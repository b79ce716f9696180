"""The transfers of a step as C statements: what is fetched, waited for, stored and rotated, by form of buffering."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from deployer.codegen.c_names import Names
from deployer.codegen.loop_views import sized
from deployer.codegen.tile_loop import ELEMENT, FLAG, TileLoop
from deployer.core.plan import PlanOperand, PlanStep


@dataclass(frozen=True)
class Port:
    """A hop as a step's moves see it: where an operand comes from, its slots, and how its variables are called."""

    step: PlanStep
    names: Names
    staged: bool

    @property
    def hop(self) -> int:
        """Hop 1 feeds the stage, hop 0 the kernels."""
        return 1 if self.staged else 0

    def moved(self) -> list[PlanOperand]:
        """The operands that pass through."""
        return [o for o in self.step.operands if self.slots(o)]

    def slots(self, o: PlanOperand) -> int:
        """Slots at the inner end."""
        return o.stage_slots if self.staged else o.slots

    def variable(self, o: PlanOperand, what: str) -> str:
        """Name of a variable of the operand's."""
        return f"{o.arg}_stage_{what}" if self.staged else f"{o.arg}_{what}"

    def outer(self, o: PlanOperand) -> str:
        """Address at the outer end: of the home, or of the stage's slot in use."""
        return self.names.home(o.storage) if self.staged or not o.stage_slots else stage_slot(self.step, self.names, o)

    def slot(self, o: PlanOperand, which: str = "") -> str:
        """Address of a slot at the inner end: of the one to fill or to use where there are several."""
        base = self.names.stage(self.step, o) if self.staged else self.names.slot(self.step, o)
        size = o.stage_bytes if self.staged else o.slot_bytes
        if not which or self.slots(o) == 1:
            return base
        return f"{base} + {self.variable(o, which)} * {sized(size // ELEMENT, self.variable(o, 'size'))}"

    def move(self, loop: TileLoop, o: PlanOperand, direction: str, which: str = "") -> str:
        """The call that starts the transfer of a tile's box from or to a slot."""
        name = f"{o.arg}_stage" if self.staged else o.arg
        return loop.move(o).call(direction, self.hop, self.outer(o), self.slot(o, which), name)


def stage_slot(step: PlanStep, names: Names, o: PlanOperand) -> str:
    """Address of the stage's slot in use."""
    return Port(step, names, staged=True).slot(o, "use")


Guarded = tuple[str, str]
"""A condition, empty where there is none, and a statement."""


def blocks(statements: Iterable[Guarded]) -> list[str]:
    """Lines of C: neighbours under one condition share it."""
    lines: list[str] = []
    for condition, group in itertools.groupby(statements, key=lambda pair: pair[0]):
        texts = [text for _, text in group]
        if not condition:
            lines += texts
        elif len(texts) == 1:
            lines.append(f"if ({condition}) {texts[0]}")
        else:
            lines += [f"if ({condition}) {{", *("    " + text for text in texts), "}"]
    return lines


class SingleMoves:
    """A single-buffered loop: fetch, wait, compute, store, wait; a transfer alone is waited for at once."""

    def __init__(self, port: Port, loop: TileLoop) -> None:
        self.port, self.loop = port, loop
        self.alone = {way: sum(o.mode in (way, "inout") for o in port.moved()) == 1 for way in ("in", "out")}

    def _start(self, o: PlanOperand, way: str, conditions: list[str]) -> list[Guarded]:
        """Start a transfer under conditions, of which those that are empty hold."""
        call, condition = self.port.move(self.loop, o, way), " && ".join(filter(None, conditions))
        if self.alone[way]:
            return [(condition, f"hal_dma_wait({call});")]
        call = f"{condition} ? {call} : HAL_DONE" if condition else call
        return [("", f"const hal_ticket_t {self.port.variable(o, way)} = {call};")]

    def _wait(self, o: PlanOperand, way: str) -> list[Guarded]:
        """Wait for it."""
        return [] if self.alone[way] else [("", f"hal_dma_wait({self.port.variable(o, way)});")]

    def variables(self, moved: list[PlanOperand]) -> tuple[list[str], list[str]]:
        """Tickets are defined where transfers start."""
        return [], []

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress, where this tile begins a box and the old content matters."""
        conditions = [self.loop.begins(o), f"!{FLAG}" if o.fresh_on_flag else ""]
        return [] if o.mode == "out" else self._start(o, "in", conditions)

    def arrive(self, o: PlanOperand) -> list[Guarded]:
        """Wait for it."""
        return [] if o.mode == "out" else self._wait(o, "in")

    def leave(self, o: PlanOperand) -> list[Guarded]:
        """Start the egress, where this tile ends a box."""
        return [] if o.mode == "in" else self._start(o, "out", [self.loop.ends(o)])

    def settle(self, o: PlanOperand) -> list[Guarded]:
        """Wait for it."""
        return [] if o.mode == "in" else self._wait(o, "out")

    def turn(self, o: PlanOperand) -> list[Guarded]:
        """There is one slot to use."""
        return []

    def finish(self, o: PlanOperand) -> list[Guarded]:
        """Nothing is left in flight."""
        return []


class DoubleMoves:
    """Statements of a double-buffered loop: the coordinates of `ahead` run one tile ahead of what is computed."""

    def __init__(self, port: Port, loop: TileLoop, ahead: TileLoop) -> None:
        self.port, self.loop, self.ahead = port, loop, ahead

    def variables(self, moved: list[PlanOperand]) -> tuple[list[str], list[str]]:
        """Declarators of the tickets, one per slot, and of the slot to fill and the one to use."""
        tickets, slots = [], []
        for o in moved:
            count = self.port.slots(o)
            ways = [way for way, other in (("in", "out"), ("out", "in")) if o.mode != other]
            tickets += [f"{self.port.variable(o, way)}[{count}] = {{HAL_DONE}}" for way in ways]
            used = ["use"] if o.mode == "out" else ["fill", "use"]
            slots += [f"{self.port.variable(o, which)} = 0" for which in used] if count > 1 else []
        return tickets, slots

    def _index(self, o: PlanOperand, which: str) -> str:
        """Index of the slot to fill or use."""
        return self.port.variable(o, which) if self.port.slots(o) > 1 else "0"

    def _rotate(self, o: PlanOperand, which: str) -> str:
        """Statement that goes on to the next slot."""
        index, slots = self.port.variable(o, which), self.port.slots(o)
        return f"{index} ^= 1;" if slots == 2 else f"{index} = {index} == {slots - 1} ? 0 : {index} + 1;"

    def fetch(self, o: PlanOperand) -> list[Guarded]:
        """Start the ingress of the next box; a slot that is also written must have left first."""
        if o.mode == "out":
            return []
        index = self._index(o, "fill")
        call = self.port.move(self.ahead, o, "in", "fill")
        if o.fresh_on_flag:
            call = f"{FLAG} ? HAL_DONE : {call}"
        lines = [f"hal_dma_wait({self.port.variable(o, 'out')}[{index}]);"] if o.mode == "inout" else []
        lines.append(f"{self.port.variable(o, 'in')}[{index}] = {call};")
        if self.port.slots(o) > 1:
            lines.append(self._rotate(o, "fill"))
        return [(self.ahead.begins(o), line) for line in lines]

    def arrive(self, o: PlanOperand) -> list[Guarded]:
        """Wait until the box has come in; a slot that is only written must be free again."""
        ticket = self.port.variable(o, "out" if o.mode == "out" else "in")
        return [(self.loop.begins(o), f"hal_dma_wait({ticket}[{self._index(o, 'use')}]);")]

    def leave(self, o: PlanOperand) -> list[Guarded]:
        """Start the egress of a finished box."""
        if o.mode == "in":
            return []
        call = self.port.move(self.loop, o, "out", "use")
        ticket = f"{self.port.variable(o, 'out')}[{self._index(o, 'use')}]"
        return [(self.loop.ends(o), f"{ticket} = {call};")]

    def settle(self, o: PlanOperand) -> list[Guarded]:
        """The egress runs on under the next tile."""
        return []

    def turn(self, o: PlanOperand) -> list[Guarded]:
        """Use the other slot from the next box on."""
        return [(self.loop.ends(o), self._rotate(o, "use"))] if self.port.slots(o) > 1 else []

    def finish(self, o: PlanOperand) -> list[Guarded]:
        """Wait for the last egress of each slot."""
        if o.mode == "in":
            return []
        return [("", f"hal_dma_wait({self.port.variable(o, 'out')}[{i}]);") for i in range(self.port.slots(o))]
