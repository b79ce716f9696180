"""Losses of PyTorch's library that have kernels, and their gradients; other reductions and shapes are composed."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.elementwise.arithmetic import square
from deployer.torch.lowerings.layers.backward import ones

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
