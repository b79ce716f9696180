"""Two tensors of 8 bits to one: their sum in another scale, and one behind the other."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays
from deployer.operators.movement.slicing import Concat
from deployer.operators.quantized.conversion import FROZEN
from deployer.operators.quantized.requantization import (
    INT8,
    RESULT,
    RESULT_SCALARS,
    clip_of,
    eights,
    result_args,
    rounded,
    scale_of,
)

ZEROS, RATIOS = ("a_zero", "b_zero"), ("a_ratio", "b_ratio")
"""Attributes: the operands' zeros, and their scales as shares of the result's."""


@register
class Int8Add(Operator):
    """Y = round((A - a_zero) * a_ratio + (B - b_zero) * b_ratio): the sum, in the result's scale."""

    name = "Int8Add"
    no_gradient = FROZEN
    file = FileSpec(
        custom=Signature(
            (2, 2),
            (1, 1),
            {**RESULT, **dict.fromkeys(ZEROS, "INT"), **dict.fromkeys(RATIOS, "FLOAT")},
            required=frozenset(RATIOS),
        )
    )
    kernel = Kernel(
        "add_i8",
        pointers=(("a", INT8, False), ("b", INT8, False), ("y", INT8, True)),
        scalars=(
            *(("n", "u32"), ("a_zero", "i32"), ("b_zero", "i32"), ("a_ratio", "f32"), ("b_ratio", "f32")),
            *RESULT_SCALARS,
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of both operands."""
        a, b = eights(node, inputs, 2)
        if a != b:
            raise mismatch(node, "operands differ in type", inputs)
        for name in RATIOS:
            scale_of(node, name)
        clip_of(node)
        return (a,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Two products in float32, and their sum."""
        terms = []
        for x, zero, ratio in zip(arrays(inputs, 2), ZEROS, RATIOS, strict=True):
            terms.append((x.astype(np.int32) - node.attr_int(zero, 0)).astype(np.float32) * scale_of(node, ratio))
        return (rounded(terms[0] + terms[1], node),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        names = zip("aby", (*node.inputs, *node.outputs), ("in", "in", "out"), strict=True)
        return Access(
            (Dim("n", size),),
            tuple(
                Operand(arg, name, "out" if mode == "out" else "in", (size,), (At("n"),)) for arg, name, mode in names
            ),
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile, zeros and ratios, and the rounding."""
        return {
            "n": Extent("n"),
            **{name: Const(node.attr_int(name, 0)) for name in ZEROS},
            **{name: Const(float(scale_of(node, name))) for name in RATIOS},
            **result_args(node),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Two products per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=2 * count, parallel=count)


@register
class Int8Concat(Concat):
    """Tensors of 8 bits and one scale, one after the other along an axis."""

    name = "Int8Concat"
    no_gradient = FROZEN
    file = FileSpec(custom=Signature((1, 1 << 10), (1, 1), {"axis": "INT"}, required=frozenset({"axis"})))
    execution = Execution()
    kernel = Kernel(
        "concat_i8",
        pointers=(("a", INT8, False), ("b", INT8, False), ("y", INT8, True)),
        scalars=(("r", "u32"), ("n", "u32"), ("a_n", "u32"), ("a_r", "u32"), ("b_r", "u32"), ("y_r", "u32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The inputs' shape, with the sum of their lengths along `axis`."""
        eights(node, inputs, max(len(node.inputs), 1))
        return super().infer(node, inputs)
