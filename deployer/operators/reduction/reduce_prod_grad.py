"""ReduceProdGrad: for each element of a row dY times the product of all others, right with zeros among them."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.inputs import arrays, floats, normal


@register
class ReduceProdGrad(Operator):
    """dY of each row, and X as rows. The product before an element is multiplied by that of dY and all behind it."""

    name = "ReduceProdGrad"
    custom = Form((2, 2), (1, 1))
    kernel = Kernel(
        "reduce_prod_grad_f32",
        pointers=(("dy", "float32", False), ("x", "float32", False), ("dx", "float32", True)),
        scalars=(("rows", "u32"), ("n", "u32"), ("x_r", "u32"), ("dx_r", "u32")),
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        dy, x = floats(node, inputs, 2)
        if len(x.shape) != 2 or dy.shape != x.shape[:1]:
            raise mismatch(node, "X is not rows with one dY each", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Products of what is before each element and of what is behind it."""
        dy, x = arrays(inputs, 2)
        before, behind = np.ones_like(x), np.ones_like(x)
        behind[:, -1] = dy
        for n in range(1, x.shape[1]):
            before[:, n] = before[:, n - 1] * x[:, n - 1]
            behind[:, -1 - n] = behind[:, -n] * x[:, -n]
        return (np.asarray(before * behind, x.dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One dim over rows, which are whole in every tile."""
        dy, x = node.inputs
        rows, n = types[x].shape
        row = (At("rows"), Whole())
        listed = (
            Operand("dy", dy, "in", (rows,), (At("rows"),)),
            Operand("x", x, "in", (rows, n), row),
            Operand("dx", node.outputs[0], "out", (rows, n), row),
        )
        return Access((Dim("rows", rows),), listed)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Rows of the tile, their length, strides."""
        n = Const(access.operand("x").view[1])
        return {"rows": Extent("rows"), "n": n, "x_r": Stride("x", 0), "dx_r": Stride("dx", 0)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """Three products per element."""
        count = tile["rows"] * access.operand("x").view[1]
        return Work(macs=0, elements=count, parallel=tile["rows"])

    def samples(self) -> Iterator[Sample]:
        """Rows with no zero, one and several; rows of one element."""
        r = rng(162)
        x = np.asarray(1 + normal(r, 7, 9) / 4, np.float32)
        x[1, 3] = x[2, 0] = x[2, 8] = x[3, 8] = 0
        yield Sample("zeros", (normal(r, 7), x), onnx=False)
        yield Sample("single", (normal(r, 5), normal(r, 5, 1)), onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Few and many of short and long rows."""
        r = rng(163)
        for rows, n in ((16, 16), (64, 8), (8, 128), (1, 512)):
            yield Sample(
                f"{rows}x{n}", (normal(r, rows), np.asarray(1 + normal(r, rows, n) / 64, np.float32)), onnx=False
            )
