"""Lowerings of losses, and of those by margins."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.elementwise.arithmetic import square
from deployer.torch.lowerings.layers.backward import ones

# Losses of PyTorch's library that have kernels, and their gradients; other reductions and shapes are composed.

NONE, MEAN, SUM = 0, 1, 2
"""PyTorch's numbers of reductions."""
Terms = Callable[..., Value]


def reduced_loss(g: GraphBuilder, terms: Value, reduction: int) -> Value:
    """The terms, their mean or their sum."""
    if reduction == NONE:
        return terms
    return g.reduce("ReduceMean" if reduction == MEAN else "ReduceSum", terms, [], False)


def shared(g: GraphBuilder, dy: Operand, slope: Value, reduction: int) -> Value:
    """The arriving gradient times the slope of each term, over their number where the loss is a mean."""
    factor = dy if reduction != MEAN else g.binary("Div", dy, math.prod(slope.shape))
    return g.binary("Mul", slope, factor)


def has_kernel(x: Value, target: Operand, reduction: int) -> bool:
    """Whether the loss is a mean over two tensors of one shape."""
    return reduction == MEAN and isinstance(target, Value) and target.shape == x.shape


def _loss(aten: str, op: str, setting: str, terms: Terms, slopes: Terms) -> None:
    """Register a loss of a difference with one setting or none, and its gradient."""

    @lowers(aten)
    def forward(g: GraphBuilder, x: Value, target: Value, reduction: int = MEAN, number: float = 1.0) -> Value:
        attrs: dict[str, Any] = {setting: float(number)} if setting else {}
        if has_kernel(x, target, reduction) and number > 0:
            return g.emit(op, [x, target], (), **attrs)
        return reduced_loss(g, terms(g, g.binary("Sub", x, target), number), reduction)

    @lowers(f"{aten}_backward")
    def backward(
        g: GraphBuilder, dy: Operand, x: Value, target: Value, reduction: int, number: float = 1.0
    ) -> Value | None:
        attrs: dict[str, Any] = {setting: float(number)} if setting else {}
        if has_kernel(x, target, reduction) and number > 0:
            return g.backward(op, [x, target], [None], [None if ones(dy) else dy], [0], **attrs)[0]
        return shared(g, dy, slopes(g, g.binary("Sub", x, target), number), reduction)


def _huber(g: GraphBuilder, d: Value, delta: float) -> Value:
    far = g.unary("Abs", d)
    near = g.binary("Mul", square(g, d), 0.5)
    line = g.binary("Mul", g.binary("Sub", far, 0.5 * delta), delta)
    return g.choose(g.binary("Less", far, delta, "bool"), near, line)


def _smoothed(g: GraphBuilder, d: Value, beta: float) -> Value:
    return g.unary("Abs", d) if beta == 0 else g.binary("Div", _huber(g, d, beta), beta)


_loss("mse_loss", "MSELoss", "", lambda g, d, n: square(g, d), lambda g, d, n: g.binary("Mul", d, 2.0))
_loss(
    "huber_loss", "HuberLoss", "delta", _huber,
    lambda g, d, delta: g.emit("Clip", [d, g.constant(-delta), g.constant(delta)], d.shape),
)  # fmt: skip
_loss(
    "smooth_l1_loss", "SmoothL1Loss", "beta", _smoothed,
    lambda g, d, beta: g.unary("Sign", d) if beta == 0
    else g.binary("Div", g.emit("Clip", [d, g.constant(-beta), g.constant(beta)], d.shape), beta),
)  # fmt: skip

LEAST, FLOOR = 1e-12, -100.0
"""The least product of a probability and what it leaves of 1, and the least logarithm."""


@lowers("binary_cross_entropy")
def bce(g: GraphBuilder, x: Value, target: Value, weight: Operand | None = None, reduction: int = MEAN) -> Value:
    """-(t log x + (1 - t) log(1 - x))."""
    if weight is None and has_kernel(x, target, reduction):
        return g.emit("BCELoss", [x, target], ())
    yes, no = g.unary("Log", x), g.unary("Log", g.binary("Sub", 1.0, x))
    yes, no = g.binary("Max", yes, FLOOR), g.binary("Max", no, FLOOR)
    of_yes, of_no = g.binary("Mul", target, yes), g.binary("Mul", g.binary("Sub", 1.0, target), no)
    terms = g.unary("Neg", g.binary("Add", of_yes, of_no))
    return reduced_loss(g, terms if weight is None else g.binary("Mul", terms, weight), reduction)


