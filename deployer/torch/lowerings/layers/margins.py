"""Losses of classes by margins between scores, and their gradients."""

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.layers.losses import MEAN, NONE, reduced_loss


def _rows(g: GraphBuilder, x: Value, labels: Operand) -> tuple[Value, Value]:
    """Scores [N, C] and labels of each sample."""
    numbers = g.cast(labels, "int64")
    return g.reshape(x, x.shape if x.rank == 2 else (1, *x.shape)), g.reshape(numbers, (numbers.shape or (1,)))


def _one_hot(g: GraphBuilder, numbers: Value, classes: int) -> Value:
    """Truths [..., C]: which class a number is of."""
    column = g.reshape(numbers, (*numbers.shape, 1))
    return g.binary("Equal", column, np.arange(classes), "bool")


def _margins(g: GraphBuilder, x: Value, labels: Value, margin: float) -> tuple[Value, Value]:
    """The missing margin of the label's score over each other one, and the labels as shares."""
    hot = g.cast(_one_hot(g, labels, x.shape[1]), "float32")
    own = g.reduce("ReduceSum", g.binary("Mul", x, hot), [1], True)
    missing = g.unary("Relu", g.binary("Add", g.binary("Sub", x, own), margin))
    return g.binary("Mul", missing, g.binary("Sub", 1.0, hot)), hot


def _weights(g: GraphBuilder, hot: Value, weight: Operand | None, classes: int) -> Value:
    """The weight of each sample's label over the number of classes."""
    if weight is None:
        return g.constant(np.full((1, 1), 1 / classes))
    own = g.reduce("ReduceSum", g.binary("Mul", hot, weight), [1], True)
    return g.binary("Div", own, float(classes))


@lowers("multi_margin_loss")
def multi_margin_loss(
    g: GraphBuilder,
    x: Value,
    labels: Operand,
    p: float = 1,
    margin: float = 1,
    weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """The mean over classes of what is missing of the margin, to a power."""
    rows, numbers = _rows(g, x, labels)
    missing, hot = _margins(g, rows, numbers, float(margin))
    powers = missing if p == 1 else g.binary("Mul", missing, missing)
    terms = g.binary("Mul", powers, _weights(g, hot, weight, rows.shape[1]))
    each = g.reduce("ReduceSum", terms, [1], False)
    loss = reduced_loss(g, each, reduction)
    return loss if reduction != NONE or x.rank == 2 else g.reshape(loss, ())


@lowers("multi_margin_loss_backward")
def multi_margin_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    labels: Operand,
    p: float,
    margin: float,
    weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """The slope of each class, and minus all of them for the label."""
    rows, numbers = _rows(g, x, labels)
    missing, hot = _margins(g, rows, numbers, float(margin))
    slope = g.unary("Sign", missing) if p == 1 else g.binary("Mul", missing, 2.0)
    slope = g.binary("Mul", slope, _weights(g, hot, weight, rows.shape[1]))
    total = g.reduce("ReduceSum", slope, [1], True)
    slope = g.binary("Sub", slope, g.binary("Mul", hot, total))
    arriving = g.reshape(dy, (rows.shape[0], 1)) if reduction == NONE else dy
    arriving = g.binary("Div", arriving, float(rows.shape[0])) if reduction == MEAN else arriving
    return g.reshape(g.binary("Mul", slope, arriving), x.shape)


def _several(g: GraphBuilder, x: Value, labels: Operand) -> tuple[Value, Value, Value]:
    """Scores [N, C]; which classes are among the labels, of which those from the first -1 on do not count; and for each
    label and class, how much less than 1 the label's score is above that of a class that is none.
    """
    rows, numbers = _rows(g, x, labels)
    numbers = g.reshape(numbers, rows.shape)
    ended = g.emit(
        "CumSum", [g.cast(g.binary("Less", numbers, 0, "bool"), "int64"), g.constant(np.array(1), "int64")],
        numbers.shape, "int64",
    )  # fmt: skip
    counts = g.binary("Equal", ended, 0, "bool")
    hot = g.binary("And", _one_hot(g, numbers, rows.shape[1]), g.reshape(counts, (*counts.shape, 1)), "bool")
    hot = g.cast(hot, "float32")
    among = g.reduce("ReduceMax", hot, [1], False)
    own = g.reduce("ReduceSum", g.binary("Mul", hot, g.reshape(rows, (rows.shape[0], 1, rows.shape[1]))), [2], True)
    apart = g.binary("Sub", g.reshape(rows, (rows.shape[0], 1, rows.shape[1])), own)
    missing = g.unary("Relu", g.binary("Add", apart, 1.0))
    others = g.reshape(g.binary("Sub", 1.0, among), (rows.shape[0], 1, rows.shape[1]))
    counted = g.reduce("ReduceMax", hot, [2], True)
    return among, hot, g.binary("Mul", g.binary("Mul", missing, others), counted)


@lowers("multilabel_margin_loss_forward")
def multilabel_margin_loss(g: GraphBuilder, x: Value, labels: Operand, reduction: int) -> tuple[Value, Value]:
    """The sum over labels and other classes of what is missing, over the number of classes; and which are labels."""
    among, _, missing = _several(g, x, labels)
    each = g.binary("Div", g.reduce("ReduceSum", missing, [1, 2], False), float(among.shape[1]))
    loss = reduced_loss(g, each, reduction)
    loss = loss if reduction != NONE or x.rank == 2 else g.reshape(loss, ())
    return loss, g.reshape(among, x.shape)


@lowers("multilabel_margin_loss_backward")
def labels_margin_backward(
    g: GraphBuilder, dy: Value, x: Value, labels: Operand, reduction: int, among: Operand
) -> Value:
    """The slope of each class that is no label, and minus those for the labels."""
    _, hot, missing = _several(g, x, labels)
    samples, classes = missing.shape[0], missing.shape[2]
    slope = g.unary("Sign", missing)
    back = g.binary("Mul", hot, g.reduce("ReduceSum", slope, [2], True))
    each = g.binary("Div", g.reduce("ReduceSum", g.binary("Sub", slope, back), [1], False), float(classes))
    arriving = g.reshape(dy, (samples, 1)) if reduction == NONE else dy
    arriving = g.binary("Div", arriving, float(samples)) if reduction == MEAN else arriving
    return g.reshape(g.binary("Mul", each, arriving), x.shape)
