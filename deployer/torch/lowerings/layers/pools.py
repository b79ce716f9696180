"""Maxima and means of windows over one, two or three axes behind batch and channels, and their gradients."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.layers.windows import each, window_count
from deployer.torch.lowerings.places.indexing import rows_of


@dataclass(frozen=True)
class Windows:
    """Windows over the last axes of a tensor: of so many elements, at steps, `gaps` apart, with padding around."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    gaps: tuple[int, ...]
    ceil: bool

    @property
    def places(self) -> tuple[int, ...]:
        """Lengths of the axes that the windows are over."""
        return self.shape[-len(self.kernel) :]

    @property
    def batched(self) -> tuple[int, ...]:
        """The shape with an axis of samples."""
        return self.shape if len(self.shape) == len(self.kernel) + 2 else (1, *self.shape)

    @property
    def counts(self) -> tuple[int, ...]:
        """Windows along each axis."""
        rows = zip(self.places, self.kernel, self.stride, self.pad, self.gaps, strict=True)
        return tuple(window_count(s, k, t, (p, p), d, self.ceil) for s, k, t, p, d in rows)

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of what there is one of for each window."""
        return (*self.shape[: -len(self.kernel)], *self.counts)

    def attributes(self) -> dict[str, Any]:
        """Those of ONNX's pools."""
        gaps = None if set(self.gaps) == {1} else list(self.gaps)
        pads, steps = [*self.pad, *self.pad], list(self.stride)
        return {"kernel_shape": list(self.kernel), "strides": steps, "pads": pads, "dilations": gaps,
                "ceil_mode": int(self.ceil)}  # fmt: skip

    def taps(self) -> tuple[Array, Array]:
        """For each window and each of its elements the number of the place, and whether it is inside."""
        rows = [
            np.arange(n).reshape(-1, 1) * t - p + np.arange(k) * d
            for n, k, t, p, d in zip(self.counts, self.kernel, self.stride, self.pad, self.gaps, strict=True)
        ]
        return _taps(self.places, rows, [(at >= 0) & (at < n) for at, n in zip(rows, self.places, strict=True)])


def _taps(places: Sequence[int], rows: Sequence[Array], inside: Sequence[Array]) -> tuple[Array, Array]:
    """The places [windows, elements] of all axes together, from those of each axis."""
    n = len(rows)
    number, within = np.zeros((1,) * 2 * n, np.int64), np.ones((1,) * 2 * n, bool)
    for axis, (at, is_inside) in enumerate(zip(rows, inside, strict=True)):
        shape = [1] * 2 * n
        shape[axis], shape[n + axis] = at.shape
        number = number + np.where(is_inside, at, 0).reshape(shape) * math.prod(places[axis + 1 :])
        within = within & is_inside.reshape(shape)
    count = math.prod(at.shape[0] for at in rows)
    return number.reshape(count, -1), within.reshape(count, -1)


