"""Loop: a graph computed turn by turn, where the number of turns is known."""

from collections.abc import Mapping

from deployer.core.ir import Node
from deployer.core.operator import unsupported
from deployer.operators.control.control import Control, Inner, Known, Parts, check_turns, control, known_value
from deployer.operators.control.turns import bound, stacked

COUNT, CONDITION, STATES = 0, 1, 2
"""Positions of inputs; of the states that is the first."""


@control
class Loop(Control):
    """All turns are written out: each reads the states of the one before, and what each gives besides is stacked."""

    name = "Loop"
    versions = (1, 11, 13, 16, 19, 21, 23, 24, 25)
    static_inputs = (COUNT, CONDITION)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A turn takes its number, the condition and the states, and gives a condition and the states."""
        states = max(len(node.inputs) - STATES, 0)
        return {"body": (STATES + states, 1 + states)}

    def parts(self, node: Node, counts: Mapping[str, int], known: Known) -> Parts:
        """The turns until the count is reached or a condition that a turn gives is false."""
        inputs = (*node.inputs, *[""] * (STATES - len(node.inputs)))
        limit = known_value(node, COUNT, "the number of its turns", known) if inputs[COUNT] else None
        goes_on = not inputs[CONDITION] or bool(known_value(node, CONDITION, "its condition", known))
        states, layers = inputs[STATES:], list[tuple[str, ...]]()
        while goes_on and (limit is None or len(layers) < limit):
            check_turns(node, len(layers) + 1)
            names = [known.fresh(f"{node.name}/{label}{len(layers)}") for label in ("number", "condition")]
            for name, value in zip(names, (len(layers), 1), strict=True):
                yield Node(name, "Constant", (), (name,), {"value_int": value})
            condition, *results = yield Inner("body", (*names, *states))
            states, of_turn = tuple(results[: len(states)]), tuple(results[len(states) :])
            layers.append(of_turn)
            if condition not in known.constants:
                why = f"whether it goes on after turn {len(layers)} is computed at run time"
                raise unsupported(node, why, "a condition that follows from shapes and constants")
            goes_on = bool(known.constants[condition].all())
        yield from bound(node, states)
        for position in range(len(states), counts["body"] - 1):
            yield from stacked(node, position, [of_turn[position - len(states)] for of_turn in layers], known)
        return f"its {len(layers)} turns are written out: no input changes their number"
