"""Normalizations."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers


def _scale_and_bias(g: GraphBuilder, weight: Value | None, bias: Value | None, shape: Sequence[int]) -> list[Value]:
    """Those of the module, or ones and zeros."""
    return [
        g.constant(np.ones(shape, np.float32)) if weight is None else weight,
        g.constant(np.zeros(shape, np.float32)) if bias is None else bias,
    ]


@lowers("_native_batch_norm_legit_functional")
def batch_norm_training(
    g: GraphBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Operand,
    var: Operand,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Operand | None, Operand | None, Operand, Operand]:
    """With the batch's statistics, which it saves; the running ones are renewed."""
    if not training:
        return _with_running(g, x, weight, bias, mean, var, eps), None, None, mean, var
    if not g.saves:
        channels = (x.shape[1],)
        operands = [x, *_scale_and_bias(g, weight, bias, channels), mean, var]
        y, *after = g.emit_several(
            _BATCH_NORM, operands, [x.shape, channels, channels], epsilon=eps, momentum=1 - momentum, training_mode=1
        )
        return y, None, None, after[0], after[1]
    y, saved_mean, inv_std = _with_statistics(g, x, weight, bias, eps, (mean, var))
    channels, count = (x.shape[1],), math.prod(x.shape) // x.shape[1]
    if count < 2:
        raise g.refusal("a channel has one element, which has no variance", "a larger batch")
    after = g.emit_several(
        "RunningStatistics", [mean, var, saved_mean, inv_std], [channels, channels],
        momentum=1 - momentum, epsilon=eps, count=count,
    )  # fmt: skip
    return y, saved_mean, inv_std, after[0], after[1]


def _with_statistics(
    g: GraphBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
    running: Sequence[Operand] = (),
) -> tuple[Value, Value, Value]:
    """Y, and the mean and inverse deviation of the batch; `running` statistics are those that prediction takes."""
    channels = (x.shape[1],)
    zeros = g.constant(np.zeros(channels))
    operands = [x, *_scale_and_bias(g, weight, bias, channels), *(running or (zeros, zeros))]
    shapes = [x.shape, None, None, channels, channels]
    y, mean, inv_std = g.emit_several("BatchNormInternal", operands, shapes, epsilon=eps)
    return y, mean, inv_std


@lowers("_native_batch_norm_legit")
def batch_norm_no_statistics(
    g: GraphBuilder, x: Value, weight: Value | None, bias: Value | None, *options: Any
) -> tuple[Value, Value | None, Value | None]:
    """With the batch's statistics, and none that run."""
    if not g.saves:
        channels = (x.shape[1],)
        zeros, ones = g.constant(np.zeros(channels)), g.constant(np.ones(channels))
        operands = [x, *_scale_and_bias(g, weight, bias, channels), zeros, ones]
        return g.emit(_BATCH_NORM, operands, x.shape, epsilon=options[-1], training_mode=1), None, None
    return _with_statistics(g, x, weight, bias, options[-1])


@lowers("native_batch_norm_backward")
def batch_norm_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    weight: Value | None,
    mean: Operand | None,
    var: Operand | None,
    saved_mean: Value | None,
    inv_std: Value | None,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Those of X, scale and bias."""
    channels = (x.shape[1],)
    zeros = g.constant(np.zeros(channels))
    statistics = [zeros, zeros] if training else [mean, var]
    inputs = [x, *_scale_and_bias(g, weight, None, channels), *statistics]
    op, outputs = ("BatchNormInternal", [None, None, None, saved_mean, inv_std]) if training else (_BATCH_NORM, [None])
    places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    arriving = [g.value(dy), *[None] * (len(outputs) - 1)]
    found = dict(zip(places, g.backward(op, inputs, outputs, arriving, places, epsilon=eps), strict=True))
    return tuple(found.get(i) for i in range(3))


_BATCH_NORM = "BatchNormalization"


@lowers("_native_batch_norm_legit_no_training", "batch_norm")
def batch_norm_inference(
    g: GraphBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    var: Value,
    *options: float,
) -> tuple[Value, None, None] | Value:
    """With the running statistics."""
    eps = options[-1] if g.operator.endswith("no_training") else options[2]
    y = _with_running(g, x, weight, bias, mean, var, eps)
    return (y, None, None) if g.operator.endswith("no_training") else y


def _with_running(
    g: GraphBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Operand, var: Operand, eps: float
) -> Value:
    operands = [x, *_scale_and_bias(g, weight, bias, (x.shape[1],)), mean, var]
    return g.emit("BatchNormalization", operands, x.shape, epsilon=eps)


@lowers("layer_norm")
def layer_norm(
    g: GraphBuilder,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Value:
    """Over the last axes."""
    operands = [x, *_scale_and_bias(g, weight, bias, shape)]
    return g.emit("LayerNormalization", operands, x.shape, axis=x.rank - len(shape), epsilon=eps)


@lowers("group_norm")
def group_norm(
    g: GraphBuilder,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Value:
    """Over the channels of each group and all places."""
    operands = [x, *_scale_and_bias(g, weight, bias, (x.shape[1],))]
    return g.emit("GroupNormalization", operands, x.shape, num_groups=groups, epsilon=eps)


@lowers("native_layer_norm")
def native_layer_norm(
    g: GraphBuilder, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """Y, and the mean and inverse deviation of each row."""
    axis = x.rank - len(shape)
    row = (*x.shape[:axis], *[1] * len(shape))
    operands = [x, *_scale_and_bias(g, weight, bias, shape)]
    y, mean, inv_std = g.emit_several("LayerNormalization", operands, [x.shape, row, row], axis=axis, epsilon=eps)
    return y, mean, inv_std


@lowers("native_layer_norm_backward")
def layer_norm_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    inv_std: Value,
    weight: Value | None,
    bias: Value | None,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Those of X, scale and bias."""
    inputs = [x, *_scale_and_bias(g, weight, bias, shape)]
    places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    axis = x.rank - len(shape)
    grads = g.backward("LayerNormalization", inputs, [None, mean, inv_std], [dy, None, None], places, axis=axis)
    found = dict(zip(places, grads, strict=True))
    return tuple(found.get(i) for i in range(3))


