"""Lowerings of operators that change shapes, and of pads."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.operators.movement.padding import SOURCES
from deployer.torch.graph import GraphBuilder, Operand, Value, common_dtype, dtype_of, lowers
from deployer.torch.lowerings.places.indexing import rows_added, rows_of

# Operators that move elements: other shapes, orders, parts and copies.


@lowers("contiguous", "clone", "alias", "lift_fresh", "lift_fresh_copy", "detach", "detach_copy", "identity")
def same(g: GraphBuilder, x: Value, *args: Any, **options: Any) -> Value:
    """x itself: only the layout in memory differs, of which ONNX knows nothing."""
    return x


@lowers("to", "_to_copy", "type_as", "view_dtype")
def converted(g: GraphBuilder, x: Value, *args: Any, **options: Any) -> Value:
    """x in the dtype that is asked for; all floats are one here."""
    wanted = next((a for a in (*args, *options.values()) if isinstance(a, torch.dtype)), None)
    if wanted is None:
        return x
    if wanted.is_complex:
        raise g.refusal(f"it turns {x.dtype} into {wanted}", "real numbers")
    return g.cast(x, "float32" if wanted.is_floating_point else "bool" if wanted is torch.bool else "int64")


@lowers("view_as_real")
def view_as_real(g: GraphBuilder, x: Operand) -> Operand:
    """Both parts of complex numbers that are known; others are pairs by then (tracing/complex_numbers.py)."""
    if isinstance(x, Value):
        raise g.refusal("it is of complex numbers that are computed", "real and imaginary parts")
    numbers = np.asarray(x)
    return np.stack((numbers.real, numbers.imag), -1)


@lowers("view", "reshape", "_unsafe_view", "view_copy")
def view(g: GraphBuilder, x: Value, shape: Sequence[int]) -> Value:
    """Another shape, one axis of which may be -1."""
    known = math.prod(n for n in shape if n != -1)
    return g.reshape(x, [math.prod(x.shape) // known if n == -1 else n for n in shape])


@lowers("flatten")
def flatten(g: GraphBuilder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """Axes start to end as one."""
    begin, end = x.axis(start_dim), x.axis(end_dim) + 1
    return g.reshape(x, (*x.shape[:begin], math.prod(x.shape[begin:end]), *x.shape[end:]))


@lowers("unflatten")
def unflatten(g: GraphBuilder, x: Value, dim: int, sizes: Sequence[int]) -> Value:
    """An axis as several."""
    axis = x.axis(dim)
    known = math.prod(n for n in sizes if n != -1)
    dims = [x.shape[axis] // known if n == -1 else n for n in sizes]
    return g.reshape(x, (*x.shape[:axis], *dims, *x.shape[axis + 1 :]))


@lowers("unsqueeze")
def unsqueeze(g: GraphBuilder, x: Value, dim: int) -> Value:
    """An axis of one element more."""
    axis = dim % (x.rank + 1)
    return g.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@lowers("squeeze")
def squeeze(g: GraphBuilder, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    """Without axes of one element: all of them, or those of `dim` that are."""
    dims = range(x.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {x.axis(a) for a in dims}
    return g.reshape(x, [n for a, n in enumerate(x.shape) if a not in gone or n != 1])


@lowers("permute", "permute_copy")
def permute(g: GraphBuilder, x: Value, dims: Sequence[int]) -> Value:
    """The axes in another order."""
    return g.transpose(x, [x.axis(a) for a in dims])


@lowers("transpose")
def transpose(g: GraphBuilder, x: Value, dim0: int, dim1: int) -> Value:
    """Two axes exchanged."""
    order = list(range(x.rank))
    if order:
        a, b = x.axis(dim0), x.axis(dim1)
        order[a], order[b] = b, a
    return g.transpose(x, order)


@lowers("t", "numpy_T", "mT")
def matrix_transpose(g: GraphBuilder, x: Value) -> Value:
    """The last two axes exchanged."""
    return x if x.rank < 2 else transpose(g, x, -1, -2)


@lowers("movedim")
def movedim(g: GraphBuilder, x: Value, source: int, destination: int) -> Value:
    """One axis at another place."""
    order = [a for a in range(x.rank) if a != x.axis(source)]
    order.insert(x.axis(destination), x.axis(source))
    return g.transpose(x, order)


@lowers("expand", "expand_copy")
def expand(g: GraphBuilder, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    """Axes of one element repeated."""
    padded = (*[1] * (len(sizes) - x.rank), *x.shape)
    return g.expand(x, [n if s == -1 else s for s, n in zip(sizes, padded, strict=True)])


@lowers("copy")
def copy(g: GraphBuilder, x: Value, source: Operand, non_blocking: bool = False) -> Value:
    """The source in the shape of x, whose elements it replaces."""
    return g.cast(g.expand(g.value(source), x.shape), x.dtype)


@lowers("_assert_tensor_metadata")
def asserted(g: GraphBuilder, *args: Any, **options: Any) -> None:
    """Nothing: shapes and dtypes are checked while the graph is walked."""


@lowers("repeat")
def repeat(g: GraphBuilder, x: Value, repeats: Sequence[int]) -> Value:
    """Copies of x beside each other along each axis."""
    x = g.reshape(x, (*[1] * (len(repeats) - x.rank), *x.shape))
    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    return g.emit("Tile", [x, g.ints(repeats)], shape, x.dtype)


@lowers("cat", "concat", "concatenate")
def cat(g: GraphBuilder, tensors: Sequence[Operand], dim: int = 0) -> Value:
    """Tensors one behind the other; those of one axis without elements do not count."""
    common = common_dtype({dtype_of(x) for x in tensors})
    values = [g.cast(x, common) for x in tensors]
    values = [x for x in values if x.shape != (0,)] or values[:1]
    axis = values[0].axis(dim)
    return g.concat([x for x in values if x.shape[axis]] or values[:1], axis)


@lowers("stack")
def stack(g: GraphBuilder, tensors: Sequence[Operand], dim: int = 0) -> Value:
    """Tensors one behind the other along a new axis."""
    values = [g.value(x) for x in tensors]
    axis = dim % (values[0].rank + 1)
    return g.concat([unsqueeze(g, x, axis) for x in values], axis)


def pieces(g: GraphBuilder, x: Value, sizes: Sequence[int], axis: int) -> tuple[Value, ...]:
    """Parts of these sizes along an axis."""
    slices, begin = [], 0
    for size in sizes:
        slices.append(g.slice(x, axis, begin, begin + size))
        begin += size
    return tuple(slices)


@lowers("split", "split_with_sizes", "split_copy", "split_with_sizes_copy")
def split(g: GraphBuilder, x: Value, size: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    """Parts of one size, the last of what is left, or of the sizes given."""
    axis = x.axis(dim)
    total = x.shape[axis]
    sizes = [min(size, total - at) for at in range(0, total, size)] if isinstance(size, int) else size
    return pieces(g, x, sizes, axis)


@lowers("unbind", "unbind_copy")
def unbind(g: GraphBuilder, x: Value, dim: int = 0) -> tuple[Value, ...]:
    """Each place along an axis by itself."""
    return tuple(select(g, x, dim, i) for i in range(x.shape[x.axis(dim)]))


@lowers("select", "select_copy")
def select(g: GraphBuilder, x: Value, dim: int, index: int) -> Value:
    """One place along an axis, which goes."""
    axis = x.axis(dim)
    at = index % x.shape[axis]
    return g.reshape(g.slice(x, axis, at, at + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


@lowers("slice", "slice_copy")
def slice_(
    g: GraphBuilder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """Places start, start + step, ... below end along an axis."""
    axis = x.axis(dim)
    begin, stop, _ = slice(start, end).indices(x.shape[axis])
    return g.slice(x, axis, begin, max(begin, stop), step)


@lowers("narrow")
def narrow(g: GraphBuilder, x: Value, dim: int, start: int, length: int) -> Value:
    """`length` places from `start` on along an axis."""
    return slice_(g, x, dim, start, start + length)


@lowers("select_scatter")
def select_scatter(g: GraphBuilder, x: Value, src: Value, dim: int, index: int) -> Value:
    """x with one place along an axis replaced."""
    axis = x.axis(dim)
    at = index % x.shape[axis]
    return placed(g, x, g.reshape(src, (*x.shape[:axis], 1, *x.shape[axis + 1 :])), axis, range(at, at + 1))


@lowers("slice_scatter")
def slice_scatter(
    g: GraphBuilder,
    x: Value,
    src: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """x with places along an axis replaced."""
    axis = x.axis(dim)
    return placed(g, x, src, axis, range(*slice(start, end, step).indices(x.shape[axis])))


def placed(g: GraphBuilder, x: Value, src: Value, axis: int, chosen: range) -> Value:
    """x with a part in some of its places along an axis."""
    size = x.shape[axis]
    src = g.cast(src, x.dtype)
    if len(chosen) == size:
        return src
    if not chosen:
        return x
    known = g.known(x)
    if known is not None and not known.any() and x.dtype == "float32":
        return _among_zeros(g, src, x.shape, axis, chosen)
    if chosen.step != 1:
        numbers = np.arange(size)
        numbers[chosen] = size + np.arange(len(chosen))
        both = g.concat([x, src], axis)
        return g.emit("Gather", [both, g.constant(numbers, "int64")], x.shape, x.dtype, axis=axis)
    begin, stop = chosen[0], chosen[-1] + 1
    front, behind = [g.slice(x, axis, 0, begin)] if begin else [], [g.slice(x, axis, stop, size)] if stop < size else []
    return g.concat([*front, src, *behind], axis)


def _among_zeros(g: GraphBuilder, src: Value, shape: Sequence[int], axis: int, chosen: range) -> Value:
    """A part in some places along an axis, and zeros in the others: the gradient of a slice."""
    whole = Value(g.fresh("whole"), tuple(shape))
    g.types[whole.name] = TensorType("float32", whole.shape)
    bounds = [g.ints([n]) for n in (chosen[0], chosen[-1] + 1, axis, chosen.step)]
    [dx] = g.backward("Slice", [whole, *bounds], [None], [src], [0])
    assert dx is not None
    return dx


@lowers("select_backward")
def select_backward(g: GraphBuilder, dy: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    """Upstream gradient at one index of an axis, and zeros elsewhere."""
    return select_scatter(g, g.constant(np.zeros(tuple(sizes))), dy, dim, index)


@lowers("slice_backward")
def slice_backward(
    g: GraphBuilder, dy: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    """Upstream gradient in a slice of an axis, and zeros elsewhere."""
    return slice_scatter(g, g.constant(np.zeros(tuple(sizes))), dy, dim, start, end, step)


@lowers("roll")
def roll(g: GraphBuilder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """Places moved along axes; what leaves at the end comes in at the front."""
    if not dims:
        return g.reshape(roll(g, g.reshape(x, (math.prod(x.shape),)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = x.axis(dim)
        size = x.shape[axis]
        at = -shift % size
        if at:
            x = g.concat([g.slice(x, axis, at, size), g.slice(x, axis, 0, at)], axis)
    return x


@lowers("pixel_shuffle")
def pixel_shuffle(g: GraphBuilder, x: Value, factor: int) -> Value:
    """Channels as finer places of an image."""
    *batch, channels, height, width = x.shape
    c, n, r = channels // factor**2, len(batch), factor
    split_up = g.reshape(x, (*batch, c, r, r, height, width))
    moved = g.transpose(split_up, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return g.reshape(moved, (*batch, c, height * r, width * r))


@lowers("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(g: GraphBuilder, x: Value, groups: int) -> Value:
    """Channels of the groups in turn."""
    n, c, *places = x.shape
    grouped = g.reshape(x, (n, groups, c // groups, *places))
    return g.reshape(g.transpose(grouped, (0, 2, 1, *range(3, grouped.rank))), x.shape)


# Padding by a constant or by elements of the tensor, and cropping.


def _both(pads: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """Elements before and behind each axis; PyTorch has them from the last axis on."""
    before, after = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):
        before[-1 - place], after[-1 - place] = pads[2 * place], pads[2 * place + 1]
    return before, after


@lowers("constant_pad_nd", "pad")
def pad(g: GraphBuilder, x: Value, pads: Sequence[int], mode: Any = "constant", value: float | None = 0.0) -> Value:
    """Elements around x; `pads` are before and after the last axis, then the one before it. Negative ones cut."""
    if not isinstance(mode, str):  # constant_pad_nd has the value in its place
        mode, value = "constant", mode
    return _padded(g, x, pads, PADS[mode], value or 0.0)


PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(g: GraphBuilder, x: Value, pads: Sequence[int], mode: str, value: float = 0.0) -> Value:
    before, after = _both(pads, x.rank)
    if min((*before, *after), default=0) < 0 and mode in SOURCES:
        for axis, ids in _elements(mode, x.shape, before, after):
            x = rows_of(g, x, g.constant(ids, "int64"), axis)
        return x
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        x = g.slice(x, axis, max(-low, 0), x.shape[axis] - max(-high, 0))
    before, after = ([max(n, 0) for n in ends] for ends in (before, after))
    if not any((*before, *after)):
        return x
    shape = [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)]
    constant = [g.constant(value, x.dtype)] if mode == "constant" else []
    return g.emit("Pad", [x, g.ints([*before, *after]), *constant], shape, x.dtype,
                  mode=None if mode == "constant" else mode)  # fmt: skip


def _elements(mode: str, shape: Sequence[int], before: Sequence[int], after: Sequence[int]) -> list[tuple[int, Array]]:
    """Each axis with pads, and which elements stand there; negative pads cut."""
    return [
        (axis, SOURCES[mode](np.arange(-low, size + high), size))
        for axis, (size, low, high) in enumerate(zip(shape, before, after, strict=True))
        if low or high
    ]


def _with_elements(count: int, word: str, mode: str) -> None:
    """Register what pads so many axes with elements of them, and its gradient."""

    @lowers(f"{word}_pad{count}d")
    def forward(g: GraphBuilder, x: Value, pads: Sequence[int]) -> Value:
        return _padded(g, x, pads, mode)

    @lowers(f"{word}_pad{count}d_backward")
    def backward(g: GraphBuilder, dy: Value, x: Operand, pads: Sequence[int]) -> Value | None:
        shape = g.value(x).shape
        before, after = _both(pads, len(shape))
        if min((*before, *after)) < 0:
            for axis, ids in reversed(_elements(mode, shape, before, after)):
                sizes = [shape[a] if a >= axis else n for a, n in enumerate(dy.shape)]
                dy = rows_added(g, sizes, g.constant(ids, "int64"), dy, axis)
            return dy
        source = Value(g.fresh("padded"), shape)
        g.types[source.name] = TensorType("float32", shape)
        return g.backward("Pad", [source, g.ints([*before, *after])], [None], [dy], [0], mode=mode)[0]


for _count in (1, 2, 3):
    _with_elements(_count, "reflection", "reflect")
    _with_elements(_count, "replication", "edge")