@lowers("binary_cross_entropy_backward")
def bce_backward(
    g: GraphBuilder, dy: Operand, x: Value, target: Value, weight: Operand | None = None, reduction: int = MEAN
) -> Value | None:
    """(x - t) / (x (1 - x))."""
    if weight is None and has_kernel(x, target, reduction):
        return g.backward("BCELoss", [x, target], [None], [None if ones(dy) else dy], [0])[0]
    below = g.binary("Max", g.binary("Mul", x, g.binary("Sub", 1.0, x)), LEAST)
    slope = g.binary("Div", g.binary("Sub", x, target), below)
    return shared(g, dy, slope if weight is None else g.binary("Mul", slope, weight), reduction)


@lowers("binary_cross_entropy_with_logits")
def bce_of_scores(
    g: GraphBuilder,
    x: Value,
    target: Value,
    weight: Operand | None = None,
    pos_weight: Operand | None = None,
    reduction: int = MEAN,
) -> Value:
    """The same of the sigmoid of x."""
    if weight is None and pos_weight is None and has_kernel(x, target, reduction):
        return g.emit("BCEWithLogitsLoss", [x, target], ())
    missed = g.unary("Softplus", g.unary("Neg", x))  # minus the logarithm of the sigmoid
    rest = g.binary("Mul", g.binary("Sub", 1.0, target), x)
    factor: Operand = 1.0
    if pos_weight is not None:
        factor = g.binary("Add", 1.0, g.binary("Mul", g.binary("Sub", pos_weight, 1.0), target))
    terms = g.binary("Add", rest, missed if pos_weight is None else g.binary("Mul", factor, missed))
    return reduced_loss(g, terms if weight is None else g.binary("Mul", terms, weight), reduction)


NAMES = {NONE: "none", MEAN: "mean", SUM: "sum"}


def _labels(g: GraphBuilder, x: Value, labels: Operand) -> tuple[Value, Value]:
    """Scores of samples, and their labels."""
    numbers = g.cast(labels, "int64")
    if x.rank == 1:
        return g.reshape(x, (1, *x.shape)), g.reshape(numbers, (1,))
    return x, numbers


def _label_inputs(g: GraphBuilder, x: Value, labels: Value, weight: Operand | None) -> list[Operand]:
    return [x, labels, *([] if weight is None else [weight])]


@lowers("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(
    g: GraphBuilder, x: Value, labels: Operand, weight: Operand | None, reduction: int, ignore_index: int
) -> tuple[Value, Value | None]:
    """Minus the score of each label, and the weights of the labels together."""
    scores, numbers = _labels(g, x, labels)
    shape = numbers.shape if reduction == NONE else ()
    loss = g.emit(
        "NegativeLogLikelihoodLoss", _label_inputs(g, scores, numbers, weight), shape, reduction=NAMES[reduction],
        ignore_index=ignore_index,
    )  # fmt: skip
    return (g.reshape(loss, ()) if x.rank == 1 and reduction == NONE else loss), None


@lowers("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    g: GraphBuilder,
    dy: Operand,
    x: Value,
    labels: Operand,
    weight: Operand | None,
    reduction: int,
    ignore_index: int,
    total: Any,
) -> Value:
    """Minus what arrives at the label of each sample."""
    scores, numbers = _labels(g, x, labels)
    arriving: Operand | None = g.reshape(g.value(dy), numbers.shape) if reduction == NONE else dy
    if reduction != NONE and weight is None and ones(dy):
        arriving = None
    inputs = _label_inputs(g, scores, numbers, weight)
    attrs = {"reduction": NAMES[reduction], "ignore_index": ignore_index}
    [dx] = g.backward("NegativeLogLikelihoodLoss", inputs, [None], [arriving], [0], **attrs)
    assert dx is not None
    return g.reshape(dx, x.shape)