@lowers("rms_norm")
def rms_norm(
    g: GraphBuilder, x: Value, shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x over the root of its mean square in the last axes."""
    scale = g.constant(np.ones(shape, np.float32)) if weight is None else weight
    return traced_rms_norm(g, x, scale, float(np.finfo(np.float32).eps) if eps is None else eps)[0]


@lowers("deployer::rms_norm")
def traced_rms_norm(g: GraphBuilder, x: Value, scale: Operand, eps: float) -> tuple[Value, Value]:
    """Y, and one over the root of each row."""
    scale = g.value(scale)
    axis = x.rank - len(scale.shape)
    row = (*x.shape[:axis], *[1] * len(scale.shape))
    y, inv_std = g.emit_several("SimplifiedLayerNormalization", [x, scale], [x.shape, row], axis=axis, epsilon=eps)
    return y, inv_std


@lowers("deployer::rms_norm_backward")
def rms_norm_backward(
    g: GraphBuilder, dy: Value, x: Value, scale: Operand, inv_std: Value, eps: float
) -> tuple[Value | None, ...]:
    """Those of X and scale."""
    scale = g.value(scale)
    axis = x.rank - len(scale.shape)
    outputs, arriving = [None, inv_std], [dy, None]
    return g.backward("SimplifiedLayerNormalization", [x, scale], outputs, arriving, [0, 1], axis=axis, epsilon=eps)


def _channel(g: GraphBuilder, values: Value, rank: int) -> Value:
    """One number per channel, in a shape that broadcasts with X."""
    return g.reshape(values, (values.shape[0], *[1] * (rank - 2)))


@lowers("native_group_norm")
def native_group_norm(
    g: GraphBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """Y, and the mean and inverse deviation of each group, which are the channels of one image."""
    image = g.reshape(x, (1, n * groups, channels // groups * places))
    unit, mean, inv_std = _with_statistics(g, image, None, None, eps)
    y = g.reshape(unit, x.shape)
    y = y if weight is None else g.binary("Mul", y, _channel(g, weight, x.rank))
    y = y if bias is None else g.binary("Add", y, _channel(g, bias, x.rank))
    return y, g.reshape(mean, (n, groups)), g.reshape(inv_std, (n, groups))


@lowers("native_group_norm_backward")
def group_norm_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    mean: Value,
    inv_std: Value,
    weight: Value | None,
    n: int,
    channels: int,
    places: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Those of X, scale and bias."""
    shape, count = (1, n * groups, channels // groups * places), n * groups
    image, m, s = g.reshape(x, shape), g.reshape(mean, (count,)), g.reshape(inv_std, (count,))
    others = [0, *range(2, x.rank)]
    dx = scale = bias = None
    ones, zeros = g.constant(np.ones(count)), g.constant(np.zeros(count))
    if wanted[0]:
        arriving = dy if weight is None else g.binary("Mul", dy, _channel(g, weight, x.rank))
        outputs = [None, None, None, m, s]
        inputs = [image, ones, zeros, zeros, zeros]
        [found] = g.backward("BatchNormInternal", inputs, outputs, [g.reshape(arriving, shape), *[None] * 4], [0])
        assert found is not None
        dx = g.reshape(found, x.shape)
    if wanted[1]:
        unit = g.reshape(g.emit("ChannelNormalize", [image, ones, zeros, m, s], shape), x.shape)
        scale = g.reduce("ReduceSum", g.binary("Mul", dy, unit), others, False)
    if wanted[2]:
        bias = g.reduce("ReduceSum", dy, others, False)
    return dx, scale, bias


@lowers("instance_norm")
def instance_norm(
    g: GraphBuilder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn: bool = True,
) -> Value:
    """Over the places of each channel."""
    if mean is not None or not use_input_stats:
        raise g.refusal("it keeps running statistics", "track_running_stats=False")
    operands = [x, *_scale_and_bias(g, weight, bias, (x.shape[1],))]
    return g.emit("InstanceNormalization", operands, x.shape, epsilon=eps)


@lowers("local_response_norm")
def local_response_norm(
    g: GraphBuilder, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """Over neighbouring channels."""
    return g.emit("LRN", [x], x.shape, size=size, alpha=alpha, beta=beta, bias=k)


@lowers("_weight_norm")
def weight_norm(g: GraphBuilder, v: Value, magnitude: Value, dim: int = 0) -> Value:
    """v over its norm along all axes but one, times the magnitude."""
    others = [a for a in range(v.rank) if a != v.axis(dim)]
    return g.binary("Mul", v, g.binary("Div", magnitude, g.reduce("ReduceL2", v, others, True)))
