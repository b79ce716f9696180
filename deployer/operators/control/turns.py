"""Nodes around the turns of a loop: results under their names, and what each turn gives put together."""

from collections.abc import Iterator, Sequence

from deployer.core.ir import Node
from deployer.core.operator import unsupported
from deployer.operators.control.control import Known


def bound(node: Node, values: Sequence[str]) -> Iterator[Node]:
    """The node's first outputs as these values, those that have a name."""
    for position, value in enumerate(values):
        name = node.outputs[position] if position < len(node.outputs) else ""
        if name:
            yield Node(f"{node.name}/result{position}", "Identity", (value,), (name,))


def stacked(node: Node, position: int, turns: Sequence[str], known: Known, axis: int = 0) -> Iterator[Node]:
    """The node's output of that position as the values of all turns along a new axis."""
    name = node.outputs[position] if position < len(node.outputs) else ""
    if not name:
        return
    if not turns:
        raise unsupported(node, f"it takes no turn, so its output {position} has no elements", "one turn or more")
    layers = [known.fresh(f"{name}/{turn}") for turn in range(len(turns))]
    for layer, value in zip(layers, turns, strict=True):
        yield Node(f"{node.name}/layer", "Unsqueeze", (value,), (layer,), {"axes": (axis,)})
    yield Node(f"{node.name}/stack{position}", "Concat", tuple(layers), (name,), {"axis": axis})
