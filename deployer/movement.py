"""The transfers of a step as C statements: what is fetched, waited for, stored and rotated, by form of buffering."""

from deployer.looping import ELEMENT, FLAG, TileLoop
from deployer.naming import Names
from deployer.plan import PlanOperand, PlanStep

HOP = 0


def _guarded(condition: str, statement: str) -> str:
    return f"if ({condition}) {statement}" if condition else statement


class SingleMoves:
    """Statements of a single-buffered step: fetch, wait, compute, store, wait."""

    def __init__(self, step: PlanStep, names: Names, loop: TileLoop) -> None:
        self.step, self.names, self.loop = step, names, loop

    def variables(self, moved: list[PlanOperand]) -> list[str]:
        """Tickets are defined where transfers start."""
        return []

    def fetch(self, o: PlanOperand) -> list[str]:
        """Start the ingress, where this tile begins a box and the old content matters."""
        if o.mode == "out":
            return []
        call = self.loop.move(o).call("in", HOP, self.names.home(o.storage), self.names.slot(self.step, o))
        conditions = [c for c in (self.loop.begins(o), f"!{FLAG}" if o.fresh_on_flag else "") if c]
        if conditions:
            call = f"{' && '.join(conditions)} ? {call} : HAL_DONE"
        return [f"const hal_ticket_t {o.arg}_in = {call};"]

    def arrive(self, o: PlanOperand) -> list[str]:
        """Wait for it."""
        return [] if o.mode == "out" else [f"hal_dma_wait({o.arg}_in);"]

    def leave(self, o: PlanOperand) -> list[str]:
        """Start the egress, where this tile ends a box."""
        if o.mode == "in":
            return []
        call = self.loop.move(o).call("out", HOP, self.names.home(o.storage), self.names.slot(self.step, o))
        ends = self.loop.ends(o)
        return [f"const hal_ticket_t {o.arg}_out = {f'{ends} ? {call} : HAL_DONE' if ends else call};"]

    def settle(self, o: PlanOperand) -> list[str]:
        """Wait for it."""
        return [] if o.mode == "in" else [f"hal_dma_wait({o.arg}_out);"]

    def turn(self, o: PlanOperand) -> list[str]:
        """There is one slot to use."""
        return []

    def finish(self, o: PlanOperand) -> list[str]:
        """Nothing is left in flight."""
        return []


class DoubleMoves:
    """Statements of a double-buffered step: `next_` coordinates run one tile ahead of the kernel."""

    def __init__(self, step: PlanStep, names: Names, loop: TileLoop, ahead: TileLoop) -> None:
        self.step, self.names, self.loop, self.ahead = step, names, loop, ahead

    def variables(self, moved: list[PlanOperand]) -> list[str]:
        """Tickets per slot, the slot to fill and the one to use."""
        lines = []
        for o in moved:
            if o.mode != "out":
                lines.append(f"hal_ticket_t {o.arg}_in[{o.slots}] = {{HAL_DONE}};")
            if o.mode != "in":
                lines.append(f"hal_ticket_t {o.arg}_out[{o.slots}] = {{HAL_DONE}};")
            if o.slots > 1:
                lines.append(f"uint32_t {'' if o.mode == 'out' else f'{o.arg}_fill = 0, '}{o.arg}_use = 0;")
        return lines

    def _slot(self, o: PlanOperand, which: str) -> tuple[str, str]:
        """Index and address of the slot to fill or use."""
        base = self.names.slot(self.step, o)
        index = f"{o.arg}_{which}" if o.slots > 1 else "0"
        return index, f"{base} + {index} * {o.slot_bytes // ELEMENT}" if o.slots > 1 else base

    def _rotate(self, o: PlanOperand, which: str) -> str:
        """Statement that goes on to the next slot."""
        index = f"{o.arg}_{which}"
        return f"{index} ^= 1;" if o.slots == 2 else f"{index} = {index} == {o.slots - 1} ? 0 : {index} + 1;"

    def fetch(self, o: PlanOperand) -> list[str]:
        """Start the ingress of the next box; a slot that is also written must have left first."""
        if o.mode == "out":
            return []
        index, inner = self._slot(o, "fill")
        call = self.ahead.move(o).call("in", HOP, self.names.home(o.storage), inner)
        if o.fresh_on_flag:
            call = f"{FLAG} ? HAL_DONE : {call}"
        lines = [f"hal_dma_wait({o.arg}_out[{index}]);"] if o.mode == "inout" else []
        lines.append(f"{o.arg}_in[{index}] = {call};")
        if o.slots > 1:
            lines.append(self._rotate(o, "fill"))
        begins = self.ahead.begins(o)
        return [f"if ({begins}) {{", *("    " + x for x in lines), "}"] if begins else lines

    def arrive(self, o: PlanOperand) -> list[str]:
        """Wait until the box has come in; a slot that is only written must be free again."""
        index, _ = self._slot(o, "use")
        ticket = f"{o.arg}_{'out' if o.mode == 'out' else 'in'}[{index}]"
        return [_guarded(self.loop.begins(o), f"hal_dma_wait({ticket});")]

    def leave(self, o: PlanOperand) -> list[str]:
        """Start the egress of a finished box."""
        if o.mode == "in":
            return []
        index, inner = self._slot(o, "use")
        call = self.loop.move(o).call("out", HOP, self.names.home(o.storage), inner)
        return [_guarded(self.loop.ends(o), f"{o.arg}_out[{index}] = {call};")]

    def settle(self, o: PlanOperand) -> list[str]:
        """Egress is waited for when its slot is needed again."""
        return []

    def turn(self, o: PlanOperand) -> list[str]:
        """Use the other slot from the next box on."""
        return [_guarded(self.loop.ends(o), self._rotate(o, "use"))] if o.slots > 1 else []

    def finish(self, o: PlanOperand) -> list[str]:
        """Wait for the last egress of each slot."""
        return [] if o.mode == "in" else [f"hal_dma_wait({o.arg}_out[{i}]);" for i in range(o.slots)]
