"""Elements by lists of places: rows of tables, advanced indexing, strides, diagonals and windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array
from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers


@lowers("embedding")
def embedding(
    g: GraphBuilder, weight: Value, ids: Operand, padding_idx: int = -1, scale: bool = False, sparse: bool = False
) -> Value:
    """Rows of a table."""
    return rows_of(g, weight, g.cast(ids, "int64"), 0)


def rows_of(g: GraphBuilder, x: Value, ids: Value, axis: int) -> Value:
    """Places along an axis by numbers."""
    shape = (*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])
    return g.emit("Gather", [x, ids], shape, x.dtype, axis=axis)


def rows_added(g: GraphBuilder, shape: Sequence[int], ids: Value, dy: Value, axis: int) -> Value:
    """The gradient of `rows_of`: what arrives, added up in the places it came from."""
    return g.emit("GatherGrad", [g.ints(shape), ids, dy], shape, axis=axis)


@lowers("embedding_dense_backward")
def embedding_dense_backward(
    g: GraphBuilder, dy: Value, ids: Operand, count: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """The gradient of each row, but for that of padding; over how often the row was taken where that is asked for."""
    numbers = g.cast(ids, "int64")
    width = dy.shape[-1]
    if scale_grad_by_freq:
        ones = g.constant(np.ones((*numbers.shape, 1)))
        often = rows_of(g, rows_added(g, (count, 1), numbers, ones, 0), numbers, 0)
        dy = g.binary("Div", dy, often)
    if padding_idx >= 0:
        counts = g.unary("Not", g.binary("Equal", numbers, padding_idx, "bool"))
        dy = g.binary("Mul", dy, g.reshape(g.cast(counts, "float32"), (*numbers.shape, 1)))
    return rows_added(g, (count, width), numbers, dy, 0)


@lowers("index_select")
def index_select(g: GraphBuilder, x: Value, dim: int, ids: Operand) -> Value:
    """Places along an axis by a list of numbers."""
    if not x.rank:
        return x
    numbers = g.cast(ids, "int64")
    return rows_of(g, x, g.reshape(numbers, numbers.shape or (1,)), x.axis(dim))


@dataclass(frozen=True)
class IndexPlaces:
    """Elements of a tensor that several index lists select.

    `order` are the axes with those that are indexed side by side, `at` is the first of them there, `rows` how many
    places they have together, and `ids` the numbers of these.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    at: int
    rows: int
    count: int
    ids: Value

    @property
    def moved(self) -> tuple[int, ...]:
        """The shape in that order."""
        return tuple(self.shape[a] for a in self.order)

    @property
    def table(self) -> tuple[int, ...]:
        """The shape in that order, with one axis for those that are indexed."""
        return (*self.moved[: self.at], self.rows, *self.moved[self.at + self.count :])

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the elements."""
        return (*self.table[: self.at], *self.ids.shape, *self.table[self.at + 1 :])

    def back(self, g: GraphBuilder, table: Value) -> Value:
        """The tensor from its table."""
        return g.transpose(g.reshape(table, self.moved), [int(a) for a in np.argsort(self.order)])


def places_of(g: GraphBuilder, shape: tuple[int, ...], indices: Sequence[Operand | None]) -> IndexPlaces:
    """The elements that PyTorch's indices name: lists of numbers that broadcast, and masks that are known."""
    used: list[tuple[int, Operand]] = []
    axis = 0
    for one in indices:
        if one is None:
            axis += 1
        elif dtype_of(one) == "bool":
            mask = g.known(one)
            if mask is None:
                raise g.refusal("a mask that is computed at run time decides the shape", "torch.where")
            used += [(axis + i, numbers) for i, numbers in enumerate(np.nonzero(mask))]
            axis += mask.ndim
        else:
            used.append((axis, one))
            axis += 1
    axes = [a for a, _ in used]
    beside = axes == list(range(axes[0], axes[0] + len(axes)))
    others = [a for a in range(len(shape)) if a not in axes]
    at = axes[0] if beside else 0
    order = (*others[:at], *axes, *others[at:])
    sizes = [shape[a] for a in axes]
    return IndexPlaces(shape, order, at, math.prod(sizes), len(axes), _number(g, sizes, [x for _, x in used]))


def _number(g: GraphBuilder, sizes: Sequence[int], ids: Sequence[Operand]) -> Value:
    """The number in row-major order of a place along several axes; numbers from the end are negative."""
    total: Operand = 0
    for position, (size, one) in enumerate(zip(sizes, ids, strict=True)):
        known = g.known(one)
        front: Operand
        if known is not None:
            front = np.where(known < 0, known + size, known)
        elif len(sizes) == 1:
            front = one
        else:
            front = g.binary("Mod", one, size)
        stride = math.prod(sizes[position + 1 :])
        if isinstance(front, Value) or isinstance(total, Value):
            front = g.binary("Mul", front, stride) if stride != 1 else front
            total = g.binary("Add", total, front) if position else front
        else:
            total = np.asarray(total) + np.asarray(front) * stride
    return g.cast(total, "int64")


