"""BitShift: the bits of X moved to the left or to the right by as many places as Y says."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Overflow
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.formulas.functions import FUNCTIONS
from deployer.operators.inputs import arrays, operands

DIRECTIONS = {"RIGHT": ("IntegerShiftRight", "right"), "LEFT": ("IntegerShiftLeft", "left")}


@register
class BitShift(Operator):
    """An operator for each direction."""

    name = "BitShift"
    versions = (11, 28)
    no_gradient = "integers have none"

    def overflow_of(self, node: Node) -> Overflow:
        """To the left any; to the right none."""
        return "any" if node.attr_str("direction", "") == "LEFT" else "none"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of two operands that are integers."""
        a, b = operands(node, inputs, 2)
        if node.attr_str("direction", "") not in DIRECTIONS:
            raise unsupported(node, f"its direction is {node.attrs.get('direction')!r}", "LEFT or RIGHT")
        if a.dtype != "int32" or b.dtype != "int32":
            raise mismatch(node, "its operands are no integers", inputs)
        try:
            return (TensorType(a.dtype, np.broadcast_shapes(a.shape, b.shape)),)
        except ValueError:
            raise mismatch(node, "operands do not broadcast", inputs) from None

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's shifts, and what ONNX says of others."""
        function = FUNCTIONS[DIRECTIONS[node.attr_str("direction", "")][1]]
        return (np.asarray(function.numpy(*arrays(inputs, 2))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The operator of the direction."""
        return [Node(node.name, DIRECTIONS[node.attr_str("direction", "")][0], node.inputs, node.outputs)]

    def samples(self) -> Iterator[Sample]:
        """Both directions, equal shapes and a row."""
        r = rng(174)
        x = r.integers(0, 99, (3, 5)).astype(np.int32)
        for direction in DIRECTIONS:
            for label, shape in (("equal", (3, 5)), ("row", (5,))):
                bits = r.integers(0, 9, shape).astype(np.int32)
                yield Sample(f"{label}_{direction.lower()}", (x, bits), {"direction": direction}, onnx=False)
