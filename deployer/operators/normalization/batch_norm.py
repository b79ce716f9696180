"""Batch normalization in training and inference, its gradient, and its running statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Dim, Operand
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.signatures import Signature, without
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.normalization.channels import (
    EPSILON,
    MOMENTUM,
    BatchNorm,
    ChannelStep,
    channel_kernel,
    channel_type,
    per_channel,
    sum_axes,
)


@register
class BatchNormInternal(BatchNorm):
    """Batch normalization in training, with the batch's mean and inv_std as further outputs.

    Biased variance over all axes but the channels; `momentum` is the weight of the old running statistics.
    """

    name = "BatchNormInternal"
    file = replace(
        BatchNorm.file,
        custom=Signature((5, 5), (1, 5), {"epsilon": "FLOAT", "momentum": "FLOAT", "training_mode": "INT"}),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y, running_mean', running_var', mean, inv_std."""
        if not node.attr_int("training_mode", 1):
            raise unsupported(node, "it is not in training mode", "BatchNormalization for inference")
        return super().infer(node, inputs)


def _inference(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 14 Y alone is inference, more outputs are training; `spatial` 0 has statistics per element."""
    if any(node.outputs[1:]):
        raise unsupported(node, f"it has {len(node.outputs)} outputs, which before version 14 is training", "Y alone")
    if node.attr_int("spatial", 1) != 1 and len(operands(node, types, 1)[0].shape) > 2:
        raise unsupported(node, "spatial is 0: it has statistics for each element of a channel", "spatial 1")
    return [without(node, "consumed_inputs", "is_test", "spatial")]


def _tested(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Before version 7 attribute `is_test` tells inference from training as well."""
    if not node.attr_int("is_test", 0):
        raise unsupported(node, "is_test is 0: it is in training mode", "is_test 1 and Y alone")
    return _inference(node, types)


@register
class BatchNormalization(BatchNorm):
    """With given statistics, or in training mode with the batch's.

    Y alone in inference form; Y, running_mean', running_var' under `training_mode`.
    """

    name = "BatchNormalization"
    file = replace(BatchNorm.file, versions=(14, 15), older={1: _tested, 6: _tested, 7: _inference, 9: _inference})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; in training form two types of one element per channel as well."""
        return super().infer(node, inputs)[:3]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, in training form with the running mean and variance, but without the saved statistics."""
        return super().reference(node, inputs)[:3]


@register
class BatchNormalizationGrad(Operator):
    """dX, dscale and dbias of batch normalization with the batch's statistics.

    dY, X, scale, mean, inv_std to dX, dscale, dbias; an output may be absent.
    """

    name = "BatchNormalizationGrad"
    file = FileSpec(custom=Signature((5, 5), (1, 3), {"epsilon": "FLOAT"}))
    no_gradient = "it is itself a gradient"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X for dX, and one element per channel for dscale and for dbias."""
        types = operands(node, inputs, 5)
        channels = channel_type(node, types, 2)
        return (types[1], channels, channels)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sums, then dX from them."""
        dy, x, scale, mean, inv_std = arrays(inputs, 5)
        axes, count = sum_axes(x.ndim), x.dtype.type(x.size // x.shape[1])
        centred = x - per_channel(mean, x.ndim)
        dbias = dy.sum(axes, dtype=x.dtype)
        dscale = (dy * centred).sum(axes, dtype=x.dtype) * inv_std
        values = (scale * inv_std, dbias / count, inv_std * dscale / count)
        factor, shift, slope = (per_channel(v, x.ndim) for v in values)
        return (np.asarray(factor * (dy - shift - centred * slope)), dscale, dbias)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One step computes both sums, a second one dX where the node has that output."""
        dy, x, scale, mean, inv_std = node.inputs
        dx, dscale, dbias = (*node.outputs, "", "")[:3]
        name = node.name
        dscale, dbias = dscale or f"{name}/dscale", dbias or f"{name}/dbias"
        nodes = [Node(f"{name}/sums", "ChannelGradSums", (dy, x, mean, inv_std), (dscale, dbias))]
        if dx:
            sources = (dy, x, scale, mean, inv_std, dscale, dbias)
            nodes.append(Node(name, "ChannelNormalizeGrad", sources, (dx,)))
        return nodes


OPERANDS = ("running_mean", "running_var", "mean", "inv_std")


@register
class RunningStatistics(Flat):
    """The running mean and variance of a batch norm after a batch, in place, as PyTorch defines them,
    or as ONNX Runtime does.

    running = momentum * running + (1 - momentum) * batch.

    The batch's variance is that of a sample, of `count` elements with `count` - 1 degrees of freedom, or the biased one
    under `biased`, which needs no `count`. It is found from its inverse deviation, 1 / sqrt(variance + epsilon), as
    exactly as a norm that takes it needs.
    """

    name = "RunningStatistics"
    file = FileSpec(
        custom=Signature((4, 4), (0, 2), {"momentum": "FLOAT", "epsilon": "FLOAT", "count": "INT", "biased": "INT"}),
        flags=("biased",),
    )
    inplace: ClassVar[dict[int, int]] = {0: 0, 1: 1}
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "running_statistics_f32",
        pointers=tuple((name, "float32", name.startswith("running")) for name in OPERANDS),
        scalars=(("n", "u32"), ("kept", "f32"), ("added", "f32"), ("added_var", "f32"), ("epsilon", "f32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the running statistics, of which all operands are."""
        types = floats(node, inputs, len(OPERANDS))
        if len(set(types)) > 1:
            raise mismatch(node, "operands differ in type", inputs)
        if not node.attr_int("biased", 0) and node.attr_int("count", 0) < 2:
            raise unsupported(node, "a channel has one element, which has no variance", "a larger batch")
        return (types[0], types[0])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both after the batch."""
        running_mean, running_var, mean, inv_std = arrays(inputs, len(OPERANDS))
        kept = mean.dtype.type(node.attr_float("momentum", MOMENTUM))
        epsilon = mean.dtype.type(node.attr_float("epsilon", EPSILON))
        variance = (1 / np.square(inv_std) - epsilon) * mean.dtype.type(_correction(node))
        return kept * running_mean + (1 - kept) * mean, kept * running_var + (1 - kept) * variance

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, and the weights of what is kept and what is added."""
        kept = np.float32(node.attr_float("momentum", MOMENTUM))
        added = float(np.float32(1) - kept)
        weights = {"kept": float(kept), "added": added, "added_var": float(np.float32(added * _correction(node)))}
        epsilon = Const(float(np.float32(node.attr_float("epsilon", EPSILON))))
        return {"n": Extent("n"), **{name: Const(weight) for name, weight in weights.items()}, "epsilon": epsilon}


def _correction(node: Node) -> float:
    """Bessel's correction of the batch's variance."""
    count = node.attr_int("count", 0)
    return 1.0 if node.attr_int("biased", 0) else count / (count - 1)


@register
class RunningUpdate(Flat):
    """Momentum * old + (1 - momentum) * new, a running statistic after a batch.

    `momentum` is the weight of the old value.
    """

    name = "RunningUpdate"
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "running_update_f32",
        pointers=(("old", "float32", False), ("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("kept", "f32"), ("added", "f32")),
    )

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """momentum * old + (1 - momentum) * new."""
        old, new = arrays(inputs, 2)
        momentum = old.dtype.type(node.attr_float("momentum", MOMENTUM))
        return (np.asarray(momentum * old + (1 - momentum) * new),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and both weights."""
        momentum = np.float32(node.attr_float("momentum", MOMENTUM))
        return {"n": Extent("n"), "kept": Const(float(momentum)), "added": Const(float(np.float32(1) - momentum))}


@register
class ChannelVariance(ChannelStep):
    """The biased variance of each channel, of which batch normalization keeps a running mean.

    X[N, C, ...] and the means of its channels to var[C].
    """

    name = "ChannelVariance"
    kernel = channel_kernel("channel_variance_f32", ("x", "mean"), ("y",), ("x",), "inverse_count", sums=True)
    execution = Execution(sums=Sums(("n", "s")))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The mean of (X - mean)^2."""
        x, mean = arrays(inputs, 2)
        return (np.square(x - per_channel(mean, x.ndim)).mean(sum_axes(x.ndim), dtype=x.dtype),)


@register
class InvStd(Operator):
    """One over the root of a given variance plus epsilon; a step of batch normalization's inference form.

    Elementwise.
    """

    name = "InvStd"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {"epsilon": "FLOAT"}))
    no_gradient = "running statistics are not trained"
    kernel = Kernel(
        "inv_std_f32",
        pointers=(("x", "float32", False), ("y", "float32", True)),
        scalars=(("n", "u32"), ("epsilon", "f32")),
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the variance."""
        return (operands(node, inputs, 1)[0],)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """1 / sqrt(var + epsilon)."""
        var = arrays(inputs, 1)[0]
        return (np.asarray(1 / np.sqrt(var + var.dtype.type(node.attr_float("epsilon", EPSILON)))),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim."""
        size = types[node.inputs[0]].size
        x = Operand("x", node.inputs[0], "in", (size,), (At("n"),))
        return Access((Dim("n", size),), (x, Operand("y", node.outputs[0], "out", (size,), (At("n"),))))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length and epsilon."""
        return {"n": Extent("n"), "epsilon": Const(node.attr_float("epsilon", EPSILON))}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """A root and a division."""
        return Work(macs=0, elements=2 * tile["n"], parallel=tile["n"])
