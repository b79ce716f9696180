"""Pools of 8-bit images with the channels innermost."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Length, Offset, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays
from deployer.operators.quantized.conversion import FROZEN
from deployer.operators.quantized.convolution_int8 import WINDOWS, X_ZERO, ImageWindows, geometry, pair
from deployer.operators.quantized.requantization import (
    INT8,
    LEAST,
    RESULT,
    RESULT_SCALARS,
    clip_of,
    eights,
    requantized,
    result_args,
    scale_of,
)

X_SCALE, Y_SCALE, PADS_COUNT = "x_scale", "y_scale", "count_include_pad"
_SCALARS: tuple[tuple[str, CType], ...] = (
    *((name, "u32") for name in ("n", "oh", "ow", "m", "kh", "kw", "sh", "sw", "dh", "dw", "x_rows", "x_cols")),
    *((name, "u32") for name in ("x_n", "x_h", "x_w", "y_n", "y_h", "y_w")),
    *((name, "i32") for name in ("top", "left")),
)


class Int8Pool(Operator):
    """A number for each window of each channel of X[N, H, W, C]."""

    no_gradient = FROZEN

    def shape(self, node: Node, x: tuple[int, ...]) -> ImageWindows:
        """The windows of X, each of which meets an element of it; errors name the node."""
        if len(x) != 4:
            raise unsupported(node, f"X of rank {len(x)}", "X[N, H, W, C]")
        found = geometry(node, x, pair(node, "kernel_shape", 1), x[3], x[3])
        for pad, size, kernel, gap, count, stride in zip(
            found.pads, found.size, found.kernel, found.dilations, found.out, found.strides, strict=True
        ):
            begins = (first * stride - pad for first in range(count))
            if not all(any(0 <= at + tap * gap < size for tap in range(kernel)) for at in begins):
                raise unsupported(node, "a window lies wholly in padding", "pads below the kernel's size")
        return found

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along both axes."""
        shape = self.shape(node, eights(node, inputs, 1)[0].shape)
        return (TensorType(INT8, (shape.n, *shape.out, shape.channels)),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel images, rows, columns and channels."""
        s = self.shape(node, types[node.inputs[0]].shape)
        maps = tuple(
            Window(dim, kernel, stride, gap, pad)
            for dim, kernel, stride, gap, pad in zip(
                ("oh", "ow"), s.kernel, s.strides, s.dilations, s.pads, strict=True
            )
        )
        out = (s.n, *s.out, s.channels)
        x = Operand("x", node.inputs[0], "in", (s.n, *s.size, s.channels), (At("n"), *maps, At("m")))
        names = ("n", "oh", "ow", "m")
        return Access(
            tuple(map(Dim, names, out)), (x, Operand("y", node.outputs[0], "out", out, tuple(map(At, names))))
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, windows, strides in elements, and where a tile's first window begins."""
        s = self.shape(node, access.operand("x").view)
        pairs = zip(("kh", "kw", "sh", "sw", "dh", "dw"), (*s.kernel, *s.strides, *s.dilations), strict=True)
        return {
            **{name: Extent(name) for name in ("n", "oh", "ow", "m")},
            **{name: Const(value) for name, value in pairs},
            "x_rows": Length("x", 1),
            "x_cols": Length("x", 2),
            **{f"{arg}_{name}": Stride(arg, i) for arg in "xy" for i, name in enumerate("nhw")},
            "top": Offset("x", 1),
            "left": Offset("x", 2),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per element of each window."""
        results = math.prod(tile.values())
        taps = math.prod(axis.kernel for axis in access.operand("x").axes if isinstance(axis, Window))
        return Work(macs=0, elements=results * taps, parallel=results)


@register
class Int8AveragePool(Int8Pool):
    """Y = round(x_scale / (y_scale * count) * (sum of a window's X - x_zero)): the mean, in the result's scale.

    Where `count_include_pad` is 1, a window counts what it has of padding, which stands for zero.
    """

    name = "Int8AveragePool"
    file = FileSpec(
        custom=Signature(
            (1, 1),
            (1, 1),
            {**WINDOWS, **RESULT, "kernel_shape": "INTS", X_ZERO: "INT", PADS_COUNT: "INT"}
            | {X_SCALE: "FLOAT", Y_SCALE: "FLOAT"},
            required=frozenset({"kernel_shape", X_SCALE, Y_SCALE}),
        ),
        flags=(PADS_COUNT,),
    )
    kernel = Kernel(
        "average_pool_i8",
        pointers=(("x", INT8, False), ("y", INT8, True)),
        scalars=(
            *_SCALARS,
            *RESULT_SCALARS,
            *(("x_zero", "i32"), ("x_scale", "f32"), ("y_scale", "f32"), ("all_taps", "u32")),
        ),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along both axes."""
        scale_of(node, X_SCALE)
        scale_of(node, Y_SCALE)
        clip_of(node)
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Exact sums, and a ratio for each window."""
        x = arrays(inputs, 1)[0]
        s = self.shape(node, x.shape)
        zero = node.attr_int(X_ZERO, 0)
        places = [(row, column) for row in range(s.kernel[0]) for column in range(s.kernel[1])]
        whole, ones = s.padded(x, zero) - zero, s.padded(np.ones_like(x), node.attr_int(PADS_COUNT, 0))
        sums = sum((s.tap(whole, *at) for at in places), start=np.int64(0))
        counts = sum((s.tap(ones, *at) for at in places), start=np.int64(0))
        ratios = scale_of(node, X_SCALE) / (scale_of(node, Y_SCALE) * counts.astype(np.float32))
        return (requantized(np.asarray(sums), ratios, node),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of all pools, zeros and scales, and how many elements every window counts; 0 if it is those inside."""
        scales = {name: Const(float(scale_of(node, name))) for name in (X_SCALE, Y_SCALE)}
        shape = self.shape(node, access.operand("x").view)
        taps = math.prod(shape.kernel) if node.attr_int(PADS_COUNT, 0) else 0
        zero = {"x_zero": Const(node.attr_int(X_ZERO, 0)), "all_taps": Const(taps)}
        return {**super().args(node, access), **result_args(node), **scales, **zero}


@register
class Int8GlobalAveragePool(Operator):
    """The mean of whole images, in the result's scale: an Int8AveragePool with one window."""

    name = "Int8GlobalAveragePool"
    composite = True
    file = FileSpec(
        custom=Signature(
            (1, 1),
            (1, 1),
            {**RESULT, X_ZERO: "INT", X_SCALE: "FLOAT", Y_SCALE: "FLOAT"},
            required=frozenset({X_SCALE, Y_SCALE}),
        )
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, of one place."""
        return Int8AveragePool().infer(_whole(node, eights(node, inputs, 1)[0].shape), inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of Int8AveragePool."""
        return Int8AveragePool().reference(_whole(node, arrays(inputs, 1)[0].shape), inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Int8AveragePool whose window is the image."""
        return [_whole(node, eights(node, inputs, 1)[0].shape)]


def _whole(node: Node, x: tuple[int, ...]) -> Node:
    """The node as an average pool with one window over X[N, H, W, C]."""
    if len(x) != 4:
        raise unsupported(node, f"X of rank {len(x)}", "X[N, H, W, C]")
    return Node(node.name, "Int8AveragePool", node.inputs, node.outputs, {**node.attrs, "kernel_shape": x[1:3]})


@register
class Int8MaxPool(Int8Pool):
    """Y = the largest X of each window; padding is never the largest."""

    name = "Int8MaxPool"
    file = FileSpec(
        custom=Signature((1, 1), (1, 1), {**WINDOWS, "kernel_shape": "INTS"}, required=frozenset({"kernel_shape"}))
    )
    kernel = Kernel("max_pool_i8", pointers=(("x", INT8, False), ("y", INT8, True)), scalars=_SCALARS)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The maximum over the taps of X with the least number around it."""
        x = arrays(inputs, 1)[0]
        s = self.shape(node, x.shape)
        whole = s.padded(x, LEAST)
        taps = [s.tap(whole, row, column) for row in range(s.kernel[0]) for column in range(s.kernel[1])]
        return (np.max(taps, axis=0).astype(np.int8),)
