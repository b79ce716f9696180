"""Resize and GridSample: axes of other lengths, and elements at given places."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.limits import check_elements
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.views import normalized_axes
from deployer.operators.reduction.reduction import constant_scalar

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
    """Elements of X, or means of neighbours, at the places that a grid says, each axis of X from -1 to 1.

    X[N, C, ...], and a grid [N, ..., K] of places in its K spatial axes, the last of which comes first.

    Made of arithmetic on the places, and of a Gather for each corner around them: rows are all channels of an element.
    Gradients of X and of the grid follow from these.
    """

    name = "GridSample"
    file = FileSpec(versions=(20, 22), older={16: _renamed}, flags=("align_corners",))
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
        reflections = np.floor(apart / span)
        rest = apart - reflections * span
        at = np.where(reflections % 2 == 0, low + rest, high - rest)
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
            self.nodes.append(constant_scalar(self.numbers[value], value))
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
            reflections = self.emit("Floor", self.emit("Div", apart, span))
            rest = self.emit("Sub", apart, self.emit("Mul", reflections, span))
            half = self.emit("Div", reflections, self.number(2.0))
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
        """Emit the offset of a place's row from the row of place 0."""
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


# Resize: per axis, source positions and weights, as a table with a row per new and a column per old element.

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"
TANGENT = -0.75
"""ONNX's default of `cubic_coeff_a`."""


@dataclass(frozen=True)
class Axis:
    """An axis of `size` elements that becomes `result` long, by the factor `scale`; `crop` is its part of `roi`."""

    size: int
    result: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.size == self.result and self.scale == 1


@dataclass(frozen=True)
class ResizeOptions:
    """Interpolation options, from ONNX's attributes."""

    mode: str
    place: str
    rounding: str
    tangent: float = TANGENT
    antialias: bool = False
    exclude_outside: bool = False


def _half_pixel(axis: Axis, new: Array) -> Array:
    return np.asarray((new + 0.5) / axis.scale - 0.5)


def _symmetric(axis: Axis, new: Array) -> Array:
    """Half pixels, so that what a length was rounded off by is left out on both sides."""
    adjusted = axis.result / (axis.scale * axis.size)
    return np.asarray(axis.size / 2 * (1 - adjusted) + _half_pixel(axis, new))


def _align_corners(axis: Axis, new: Array) -> Array:
    return np.asarray(new * ((axis.size - 1) / (axis.result - 1)) if axis.result > 1 else new * 0)


def _cropped(axis: Axis, new: Array) -> Array:
    first, last = (side * (axis.size - 1) for side in axis.crop)
    if axis.result == 1:
        return np.asarray(new * 0 + (first + last) / 2)
    return np.asarray(first + new * ((last - first) / (axis.result - 1)))


PLACES: dict[str, Callable[[Axis, Array], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, new: _half_pixel(axis, new) if axis.result > 1 else np.asarray(new * 0),
    "align_corners": _align_corners,
    "asymmetric": lambda axis, new: np.asarray(new / axis.scale),
    "tf_half_pixel_for_nn": lambda axis, new: np.asarray((new + 0.5) / axis.scale),
    "tf_crop_and_resize": _cropped,
}
"""The place among the old elements of each new one, by `coordinate_transformation_mode`."""
OUTSIDE = "tf_crop_and_resize"
"""The one in which places beyond the old elements have a value of their own."""
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.asarray(np.ceil(at - 0.5)),
    "round_prefer_ceil": lambda at: np.asarray(np.floor(at + 0.5)),
}
"""The element nearest to a place, by `nearest_mode`."""


def _triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - distance, 0))


def _keys(a: float) -> Callable[[Array], Array]:
    """Keys' cubic kernel: pieces of third degree that meet with the slope `a` at distance 1."""

    def share(distance: Array) -> Array:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))

    return share


def places(axis: Axis, options: ResizeOptions) -> Array:
    """The place of each new element among the old ones."""
    return PLACES[options.place](axis, np.arange(axis.result, dtype=np.float64))


def nearest(axis: Axis, options: ResizeOptions) -> Array:
    """The old element that each new one is."""
    at = ROUNDINGS[options.rounding](places(axis, options))
    return np.asarray(np.clip(at, 0, axis.size - 1).astype(np.int64))


