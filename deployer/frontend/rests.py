"""Means that are two floats: the second one finds its way from the node that makes it to those that read the first."""

from dataclasses import dataclass, field, replace

from deployer.core.ir import Node
from deployer.core.traits.numerics import Centre


@dataclass
class Rests:
    """The rests that nodes made so far, each by the mean and the inverse deviation to which it belongs.

    Graphs of files know nothing of them, and pass the mean on by name, perhaps in another shape. A mean whose maker
    is not in the graph has none.
    """

    _made: dict[tuple[str, str], str] = field(default_factory=dict)
    _viewed: dict[str, str] = field(default_factory=dict)

    def see_view(self, node: Node) -> None:
        """Take note of a node whose output is its first input in another shape."""
        self._viewed[node.outputs[0]] = node.inputs[0]

    def completed(self, node: Node, centre: Centre | None) -> Node:
        """The node with a rest as an output, where it makes one, or as an input, where it reads a mean that has one."""
        if centre is None:
            return node
        places = {"mean": centre.mean, "inv_std": centre.inv_std, "rest": centre.rest}
        names = [*(node.outputs if centre.makes else node.inputs)]
        names += [""] * (max(places.values()) + 1 - len(names))
        if centre.makes:
            for label, place in places.items():
                names[place] = names[place] or f"{node.name}/{label}"
            self._made[names[centre.mean], names[centre.inv_std]] = names[centre.rest]
            return replace(node, outputs=tuple(names))
        found = self._made.get((self._source(names[centre.mean]), self._source(names[centre.inv_std])), "")
        names[centre.rest] = names[centre.rest] or found
        return replace(node, inputs=tuple(names)) if names[centre.rest] else node

    def _source(self, name: str) -> str:
        while name in self._viewed:
            name = self._viewed[name]
        return name
