"""GridSample: elements of X, or means of neighbours, at the places that a grid says, each axis of X from -1 to 1."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.forms import Rule
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.reduction.composed import number

MODES, PADDINGS = ("linear", "nearest"), ("zeros", "border", "reflection")
NOTHING = 1e-30
"""The span of an axis of one element, by which places are divided."""
LATER = {"bilinear": "linear", "bicubic": "cubic"}
"""Names of modes in version 16 by those since."""


def _renamed(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Modes of version 16 by their later names, which that version does not know."""
    mode = node.attr_str("mode", "bilinear")
    if mode in LATER.values():
        raise unsupported(node, f"mode is {mode!r} in version 16", " or ".join(LATER))
    return [replace(node, attrs=node.attrs | {"mode": LATER.get(mode, mode)})]


@register
class GridSample(Operator):
    """X[N, C, ...], and a grid [N, ..., K] of places in its K spatial axes, the last of which comes first.

    Made of arithmetic on the places, and of a Gather for each corner around them: rows are all channels of an element.
    Gradients of X and of the grid follow from these.
    """

    name = "GridSample"
    versions = (20, 22)
    older: ClassVar[dict[int, Rule]] = {16: _renamed}
    flags = ("align_corners",)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the places of the grid."""
        x, grid = floats(node, inputs, 2)
        axes = len(x.shape) - 2
        if axes < 1 or len(grid.shape) != len(x.shape) or (grid.shape[0], grid.shape[-1]) != (x.shape[0], axes):
            raise mismatch(node, "the grid has no place in X for each element of the result", inputs)
        for name, usual, known in (("mode", "linear", MODES), ("padding_mode", "zeros", PADDINGS)):
            if node.attr_str(name, usual) not in known:
                raise unsupported(node, f"{name} is {node.attr_str(name, usual)!r}", " or ".join(known))
        return (TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1])),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's choice of elements, corner by corner."""
        x, grid = arrays(inputs, 2)
        sizes, k = x.shape[2:], grid.shape[-1]
        batch = np.arange(x.shape[0]).reshape(-1, *[1] * k)
        axes = [list(_corners(node, grid[..., k - 1 - axis], size)) for axis, size in enumerate(sizes)]
        total = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]), x.dtype)
        for corner in itertools.product(*axes):
            taken = np.moveaxis(x, 1, -1)[(batch, *(place for place, _ in corner))]
            total += taken * np.prod([weight for _, weight in corner], 0)[..., None]
        return (np.ascontiguousarray(np.moveaxis(total, -1, 1)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The places along each axis, what they weigh, and the sum of what is taken there."""
        x, grid = floats(node, inputs, 2)
        return _Graph(node, x.shape, grid.shape).nodes

    def samples(self) -> Iterator[Sample]:
        """Both modes with all paddings, at places inside and far outside; signals and volumes."""
        r = rng(181)
        for mode, padding, align in itertools.product(MODES, PADDINGS, (0, 1)):
            attrs: dict[str, AttrValue] = {"mode": mode, "padding_mode": padding, "align_corners": align}
            yield Sample(f"{mode}_{padding}{align}", (normal(r, 2, 3, 5, 4), normal(r, 2, 3, 6, 2)), attrs)
        yield Sample("volume", (normal(r, 1, 2, 3, 4, 3), normal(r, 1, 2, 3, 2, 3)), {"padding_mode": "border"})
        yield Sample("signal", (normal(r, 2, 2, 7), normal(r, 2, 5, 1)), {"mode": "nearest"}, onnx=False)
        yield Sample("one_row", (normal(r, 1, 2, 1, 4), normal(r, 1, 3, 2, 2)), {"align_corners": 1})


def _limits(node: Node, size: int) -> tuple[float, float]:
    """Between which numbers places are within an axis, as reflection has it."""
    return (0.0, size - 1.0) if node.attr_int("align_corners", 0) else (-0.5, size - 0.5)


def _corners(node: Node, grid: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """For each corner along an axis: the element's place there, and its weight, which is 0 outside of X."""
    kind, padding = grid.dtype.type, node.attr_str("padding_mode", "zeros")
    low, high = map(kind, _limits(node, size))
    if node.attr_int("align_corners", 0):
        at = (grid + kind(1)) / kind(2) * kind(size - 1)
    else:
        at = ((grid + kind(1)) * kind(size) - kind(1)) / kind(2)
    nearest = node.attr_str("mode", "linear") == "nearest"
    at = np.rint(at) if nearest else at
    if padding == "reflection":
        span = max(high - low, kind(NOTHING))
        apart = np.abs(at - low)
        turns = np.floor(apart / span)
        rest = apart - turns * span
        at = np.where(turns % 2 == 0, low + rest, high - rest)
    if padding != "zeros":
        at = np.clip(at, kind(0), kind(size - 1))
    first = np.rint(at) if nearest else np.floor(at)
    share = np.zeros_like(at) if nearest else at - first
    for step in (0,) if nearest else (0, 1):
        place = first + kind(step)
        weight = share if step else kind(1) - share
        inside = (place >= 0) & (place <= size - 1)
        yield np.clip(place, 0, size - 1).astype(np.int64), np.where(inside, weight, kind(0))


class _Graph:
    """The nodes that stand for a GridSample over X and a grid of these shapes.

    Values of places have the dims batch, place and 1.
    """

    def __init__(self, node: Node, x: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.node, self.nodes, self.numbers = node, list[Node](), dict[float, str]()
        self.padding = node.attr_str("padding_mode", "zeros")
        self.nearest = node.attr_str("mode", "linear") == "nearest"
        self.sizes, self.batch, channels = x[2:], x[0], x[1]
        self.count = math.prod(grid[1:-1])
        last = self.emit("Transpose", node.inputs[0], perm=(0, *range(2, len(x)), 1))
        self.rows = self.emit("Reshape", last, shape=(self.batch * math.prod(self.sizes), channels))
        self.places = self.emit("Reshape", node.inputs[1], shape=(self.batch, self.count, len(self.sizes)))
        total = ""
        for corner in itertools.product(*map(self.axis, range(len(self.sizes)))):
            taken = self.taken(corner)
            total = self.emit("Add", total, taken) if total else taken
        images = self.emit("Reshape", total, shape=(self.batch, self.count, channels))
        first = self.emit("Transpose", images, perm=(0, 2, 1))
        shape = (self.batch, channels, *grid[1:-1])
        self.nodes.append(Node(node.name, "Reshape", (first,), node.outputs, {"shape": shape}))

    def emit(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Append a node and give the name of its result."""
        name = f"{self.node.name}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, inputs, (name,), attrs))
        return name

    def number(self, value: float) -> str:
        """A constant."""
        if value not in self.numbers:
            self.numbers[value] = f"{self.node.name}/number{len(self.nodes)}"
            self.nodes.append(number(self.numbers[value], value))
        return self.numbers[value]

    def axis(self, axis: int) -> list[tuple[str, str]]:
        """For each corner along an axis: how far its row is from that of place 0, and its weight, or no name for 1."""
        size, column = self.sizes[axis], len(self.sizes) - 1 - axis
        stride = math.prod(self.sizes[axis + 1 :])
        at = self.emit("Slice", self.places, starts=(column,), ends=(column + 1,), axes=(2,))
        at = self.padded(self.pixel(at, size), size)
        first = self.emit("Round" if self.nearest else "Floor", at)
        if self.nearest:
            return [(self.row(first, size, stride), self.inside(first, size))]
        share = self.emit("Sub", at, first)
        rest = self.emit("Sub", self.number(1.0), share)
        second = self.emit("Add", first, self.number(1.0))
        corners = ((first, rest), (second, share))
        return [(self.row(p, size, stride), self.product(weight, self.inside(p, size))) for p, weight in corners]

    def pixel(self, at: str, size: int) -> str:
        """The place in elements; the nearest one is a whole number before it is padded."""
        at = self.emit("Add", at, self.number(1.0))
        if self.node.attr_int("align_corners", 0):
            at = self.emit("Mul", self.emit("Div", at, self.number(2.0)), self.number(size - 1.0))
        else:
            at = self.emit("Sub", self.emit("Mul", at, self.number(float(size))), self.number(1.0))
            at = self.emit("Div", at, self.number(2.0))
        return self.emit("Round", at) if self.nearest else at

    def padded(self, at: str, size: int) -> str:
        """The place within the axis, unless what is outside is zero; a reflection goes there and back in turns."""
        if self.padding == "reflection":
            low, high = _limits(self.node, size)
            span = self.number(max(high - low, NOTHING))
            apart = self.emit("Abs", self.emit("Sub", at, self.number(low)))
            turns = self.emit("Floor", self.emit("Div", apart, span))
            rest = self.emit("Sub", apart, self.emit("Mul", turns, span))
            half = self.emit("Div", turns, self.number(2.0))
            there, back = self.emit("Add", rest, self.number(low)), self.emit("Sub", self.number(high), rest)
            at = self.emit("Where", self.emit("Equal", self.emit("Floor", half), half), there, back)
        return at if self.padding == "zeros" else self.clipped(at, size)

    def clipped(self, at: str, size: int) -> str:
        """The place, or the nearest one in the axis."""
        return self.emit("Clip", at, min=0.0, max=size - 1.0)

    def inside(self, at: str, size: int) -> str:
        """A factor that is 0 outside of X; no name where every place is inside, or made so."""
        if self.padding != "zeros":
            return ""
        above = self.emit("GreaterOrEqual", at, self.number(0.0))
        below = self.emit("LessOrEqual", at, self.number(size - 1.0))
        return self.emit("Cast", self.emit("And", above, below), to=TensorProto.FLOAT)

    def row(self, at: str, size: int, stride: int) -> str:
        """How far the row of a place is from that of place 0."""
        place = self.emit("Cast", self.clipped(at, size), to=TensorProto.INT32)
        return self.emit("Mul", place, self.emit("Constant", value_int=stride)) if stride > 1 else place

    def product(self, weight: str, other: str) -> str:
        """The product of two weights, of which no name is 1."""
        return self.emit("Mul", weight, other) if weight and other else weight or other

    def taken(self, corner: Sequence[tuple[str, str]]) -> str:
        """The rows at a corner, times the corner's weight."""
        (place, weight), *others = corner
        for further, factor in others:
            place, weight = self.emit("Add", place, further), self.product(weight, factor)
        if self.batch > 1:
            firsts = tuple(i * math.prod(self.sizes) for i in range(self.batch))
            shaped = self.emit("Reshape", self.emit("Constant", value_ints=firsts), shape=(self.batch, 1, 1))
            place = self.emit("Add", place, shaped)
        ids = self.emit("Reshape", place, shape=(self.batch * self.count,))
        taken = self.emit("Gather", self.rows, ids, axis=0)
        if not weight:
            return taken
        return self.emit("Mul", taken, self.emit("Reshape", weight, shape=(self.batch * self.count, 1)))
