"""OuterSGD: W' = W - lr * a b^T, in place: SGD of a weight whose gradient is an outer product.

That is what a dense layer's is where a batch has one sample. The product is rounded before the rate multiplies it.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Stride
from deployer.core.operator import Array, mismatch, register
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.operands import arrays, floats
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.products.gemm import Gemm, is_plain_outer
from deployer.operators.update.optimizers import SGD, SGD_LEARNING_RATE


def _updating(producer: Node, update: Node, types: Mapping[str, TensorType]) -> Node | None:
    """The update with the factors of the product that is its gradient."""
    if producer.op != Gemm.name or not is_plain_outer(producer, types):
        return None
    return Node("", OuterSGD.name, (*producer.inputs[:2], update.inputs[0]), (), dict(update.attrs))


@register
class OuterSGD(SplitOperator):
    """W' = W - lr * a b^T, in place: SGD of a weight whose gradient is an outer product.

    That is what a dense layer's is where a batch has one sample. The product is rounded before the rate multiplies it.

    a[M], b[N], W[M, N] in any shapes of so many elements; attribute `lr`.
    """

    name = "OuterSGD"
    fusion = Fusion(fused_update=SGD.name, updating=_updating)
    no_gradient = "it is an optimizer"
    kernel = Kernel(
        "outer_sgd_f32",
        pointers=(("a", "float32", False), ("b", "float32", False), ("w", "float32", True)),
        scalars=(("m", "u32"), ("n", "u32"), ("w_m", "u32"), ("lr", "f32")),
    )
    inplace: ClassVar[dict[int, int]] = {0: 2}

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The weight's type; it has an element for each pair of the others'."""
        a, b, w = floats(node, inputs, 3)
        if a.size * b.size != w.size:
            raise mismatch(node, f"{a.size} times {b.size} elements are not those of the weight", inputs)
        return (w,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """w - lr * outer(a, b)."""
        a, b, w = arrays(inputs, 3)
        rate = w.dtype.type(node.attr_float("lr", SGD_LEARNING_RATE))
        return (np.asarray(w - rate * np.outer(a, b).reshape(w.shape)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims m and n, both parallel."""
        m, n = (types[name].size for name in node.inputs[:2])
        return Access(
            (Dim("m", m), Dim("n", n)),
            (
                Operand("a", node.inputs[0], "in", (m,), (At("m"),)),
                Operand("b", node.inputs[1], "in", (n,), (At("n"),)),
                Operand("w", node.inputs[2], "inout", (m, n), (At("m"), At("n"))),
            ),
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's lengths, elements from one row of W to the next, and the learning rate."""
        rate = Const(node.attr_float("lr", SGD_LEARNING_RATE))
        return {"m": Extent("m"), "n": Extent("n"), "w_m": Stride("w", 0), "lr": rate}
