"""Geometry that convolutions and their gradients share; three spatial axes are computed as two."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployer.core.access import Axis, Operand, Reach, Window
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const
from deployer.core.limits import check_elements
from deployer.core.operator import Array, mismatch, unsupported
from deployer.core.traits.training import Fans

Shape = tuple[int, ...]
Pair = tuple[int, int]
Index = tuple[Any, ...]
"""An index of an array as numpy takes it."""
RANKS = (3, 4, 5)
"""Axes of X: batch, channels and one to three spatial ones."""
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
BACKWARD = "it belongs to a backward pass"

CONV_ATTRS = {
    **{"kernel_shape": "INTS", "strides": "INTS", "pads": "INTS", "dilations": "INTS"},
    **{"auto_pad": "STRING", "group": "INT"},
}
"""Kinds of Conv's attributes, which its gradients have too."""

FORMS: tuple[tuple[str, Shape, Shape, dict[str, AttrValue]], ...] = (
    ("same", (1, 3, 6, 7), (4, 3, 3, 3), {"pads": (1, 1, 1, 1)}),
    ("no_attributes", (1, 2, 5, 4), (3, 2, 3, 2), {}),
    ("strided", (1, 2, 8, 7), (3, 2, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ("uneven", (1, 2, 9, 8), (3, 2, 3, 3), {"strides": (2, 3), "pads": (0, 2, 1, 0)}),
    ("dilated", (1, 2, 9, 8), (2, 2, 3, 2), {"dilations": (2, 3), "pads": (2, 1, 2, 1)}),
    ("dilated_strided", (1, 1, 9, 11), (2, 1, 3, 3), {"dilations": (2, 3), "strides": (2, 2), "pads": (1, 2, 1, 0)}),
    ("batch", (2, 3, 5, 5), (2, 3, 3, 3), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
    ("groups", (2, 4, 5, 4), (6, 2, 3, 3), {"group": 2, "pads": (1, 1, 1, 1)}),
    ("depthwise", (1, 4, 5, 6), (4, 1, 3, 3), {"group": 4, "pads": (1, 1, 1, 1)}),
    ("multiplied", (1, 3, 6, 5), (6, 1, 2, 3), {"group": 3, "strides": (2, 1)}),
    ("pointwise", (1, 4, 5, 6), (3, 4, 1, 1), {}),
    ("pointwise_strided", (1, 3, 6, 7), (4, 3, 1, 1), {"strides": (2, 2)}),
    ("far", (1, 2, 4, 5), (3, 2, 2, 3), {"pads": (4, 1, 3, 5), "strides": (1, 2)}),
    ("gaps", (1, 2, 11, 9), (2, 2, 2, 1), {"strides": (4, 3)}),
    ("line", (2, 3, 11), (4, 3, 3), {"pads": (1, 2), "strides": (2,)}),
    ("line_one", (1, 2, 11), (3, 2, 4), {"dilations": (2,), "pads": (3, 0)}),
    ("upper", (1, 2, 7, 6), (2, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": (2, 1)}),
    ("lower", (1, 2, 7, 6), (2, 2, 2, 4), {"auto_pad": "SAME_LOWER", "strides": (1, 2)}),
    ("valid", (1, 2, 5, 6), (2, 2, 3, 3), {"auto_pad": "VALID"}),
    ("many_inputs", (1, 19, 4, 3), (3, 19, 3, 3), {"pads": (1, 1, 1, 1)}),
    ("many_outputs", (1, 2, 5, 4), (41, 2, 3, 3), {"strides": (2, 1), "pads": (1, 1, 1, 1)}),
    ("many_rows", (2, 2, 21, 15), (2, 1, 3, 3), {"group": 2, "pads": (12, 1, 1, 1)}),
    ("long_line", (2, 2, 200), (3, 2, 3), {"pads": (150, 3)}),
)
"""Shapes of X and W, and attributes: every form once, for tests, and sums of several blocks."""

VOLUMES: tuple[tuple[str, Shape, Shape, dict[str, AttrValue]], ...] = (
    ("volume", (2, 3, 4, 5, 4), (4, 3, 3, 3, 2), {"pads": (1, 1, 0, 1, 1, 0)}),
    ("volume_strided", (1, 2, 6, 5, 4), (3, 2, 2, 3, 2), {"strides": (2, 1, 2), "pads": (1, 0, 1, 0, 2, 0)}),
    ("volume_groups", (1, 4, 5, 3, 4), (6, 2, 2, 2, 2), {"group": 2, "dilations": (2, 1, 2)}),
    (
        "volume_depthwise",
        (2, 3, 5, 4, 4),
        (3, 1, 3, 3, 3),
        {"group": 3, "auto_pad": "SAME_UPPER", "strides": (2, 2, 1)},
    ),
    ("volume_layers", (1, 2, 3, 4, 4), (2, 2, 1, 3, 3), {}),
)
"""The same over three spatial axes."""


@dataclass(frozen=True)
class Geometry:
    """A convolution of X[n, group, c, *size] with W[group, m, c, *kernel] into Y[n, group, m, *out].

    `c` and `m` are channels of one group. Spatial shapes are (rows, columns), or (depth, rows, columns) of a volume
    (`rank` 5); one spatial axis (`rank` 3) is one row.
    """

    rank: int
    n: int
    group: int
    c: int
    m: int
    size: Shape
    kernel: Shape
    out: Shape
    strides: Shape
    dilations: Shape
    begin: Shape
    end: Shape

    @property
    def x(self) -> Shape:
        """The shape of X with an axis for the groups: [n, group, c, rows, columns]."""
        return (self.n, self.group, self.c, *self.size)

    @property
    def w(self) -> Shape:
        """The shape of W with an axis for the groups: [group, m, c, rows, columns]."""
        return (self.group, self.m, self.c, *self.kernel)

    @property
    def y(self) -> Shape:
        """The shape of Y with an axis for the groups: [n, group, m, rows, columns]."""
        return (self.n, self.group, self.m, *self.out)

    @property
    def y_shape(self) -> Shape:
        """The shape of Y in the graph: [n, group * m, ..]."""
        return (self.n, self.group * self.m, *self._own(self.out))

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes of Conv with this geometry; padding is in `pads`, never in `auto_pad`."""
        return {
            "kernel_shape": self._own(self.kernel),
            "strides": self._own(self.strides),
            "dilations": self._own(self.dilations),
            "pads": (*self._own(self.begin), *self._own(self.end)),
            "group": self.group,
        }

    @property
    def input_shape(self) -> Shape:
        """The spatial extents of X, which dY leaves open where a stride is above one."""
        return self._own(self.size)

    def _own(self, values: Shape) -> Shape:
        return values[1:] if self.rank == RANKS[0] else values

    @property
    def is_volume(self) -> bool:
        """Whether there are three spatial axes."""
        return self.rank == RANKS[-1]

    @property
    def inner(self) -> Index:
        """The index of X in X with its padding."""
        return (..., *(slice(a, a + n) for a, n in zip(self.begin, self.size, strict=True)))

    @property
    def axes(self) -> str:
        """A letter for each spatial axis, as einsum takes them."""
        return "dhw"[-len(self.size) :]

    def padded(self, x: Array) -> Array:
        """X as [n, group, c, rows, columns] with zeros for the padding, in float64."""
        sizes = (a + n + b for a, n, b in zip(self.begin, self.size, self.end, strict=True))
        whole = np.zeros((*self.x[:3], *sizes))
        whole[self.inner] = x.reshape(self.x)
        return whole

    def taps(self) -> Iterator[tuple[Index, Index]]:
        """Each tap as an index of W, and the index of padded X that it reads: an element for each output."""
        for tap in np.ndindex(*self.kernel):
            slices = []
            for k, dilation, stride, out in zip(tap, self.dilations, self.strides, self.out, strict=True):
                slices.append(slice(k * dilation, k * dilation + (out - 1) * stride + 1, stride))
            yield (..., *tap), (..., *slices)


def geometry(node: Node, x: Shape, w: Shape, inputs: Sequence[TensorType | None]) -> Geometry:
    """The geometry of a node for shapes of X and W; ShapeMismatch or UnsupportedOperator where there is none."""
    rank, group = len(x), node.attr_int("group", 1)
    if rank not in RANKS or len(w) != rank:
        raise unsupported(node, f"X has {rank} axes, W {len(w)}", "X and W of 3 to 5 axes")
    if group < 1 or w[0] % group or x[1] != w[1] * group:
        raise mismatch(node, f"{x[1]} channels into {w[0]} by W of {w[1]} channels in {group} groups", inputs)
    if node.attr_ints("kernel_shape", w[2:]) != w[2:]:
        raise mismatch(node, f"kernel_shape {node.attrs['kernel_shape']} is not that of W", inputs)
    kernel = _extents(node, "kernel_shape", w[2:], 1, inputs)
    strides = _extents(node, "strides", (1,) * (rank - 2), 1, inputs)
    spacing = _extents(node, "dilations", (1,) * (rank - 2), 1, inputs)
    size = _planar(x[2:], 1)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(spacing, kernel, strict=True))
    begin, end = _pads(node, rank, size, reach, strides, inputs)
    sides = tuple(map(sum, zip(size, begin, end, strict=True)))
    check_elements(node, "X and its padding", (*x[:2], *sides))
    out = tuple((side - taps) // step + 1 for side, taps, step in zip(sides, reach, strides, strict=True))
    if min(out) < 1:
        raise mismatch(node, f"a kernel of reach {reach} does not fit into rows and columns {size}", inputs)
    return Geometry(rank, x[0], group, w[1], w[0] // group, size, kernel, out, strides, spacing, begin, end)


def smallest_input(node: Node, dy: Shape, w: Shape, inputs: Sequence[TensorType | None]) -> Shape:
    """Spatial extents of X: attribute `input_shape`, without it the smallest that give dY."""
    if "input_shape" in node.attrs:
        shape = node.attr_ints("input_shape", ())
        if len(shape) != len(dy) - 2:
            raise mismatch(node, f"input_shape {shape} is not that of {len(dy) - 2} spatial axes", inputs)
        return shape
    if node.attr_str("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise unsupported(node, "auto_pad leaves the shape of X open", "attribute input_shape, or pads in numbers")
    axes = len(dy) - 2
    ones = (1,) * axes
    strides, spacing = node.attr_ints("strides", ones), node.attr_ints("dilations", ones)
    pads = (0,) * 2 * axes if "auto_pad" in node.attrs and node.attr_str("auto_pad", "") == "VALID" else ()
    pads = pads or node.attr_ints("pads", (0,) * 2 * axes)
    if min(len(strides), len(spacing), len(pads) // 2, len(w) - 2) < axes:
        raise mismatch(node, f"strides, dilations, pads or W are not those of {axes} spatial axes", inputs)
    return tuple(
        (dy[2 + i] - 1) * strides[i] + spacing[i] * (w[2 + i] - 1) + 1 - pads[i] - pads[axes + i] for i in range(axes)
    )


def fits(node: Node, shape: Geometry, dy: Shape, inputs: Sequence[TensorType | None]) -> None:
    """Raise ShapeMismatch unless dY has the geometry's output shape."""
    if dy != shape.y_shape:
        raise mismatch(node, f"dY is {list(dy)}, the convolution gives {list(shape.y_shape)}", inputs)


def taps_between(stride: int, dilation: int) -> Pair:
    """The distance between two taps that read the same element: in taps, and in windows in the other direction."""
    taps = stride // math.gcd(stride, dilation)
    return taps, taps * dilation // stride


def most_taps(kernel: Shape, strides: Shape, spacing: Shape) -> int:
    """The most taps that meet one element of X."""
    steps = [taps_between(*pair)[0] for pair in zip(strides, spacing, strict=True)]
    return math.prod(-(-taps // step) for taps, step in zip(kernel, steps, strict=True))


def dilations(node: Node) -> Pair:
    """The distance between adjacent taps in elements, for rows and for columns."""
    spacing = _planar(node.attr_ints("dilations", ()) or (1,), 1)
    return spacing[0], spacing[1]


def tap_arguments(node: Node, kernel: Shape, strides: Pair) -> dict[str, ArgValue]:
    """The numbers of taps, the strides and the dilations of both axes as constant kernel arguments."""
    pairs = (("k", kernel), ("s", strides), ("d", dilations(node)))
    return {f"{name}{axis}": Const(pair[i]) for name, pair in pairs for i, axis in enumerate("hw")}


def windows(shape: Geometry) -> list[Axis]:
    """The maps from a tile's rows and columns of Y to those of X that its windows hold."""
    pairs = zip(("oh", "ow"), shape.kernel, shape.strides, shape.dilations, shape.begin, strict=True)
    return [Window(*values) for values in pairs]


def reaches(shape: Geometry) -> list[Axis]:
    """The maps from a tile's rows and columns of X to those of dY; empty where no window holds an element."""
    pairs = zip(("ih", "iw"), shape.kernel, shape.strides, shape.dilations, shape.begin, strict=True)
    return [Reach(*values) for values in pairs]


def window_axes(operand: Operand) -> list[Window | Reach]:
    """The axes of an operand, X or dY, that windows lie over: its rows and its columns."""
    return [axis for axis in operand.axes if isinstance(axis, Window | Reach)]


def _planar(values: Sequence[int], fill: int) -> Shape:
    """The values of rows and columns, or of a volume; those of a line with `fill` for its row."""
    return tuple(values) if len(values) > 1 else (fill, *values)


def _extents(node: Node, name: str, default: Shape, least: int, inputs: Sequence[TensorType | None]) -> Shape:
    """An attribute of one number per spatial axis."""
    values = node.attr_ints(name, default)
    if len(values) != len(default) or min(values) < least:
        raise mismatch(node, f"{name} {values} is not that of {len(default)} spatial axes", inputs)
    return _planar(values, 1)


def _pads(
    node: Node, rank: int, size: Shape, reach: Shape, strides: Shape, inputs: Sequence[TensorType | None]
) -> tuple[Shape, Shape]:
    """Zeros before and after each spatial axis."""
    auto, axes = node.attr_str("auto_pad", "NOTSET") or "NOTSET", rank - 2
    if auto not in AUTO_PADS:
        raise unsupported(node, f"auto_pad is {auto!r}", f"one of {', '.join(AUTO_PADS)}")
    if auto != "NOTSET" and any(node.attr_ints("pads", ())):
        raise unsupported(node, f"auto_pad {auto} and pads at once", "one of the two")
    if auto == "VALID":
        return (0,) * len(size), (0,) * len(size)
    if auto == "NOTSET":
        pads = node.attr_ints("pads", (0,) * 2 * axes)
        if len(pads) != 2 * axes:
            raise mismatch(node, f"pads {pads} are not those of {axes} spatial axes", inputs)
        if min(pads) < 0:
            raise unsupported(node, f"pads {pads} cut X", "pads of zero and above")
        return _planar(pads[:axes], 0), _planar(pads[axes:], 0)
    padding = [(-(-n // step) - 1) * step + taps - n for n, step, taps in zip(size, strides, reach, strict=True)]
    if min(padding) < -1:  # onnxruntime then begins inside of X, TensorFlow at its first element
        raise unsupported(node, f"auto_pad {auto} would cut X: strides {strides} leave gaps", "pads in numbers")
    total = [max(pads, 0) for pads in padding]
    small, large = tuple(pads // 2 for pads in total), tuple(-(-pads // 2) for pads in total)
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def fans_of(weight: TensorType) -> dict[int, Fans]:
    """Return fan_in and fan_out of W, the second input: its second and first axis, each times the number of taps.

    That holds for a ConvTranspose, too, where the axes have changed places (`torch.nn.init`, fan_in and fan_out).
    """
    first, second, *taps = weight.shape
    return {1: Fans(second * math.prod(taps), first * math.prod(taps))}


@dataclass
class Volume:
    """The nodes that stand for `node`, a convolution of that shape or one of its gradients."""

    node: Node
    shape: Geometry
    nodes: list[Node] = field(default_factory=list)

    def emit(self, label: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        """Append a node and give the name of its result."""
        name = f"{self.node.name}/{label}"
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs))
        return name

    def last(self, op: str, value: str, **attrs: AttrValue) -> list[Node]:
        """All nodes, with one at the end that gives the node's result."""
        return [*self.nodes, Node(self.node.name, op, (value,), self.node.outputs[:1], attrs)]

    @property
    def images(self) -> int:
        """Images of X's windows, and of Y: one for each output along the depth."""
        return self.shape.n * self.shape.out[0]

    @property
    def weights(self) -> Shape:
        """The shape of W with its taps along the depth as channels."""
        s = self.shape
        return (s.group * s.m, s.c * s.kernel[0], *s.kernel[1:])

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes of the convolution of images."""
        s = self.shape
        return {
            "kernel_shape": s.kernel[1:],
            "strides": s.strides[1:],
            "dilations": s.dilations[1:],
            "pads": (*s.begin[1:], *s.end[1:]),
            "group": s.group,
        }

    @property
    def _padded(self) -> int:
        """X's depth with its padding."""
        return self.shape.begin[0] + self.shape.size[0] + self.shape.end[0]

    @property
    def _layers(self) -> Shape:
        """The shape of X with its padding as layers of all channels: [n, depth, channels, plane]."""
        s = self.shape
        return (s.n, self._padded, s.group * s.c, math.prod(s.size[1:]))

    def unfolded(self, x: str) -> str:
        """X[n, channels, depth, ..] as images whose channels are X's channels at the taps along the depth."""
        s, (n, depth, channels, plane) = self.shape, self._layers
        x = self.emit("planes", "Reshape", (x,), shape=(n, channels, s.size[0], plane))
        x = self.emit("layers", "Transpose", (x,), perm=(0, 2, 1, 3))
        if depth > s.size[0]:
            x = self.emit("padded", "Pad", (x,), pads=(0, s.begin[0], 0, 0, 0, s.end[0], 0, 0))
        taps = []
        for tap in range(s.kernel[0]):
            first = tap * s.dilations[0]
            ends = first + (s.out[0] - 1) * s.strides[0] + 1
            window = self.emit(
                f"tap{tap}", "Slice", (x,), starts=(first,), ends=(ends,), axes=(1,), steps=(s.strides[0],)
            )
            shape = (self.images * channels, 1, plane)
            taps.append(self.emit(f"tap{tap}_channels", "Reshape", (window,), shape=shape))
        joined = self.emit("taps", "Concat", taps, axis=1) if len(taps) > 1 else taps[0]
        return self.emit("images", "Reshape", (joined,), shape=(self.images, channels * len(taps), *s.size[1:]))

    def folded(self, images: str) -> list[Node]:
        """All nodes, with the sum of the images' channels where they come from in X at the end."""
        s, (n, depth, channels, plane) = self.shape, self._layers
        rows = self.emit("channels", "Reshape", (images,), shape=(self.images * channels, s.kernel[0], plane))
        taps = []
        for tap in range(s.kernel[0]):
            tap_rows = self.emit(f"tap{tap}", "Slice", (rows,), starts=(tap,), ends=(tap + 1,), axes=(1,))
            tap_rows = self.emit(f"tap{tap}_layers", "Reshape", (tap_rows,), shape=(n, s.out[0], channels, plane))
            place = {"starts": (0, tap * s.dilations[0], 0, 0), "steps": (1, s.strides[0], 1, 1)}
            taps.append(self.emit(f"tap{tap}_place", "SliceGrad", (tap_rows,), input_shape=self._layers, **place))
        x = self.emit("sum", "Sum", taps)
        if depth > s.size[0]:
            x = self.emit("inner", "Slice", (x,), starts=(s.begin[0],), ends=(s.begin[0] + s.size[0],), axes=(1,))
        x = self.emit("planes", "Transpose", (x,), perm=(0, 2, 1, 3))
        return self.last("Reshape", x, shape=(n, channels, *s.size))

    def planes(self, dy: str) -> str:
        """dY[n, outputs, depth, ..] as an image for each output along the depth."""
        s, outputs = self.shape, self.shape.group * self.shape.m
        dy = self.emit("dy_planes", "Reshape", (dy,), shape=(s.n, outputs, s.out[0], math.prod(s.out[1:])))
        dy = self.emit("dy_layers", "Transpose", (dy,), perm=(0, 2, 1, 3))
        return self.emit("dy_images", "Reshape", (dy,), shape=(self.images, outputs, *s.out[1:]))


def convolved(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a Conv over a volume stands for."""
    v = Volume(node, shape)
    w = v.emit("weights", "Reshape", node.inputs[1:2], shape=v.weights)
    y = v.emit("convolved", node.op, (v.unfolded(node.inputs[0]), w, *node.inputs[2:]), **v.attrs)
    outputs = shape.group * shape.m
    y = v.emit("outputs", "Reshape", (y,), shape=(shape.n, shape.out[0], outputs, math.prod(shape.out[1:])))
    y = v.emit("depth", "Transpose", (y,), perm=(0, 2, 1, 3))
    return v.last("Reshape", y, shape=shape.y_shape)


def input_gradient(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a ConvGradX over a volume stands for."""
    v = Volume(node, shape)
    dy, w = v.planes(node.inputs[0]), v.emit("weights", "Reshape", node.inputs[1:2], shape=v.weights)
    return v.folded(v.emit("images", node.op, (dy, w), input_shape=shape.size[1:], **v.attrs))


def weight_gradient(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a ConvGradW over a volume stands for."""
    v = Volume(node, shape)
    dy, images = v.planes(node.inputs[0]), v.unfolded(node.inputs[1])
    dw = v.emit("weights", node.op, (dy, images), **v.attrs)
    return v.last("Reshape", dw, shape=(shape.group * shape.m, shape.c, *shape.kernel))
