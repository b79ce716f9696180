"""Conversion of floats to numbers of 8 bits and back, and functions of one such number."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays, floats
from deployer.operators.quantized.requantization import (
    INT8,
    LEAST,
    RESULT,
    RESULT_SCALARS,
    SCALE,
    ZERO,
    clip_of,
    eights,
    result_args,
    rounded,
    scale_of,
)

FROZEN = "it is part of a frozen model of 8 bits"
"""Why these operators have no gradient."""
NUMBERS = 256
"""Numbers of 8 bits."""


class Int8Elementwise(Operator):
    """Elementwise over one tensor, from the kernel's first pointer to its last."""

    no_gradient = FROZEN

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim; what lies between the two ends is whole."""
        assert self.kernel is not None
        size = types[node.inputs[0]].size
        (first, *between), result = self.kernel.pointers[:-1], self.kernel.pointers[-1]
        listed = [Operand(first[0], node.inputs[0], "in", (size,), (At("n"),))]
        for (arg, _, _), name in zip(between, node.inputs[1:], strict=True):
            listed.append(Operand(arg, name, "in", (types[name].size,), (Whole(),)))
        listed.append(Operand(result[0], node.outputs[0], "out", (size,), (At("n"),)))
        return Access((Dim("n", size),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile."""
        return {"n": Extent("n")}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count, parallel=count)


@register
class QuantizeInt8(Int8Elementwise):
    """Y = X / scale, rounded half to even, moved by the zero and clipped to 8 bits."""

    name = "QuantizeInt8"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", **RESULT}, required=frozenset({SCALE, ZERO})))
    kernel = Kernel(
        "quantize_i8",
        pointers=(("x", "float32", False), ("y", INT8, True)),
        scalars=(("n", "u32"), ("scale", "f32"), *RESULT_SCALARS),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in 8 bits."""
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType(INT8, floats(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The quotient in float32, of what X is in float32: the number is the one that targets compute."""
        with np.errstate(over="ignore", invalid="ignore"):
            x = arrays(inputs, 1)[0].astype(np.float32)
            return (rounded(x / scale_of(node, SCALE), node),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile, the scale, and the result's zero and bounds."""
        return {"n": Extent("n"), "scale": Const(float(scale_of(node, SCALE))), **result_args(node)}


@register
class DequantizeInt8(Int8Elementwise):
    """Y = (X - zero) * scale as a float: the border between a frozen part of 8 bits and what is trained."""

    name = "DequantizeInt8"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {SCALE: "FLOAT", ZERO: "INT"}, required=frozenset({SCALE, ZERO})))
    kernel = Kernel(
        "dequantize_i8",
        pointers=(("x", INT8, False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("scale", "f32"), ("zero", "i32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in float32."""
        scale_of(node, SCALE)
        clip_of(node)
        return (TensorType("float32", eights(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The product, which float32 rounds once."""
        x = arrays(inputs, 1)[0].astype(np.int32) - clip_of(node)[0]
        return (x.astype(np.float32) * scale_of(node, SCALE),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The length of the tile, scale and zero."""
        return {"n": Extent("n"), "scale": Const(float(scale_of(node, SCALE))), "zero": Const(clip_of(node)[0])}


@register
class Int8Lookup(Int8Elementwise):
    """Y = table[X + 128]: any function of one number of 8 bits, such as another scale, Relu or a sigmoid."""

    name = "Int8Lookup"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    kernel = Kernel(
        "lookup_i8",
        pointers=(("x", INT8, False), ("table", INT8, False), ("y", INT8, True)),
        scalars=(("n", "u32"),),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's type; the table has a result for each number."""
        x, table = eights(node, inputs, 2)
        if table.shape != (NUMBERS,):
            raise unsupported(node, f"its table is {table}", f"{NUMBERS} numbers")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The table's numbers at X."""
        x, table = arrays(inputs, 2)
        return (table.astype(np.int8)[x.astype(np.int64) - LEAST],)
