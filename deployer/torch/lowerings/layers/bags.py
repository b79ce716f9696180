"""Embeddings of bags of numbers: the sum, the mean or the maximum of their rows."""

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.places.indexing import rows_added, rows_of
from deployer.torch.lowerings.places.reductions import reduced

SUM, MEAN, MAX = 0, 1, 2


def _bags(g: GraphBuilder, offsets: Operand, count: int, last: bool) -> Value:
    """The bag of each of so many numbers: how many bags begin up to it, less one."""
    begins = g.cast(offsets, "int64")
    begins = g.slice(begins, 0, 0, begins.shape[0] - 1) if last else begins
    begun = g.binary("LessOrEqual", begins, np.arange(count).reshape(-1, 1), "bool")
    return g.binary("Sub", reduced(g, "ReduceSum", g.cast(begun, "int64"), 1, False), 1)


def _counted(g: GraphBuilder, ids: Value, padding: int) -> Value | None:
    """1 for each number that is not padding; None where all count."""
    if padding < 0:
        return None
    return g.cast(g.unary("Not", g.binary("Equal", ids, padding, "bool")), "float32")


@lowers("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    g: GraphBuilder,
    weight: Value,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, None, None, Value | None]:
    """The result, and where the maxima are; the gradient finds by itself which bag a number is in."""
    ids = g.cast(indices, "int64")
    bags = g.value(offsets).shape[0] - int(include_last_offset)
    number, counts = _bags(g, offsets, ids.shape[0], include_last_offset), _counted(g, ids, padding_idx)
    share, size = _sizes(g, number, counts, bags)
    rows = rows_of(g, weight, ids, 0)
    if mode == MAX:
        y, place = _largest(g, rows, share)
        return y, None, None, rows_of(g, ids, place, 0)
    share = share if per_sample_weights is None else g.binary("Mul", share, per_sample_weights)
    y = g.emit("Gemm", [share, rows], (bags, weight.shape[1]))
    if mode == MEAN:
        y = g.binary("Div", y, g.reshape(g.binary("Max", size, 1.0), (bags, 1)))
    return y, None, None, None


def _sizes(g: GraphBuilder, number: Value, counts: Value | None, bags: int) -> tuple[Value, Value]:
    """Return the membership of numbers in each bag [bags, numbers], and its sum per bag."""
    share = g.cast(g.binary("Equal", np.arange(bags).reshape(-1, 1), number, "bool"), "float32")
    share = share if counts is None else g.binary("Mul", share, counts)
    return share, g.reduce("ReduceSum", share, [1], False)


def _largest(g: GraphBuilder, rows: Value, share: Value) -> tuple[Value, Value]:
    """The maximum of each feature in each bag, 0 in an empty one, and the place in the list where it is."""
    bags, count = share.shape
    inside = g.reshape(g.cast(share, "bool"), (bags, count, 1))
    every = g.choose(inside, g.reshape(rows, (1, *rows.shape)), -np.inf)
    place = g.emit("ArgMax", [every], (bags, rows.shape[1]), "int64", axis=1, keepdims=0)
    some = g.reduce("ReduceMax", share, [1], True)
    return g.choose(g.cast(some, "bool"), g.reduce("ReduceMax", every, [1], False), 0.0), place


@lowers("_embedding_bag_backward")
def embedding_bag_backward(
    g: GraphBuilder,
    dy: Value,
    indices: Operand,
    offsets: Operand,
    bag: Operand | None,
    size: Operand | None,
    maxima: Operand | None,
    count: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Operand | None,
    padding_idx: int = -1,
) -> Value:
    """The gradient of each bag, at the rows of its numbers."""
    ids, shape = g.cast(indices, "int64"), (count, dy.shape[1])
    number = _bags(g, offsets, ids.shape[0], g.value(offsets).shape[0] > dy.shape[0])
    counts, column = _counted(g, ids, padding_idx), (ids.shape[0], 1)
    size = g.reshape(_sizes(g, number, counts, dy.shape[0])[1], (dy.shape[0], 1))
    if mode == MAX:
        assert maxima is not None
        some = g.binary("Mul", dy, g.binary("Min", size, 1.0))
        return g.emit("GatherElementsGrad", [some, g.ints(shape), g.cast(maxima, "int64")], shape, axis=0)
    if mode == MEAN:
        dy = g.binary("Div", dy, g.binary("Max", size, 1.0))
    each = rows_of(g, dy, number, 0)
    for factor in (per_sample_weights, counts):
        if factor is not None:
            each = g.binary("Mul", each, g.reshape(g.value(factor), column))
    if scale_grad_by_freq:
        often = rows_added(g, (count, 1), ids, g.constant(np.ones(column)), 0)
        each = g.binary("Div", each, rows_of(g, often, ids, 0))
    return rows_added(g, shape, ids, each, 0)


@lowers("_embedding_bag_per_sample_weights_backward")
def sample_weights_backward(
    g: GraphBuilder,
    dy: Value,
    weight: Value,
    indices: Operand,
    offsets: Operand,
    bag: Operand | None,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    """The gradient of a number's bag times its row."""
    ids = g.cast(indices, "int64")
    number = _bags(g, offsets, ids.shape[0], g.value(offsets).shape[0] > dy.shape[0])
    product = g.binary("Mul", rows_of(g, dy, number, 0), rows_of(g, weight, ids, 0))
    found, counts = g.reduce("ReduceSum", product, [1], False), _counted(g, ids, padding_idx)
    return found if counts is None else g.binary("Mul", found, counts)