@lowers("index", "_unsafe_index")
def index(g: GraphBuilder, x: Value, indices: Sequence[Operand | None]) -> Value:
    """Elements by lists of numbers."""
    places = places_of(g, x.shape, indices)
    table = g.reshape(g.transpose(x, places.order), places.table)
    return rows_of(g, table, places.ids, places.at)


@lowers("index_put", "_unsafe_index_put")
def index_put(
    g: GraphBuilder, x: Value, indices: Sequence[Operand | None], values: Operand, accumulate: bool = False
) -> Value:
    """x with other elements at those places, or with terms added there; integers go there as floats."""
    if x.dtype != "float32" and not _is_mask(g, indices):
        y = index_put(g, g.cast(x, "float32"), indices, g.cast(values, "float32"), accumulate)
        return g.cast(y, x.dtype)
    given = g.cast(values, x.dtype)
    if _is_mask(g, indices) and math.prod(given.shape) == 1:
        return _masked_put(g, x, indices, given, accumulate)
    places = places_of(g, x.shape, indices)
    new = g.expand(given, places.result)
    known = g.known(x)
    if accumulate and known is not None and not known.any() and x.dtype == "float32":
        return places.back(g, rows_added(g, places.table, places.ids, new, places.at))
    first = len(places.ids.shape)
    added = g.transpose(new, [*range(places.at, places.at + first), *range(places.at),
                            *range(places.at + first, new.rank)])  # fmt: skip
    count = math.prod(places.ids.shape)
    front = (places.rows, *places.table[: places.at], *places.table[places.at + 1 :])
    lines = math.prod(front[1:])
    source = g.reshape(g.transpose(x, places.order), places.table)
    rest = [a for a in range(source.rank) if a != places.at]
    rows = g.reshape(g.transpose(source, [places.at, *rest]), (places.rows, lines))
    put = g.emit(
        "ScatterRows", [rows, g.reshape(places.ids, (count,)), g.reshape(added, (count, lines))], rows.shape, x.dtype,
        reduction="add" if accumulate else None,
    )  # fmt: skip
    back = g.transpose(g.reshape(put, front), [int(a) for a in np.argsort([places.at, *rest])])
    return places.back(g, back)


def _is_mask(g: GraphBuilder, indices: Sequence[Operand | None]) -> bool:
    """Whether the only index is a mask that is computed at run time."""
    used = [x for x in indices if x is not None]
    return len(used) == 1 and dtype_of(used[0]) == "bool" and g.known(used[0]) is None


def _masked_put(g: GraphBuilder, x: Value, indices: Sequence[Operand | None], value: Value, accumulate: bool) -> Value:
    """x with one number where a mask is set."""
    axis, mask = next((a, g.value(one)) for a, one in enumerate(indices) if one is not None)
    shaped = g.reshape(mask, (*[1] * axis, *mask.shape, *[1] * (x.rank - axis - mask.rank)))
    number = g.reshape(value, ())
    return g.choose(shaped, g.binary("Add", x, number) if accumulate else number, x)


@lowers("take")
def take(g: GraphBuilder, x: Value, ids: Operand) -> Value:
    """Elements by their numbers in row-major order."""
    return rows_of(g, g.reshape(x, (math.prod(x.shape),)), g.cast(ids, "int64"), 0)


@lowers("put")
def put(g: GraphBuilder, x: Value, ids: Operand, source: Value, accumulate: bool = False) -> Value:
    """Others, or terms, at numbers in row-major order."""
    numbers = g.cast(ids, "int64")
    flat = g.reshape(x, (math.prod(x.shape),))
    count = (math.prod(numbers.shape),)
    new = index_put(g, flat, [g.reshape(numbers, count)], g.reshape(source, count), accumulate)
    return g.reshape(new, x.shape)


@lowers("index_add")
def index_add(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Value, *, alpha: float = 1) -> Value:
    """x with terms added at places along an axis."""
    terms = source if alpha == 1 else g.binary("Mul", source, alpha)
    return _along(g, x, dim, ids, terms, True)


@lowers("index_copy")
def index_copy(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Value) -> Value:
    """x with others at places along an axis."""
    return _along(g, x, dim, ids, source, False)


