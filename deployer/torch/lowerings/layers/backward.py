"""Operators of backward passes: each by the gradient rule of our own operator, from the values that PyTorch saved."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.layers.windows import conv_attributes


def ones(x: Operand) -> bool:
    """Whether an arriving gradient is known to be one everywhere."""
    return not isinstance(x, Value) and bool((np.asarray(x) == 1).all())


@lowers("threshold_backward")
def threshold_backward(g: GraphBuilder, dy: Operand, x: Value, threshold: float) -> Value:
    """The arriving gradient where x is above the threshold; x may be what relu gave."""
    if threshold == 0:
        return g.emit("ReluGrad", [dy, x], x.shape)
    above = g.binary("Greater", x, float(threshold), "bool")
    return g.emit("Where", [above, dy, 0.0], x.shape)


def _of_result(aten: str, op: str) -> None:
    """Register the gradient of a function by what it gave."""

    @lowers(aten)
    def backward(g: GraphBuilder, dy: Operand, y: Value) -> Value | None:
        return g.backward(op, [y], [y], [dy], [0])[0]


_of_result("sigmoid_backward", "Sigmoid")
_of_result("tanh_backward", "Tanh")


def _of_argument(aten: str, op: str) -> None:
    """Register the gradient of a function by what it was given."""

    @lowers(aten)
    def backward(g: GraphBuilder, dy: Operand, x: Value) -> Value | None:
        return g.backward(op, [x], [None], [dy], [0])[0]


_of_argument("mish_backward", "Mish")
_of_argument("silu_backward", "Swish")


@lowers("hardsigmoid_backward")
def hardsigmoid_backward(g: GraphBuilder, dy: Operand, x: Value) -> Value:
    """A sixth of what arrives between -3 and 3; PyTorch's sixth is a float32."""
    inside = g.binary("And", g.binary("Greater", x, -3.0, "bool"), g.binary("Less", x, 3.0, "bool"), "bool")
    return g.choose(inside, g.binary("Mul", dy, float(np.float32(1 / 6))), 0.0)


@lowers("gelu_backward")
def gelu_backward(g: GraphBuilder, dy: Operand, x: Value, approximate: str = "none") -> Value | None:
    """Of the exact form, or of that by tanh."""
    kind = None if approximate == "none" else approximate
    return g.backward("Gelu", [x], [None], [dy], [0], approximate=kind)[0]


def _softmax_backward(aten: str, op: str) -> None:
    @lowers(aten)
    def backward(g: GraphBuilder, dy: Operand, y: Value, dim: int, dtype: object = None) -> Value:
        line = g.reshape(y, y.shape or (1,))
        arriving = g.reshape(g.value(dy), line.shape)
        [dx] = g.backward(op, [line], [line], [arriving], [0], axis=line.axis(dim))
        assert dx is not None
        return g.reshape(dx, y.shape)


_softmax_backward("_softmax_backward_data", "Softmax")
_softmax_backward("_log_softmax_backward_data", "LogSoftmax")


@lowers("deployer::cross_entropy")
def cross_entropy(
    g: GraphBuilder,
    scores: Value,
    labels: Operand,
    weight: Operand | None,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> tuple[Value, Value]:
    """ONNX's loss of that name, and the logarithms of the softmax."""
    inputs = [scores, labels, *([] if weight is None else [weight])]
    kind = g.value(labels).shape if reduction == "none" else ()
    loss, log_prob = g.emit_several(
        "SoftmaxCrossEntropyLoss",
        inputs,
        [kind, scores.shape],
        **_label_attributes(g, labels, ignore_index, smoothing, reduction),
    )
    return loss, log_prob


def _label_attributes(
    g: GraphBuilder, labels: Operand, ignore_index: int, smoothing: float, reduction: str
) -> dict[str, Any]:
    """The loss's attributes; data without labels below zero have none to ignore."""
    fed = isinstance(labels, Value) and labels.name not in g.makers
    ignored = ignore_index if g.ignores or ignore_index >= 0 or not fed else None
    return {"ignore_index": ignored, "reduction": reduction, "label_smoothing": smoothing or None}


@lowers("deployer::cross_entropy_backward")
def cross_entropy_backward(
    g: GraphBuilder,
    dy: Operand,
    scores: Value,
    labels: Operand,
    log_prob: Value,
    weight: Operand | None,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> Value | None:
    """The gradient of the scores."""
    inputs = [scores, labels, *([] if weight is None else [weight])]
    attrs = _label_attributes(g, labels, ignore_index, smoothing, reduction)
    arriving = None if ones(dy) and reduction != "none" and weight is None and not smoothing else dy
    return g.backward("SoftmaxCrossEntropyLoss", inputs, [None, log_prob], [arriving, None], [0], **attrs)[0]


@lowers("convolution_backward")
def convolution_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Those of X, of the weight and of the bias."""
    op, attrs = conv_attributes(weight, stride, padding, dilation, transposed, output_padding, groups)
    inputs: list[Operand | None] = [x, weight]
    if wanted[2]:
        inputs.append(np.zeros(weight.shape[1] * groups if transposed else weight.shape[0]))
    places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    found = dict(zip(places, g.backward(op, inputs, [None], [dy], places, **attrs), strict=True))
    return tuple(found.get(i) for i in range(3))
