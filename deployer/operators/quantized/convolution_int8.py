"""Convolutions of 8-bit numbers, with the channels innermost, and products with matrices as their pointwise form."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.access import Access, At, Dim, Operand, Whole, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Length, Offset, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.limits import check_elements
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays
from deployer.operators.quantized.conversion import FROZEN
from deployer.operators.quantized.requantization import (
    INT8,
    LEAST,
    MOST,
    RESULT,
    RESULT_SCALARS,
    clip_of,
    eights,
    requantized,
    result_args,
)

X_ZERO, W_ZERO = "x_zero", "w_zero"
"""Attributes: what is padded with, and what a filter's numbers are above their true ones."""
WINDOWS: dict[str, str] = {"strides": "INTS", "pads": "INTS", "dilations": "INTS"}
EXACT = 1 << 31
"""Limit of sums, which 32 bits do not hold."""


@dataclass(frozen=True)
class ImageWindows:
    """A convolution of images [N, H, W, C] by M filters; pads are (top, left), other pairs (rows, columns)."""

    n: int
    size: tuple[int, int]
    channels: int
    filters: int
    kernel: tuple[int, int]
    group: int
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    out: tuple[int, int]

    @property
    def taps(self) -> int:
        """Products of one result."""
        return math.prod(self.kernel) * (self.channels // self.group)

    def padded(self, x: Array, fill: int) -> Array:
        """X in 64 bits with all the padding that windows touch."""
        spans = [
            (count - 1) * stride + (kernel - 1) * gap + 1
            for count, stride, kernel, gap in zip(self.out, self.strides, self.kernel, self.dilations, strict=True)
        ]
        sides = [max(span, pad + size) for span, pad, size in zip(spans, self.pads, self.size, strict=True)]
        whole = np.full((self.n, *sides, self.channels), fill, np.int64)
        (top, left), (height, width) = self.pads, self.size
        whole[:, top : top + height, left : left + width] = x.reshape(self.n, *self.size, self.channels)
        return whole

    def tap(self, whole: Array, row: int, column: int) -> Array:
        """For each window of padded X, the channels at a place of the kernel."""
        found = [
            slice(at * gap, at * gap + (count - 1) * stride + 1, stride)
            for at, gap, count, stride in zip((row, column), self.dilations, self.out, self.strides, strict=True)
        ]
        return np.asarray(whole[:, found[0], found[1]])


def pair(node: Node, name: str, default: int) -> tuple[int, int]:
    """An attribute of two numbers, for rows and columns."""
    first, second, *more = (*node.attr_ints(name, (default,) * 2), default, default)
    if len(node.attr_ints(name, (default,) * 2)) != 2 or more != [default] * 2:
        raise unsupported(node, f"{name} is {node.attrs.get(name)}", "two numbers, for rows and columns")
    return first, second


def geometry(node: Node, x: tuple[int, ...], kernel: tuple[int, int], filters: int, group: int) -> ImageWindows:
    """The convolution of a node over X[N, H, W, C]; a matrix [N, C] is an image of one row. Errors name the node."""
    if len(x) not in (2, 4):
        raise unsupported(node, f"X of rank {len(x)}", "X[N, H, W, C] or X[N, C]")
    n, height, width, channels = x if len(x) == 4 else (1, 1, *x)
    strides, dilations = pair(node, "strides", 1), pair(node, "dilations", 1)
    pads = node.attr_ints("pads", (0, 0, 0, 0))
    if len(pads) != 4 or min(*pads, 0) < 0 or min(*strides, *dilations) < 1:
        raise unsupported(node, f"pads {pads}, strides {strides}, dilations {dilations}", "four pads, steps above zero")
    free = [size + pads[i] + pads[2 + i] - (kernel[i] - 1) * dilations[i] - 1 for i, size in enumerate((height, width))]
    if min(free) < 0:
        raise mismatch(node, f"a window of {list(kernel)} does not fit {height} x {width} elements", ())
    out = (free[0] // strides[0] + 1, free[1] // strides[1] + 1)
    check_elements(node, "X and its padding", (n, height + pads[0] + pads[2], width + pads[1] + pads[3], channels))
    size = (height, width)
    return ImageWindows(n, size, channels, filters, kernel, group, strides, dilations, (pads[0], pads[1]), out)


def check_sums(node: Node, taps: int) -> None:
    """Raise UnsupportedOperator where a sum of so many products may leave 32 bits."""
    most = taps * (MOST - LEAST) ** 2
    if most >= EXACT:
        raise unsupported(node, f"sums of {taps} products may reach {most}", f"below {EXACT}: fewer channels or taps")


_WINDOW_SCALARS: tuple[tuple[str, CType], ...] = tuple((n, "u32") for n in ("kh", "kw", "sh", "sw", "dh", "dw"))
_FRAME: tuple[tuple[str, CType], ...] = (*RESULT_SCALARS, *((n, "i32") for n in ("x_zero", "w_zero", "top", "left")))


class Int8Windows(Operator):
    """Windows of images with the channels innermost: W sums the taps of X, each result is requantized."""

    no_gradient = FROZEN

    @abstractmethod
    def shape(self, node: Node, x: tuple[int, ...], w: tuple[int, ...]) -> ImageWindows:
        """The convolution of X by W."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X[N, H, W, C] by W, with a bias and a ratio for each filter, to Y[N, H', W', M]; X[N, C] to Y[N, M]."""
        x, w = eights(node, inputs, 2)
        shape = self.shape(node, x.shape, w.shape)
        bias, ratios = inputs[2], inputs[3]
        expected = (shape.filters,)
        if bias is None or bias.dtype != "int32" or bias.shape != expected:
            raise mismatch(node, f"its bias is {bias}, and there are {shape.filters} filters", inputs)
        if ratios is None or ratios.dtype != "float32" or ratios.shape != expected:
            raise mismatch(node, f"its ratios are {ratios}, and there are {shape.filters} filters", inputs)
        clip_of(node)
        check_sums(node, shape.taps)
        out = (shape.n, *shape.out, shape.filters) if len(x.shape) == 4 else (shape.out[1], shape.filters)
        return (TensorType(INT8, out),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Exact sums in 64 bits, then the rounding to 8."""
        x, w, bias, ratios = arrays(inputs, 4)
        shape = self.shape(node, x.shape, w.shape)
        whole = shape.padded(x, node.attr_int(X_ZERO, 0))
        sums = np.zeros((shape.n, *shape.out, shape.filters), np.int64) + bias.astype(np.int64)
        for row in range(shape.kernel[0]):
            for column in range(shape.kernel[1]):
                sums += self.products(node, shape, shape.tap(whole, row, column), w.astype(np.int64), (row, column))
        y = requantized(sums, ratios, node)
        return (y if x.ndim == 4 else y.reshape(shape.out[1], shape.filters),)

    @abstractmethod
    def products(self, node: Node, shape: ImageWindows, tap: Array, w: Array, at: tuple[int, int]) -> Array:
        """The products of one tap, summed over the channels that a filter sees."""

    def windows(self, shape: ImageWindows) -> tuple[Window, Window]:
        """The windows of rows and columns."""
        rows, columns = (
            Window(dim, kernel, stride, gap, pad)
            for dim, kernel, stride, gap, pad in zip(
                ("oh", "ow"), shape.kernel, shape.strides, shape.dilations, shape.pads, strict=True
            )
        )
        return rows, columns

    def frame(self, node: Node, shape: ImageWindows) -> dict[str, ArgValue]:
        """Kernel arguments of windows, of the result's rounding, and of where a tile's first window begins."""
        pairs = (*shape.kernel, *shape.strides, *shape.dilations)
        return {
            **{name: Const(value) for (name, _), value in zip(_WINDOW_SCALARS, pairs, strict=True)},
            **result_args(node),
            "x_zero": Const(node.attr_int(X_ZERO, 0)),
            "w_zero": Const(node.attr_int(W_ZERO, 0)),
            "top": Offset("x", 1),
            "left": Offset("x", 2),
        }

    def results(self, node: Node, shape: ImageWindows) -> tuple[Operand, ...]:
        """Bias and ratios of the filters, and Y."""
        m, out = shape.filters, (shape.n, *shape.out, shape.filters)
        return (
            Operand("b", node.inputs[2], "in", (m,), (At("m"),)),
            Operand("ratio", node.inputs[3], "in", (m,), (At("m"),)),
            Operand("y", node.outputs[0], "out", out, tuple(map(At, ("n", "oh", "ow", "m")))),
        )

    def dims(self, shape: ImageWindows) -> tuple[Dim, ...]:
        """Parallel images, rows, columns and filters; a sum is whole in each tile."""
        return tuple(map(Dim, ("n", "oh", "ow", "m"), (shape.n, *shape.out, shape.filters)))

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """The products of all results, and the rounding of each."""
        results = math.prod(tile.values())
        taps = math.prod(n for n in access.operand("w").view) // access.dim("m").size
        return Work(macs=results * taps, elements=results, parallel=tile["n"] * tile["oh"] * tile["ow"] * tile["m"])


@register
class Int8Conv(Int8Windows):
    """Y = round(ratio * (X * W + bias)) of images [N, H, W, C] by filters W[M, KH, KW, C / group].

    X is padded with its zero, which the bias has taken off already: bias - zero * (sum of the filter).
    """

    name = "Int8Conv"
    file = FileSpec(
        custom=Signature((4, 4), (1, 1), {**WINDOWS, **RESULT, X_ZERO: "INT", W_ZERO: "INT", "group": "INT"})
    )
    kernel = Kernel(
        "conv_i8",
        pointers=(
            *(("x", INT8, False), ("w", INT8, False), ("b", "int32", False)),
            *(("ratio", "float32", False), ("y", INT8, True)),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "oh", "ow", "m", "c", "first", "per_group")),
            *_WINDOW_SCALARS,
            *((name, "u32") for name in ("x_rows", "x_cols", "x_n", "x_h", "x_w", "w_m", "y_n", "y_h", "y_w")),
            *_FRAME,
        ),
    )

    def shape(self, node: Node, x: tuple[int, ...], w: tuple[int, ...]) -> ImageWindows:
        """The convolution of X by W; ShapeMismatch where the channels do not fit the groups."""
        group = node.attr_int("group", 1)
        if len(w) != 4 or group < 1 or x[-1] != w[3] * group or w[0] % group:
            raise mismatch(node, f"W is {list(w)} for {x[-1]} channels in {group} groups", ())
        return geometry(node, x, (w[1], w[2]), w[0], group)

    def products(self, node: Node, shape: ImageWindows, tap: Array, w: Array, at: tuple[int, int]) -> Array:
        """The products of one tap, group by group."""
        grouped = tap.reshape(*tap.shape[:3], shape.group, -1)
        filters = w[:, at[0], at[1]].reshape(shape.group, -1, w.shape[3]) - node.attr_int(W_ZERO, 0)
        return np.asarray(np.einsum("nhwgc,gmc->nhwgm", grouped, filters).reshape(*tap.shape[:3], -1))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel images, rows, columns and filters."""
        w = types[node.inputs[1]].shape
        s = self.shape(node, types[node.inputs[0]].shape, w)
        x = Operand("x", node.inputs[0], "in", (s.n, *s.size, s.channels), (At("n"), *self.windows(s), Whole()))
        filters = Operand("w", node.inputs[1], "in", w, (At("m"), Whole(), Whole(), Whole()))
        return Access(self.dims(s), (x, filters, *self.results(node, s)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, windows, strides in elements, groups, and the rounding."""
        view, w = access.operand("x").view, access.operand("w").view
        shape = self.shape(node, view, w)
        return {
            **{name: Extent(name) for name in ("n", "oh", "ow", "m")},
            "c": Const(w[3]),
            "first": Start("m"),
            "per_group": Const(shape.filters // shape.group),
            "x_rows": Length("x", 1),
            "x_cols": Length("x", 2),
            **{f"x_{name}": Stride("x", i) for i, name in enumerate("nhw")},
            "w_m": Stride("w", 0),
            **{f"y_{name}": Stride("y", i) for i, name in enumerate("nhw")},
            **self.frame(node, shape),
        }


@register
class Int8DepthwiseConv(Int8Windows):
    """Y = round(ratio * (X * W + bias)) where each channel has a filter of its own: W[KH, KW, C]."""

    name = "Int8DepthwiseConv"
    file = FileSpec(custom=Signature((4, 4), (1, 1), {**WINDOWS, **RESULT, X_ZERO: "INT", W_ZERO: "INT"}))
    kernel = Kernel(
        "depthwise_conv_i8",
        pointers=(
            *(("x", INT8, False), ("w", INT8, False), ("b", "int32", False)),
            *(("ratio", "float32", False), ("y", INT8, True)),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "oh", "ow", "m")),
            *_WINDOW_SCALARS,
            *((name, "u32") for name in ("x_rows", "x_cols", "x_n", "x_h", "x_w", "w_h", "w_w", "y_n", "y_h", "y_w")),
            *_FRAME,
        ),
    )

    def shape(self, node: Node, x: tuple[int, ...], w: tuple[int, ...]) -> ImageWindows:
        """The convolution of X by W; ShapeMismatch where they differ in channels."""
        if len(w) != 3 or len(x) != 4 or x[-1] != w[2]:
            raise mismatch(node, f"W is {list(w)} for X {list(x)}", ())
        return geometry(node, x, (w[0], w[1]), w[2], w[2])

    def products(self, node: Node, shape: ImageWindows, tap: Array, w: Array, at: tuple[int, int]) -> Array:
        """The product of each channel with its own filter."""
        return np.asarray(tap * (w[at] - node.attr_int(W_ZERO, 0)))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel images, rows, columns and channels."""
        w = types[node.inputs[1]].shape
        s = self.shape(node, types[node.inputs[0]].shape, w)
        x = Operand("x", node.inputs[0], "in", (s.n, *s.size, s.channels), (At("n"), *self.windows(s), At("m")))
        filters = Operand("w", node.inputs[1], "in", w, (Whole(), Whole(), At("m")))
        return Access(self.dims(s), (x, filters, *self.results(node, s)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, windows, strides in elements, and the rounding."""
        shape = self.shape(node, access.operand("x").view, access.operand("w").view)
        return {
            **{name: Extent(name) for name in ("n", "oh", "ow", "m")},
            "x_rows": Length("x", 1),
            "x_cols": Length("x", 2),
            **{f"x_{name}": Stride("x", i) for i, name in enumerate("nhw")},
            **{f"w_{name}": Stride("w", i) for i, name in enumerate("hw")},
            **{f"y_{name}": Stride("y", i) for i, name in enumerate("nhw")},
            **self.frame(node, shape),
        }
