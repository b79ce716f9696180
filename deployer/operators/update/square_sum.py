"""SquareSum: y = before + sum(x^2); over all gradients, one after the other, it is their squared norm."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Sums
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Extent,
    First,
    Kernel,
    Last,
    Operator,
    Sample,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.inputs import floats, normal


@register
class SquareSum(Operator):
    """Inputs are x and, behind the first of a chain, the sum before."""

    name = "SquareSum"
    custom = Form((1, 2), (1, 1))
    kernel = Kernel(
        "square_sum_f32",
        pointers=(("x", "float32", False), ("before", "float32", False), ("y", "float32", True), CARRY),
        scalars=(("n", "u32"), ("first", "u32"), ("last", "u32"), *CARRY_SCALARS),
    )
    sums = Sums(("n",))
    no_gradient = "it belongs to an update"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, as what comes before."""
        if floats(node, inputs, len(inputs))[-1].size != 1 and len(inputs) > 1:
            raise mismatch(node, "the sum before has more than one element", inputs)
        return (TensorType("float32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """before + sum(x^2)."""
        x, *before = (a for a in inputs if a is not None)
        total = np.square(x).sum(dtype=x.dtype)
        return (np.asarray(before[0].reshape(()) + total if before else total, dtype=x.dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat reduction dim."""
        size = types[node.inputs[0]].size
        y = Operand("y", node.outputs[0], "out", (1,), (Broadcast(),))
        listed = [Operand("x", node.inputs[0], "in", (size,), (At("n"),))]
        listed += [Operand("before", name, "in", (1,), (Broadcast(),)) for name in node.inputs[1:]]
        return Access((Dim("n", size, "reduction"),), (*listed, y, *carry_operands(node, self.kernel, self.sums, y)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, and whether it is first or last in the sum."""
        return {"n": Extent("n"), "first": First(), "last": Last(), **carry_args(self.sums, access)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A multiply-accumulate per element, all on one core."""
        return Work(macs=tile["n"], elements=0, parallel=1)

    def samples(self) -> Iterator[Sample]:
        """With and without a sum before, short and long."""
        r = rng(51)
        for label, shape in (("one", (1,)), ("vector", (37,)), ("long", (5, 67))):
            yield Sample(label, (normal(r, *shape),), onnx=False)
            yield Sample(f"{label}_behind", (normal(r, *shape), np.square(normal(r))), onnx=False)