def shares(axis: Axis, options: ResizeOptions) -> Array:
    """The table of shares, [result, size] in float32; rows add up to 1, or are 0 for places outside of a crop.

    Places beyond the ends are the first or last element, or, with `exclude_outside`, none. With `antialias` an axis
    that becomes shorter is made of as many times more elements.
    """
    at = places(axis, options)
    table = np.zeros((axis.result, axis.size))
    if options.mode == NEAREST:
        table[np.arange(axis.result), nearest(axis, options)] = 1
    else:
        reach, share = (1, _triangle) if options.mode == LINEAR else (2, _keys(options.tangent))
        narrow = min(axis.scale, 1.0) if options.antialias else 1.0
        first = int(np.floor(-reach / narrow)) + 1
        low = np.floor(at)
        for tap in range(first, 2 - first):
            index = low + tap
            weights = share(np.abs(index - at) * narrow)
            if options.exclude_outside:
                weights = np.where((index >= 0) & (index < axis.size), weights, 0.0)
            places_of = np.clip(index, 0, axis.size - 1).astype(np.int64)
            np.add.at(table, (np.arange(axis.result), places_of), weights)
        table /= table.sum(1, keepdims=True)
    if options.place == OUTSIDE:
        table[(at < 0) | (at > axis.size - 1)] = 0
    return np.asarray(table, np.float32)


ENDS = "align_corners"
"""The place for which ONNX Runtime takes the length as rounded, and ONNX's reference evaluator as it was."""
POLICIES = {"segment": None, "not_larger": min, "not_smaller": max}
"""Which of the scales of several axes holds for all of them."""


