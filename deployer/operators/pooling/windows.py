"""Windows of pooling over one to three spatial axes."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, Around, At, Dim, Operand, Reach, Window
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Length, Offset, Stride
from deployer.core.limits import check_elements
from deployer.core.operator import Array, mismatch, unsupported
from deployer.operators.base.operands import operands
from deployer.operators.base.work_split import SplitOperator

POOL_ATTRS = {
    **{"kernel_shape": "INTS", "strides": "INTS", "pads": "INTS", "dilations": "INTS"},
    **{"auto_pad": "STRING", "ceil_mode": "INT"},
}
"""Kinds of the attributes that say where windows lie."""

SAME = ("SAME_UPPER", "SAME_LOWER")
AUTO_PADS = ("NOTSET", "VALID", *SAME)
SPATIAL = 3
"""The most axes of windows: depth, rows and columns."""


@dataclass(frozen=True)
class AxisWindows:
    """Windows along one axis of `size` elements: window i holds `i * stride + k * dilation - pad` for k < kernel.

    `end` is the padding behind the axis.
    """

    size: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    count: int = 1
    end: int = 0

    @property
    def span(self) -> int:
        """Elements from the first window's first to the last window's last, padding included."""
        return (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1

    def inside(self, index: int) -> bool:
        """Whether that window holds an element that is not padding."""
        low = index * self.stride - self.pad
        skipped = max(-(low // self.dilation), 0)
        return skipped < self.kernel and low + skipped * self.dilation < self.size

    @property
    def all_inside(self) -> bool:
        """Whether each window holds an element that is not padding; only windows at the borders need a check."""
        begins = -(-self.pad // self.stride) if self.dilation > 1 else 1
        return all(self.inside(i) for i in (*range(min(begins, self.count)), self.count - 1))


def windows(node: Node, shape: tuple[int, ...]) -> tuple[AxisWindows, ...]:
    """The windows along each spatial axis of X; a rule's errors name the node."""
    x = TensorType("float32", shape)
    rank = len(shape) - 2
    if not 1 <= rank <= SPATIAL:
        raise unsupported(node, f"X of rank {len(shape)}", "X of 3 to 5 axes: batch, channels and one to three more")
    kernel = node.attr_ints("kernel_shape", (0,) * rank)
    strides = node.attr_ints("strides", (1,) * rank)
    dilations = node.attr_ints("dilations", (1,) * rank)
    pads = node.attr_ints("pads", (0,) * 2 * rank)
    auto = node.attr_str("auto_pad", "NOTSET")
    if auto not in (*AUTO_PADS, "") or (auto not in ("NOTSET", "") and any(pads)):
        raise unsupported(node, f"auto_pad {auto} with pads {pads}", f"one of {', '.join(AUTO_PADS)}, or pads")
    if [len(kernel), len(strides), len(dilations), len(pads)] != [rank, rank, rank, 2 * rank]:
        raise mismatch(node, f"kernel_shape, strides, dilations or pads do not have {rank} axes", (x,))
    if min(*kernel, *strides, *dilations, 1) < 1 or min(pads) < 0:
        raise mismatch(node, "kernel_shape, strides and dilations are not positive, or pads are negative", (x,))
    if auto in SAME:
        pads = _same(node, shape[2:], kernel, strides, dilations, auto)
    sides = [size + pads[i] + pads[rank + i] for i, size in enumerate(shape[2:])]
    check_elements(node, "X and its padding", (*shape[:2], *sides))
    axes = []
    for i, size in enumerate(shape[2:]):
        begin, end = pads[i], pads[rank + i]
        room = size + begin + end - (kernel[i] - 1) * dilations[i] - 1
        if room < 0:
            raise mismatch(node, f"a window of {kernel[i]} does not fit {size} elements", (x,))
        count = (-(-room // strides[i]) if node.attr_int("ceil_mode", 0) else room // strides[i]) + 1
        count -= int((count - 1) * strides[i] >= size + begin)
        axis = AxisWindows(size, kernel[i], strides[i], dilations[i], begin, count, end)
        if not axis.all_inside:
            raise unsupported(node, "a window lies wholly in padding", "pads below the kernel's size")
        axes.append(axis)
    taps, outputs = math.prod(kernel), math.prod(a.count for a in axes)
    check_elements(node, "all its windows", (*shape[:2], outputs, taps))
    return tuple(axes)


def _same(
    node: Node, size: tuple[int, ...], kernel: tuple[int, ...], steps: tuple[int, ...], gaps: tuple[int, ...], auto: str
) -> tuple[int, ...]:
    """The padding with which there is a window for each step of X; an odd element lies behind, or in front."""
    reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    missing = [(-(-n // step) - 1) * step + r - n for n, step, r in zip(size, steps, reach, strict=True)]
    if min(missing) < 0:
        raise unsupported(node, f"auto_pad {auto} would cut X: strides {steps} leave gaps", "pads in numbers")
    less, more = [m // 2 for m in missing], [-(-m // 2) for m in missing]
    return (*less, *more) if auto == SAME[0] else (*more, *less)


def plane(node: Node, shape: tuple[int, ...]) -> tuple[AxisWindows, AxisWindows]:
    """The windows of rows and columns; a signal is an image of one row."""
    rows, columns = sides(node, shape)
    return rows, columns


def sides(node: Node, shape: tuple[int, ...]) -> tuple[AxisWindows, ...]:
    """The windows of rows and columns, or of a volume's depth, rows and columns; a signal is an image of one row."""
    axes = windows(node, shape)
    return axes if len(axes) > 1 else (AxisWindows(1), *axes)


def padded(x: Array, axes: Sequence[AxisWindows], fill: float) -> Array:
    """X as [N C, H, W], or [N C, D, H, W], with all the padding that windows touch."""
    image = x.reshape(-1, *(a.size for a in axes))
    whole = np.full((len(image), *(max(a.span, a.pad + a.size) for a in axes)), fill, x.dtype)
    whole[inner(axes)] = image
    return whole


def inner(axes: Sequence[AxisWindows]) -> tuple[slice, ...]:
    """The slices of padded X that are X."""
    return (slice(None), *(slice(a.pad, a.pad + a.size) for a in axes))


def taps(axes: Sequence[AxisWindows]) -> Iterator[tuple[slice, ...]]:
    """For each position in a window, row-major: slices of the padded X, one element per window."""
    for position in np.ndindex(*(a.kernel for a in axes)):
        firsts = [k * a.dilation for k, a in zip(position, axes, strict=True)]
        places = [slice(n, n + (a.count - 1) * a.stride + 1, a.stride) for n, a in zip(firsts, axes, strict=True)]
        yield (slice(None), *places)


def stacked(image: Array, axes: Sequence[AxisWindows]) -> Array:
    """The windows' elements as [positions, N C, rows, columns], or with the depth before the rows."""
    return np.stack([image[tap] for tap in taps(axes)])


def divisors(node: Node, axes: Sequence[AxisWindows]) -> Array:
    """The number of elements that each window's mean divides by."""
    if node.attr_int("count_include_pad", 0):
        return np.full((1, *(a.count for a in axes)), math.prod(a.kernel for a in axes))
    ones = padded(np.ones((1, *(a.size for a in axes))), axes, 0.0)
    return np.asarray(stacked(ones, axes).sum(0))


WINDOW = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")


def pool_kernel(symbol: str, inputs: Sequence[str], output: str, *scalars: str) -> Kernel:
    """A pooling kernel; its offsets of windows may be negative, so they are signed."""
    pointers = (*((name, "float32", False) for name in inputs), (output, "float32", True))
    kinds: list[tuple[str, CType]] = [(n, "i32" if n.endswith(("top", "left")) else "u32") for n in (*scalars, *WINDOW)]
    return Kernel(symbol, pointers, tuple(kinds))


FORWARD = ("c", "h", "w", "x_h", "x_w", "x_c", "x_r", "y_c", "y_r", "top", "left")
BACKWARD = ("c", "h", "w", "y_h", "y_w", "dx_c", "dx_r", "dy_c", "dy_r", "top", "left")


def window_args(h: AxisWindows, w: AxisWindows) -> dict[str, ArgValue]:
    """The kernel arguments that describe the windows: kernel, stride and dilation of both axes."""
    pairs = zip((h.kernel, w.kernel, h.stride, w.stride, h.dilation, w.dilation), WINDOW, strict=True)
    return {name: Const(value) for value, name in pairs}


class Pool(SplitOperator):
    """Y from windows of X, which may be of `integers`."""

    kernel: ClassVar[Kernel]
    integers: ClassVar[bool] = False

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along each spatial axis."""
        x = operands(node, inputs, 1)[0]
        if x.dtype != "float32" and not self.integers:
            raise unsupported(node, f"X is {x.dtype}", "float32")
        return (TensorType(x.dtype, x.shape[:2] + tuple(a.count for a in windows(node, x.shape))),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims c over images and channels, h and w over windows, all parallel."""
        shape = types[node.inputs[0]].shape
        h, w = plane(node, shape)
        c = math.prod(shape[:2])
        maps = tuple(Window(d, a.kernel, a.stride, a.dilation, a.pad) for d, a in zip("hw", (h, w), strict=True))
        x = Operand("x", node.inputs[0], "in", (c, h.size, w.size), (At("c"), *maps))
        y = Operand("y", node.outputs[0], "out", (c, h.count, w.count), (At("c"), At("h"), At("w")))
        return Access((Dim("c", c), Dim("h", h.count), Dim("w", w.count)), (x, y))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths, strides, where the first window begins in the box, and the window."""
        sides = []
        for axis, size in zip(access.operand("x").axes[1:], access.operand("x").view[1:], strict=True):
            assert isinstance(axis, Window)
            sides.append(AxisWindows(size, axis.kernel, axis.stride, axis.dilation, axis.pad))
        values: dict[str, ArgValue] = {name: Extent(name) for name in "chw"}
        values |= {"x_h": Length("x", 1), "x_w": Length("x", 2), "top": Offset("x", 1), "left": Offset("x", 2)}
        values |= {f"{arg}_{name}": Stride(arg, i) for arg in "xy" for i, name in enumerate("cr")}
        return values | window_args(*sides)


class PoolGrad(SplitOperator):
    """dX from dY[N, C, ...]: windows add up in ascending order."""

    kernel: ClassVar[Kernel]
    no_gradient = "it is itself a gradient"

    @abstractmethod
    def shape(self, node: Node, dy: TensorType, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
        """The shape of X."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, whose windows dY must fit."""
        dy = operands(node, inputs, 1)[0]
        shape = self.shape(node, dy, inputs)
        if dy.shape != shape[:2] + tuple(a.count for a in windows(node, shape)) or dy.dtype != "float32":
            raise mismatch(node, f"dY does not belong to X of shape {shape}", inputs)
        return (TensorType(dy.dtype, shape),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims c over images and channels, h and w over X, all parallel; where X is read, all of a tile's windows."""
        shape = types[node.outputs[0]].shape
        sides = tuple(zip("hw", plane(node, shape), strict=True))
        c, size = math.prod(shape[:2]), tuple(a.size for _, a in sides)
        reaches = tuple(Reach(d, a.kernel, a.stride, a.dilation, a.pad) for d, a in sides)
        boxes = [Operand("dy", node.inputs[0], "in", (c, *(a.count for _, a in sides)), (At("c"), *reaches))]
        if any(name == "x" for name, _, _ in self.kernel.pointers):
            around = tuple(Around(d, a.kernel, a.stride, a.dilation, a.pad, a.count) for d, a in sides)
            boxes.append(Operand("x", node.inputs[1], "in", (c, *size), (At("c"), *around)))
        boxes.append(Operand("dx", node.outputs[0], "out", (c, *size), (At("c"), At("h"), At("w"))))
        return Access((Dim("c", c), *(Dim(d, a.size) for d, a in sides)), tuple(boxes))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths, strides, where the tile's first element lies among the windows, and the window."""
        shape = access.operand("dx").view
        rank = len(node.attr_ints("kernel_shape", ()))
        values: dict[str, ArgValue] = {name: Extent(name) for name in "chw"}
        values |= {f"{arg}_{name}": Stride(arg, i) for arg in ("dx", "dy") for i, name in enumerate("cr")}
        values |= {"y_h": Length("dy", 1), "y_w": Length("dy", 2), "top": Offset("dy", 1), "left": Offset("dy", 2)}
        return values | window_args(*plane(node, (1, shape[0], *shape[3 - rank :])))


FORMS: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
    "plain": ((2, 3, 6, 8), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    "overlap": ((1, 3, 7, 6), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    "uneven": ((1, 2, 7, 5), {"kernel_shape": (3, 2), "strides": (1, 2), "pads": (2, 0, 1, 1)}),
    "signal": ((2, 3, 9), {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)}),
    "ceil": ((1, 2, 6, 7), {"kernel_shape": (3, 2), "strides": (2, 2), "ceil_mode": 1}),
    "gaps": ((1, 2, 11, 9), {"kernel_shape": (2, 1), "strides": (4, 3)}),
    "dilated": ((1, 2, 8, 7), {"kernel_shape": (2, 3), "dilations": (2, 2), "pads": (1, 1, 1, 1)}),
    "upper": ((1, 2, 7, 6), {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER", "strides": (2, 1)}),
    "lower": ((1, 2, 7, 6), {"kernel_shape": (2, 4), "auto_pad": "SAME_LOWER", "strides": (1, 2)}),
    "volume": ((2, 2, 4, 5, 4), {"kernel_shape": (2, 3, 2), "strides": (2, 2, 1), "pads": (1, 1, 0, 0, 1, 1)}),
    "volume_ceil": ((1, 2, 6, 4, 5), {"kernel_shape": (3, 2, 2), "strides": (2, 1, 2), "ceil_mode": 1}),
}

Attrs = dict[str, AttrValue]
PASSED = ("ceil_mode", "count_include_pad")


class PooledVolume:
    """The nodes that stand for `node`, a pooling over X of that shape, or its gradient."""

    def __init__(self, node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> None:
        self.node, self.nodes = node, list[Node]()
        n, channels, depth = shape[:3]
        _, height, width = axes
        self.full, self.out = shape, (n, channels, *(a.count for a in axes))
        self.flat = (n, channels * depth, *shape[3:])
        self.pooled = (n, channels * depth, height.count, width.count)
        self.columns = (n, channels, depth, height.count * width.count)
        self.last = (n, channels, axes[0].count, height.count * width.count)
        passed = {name: node.attrs[name] for name in PASSED if name in node.attrs}
        self.plane = _attrs(axes[1:]) | passed
        self.depth = _attrs((axes[0], AxisWindows(self.columns[-1], count=self.columns[-1]))) | passed

    def emit(self, label: str, op: str, inputs: Sequence[str], attrs: Attrs) -> str:
        """Append a node and give the name of its result."""
        name = f"{self.node.name}/{label}"
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs))
        return name

    def shaped(self, label: str, value: str, shape: tuple[int, ...]) -> str:
        """The value in another shape."""
        return self.emit(label, "Reshape", (value,), {"shape": shape})

    def ended(self, value: str, shape: tuple[int, ...]) -> list[Node]:
        """All nodes, with the node's result in that shape at the end."""
        return [*self.nodes, Node(self.node.name, "Reshape", (value,), self.node.outputs[:1], {"shape": shape})]


def _attrs(axes: Sequence[AxisWindows]) -> Attrs:
    return {
        "kernel_shape": tuple(a.kernel for a in axes),
        "strides": tuple(a.stride for a in axes),
        "dilations": tuple(a.dilation for a in axes),
        "pads": tuple(a.pad for a in axes) + tuple(a.end for a in axes),
    }


def pooled(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> list[Node]:
    """The nodes that a pooling of X of that shape stands for."""
    v = PooledVolume(node, shape, axes)
    planes = v.emit("planes", node.op, (v.shaped("flat", node.inputs[0], v.flat),), v.plane)
    layers = v.emit("layers", node.op, (v.shaped("columns", planes, v.columns),), v.depth)
    return v.ended(layers, v.out)


def mean_gradient(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> list[Node]:
    """The nodes that the gradient of means stands for, dY -> dX of that shape."""
    v = PooledVolume(node, shape, axes)
    dy = v.shaped("last", node.inputs[0], v.last)
    dy = v.emit("layers", node.op, (dy,), {**v.depth, "input_shape": v.columns})
    dy = v.emit("planes", node.op, (v.shaped("pooled", dy, v.pooled),), {**v.plane, "input_shape": v.flat})
    return v.ended(dy, shape)


def maximum_gradient(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows], forward: str) -> list[Node]:
    """The nodes that the gradient of maxima stands for, dY, X -> dX; `forward` is the operator of the pooling."""
    v = PooledVolume(node, shape, axes)
    x = v.shaped("flat", node.inputs[1], v.flat)
    columns = v.shaped("columns", v.emit("maxima", forward, (x,), v.plane), v.columns)
    dy = v.emit("layers", node.op, (v.shaped("last", node.inputs[0], v.last), columns), v.depth)
    dy = v.emit("planes", node.op, (v.shaped("pooled", dy, v.pooled), x), v.plane)
    return v.ended(dy, shape)
