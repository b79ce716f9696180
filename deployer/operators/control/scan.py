"""Scan: a graph computed for each slice of its inputs."""

from collections.abc import Mapping

from deployer.core.ir import Node
from deployer.core.operator import unsupported
from deployer.operators.control.control import Control, Inner, Known, Parts, check_turns, control
from deployer.operators.control.turns import bound, stacked


@control
class Scan(Control):
    """All turns are written out: each takes a slice of each sequence and the states of the turn before."""

    name = "Scan"
    versions = (9, 11, 16, 19, 21, 23, 24, 25)

    def ends(self, node: Node) -> Mapping[str, tuple[int, int]]:
        """A turn takes the states and a slice of each sequence, and gives the states."""
        scanned = node.attr_int("num_scan_inputs", 1)
        if not 1 <= scanned <= len(node.inputs):
            raise unsupported(node, f"num_scan_inputs is {scanned}", f"1 to {len(node.inputs)}")
        return {"body": (len(node.inputs), len(node.inputs) - scanned)}

    def parts(self, node: Node, counts: Mapping[str, int], known: Known) -> Parts:
        """Slices, turns, and what they give stacked along the axes that the node says, forward or backward."""
        scanned = node.attr_int("num_scan_inputs", 1)
        first = len(node.inputs) - scanned
        states, sequences = node.inputs[:first], node.inputs[first:]
        ways = _ways(node, "input", scanned)
        lengths = {known.types[name].shape[axis] for name, (axis, _) in zip(sequences, ways, strict=True)}
        if len(lengths) != 1:
            raise unsupported(node, f"its sequences have {sorted(lengths)} slices", "sequences of one length")
        [turns] = lengths
        check_turns(node, turns)
        layers = list[tuple[str, ...]]()
        for turn in range(turns):
            slices = []
            for name, (axis, backward) in zip(sequences, ways, strict=True):
                at = turns - 1 - turn if backward else turn
                kept, part = (known.fresh(f"{node.name}/{label}{turn}") for label in ("kept", "slice"))
                bounds = {"starts": (at,), "ends": (at + 1,), "axes": (axis,), "steps": (1,)}
                yield Node(f"{node.name}/slice", "Slice", (name,), (kept,), {**bounds})
                yield Node(f"{node.name}/squeeze", "Squeeze", (kept,), (part,), {"axes": (axis,)})
                slices.append(part)
            results = yield Inner("body", (*states, *slices))
            states, of_turn = tuple(results[:first]), tuple(results[first:])
            layers.append(of_turn)
        yield from bound(node, states)
        for number, (axis, backward) in enumerate(_ways(node, "output", max(counts["body"] - first, 0))):
            of_all = [of_turn[number] for of_turn in layers]
            yield from stacked(node, first + number, of_all[::-1] if backward else of_all, known, axis)
        return f"its {turns} turns are written out"


def _ways(node: Node, end: str, count: int) -> list[tuple[int, int]]:
    """The axis of each sequence at that end, `input` or `output`, and whether its slices are those from the last on."""
    axes, directions = (node.attr_ints(f"scan_{end}_{name}", (0,) * count) for name in ("axes", "directions"))
    if not len(axes) == len(directions) == count:
        why = f"it has {count} sequences as {end}, {len(axes)} axes and {len(directions)} directions of them"
        raise unsupported(node, why, "one of each for each sequence")
    if not {0, 1}.issuperset(directions):
        raise unsupported(node, f"scan_{end}_directions is {directions}", "0 for forward, 1 for backward")
    return list(zip(axes, directions, strict=True))