@register
class Resize(Operator):
    """Axes of other lengths, by the nearest elements or by products with a table of shares for each axis.

    Nearest elements are an Expand where each is repeated as often, else a Gather; others are a MatMul per axis.
    """

    name = "Resize"
    file = FileSpec(
        versions=(11, 13, 18, 19),
        flags=("antialias", "exclude_outside"),
        static_inputs={1: "roi", 2: "scales", 3: "sizes"},
    )
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each length times its scale, or the sizes."""
        x = operands(node, inputs, 1)[0]
        _options(node)
        shape = tuple(axis.result for axis in _axes(node, x))
        if min(shape, default=1) < 1:
            raise mismatch(node, f"it becomes {list(shape)}", inputs)
        for axis in _axes(node, x):
            check_elements(node, "the shares of an axis", (axis.result, axis.size))
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Axis by axis the elements, or the sums of shares of them."""
        x = arrays(inputs, 1)[0]
        options = _options(node)
        for number, axis in enumerate(_axes(node, TensorType("float32", x.shape))):
            if options.mode == NEAREST and options.place != OUTSIDE:
                x = x.take(nearest(axis, options), number)
            elif not axis.is_same:
                table = shares(axis, options).astype(x.dtype)
                x = np.moveaxis(np.tensordot(x, table, ((number,), (1,))), -1, number)
        return (np.ascontiguousarray(x),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Whole numbers of equal elements are repeated; else an axis at a time, from the first."""
        x = operands(node, inputs, 1)[0]
        options, axes = _options(node), _axes(node, x)
        if options.mode == NEAREST and all(_repeats(axis, options) for axis in axes):
            return _repeated(node, x.shape, [axis.result // axis.size for axis in axes])
        shape, source, nodes = list(x.shape), node.inputs[0], list[Node]()
        for number, axis in enumerate(axes):
            if axis.is_same:
                continue
            before, behind = math.prod(shape[:number]), math.prod(shape[number + 1 :])
            shape[number] = axis.result
            label = f"{node.name}/axis{number}"
            nodes.append(Node(label, "Reshape", (source,), (label,), {"shape": (before, axis.size, behind)}))
            exact = options.mode == NEAREST and options.place != OUTSIDE
            nodes += _gathered(label, axis, options) if exact else _mixed(label, axis, options)
            source = f"{label}_y"
        return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]


def _repeats(axis: Axis, options: ResizeOptions) -> bool:
    """Whether each old element is as many new ones, one after the other."""
    times, rest = divmod(axis.result, axis.size)
    return not rest and bool((nearest(axis, options) == np.arange(axis.result) // times).all())


def _repeated(node: Node, lengths: Sequence[int], times: Sequence[int]) -> list[Node]:
    """Each element as an image of one, which Expand repeats, an axis at a time but for the last two."""
    shape, source, nodes = list(lengths), node.inputs[0], []
    outer = max(len(shape) - 2, 0)
    groups = [*((axis,) for axis in range(outer)), tuple(range(outer, len(shape)))]
    for group in groups:
        if all(times[axis] == 1 for axis in group):
            continue
        before, behind = math.prod(shape[: group[0]]), math.prod(shape[group[-1] + 1 :])
        pixels, target = [before], [before]
        for axis in group:
            pixels += [shape[axis], 1]
            target += [shape[axis], times[axis]]
            shape[axis] *= times[axis]
        label = f"{node.name}/axis{group[0]}"
        view, repeated = f"{label}_pixels", f"{label}_repeated"
        nodes.append(Node(view, "Reshape", (source,), (view,), {"shape": (*pixels, behind)}))
        nodes.append(Node(repeated, "Expand", (view,), (repeated,), {"shape": (*target, behind)}))
        source = repeated
    return [*nodes, Node(node.name, "Reshape", (source,), node.outputs, {"shape": tuple(shape)})]


def _gathered(label: str, axis: Axis, options: ResizeOptions) -> list[Node]:
    """The nearest elements of the axis in the middle."""
    ids, result = f"{label}_ids", f"{label}_y"
    chosen = tuple(map(int, nearest(axis, options)))
    return [
        Node(ids, "Constant", (), (ids,), {"value_ints": chosen}),
        Node(result, "Gather", (label, ids), (result,), {"axis": 1}),
    ]


def _mixed(label: str, axis: Axis, options: ResizeOptions) -> list[Node]:
    """The sums of shares of the elements of the axis in the middle."""
    numbers, table, result = (f"{label}_{suffix}" for suffix in ("numbers", "shares", "y"))
    values = tuple(map(float, shares(axis, options).reshape(-1)))
    return [
        Node(numbers, "Constant", (), (numbers,), {"value_floats": values}),
        Node(table, "Reshape", (numbers,), (table,), {"shape": (axis.result, axis.size)}),
        Node(result, "MatMul", (table, label), (result,)),
    ]


def _options(node: Node) -> ResizeOptions:
    """The node's attributes; UnsupportedOperator for a value that ONNX does not have, or that has no table."""
    options = ResizeOptions(
        node.attr_str("mode", NEAREST),
        node.attr_str("coordinate_transformation_mode", "half_pixel"),
        node.attr_str("nearest_mode", "round_prefer_floor"),
        node.attr_float("cubic_coeff_a", TANGENT),
        bool(node.attr_int("antialias", 0)),
        bool(node.attr_int("exclude_outside", 0)),
    )
    for value, known in (
        (options.mode, (NEAREST, LINEAR, CUBIC)),
        (options.place, PLACES),
        (options.rounding, ROUNDINGS),
    ):
        if value not in known:
            raise unsupported(node, f"there is no mode {value!r}", f"one of {', '.join(known)}")
    if options.antialias and options.mode == NEAREST:
        raise unsupported(node, "antialias has no meaning for nearest elements", f"mode {LINEAR} or {CUBIC}")
    if options.exclude_outside and options.mode != CUBIC:
        raise unsupported(node, "exclude_outside has a meaning for cubic shares alone", f"mode {CUBIC}")
    if options.place == OUTSIDE and node.attr_float("extrapolation_value", 0.0) != 0:
        raise unsupported(node, f"extrapolation_value is {node.attrs['extrapolation_value']}", "0")
    return options


def _axes(node: Node, x: TensorType) -> tuple[Axis, ...]:
    """Return the resampling of each axis of X; raise ShapeMismatch or UnsupportedOperator if it is unspecified."""
    rank = len(x.shape)
    named = node.attr_ints("axes", tuple(range(rank)))
    normalized_axes(node, named, rank, (x,))
    chosen = [axis % rank for axis in named]
    if ("scales" in node.attrs) == ("sizes" in node.attrs):
        raise unsupported(node, "there are no constant scales or sizes, or both", "one of both as a constant")
    given = _numbers(node, "scales" if "scales" in node.attrs else "sizes")
    roi = _numbers(node, "roi") or (*(0.0,) * len(chosen), *(1.0,) * len(chosen))
    if len(given) != len(chosen) or len(roi) != 2 * len(chosen):
        raise mismatch(node, f"{given} and roi {roi} are not of {len(chosen)} axes", (x,))
    if min(given, default=1) <= 0:
        raise mismatch(node, f"scales or sizes {given} are not positive", (x,))
    axes = [Axis(n, n, 1.0) for n in x.shape]
    place = node.attr_str("coordinate_transformation_mode", "")
    policy = node.attr_str("keep_aspect_ratio_policy", "segment")
    if policy not in POLICIES:
        raise unsupported(node, f"there is no policy {policy!r}", f"one of {', '.join(POLICIES)}")
    choice = POLICIES[policy]
    shared = choice(size / x.shape[a] for a, size in zip(chosen, given, strict=True)) if choice else 0.0
    for position, number in enumerate(chosen):
        size, value = x.shape[number], given[position]
        if "scales" in node.attrs:
            result, scale = math.floor(np.float32(size) * np.float32(value)), value
            if place == ENDS and result != np.float32(size) * np.float32(value):
                why = f"scale {value} of {size} elements is not a length, which {ENDS} needs"
                raise unsupported(node, why, "sizes, or scales that give whole numbers")
        elif choice:
            result, scale = math.floor(size * shared + 0.5), shared
        else:
            result, scale = int(value), value / size
        axes[number] = Axis(size, result, scale, (roi[position], roi[len(chosen) + position]))
    return tuple(axes)


def _numbers(node: Node, name: str) -> tuple[float, ...]:
    """An attribute of one number or of several."""
    value = node.attrs.get(name, ())
    return tuple(float(v) for v in (value if isinstance(value, tuple) else (value,)) if not isinstance(v, str))