@lowers("index_fill")
def index_fill(g: GraphBuilder, x: Value, dim: int, ids: Operand, number: Operand) -> Value:
    """x with one number at places along an axis."""
    return _along(g, x, dim, ids, g.cast(number, x.dtype), False)


def _along(g: GraphBuilder, x: Value, dim: int, ids: Operand, source: Value, adds: bool) -> Value:
    table = g.reshape(x, x.shape or (1,))
    numbers = g.cast(ids, "int64")
    numbers = g.reshape(numbers, numbers.shape or (1,))
    axis = table.axis(dim)
    shape = (*table.shape[:axis], *numbers.shape, *table.shape[axis + 1 :])
    new = g.reshape(source, shape) if math.prod(source.shape) == math.prod(shape) else source
    return g.reshape(index_put(g, table, [*[None] * axis, numbers], new, adds), x.shape)


def picked(g: GraphBuilder, x: Value, places: Array) -> Value:
    """Elements of x by their numbers in row-major order."""
    flat = g.reshape(x, (math.prod(x.shape),))
    return rows_of(g, flat, g.constant(places, "int64"), 0)


def numbered(shape: Sequence[int]) -> Array:
    """The number of each element in row-major order."""
    return np.arange(math.prod(shape)).reshape(tuple(shape))


@lowers("as_strided")
def as_strided(
    g: GraphBuilder, x: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Elements at strides in memory, in which x lies row by row."""
    return picked(g, x, _strided(size, stride, storage_offset))


def _strided(size: Sequence[int], stride: Sequence[int], offset: int | None) -> Array:
    places = np.full(tuple(size), offset or 0)
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(count) * step).reshape(-1, *[1] * (len(size) - axis - 1))
    return places


@lowers("as_strided_scatter")
def as_strided_scatter(
    g: GraphBuilder,
    x: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """x with others at strides in memory."""
    return put_at(g, x, _strided(size, stride, storage_offset), source)


def put_at(g: GraphBuilder, x: Value, places: Array, source: Value) -> Value:
    """x with others at places by their numbers in row-major order."""
    size = math.prod(x.shape)
    numbers = np.arange(size)
    numbers[places.reshape(-1)] = size + np.arange(places.size)
    both = g.concat([g.reshape(x, (size,)), g.reshape(g.cast(source, x.dtype), (places.size,))], 0)
    return rows_of(g, both, g.constant(numbers.reshape(x.shape), "int64"), 0)


@lowers("diagonal")
def diagonal(g: GraphBuilder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The diagonals of matrices."""
    return picked(g, x, np.diagonal(numbered(x.shape), offset, x.axis(dim1), x.axis(dim2)))


@lowers("diagonal_scatter")
def diagonal_scatter(g: GraphBuilder, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Matrices with other diagonals."""
    return put_at(g, x, np.diagonal(numbered(x.shape), offset, x.axis(dim1), x.axis(dim2)), source)


@lowers("diagonal_backward")
def diagonal_backward(g: GraphBuilder, dy: Value, sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Value:
    """The arriving gradient on diagonals, and zeros elsewhere."""
    return diagonal_scatter(g, g.constant(np.zeros(tuple(sizes))), dy, offset, dim1, dim2)


@lowers("flip")
def flip(g: GraphBuilder, x: Value, dims: Sequence[int]) -> Value:
    """The elements of axes from the last to the first."""
    for dim in dims:
        axis = x.axis(dim)
        if x.rank and x.shape[axis] > 1:
            x = rows_of(g, x, g.constant(np.arange(x.shape[axis])[::-1], "int64"), axis)
    return x


@lowers("unfold")
def unfold(g: GraphBuilder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows along an axis, whose elements are a new last axis."""
    if not x.rank:
        return g.expand(g.reshape(x, (1,)), (size,))
    axis = x.axis(dimension)
    windows = rows_of(g, x, g.constant(_windows(x.shape[axis], size, step), "int64"), axis)
    return g.transpose(windows, [a for a in range(windows.rank) if a != axis + 1] + [axis + 1])


def _windows(length: int, size: int, step: int) -> Array:
    count = (length - size) // step + 1
    return np.arange(count).reshape(-1, 1) * step + np.arange(size)


@lowers("unfold_backward")
def unfold_backward(g: GraphBuilder, dy: Value, sizes: Sequence[int], dim: int, size: int, step: int) -> Value:
    """The arriving gradient, added up in the places it came from."""
    if not sizes:
        return g.reshape(dy, ())
    axis = dim % len(sizes)
    back = [*range(axis + 1), dy.rank - 1, *range(axis + 1, dy.rank - 1)]
    ids = g.constant(_windows(sizes[axis], size, step), "int64")
    return rows_added(g, sizes, ids, g.transpose(dy, back), axis)
