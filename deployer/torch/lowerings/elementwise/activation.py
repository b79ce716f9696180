"""Activations of torch.nn; those that ONNX lacks are composed of its operators."""

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.elementwise.arithmetic import clamp, scaled
from deployer.torch.lowerings.elementwise.functions import same

for _aten, _op in (
    ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("softsign", "Softsign"), ("selu", "Selu"), ("mish", "Mish"),
    ("hardswish", "HardSwish"),
):  # fmt: skip
    same(_aten, _op)


@lowers("gelu")
def gelu(g: GraphBuilder, x: Value, approximate: str = "none") -> Value:
    """The exact form, or that by tanh."""
    return g.unary("Gelu", x, approximate=None if approximate == "none" else approximate)


@lowers("silu")
def silu(g: GraphBuilder, x: Value) -> Value:
    """x sigmoid(x)."""
    return g.binary("Mul", x, g.unary("Sigmoid", x))


@lowers("hardsigmoid")
def hardsigmoid(g: GraphBuilder, x: Value) -> Value:
    """x / 6 + 1 / 2, between 0 and 1."""
    return g.unary("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@lowers("relu6")
def relu6(g: GraphBuilder, x: Value) -> Value:
    """x between 0 and 6."""
    return clamp(g, x, 0.0, 6.0)


@lowers("leaky_relu")
def leaky_relu(g: GraphBuilder, x: Value, negative_slope: float = 0.01) -> Value:
    """x, below zero times a slope."""
    return g.unary("LeakyRelu", x, alpha=negative_slope)


@lowers("rrelu_with_noise", "rrelu_with_noise_functional")
def rrelu(
    g: GraphBuilder,
    x: Value,
    noise: Operand,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> Value | tuple[Value, Operand]:
    """Without training: x, below zero times the mean of both slopes. In training it is made of drawn numbers."""
    y = leaky_relu(g, x, (lower + upper) / 2)
    return (y, noise) if g.operator.endswith("functional") else y


@lowers("prelu", "_prelu_kernel")
def prelu(g: GraphBuilder, x: Value, weight: Value) -> Value:
    """x, below zero times a slope per channel, or one for all."""
    if weight.rank == 1 and x.rank > 1:
        weight = g.reshape(weight, (weight.shape[0], *[1] * (x.rank - 2)))
    return g.emit("PRelu", [x, weight], x.shape)


@lowers("elu")
def elu(g: GraphBuilder, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """scale x, below zero scale alpha (e^(input_scale x) - 1)."""
    if (scale, input_scale) == (1, 1):
        return g.unary("Elu", x, alpha=float(alpha))
    below = g.unary("Expm1", g.value(scaled(g, g.binary("Min", x, 0.0), input_scale)))
    above = g.unary("Relu", x)
    return g.binary("Add", g.value(scaled(g, above, scale)), g.value(scaled(g, below, alpha * scale)))


@lowers("celu")
def celu(g: GraphBuilder, x: Value, alpha: float = 1.0) -> Value:
    """x, below zero alpha (e^(x / alpha) - 1)."""
    return g.unary("Celu", x, alpha=float(alpha))


@lowers("softplus")
def softplus(g: GraphBuilder, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + e^(beta x)) / beta, and x where beta x is beyond the threshold."""
    inner = g.value(scaled(g, x, beta))
    y = g.value(scaled(g, g.unary("Softplus", inner), 1 / beta))
    return g.choose(g.binary("Greater", inner, float(threshold), "bool"), x, y)


@lowers("log_sigmoid", "logsigmoid")
def log_sigmoid(g: GraphBuilder, x: Value) -> Value:
    """-log(1 + e^-x)."""
    return g.unary("Neg", g.unary("Softplus", g.unary("Neg", x)))


@lowers("log_sigmoid_forward")
def log_sigmoid_forward(g: GraphBuilder, x: Value) -> tuple[Value, Value]:
    """The same, and x in place of what its gradient would read besides."""
    return log_sigmoid(g, x), x


@lowers("log_sigmoid_backward")
def log_sigmoid_backward(g: GraphBuilder, dy: Operand, x: Value, buffer: Operand) -> Value:
    """Upstream gradient times the sigmoid of -x."""
    return g.binary("Mul", dy, g.unary("Sigmoid", g.unary("Neg", x)))


@lowers("hardshrink")
def hardshrink(g: GraphBuilder, x: Value, lambd: float = 0.5) -> Value:
    """x where it is beyond the bound on either side, else 0."""
    above = g.unary("ThresholdedRelu", x, alpha=float(lambd))
    below = g.unary("ThresholdedRelu", g.unary("Neg", x), alpha=float(lambd))
    return g.binary("Sub", above, below)


@lowers("softshrink")
def softshrink(g: GraphBuilder, x: Value, lambd: float = 0.5) -> Value:
    """x moved towards 0 by the bound, and 0 within it."""
    above = g.unary("Relu", g.binary("Sub", x, lambd))
    below = g.unary("Relu", g.binary("Sub", -lambd, x))
    return g.binary("Sub", above, below)


@lowers("threshold")
def threshold(g: GraphBuilder, x: Value, bound: float, value: float) -> Value:
    """x where it is above the bound, else the value."""
    if not value and bound >= 0:
        return g.unary("ThresholdedRelu", x, alpha=float(bound))
    return g.choose(g.binary("Greater", x, float(bound), "bool"), x, float(value))


@lowers("glu")
def glu(g: GraphBuilder, x: Value, dim: int = -1) -> Value:
    """The first half along an axis times the sigmoid of the second."""
    axis = x.axis(dim)
    half = x.shape[axis] // 2
    gate = g.unary("Sigmoid", g.slice(x, axis, half, 2 * half))
    return g.binary("Mul", g.slice(x, axis, 0, half), gate)


def _softmax(g: GraphBuilder, op: str, x: Value, dim: int) -> Value:
    line = g.reshape(g.cast(x, "float32"), x.shape or (1,))
    return g.reshape(g.unary(op, line, axis=line.axis(dim)), x.shape)


@lowers("_safe_softmax")
def safe_softmax(g: GraphBuilder, x: Value, dim: int, dtype: object = None) -> Value:
    """The softmax, and zeros where all of a line are minus infinity."""
    line = g.reshape(x, x.shape or (1,))
    some = g.binary("Greater", g.reduce("ReduceMax", line, [line.axis(dim)], True), -np.inf, "bool")
    return g.reshape(g.choose(some, _softmax(g, "Softmax", g.choose(some, line, 0.0), dim), 0.0), x.shape)


@lowers("softmax", "_softmax")
def softmax(g: GraphBuilder, x: Value, dim: int, dtype: object = None) -> Value:
    """e^x over its sum along an axis."""
    return _softmax(g, "Softmax", x, dim)


@lowers("log_softmax", "_log_softmax")
def log_softmax(g: GraphBuilder, x: Value, dim: int, dtype: object = None) -> Value:
    """The logarithm of the softmax."""
    return _softmax(g, "LogSoftmax", x, dim)


@lowers("dropout")
def dropout(g: GraphBuilder, x: Operand, p: float, train: bool) -> Value:
    """ONNX's operator of that name."""
    return g.dropout(x, p, train)


@lowers("native_dropout")
def native_dropout(g: GraphBuilder, x: Operand, p: float, train: bool | None) -> tuple[Value, None]:
    """The same with a mask besides, which nothing here reads."""
    return g.dropout(x, p, train), None


@lowers("bernoulli")
def bernoulli(g: GraphBuilder, x: Operand, p: float | None = None) -> Value:
    """1 with a probability of p, else 0, as PyTorch drops whole channels; p everywhere where nothing is dropped."""
    value = g.value(x)
    if not isinstance(p, int | float):
        raise g.refusal("its probability is a tensor", "one number")
    if not g.drops or p in (0, 1):
        return g.constant(np.full(value.shape, p, np.float32))
    return g.unary("Sign", g.dropout(g.constant(np.ones(value.shape, np.float32)), 1 - p))
