"""MSELoss: mean((pred - target)^2)."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Loss, Sums
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    GradientBuilder,
    Kernel,
    Last,
    Sample,
    Work,
    register,
    rng,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal


@register
class MSELoss(Flat):
    """pred and target have one shape; the loss is a scalar."""

    name = "MSELoss"
    custom = Form((2, 2), (1, 1))
    domain = ""
    loss = Loss("mse", "target", lambda output: output, "any float output")
    kernel = Kernel(
        "mse_loss_f32",
        pointers=(("pred", "float32", False), ("target", "float32", False), ("y", "float32", True), CARRY),
        scalars=(("n", "u32"), ("first", "u32"), ("last", "u32"), *CARRY_SCALARS, ("count", "f32")),
    )
    sums = Sums(("n",))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar."""
        super().infer(node, inputs)
        return (TensorType("float32", ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """mean((pred - target)^2)."""
        pred, target = arrays(inputs, 2)
        return (np.asarray(np.mean((pred - target) ** 2), dtype=pred.dtype),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """2 (pred - target) / numel, with the opposite sign for the target, times dloss where one arrives."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            out = b.temp("residual") if douts[0] else b.grad(index)
            b.emit("MSELossGrad", (node.inputs[index], node.inputs[1 - index]), (out,))
            if douts[0]:
                b.emit("Mul", (out, douts[0]), (b.grad(index),))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat reduction dim."""
        size = types[node.inputs[0]].size
        pred, target = (Operand(a, node.inputs[i], "in", (size,), (At("n"),)) for i, a in enumerate(("pred", "target")))
        y = Operand("y", node.outputs[0], "out", (1,), (Broadcast(),))
        return Access(
            (Dim("n", size, "reduction"),), (pred, target, y, *carry_operands(node, self.kernel, self.sums, y))
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, whether it is first or last in the sum, and the divisor."""
        return {
            "n": Extent("n"),
            "first": First(),
            "last": Last(),
            **carry_args(self.sums, access),
            "count": Const(float(access.dim("n").size)),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """A difference and a multiply-accumulate per element, all on one core."""
        return Work(macs=tile["n"], elements=tile["n"], parallel=1)

    def samples(self) -> Iterator[Sample]:
        """A vector, a batch, a single element."""
        r = rng(15)
        for label, shape in (("vector", (37,)), ("batch", (3, 1, 13)), ("one", (1,)), ("long", (5, 67))):
            yield Sample(label, (normal(r, *shape), normal(r, *shape)), onnx=False)
