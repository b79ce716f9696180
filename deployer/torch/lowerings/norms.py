"""Normalizations."""

from collections.abc import Sequence

import numpy as np

from deployer.torch.graph import GraphBuilder, Value, lowers


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
    mean: Value,
    var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, None, None, Value, Value]:
    """With the batch's statistics; the running ones are renewed."""
    channels = (x.shape[1],)
    operands = [x, *_scale_and_bias(g, weight, bias, channels), mean, var]
    y, mean_after, var_after = g.emit_several(
        "BatchNormalization", operands, [x.shape, channels, channels], epsilon=eps, momentum=1 - momentum,
        training_mode=1,
    )  # fmt: skip
    return y, None, None, mean_after, var_after


@lowers("_native_batch_norm_legit")
def batch_norm_no_statistics(
    g: GraphBuilder, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, None, None]:
    """With the batch's statistics, and none that run."""
    channels = (x.shape[1],)
    running = [g.constant(np.zeros(channels)), g.constant(np.ones(channels))]
    operands = [x, *_scale_and_bias(g, weight, bias, channels), *running]
    return g.emit("BatchNormalization", operands, x.shape, epsilon=eps, training_mode=1), None, None


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
    operands = [x, *_scale_and_bias(g, weight, bias, (x.shape[1],)), mean, var]
    y = g.emit("BatchNormalization", operands, x.shape, epsilon=eps)
    return (y, None, None) if g.operator.endswith("no_training") else y


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


@lowers("rms_norm")
def rms_norm(
    g: GraphBuilder, x: Value, shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x over the root of its mean square in the last axes."""
    axes = list(range(x.rank - len(shape), x.rank))
    mean = g.reduce("ReduceMean", g.binary("Mul", x, x), axes, True)
    root = g.unary("Sqrt", g.binary("Add", mean, float(np.finfo(np.float32).eps) if eps is None else eps))
    y = g.binary("Div", x, root)
    return y if weight is None else g.binary("Mul", y, weight)


@lowers("local_response_norm")
def local_response_norm(
    g: GraphBuilder, x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Value:
    """Over neighbouring channels."""
    return g.emit("LRN", [x], x.shape, size=size, alpha=alpha, beta=beta, bias=k)