def windows_of(
    x: Value, n: int, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Windows:
    """The windows that PyTorch's arguments say; without a stride they lie side by side."""
    kernels = tuple(each(kernel, n))
    steps = tuple(each(stride, n)) if stride not in (None, [], ()) else kernels
    return Windows(x.shape, kernels, steps, tuple(each(padding, n)), tuple(each(dilation, n)), ceil)


def _axes(g: GraphBuilder) -> int:
    """The number of axes that the operator's name says."""
    return int(next(c for c in g.operator if c in "123" and f"{c}d" in g.operator))


def largest_of(g: GraphBuilder, x: Value, w: Windows) -> Value:
    """The maximum of each window."""
    batched = g.reshape(x, w.batched)
    y = g.emit("MaxPool", [batched], (*w.batched[:2], *w.counts), **w.attributes())
    return g.reshape(y, w.result)


def positions(
    g: GraphBuilder, x: Value, shape: tuple[int, ...], n: int, taps: tuple[Array, Array]
) -> tuple[Value, Value]:
    """The maximum of each of several lists of places, and the place where it is, of several the first."""
    number, inside = taps
    flat = g.reshape(x, (*x.shape[: x.rank - n], math.prod(x.shape[x.rank - n :])))
    values = rows_of(g, flat, g.constant(number, "int64"), flat.rank - 1)
    values = values if inside.all() else g.choose(inside, values, -np.inf)
    at = g.emit("ArgMax", [values], values.shape[:-1], "int64", axis=values.rank - 1, keepdims=0)
    first = np.arange(len(number)) * number.shape[1]
    table = g.constant(number.reshape(-1), "int64")
    place = rows_of(g, table, g.binary("Add", at, first), 0)
    return g.reshape(g.reduce("ReduceMax", values, [-1], False), shape), g.reshape(place, shape)


@lowers("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(g: GraphBuilder, x: Value, *args: Any) -> Value:
    """The maximum of each window."""
    return largest_of(g, x, windows_of(x, _axes(g), *args))


@lowers("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(g: GraphBuilder, x: Value, *args: Any) -> tuple[Value, Value]:
    """The maximum of each window, and where it is, of several the first."""
    n = _axes(g)
    w = windows_of(x, n, *args)
    return largest_of(g, x, w), positions(g, x, w.result, n, w.taps())[1]


@lowers("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(g: GraphBuilder, dy: Value, x: Value, *args: Any) -> Value:
    """Route the arriving gradient to the first maximum of its window."""
    w = windows_of(x, _axes(g), *args[:-1])
    arriving = g.reshape(dy, (*w.batched[:2], *w.counts))
    [dx] = g.backward("MaxPool", [g.reshape(x, w.batched)], [None], [arriving], [0], **w.attributes())
    assert dx is not None
    return g.reshape(dx, x.shape)


@dataclass(frozen=True)
class MeanPool:
    """Means of windows over zero-padded input, times a factor.

    `inside` says that padding does not count, `whole` that no window hangs over what has zeros around.
    """

    windows: Windows
    around: tuple[tuple[int, int], ...]
    factor: float
    inside: bool
    whole: bool = False

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape with zeros around."""
        w = self.windows
        sizes = [a + n + b for n, (a, b) in zip(w.places, self.around, strict=True)]
        return (*w.batched[:2], *sizes)

    def attributes(self) -> dict[str, Any]:
        """Those of ONNX's operator."""
        found = self.windows.attributes() | {"count_include_pad": int(not self.inside)}
        del found["dilations"]
        if any(map(sum, self.around)):
            found |= {"pads": [0] * len(found["pads"])}
        return found | {"ceil_mode": 0} if self.whole else found


def _mean(x: Value, n: int, args: Sequence[Any]) -> MeanPool:
    """The means that PyTorch's arguments say: kernel, stride, padding, ceil, count_include_pad, divisor."""
    usual: tuple[Any, ...] = (None, None, 0, False, True, None)
    kernel, stride, padding, ceil, counts, divisor = [*args, *usual[len(args) :]]
    w = windows_of(x, n, kernel, stride, padding, 1, ceil)
    none = ((0, 0),) * n
    if divisor is None and not (ceil and counts and any(w.pad)):
        return MeanPool(w, none, 1.0, not counts or not any(w.pad))
    ends = [
        (p, p if divisor is None else max((c - 1) * t + k - s - p, 0))
        for s, k, t, p, c in zip(w.places, w.kernel, w.stride, w.pad, w.counts, strict=True)
    ]
    if divisor is None:
        return MeanPool(w, tuple(ends), 1.0, True)
    return MeanPool(w, tuple(ends), math.prod(w.kernel) / divisor, True, True)


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(g: GraphBuilder, x: Value, *args: Any) -> Value:
    """The mean of each window."""
    mean = _mean(x, _axes(g), args)
    w = mean.windows
    batched = g.reshape(x, w.batched)
    if any(map(sum, mean.around)):
        pads = [0, 0, *(a for a, _ in mean.around), 0, 0, *(b for _, b in mean.around)]
        batched = g.emit("Pad", [batched, g.ints(pads), g.constant(0.0)], mean.padded)
    y = g.emit("AveragePool", [batched], (*w.batched[:2], *w.counts), **mean.attributes())
    y = y if mean.factor == 1 else g.binary("Mul", y, mean.factor)
    return g.reshape(y, w.result)


@lowers("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(g: GraphBuilder, dy: Value, x: Value, *args: Any) -> Value:
    """The arriving gradient over the count, to each element of its window."""
    mean = _mean(x, _axes(g), args)
    w = mean.windows
    arriving = g.reshape(dy, (*w.batched[:2], *w.counts))
    arriving = arriving if mean.factor == 1 else g.binary("Mul", arriving, mean.factor)
    source = placeholder(g, mean.padded)
    [dx] = g.backward("AveragePool", [source], [None], [arriving], [0], **mean.attributes())
    assert dx is not None
    for axis, ((before, _), size) in enumerate(zip(mean.around, w.places, strict=True)):
        dx = g.slice(dx, axis + 2, before, before + size)
    return g.reshape(dx, x.shape)


def placeholder(g: GraphBuilder, shape: Sequence[int]) -> Value:
    """A tensor of which a gradient rule reads the shape alone."""
    value = Value(g.fresh("shaped"), tuple(shape))
    g.types[value.name] = TensorType("float32", value.shape)
    return value


def _windows(size: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of so many parts of an axis, which may overlap by one."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_sizes(x: Value, size: Any, n: int) -> tuple[int, ...]:
    return tuple(s if o is None else o for s, o in zip(x.shape[x.rank - n :], each(size, n), strict=True))


def _even(x: Value, sizes: Sequence[int]) -> Windows | None:
    """The windows of parts that are equal, if they are."""
    n = len(sizes)
    places = x.shape[x.rank - n :]
    if any(s % o for s, o in zip(places, sizes, strict=True)):
        return None
    kernel = tuple(s // o for s, o in zip(places, sizes, strict=True))
    return Windows(x.shape, kernel, kernel, (0,) * n, (1,) * n, False)


def _shares(size: int, count: int) -> Array:
    """The share [parts, elements] of each element of an axis in the means of its parts."""
    shares = np.zeros((count, size))
    for row, (begin, end) in enumerate(_windows(size, count)):
        shares[row, begin:end] = 1 / (end - begin)
    return shares


def _along_axis(g: GraphBuilder, x: Value, axis: int, matrix: Array) -> Value:
    """Products of a known matrix with the lines along an axis."""
    order = [*(a for a in range(x.rank) if a != axis), axis]
    moved = g.transpose(x, order)
    shape = (*moved.shape[:-1], matrix.shape[0])
    rows = g.reshape(moved, (math.prod(shape[:-1]), moved.shape[-1]))
    product = g.emit("Gemm", [rows, matrix], (rows.shape[0], matrix.shape[0]), transB=1)
    return g.transpose(g.reshape(product, shape), [int(a) for a in np.argsort(order)])


@lowers("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d")  # fmt: skip
def adaptive_avg_pool(g: GraphBuilder, x: Value, size: Any) -> Value:
    """The mean of so many parts along each axis."""
    n = _axes(g)
    sizes = _adaptive_sizes(x, size, n)
    w = _even(x, sizes)
    if w is None:
        for axis, (count, length) in enumerate(zip(sizes, x.shape[x.rank - n :], strict=True), x.rank - n):
            x = x if count == length else _along_axis(g, x, axis, _shares(length, count))
        return x
    if set(w.kernel) == {1}:
        return x
    op, attrs = ("GlobalAveragePool", {}) if set(sizes) == {1} else ("AveragePool", _plain(w))
    return g.reshape(g.emit(op, [g.reshape(x, w.batched)], (*w.batched[:2], *sizes), **attrs), w.result)


def _plain(w: Windows) -> dict[str, Any]:
    return {"kernel_shape": list(w.kernel), "strides": list(w.stride)}


@lowers("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_mean_backward(g: GraphBuilder, dy: Value, x: Value) -> Value:
    """The arriving gradient over the count, to each element of its part."""
    n = _axes(g)
    sizes = dy.shape[dy.rank - n :]
    w = _even(x, sizes)
    if w is None:
        for axis, (count, length) in enumerate(zip(sizes, x.shape[x.rank - n :], strict=True), x.rank - n):
            dy = dy if count == length else _along_axis(g, dy, axis, _shares(length, count).T)
        return dy
    if set(w.kernel) == {1}:
        return dy
    op, attrs = ("GlobalAveragePool", {}) if set(sizes) == {1} else ("AveragePool", _plain(w))
    source, arriving = placeholder(g, w.batched), g.reshape(dy, (*w.batched[:2], *sizes))
    [dx] = g.backward(op, [source], [None], [arriving], [0], **attrs)
    assert dx is not None
    return g.reshape(dx, x.shape)


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(g: GraphBuilder, x: Value, size: Any) -> tuple[Value, Value]:
    """The maximum of so many parts along each axis, and where it is."""
    n = _axes(g)
    sizes = _adaptive_sizes(x, size, n)
    shape, w = (*x.shape[: x.rank - n], *sizes), _even(x, sizes)
    value, place = positions(g, x, shape, n, _adaptive_taps(x.shape[x.rank - n :], sizes))
    if w is None:
        return value, place
    if set(sizes) == {1}:
        largest = g.emit("GlobalMaxPool", [g.reshape(x, w.batched)], (*w.batched[:2], *sizes))
        return g.reshape(largest, shape), place
    return largest_of(g, x, w), place


def _adaptive_taps(places: Sequence[int], sizes: Sequence[int]) -> tuple[Array, Array]:
    rows, inside = [], []
    for size, count in zip(places, sizes, strict=True):
        windows = _windows(size, count)
        most = max(end - begin for begin, end in windows)
        at = np.array([begin for begin, _ in windows]).reshape(-1, 1) + np.arange(most)
        rows.append(at)
        inside.append(at < np.array([end for _, end in windows]).reshape(-1, 1))
    return _taps(places, rows, inside)


@lowers("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def adaptive_max_backward(g: GraphBuilder, dy: Value, x: Value, place: Value) -> Value:
    """Route the arriving gradient to the place of each maximum."""
    n = _axes(g)
    w = _even(x, dy.shape[dy.rank - n :])
    if w is not None:
        arriving = g.reshape(dy, (*w.batched[:2], *w.counts))
        [dx] = g.backward("MaxPool", [g.reshape(x, w.batched)], [None], [arriving], [0], **w.attributes())
        assert dx is not None
        return g.reshape(dx, x.shape)
    return put_in_places(g, dy, place, x.shape, n)


def put_in_places(g: GraphBuilder, dy: Value, place: Operand, shape: tuple[int, ...], n: int) -> Value:
    """The arriving gradient, added up in the places of the last axes that numbers say."""
    lines, count = math.prod(shape[: len(shape) - n]), math.prod(dy.shape[dy.rank - n :])
    size = (lines, math.prod(shape[len(shape) - n :]))
    rows = g.reshape(g.cast(place, "int64"), (lines, count))
    put = g.emit("GatherElementsGrad", [g.reshape(dy, (lines, count)), g.ints(size), rows], size, axis=1)
    return g.reshape(put, shape)
