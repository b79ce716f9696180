"""Products of two matrices of 8-bit numbers that are both computed, such as those of attention, in batches."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays
from deployer.operators.quantized.conversion import FROZEN
from deployer.operators.quantized.convolution_int8 import check_sums
from deployer.operators.quantized.joining import ZEROS
from deployer.operators.quantized.requantization import (
    INT8,
    RESULT,
    RESULT_SCALARS,
    clip_of,
    eights,
    requantized,
    result_args,
)

Shape = tuple[int, ...]


@register
class Int8MatMul(Operator):
    """Y = round(ratio * (A - a_zero) (B - b_zero)) of A[.., M, K] and B[.., K, N]; one ratio, or one per column.

    Leading axes are those of both operands, or of one where the other has none, or only of length 1.
    """

    name = "Int8MatMul"
    no_gradient = FROZEN
    file = FileSpec(custom=Signature((3, 3), (1, 1), {**RESULT, **dict.fromkeys(ZEROS, "INT")}))
    kernel = Kernel(
        "matmul_i8",
        pointers=(("a", INT8, False), ("b", INT8, False), ("ratio", "float32", False), ("y", INT8, True)),
        scalars=(
            *((name, "u32") for name in ("batch", "m", "n", "k")),
            *((name, "u32") for name in ("a_batch", "a_m", "b_batch", "b_k", "ratio_n", "y_batch", "y_m")),
            *((name, "i32") for name in ZEROS),
            *RESULT_SCALARS,
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A[.., M, K] B[.., K, N] to Y[.., M, N], with ratios of one number or N."""
        a, b = eights(node, inputs, 2)
        ratios = inputs[2]
        if min(len(a.shape), len(b.shape)) < 2 or a.shape[-1] != b.shape[-2]:
            raise mismatch(node, "its operands are no matrices A[.., M, K] and B[.., K, N]", inputs)
        if ratios is None or ratios.dtype != "float32" or ratios.shape not in ((1,), b.shape[-1:]):
            raise mismatch(node, f"its ratios are {ratios}, and there are {b.shape[-1]} columns", inputs)
        clip_of(node)
        check_sums(node, a.shape[-1])
        return (TensorType(INT8, (*_leading(node, a.shape, b.shape), a.shape[-2], b.shape[-1])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Exact sums in 64 bits, then the rounding to 8."""
        a, b, ratios = arrays(inputs, 3)
        wide = [x.astype(np.int64) - node.attr_int(name, 0) for x, name in zip((a, b), ZEROS, strict=True)]
        return (requantized(wide[0] @ wide[1], ratios, node),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel batches, rows and columns; a sum is whole in each tile."""
        a, b = (types[name].shape for name in node.inputs[:2])
        y = types[node.outputs[0]].shape
        batch, rows = math.prod(y[:-2]), y[-2]
        if math.prod(b[:-2]) == 1:  # one matrix for the rows of all batches
            batch, rows = 1, batch * rows
        views = [(math.prod(x[:-2]), *x[-2:]) for x in (a, b)]
        views[0] = (batch if views[0][0] > 1 else 1, rows, a[-1])
        (ratio,) = types[node.inputs[2]].shape
        leading = [At("batch") if view[0] == batch else Broadcast() for view in views]
        columns = At("n") if ratio == y[-1] else Broadcast()
        return Access(
            (Dim("batch", batch), Dim("m", rows), Dim("n", y[-1])),
            (
                Operand("a", node.inputs[0], "in", views[0], (leading[0], At("m"), Whole())),
                Operand("b", node.inputs[1], "in", views[1], (leading[1], Whole(), At("n"))),
                Operand("ratio", node.inputs[2], "in", (ratio,), (columns,)),
                Operand("y", node.outputs[0], "out", (batch, rows, y[-1]), (At("batch"), At("m"), At("n"))),
            ),
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides in elements, zeros, and the rounding."""
        return {
            **{name: Extent(name) for name in ("batch", "m", "n")},
            "k": Const(access.operand("a").view[-1]),
            "a_batch": Stride("a", 0),
            "a_m": Stride("a", 1),
            "b_batch": Stride("b", 0),
            "b_k": Stride("b", 1),
            "ratio_n": Stride("ratio", 0),
            "y_batch": Stride("y", 0),
            "y_m": Stride("y", 1),
            **{name: Const(node.attr_int(name, 0)) for name in ZEROS},
            **result_args(node),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The products of all results, and the rounding of each."""
        results = math.prod(tile.values())
        return Work(macs=results * access.operand("a").view[-1], elements=results, parallel=tile["batch"] * tile["m"])


def _leading(node: Node, a: Shape, b: Shape) -> Shape:
    """The leading axes of a product; UnsupportedOperator where some of them are broadcast and others not."""
    one, other = a[:-2], b[:-2]
    for longer, shorter in ((one, other), (other, one)):
        if longer == shorter or (math.prod(shorter) == 1 and len(shorter) <= len(longer)):
            return longer
    raise unsupported(
        node, f"its leading axes are {list(one)} and {list(other)}", "the same, or one operand with none of its own"
    )
