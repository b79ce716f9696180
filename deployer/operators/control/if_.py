"""If: one of two graphs, where the condition is known."""

from collections.abc import Mapping

from deployer.core.ir import Node
from deployer.core.operator import unsupported
from deployer.operators.control.control import Control, Inner, Known, Parts, control, known_value
from deployer.operators.control.turns import bound


@control
class If(Control):
    """The graph that the condition chooses takes the node's place."""

    name = "If"
    versions = (1, 11, 13, 16, 19, 21, 23, 24, 25)
    static_inputs = (0,)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A branch reads the values around it, and gives what the other does."""
        return {"then_branch": (0, 0), "else_branch": (0, 0)}

    def parts(self, node: Node, counts: Mapping[str, int], known: Known) -> Parts:
        """The graph's results under the names of the node's."""
        if len(set(counts.values())) > 1:
            given = " and ".join(str(count) for count in counts.values())
            raise unsupported(node, f"its graphs give {given} values", "graphs that give as many")
        chosen = "then_branch" if known_value(node, 0, "its condition", known) else "else_branch"
        results = yield Inner(chosen)
        yield from bound(node, results)
        return f"{chosen} alone is computed: no input changes the condition"
