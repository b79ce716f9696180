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

    def parts(self, node: Node, counts: Mapping[str, int], known: Known) -> Parts:
        """Slices, turns, and what they give stacked along the axes that the node says, forward or backward."""
        scanned = node.attr_int("num_scan_inputs", 1)
        first = len(node.inputs) - scanned
        if not 1 <= scanned <= len(node.inputs):
            raise unsupported(node, f"num_scan_inputs is {scanned}", f"1 to {len(node.inputs)}")
        states, sequences = node.inputs[:first], node.inputs[first:]
        axes, turned = (node.attr_ints(f"scan_input_{name}", (0,) * scanned) for name in ("axes", "directions"))
        lengths = {known.types[name].shape[axis] for name, axis in zip(sequences, axes, strict=True)}
        if len(lengths) != 1:
            raise unsupported(node, f"its sequences have {sorted(lengths)} slices", "sequences of one length")
        [turns] = lengths
        check_turns(node, turns)
        layers = list[tuple[str, ...]]()
        for turn in range(turns):
            slices = []
            for name, axis, backward in zip(sequences, axes, turned, strict=True):
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
        outputs = counts["body"] - first
        placed, backwards = (node.attr_ints(f"scan_output_{name}", (0,) * outputs) for name in ("axes", "directions"))
        for number in range(outputs):
            of_all = [of_turn[number] for of_turn in layers]
            order = of_all[::-1] if backwards[number] else of_all
            yield from stacked(node, first + number, order, known, placed[number])
        return f"its {turns} turns are written out"