def _distance(g: GraphBuilder, d: Value, p: float, axis: int) -> Value:
    """The norm of differences along an axis."""
    if p in (1, 2):
        return g.reduce(f"ReduceL{int(p)}", d, [axis], False)
    if math.isinf(p):
        return g.reduce("ReduceMax", g.unary("Abs", d), [axis], False)
    if p == 0:
        apart = g.cast(g.unary("Not", g.binary("Equal", d, 0.0, "bool")), "float32")
        return g.reduce("ReduceSum", apart, [axis], False)
    powers = g.binary("Pow", g.unary("Abs", d), float(p))
    return g.binary("Pow", g.reduce("ReduceSum", powers, [axis], False), 1 / p)


def _distance_slope(g: GraphBuilder, d: Value, distance: Value, p: float) -> Value:
    """The gradient of a norm by its differences; zero where the norm is."""
    if p == 0:
        return g.constant(np.zeros(d.shape))
    sign = g.unary("Sign", d)
    if p == 1:
        return sign
    if math.isinf(p):
        farthest = g.binary("Equal", g.unary("Abs", d), distance, "bool")
        return g.binary("Mul", sign, g.cast(farthest, "float32"))
    zero = g.binary("Equal", distance, 0.0, "bool")
    safe = g.choose(zero, 1.0, distance)
    if p == 2:
        return g.choose(zero, 0.0, g.binary("Div", d, safe))
    share = g.binary("Div", g.unary("Abs", d), safe)
    if p > 1:
        return g.choose(zero, 0.0, g.binary("Mul", sign, g.binary("Pow", share, p - 1)))
    none = g.binary("Equal", d, 0.0, "bool")
    return g.choose(none, 0.0, g.binary("Mul", sign, g.binary("Pow", g.choose(none, 1.0, share), p - 1)))


def _apart(g: GraphBuilder, a: Value, b: Value) -> Value:
    """Differences of each row of a and each row of b."""
    left = g.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    right = g.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return g.binary("Sub", left, right)


@lowers("_cdist_forward")
def cdist(g: GraphBuilder, a: Value, b: Value, p: float, mode: int | None = None) -> Value:
    """Distances of each row of a from each row of b."""
    return _distance(g, _apart(g, a, b), p, -1)


@lowers("_euclidean_dist")
def euclidean(g: GraphBuilder, a: Value, b: Value) -> Value:
    """The same, of squares."""
    return _distance(g, _apart(g, a, b), 2, -1)


@lowers("_cdist_backward")
def cdist_backward(g: GraphBuilder, dy: Value, a: Value, b: Value, p: float, distance: Value) -> Value:
    """The gradient of a."""
    d = _apart(g, a, b)
    column = (*distance.shape, 1)
    slope = _distance_slope(g, d, g.reshape(distance, column), p)
    return g.reduce("ReduceSum", g.binary("Mul", slope, g.reshape(dy, column)), [-2], False)


def _pairs(g: GraphBuilder, x: Value) -> tuple[Value, Sequence[Any]]:
    """Differences of each row from each later one, and the numbers of both."""
    numbers = np.triu_indices(x.shape[0], 1)
    first, second = (
        g.emit("Gather", [x, g.constant(n, "int64")], (len(n), x.shape[1]), axis=0) for n in numbers
    )  # fmt: skip
    return g.binary("Sub", first, second), numbers


@lowers("_pdist_forward")
def pdist(g: GraphBuilder, x: Value, p: float = 2) -> Value:
    """Distances of all pairs of rows."""
    return _distance(g, _pairs(g, x)[0], p, -1)


@lowers("_pdist_backward")
def pdist_backward(g: GraphBuilder, dy: Value, x: Value, p: float, distance: Value) -> Value:
    """The arriving gradient, at both rows of each pair."""
    d, numbers = _pairs(g, x)
    column = (distance.shape[0], 1)
    slope = _distance_slope(g, d, g.reshape(distance, column), p)
    each = g.binary("Mul", slope, g.reshape(dy, column))
    first, second = (
        g.emit("GatherGrad", [g.ints(x.shape), g.constant(n, "int64"), each], x.shape, axis=0) for n in numbers
    )
    return g.binary("Sub", first, second)


# Losses of classes by margins between scores, and their gradients.


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
