"""Normalizations made of others: group, instance, RMS, Lp, mean-variance and local response."""

import math
from collections.abc import Sequence

import numpy as np

from deployer.core.ir import BIAS, GAIN, AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.signatures import CONSUMED
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Training
from deployer.operators.base.operands import arrays, floats, operands
from deployer.operators.base.views import normalized_axes
from deployer.operators.reduction.reduction import constant_scalar

# A group of a sample is a channel of one image for BatchNormalization.

EPSILON = 1e-5


def group_types(node: Node, inputs: Sequence[TensorType | None], groups: int, factors: int) -> TensorType:
    """The type of X; ShapeMismatch unless its channels make that many groups, and scale and bias have `factors`."""
    x, scale, bias = floats(node, inputs, 3)
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise mismatch(node, f"the channels of {x} do not make {groups} groups", inputs)
    if scale.shape != (factors,) or bias.shape != (factors,):
        raise mismatch(node, f"scale and bias are not of shape [{factors}]", inputs)
    return x


def group_values(node: Node, x: Array, groups: int) -> Array:
    """X less the mean of its group, over the deviation."""
    rows = x.reshape(x.shape[0], groups, -1)
    centred = rows - rows.mean(2, dtype=x.dtype, keepdims=True)
    variance = np.square(centred).mean(2, dtype=x.dtype, keepdims=True)
    epsilon = x.dtype.type(node.attr_float("epsilon", EPSILON))
    return np.asarray(centred / np.sqrt(variance + epsilon)).reshape(x.shape)


def along_channels(values: Array, rank: int) -> Array:
    """One number per channel, in a shape that broadcasts with X."""
    return values.reshape(-1, *[1] * (rank - 2))


def group_nodes(node: Node, x: TensorType, groups: int, factors: tuple[str, str] | None, y: str) -> list[Node]:
    """Nodes for Y of X in groups; `factors` are scale and bias of a group, which all samples share."""
    shape, count = x.shape, x.shape[0] * groups
    image, zeros, result = (f"{node.name}/{label}" for label in ("image", "zeros", "result"))
    nodes = [
        Node(image, "Reshape", node.inputs[:1], (image,), {"shape": (1, count, math.prod(shape) // count)}),
        Node(zeros, "Constant", (), (zeros,), {"value_floats": (0.0,) * count}),
    ]
    if factors is None:
        ones = f"{node.name}/ones"
        nodes.append(Node(ones, "Constant", (), (ones,), {"value_floats": (1.0,) * count}))
        scale, bias = ones, zeros
    else:
        scale, bias = (f"{node.name}/{label}" for label in ("scales", "biases"))
        for source, name in zip(factors, (scale, bias), strict=True):
            rows = f"{name}_rows"
            nodes.append(Node(rows, "Expand", (source,), (rows,), {"shape": (shape[0], groups)}))
            nodes.append(Node(name, "Reshape", (rows,), (name,), {"shape": (count,)}))
    attrs: dict[str, AttrValue] = {"epsilon": node.attr_float("epsilon", EPSILON), "training_mode": 1}
    nodes.append(Node(result, "BatchNormalization", (image, scale, bias, zeros, zeros), (result,), attrs))
    nodes.append(Node(f"{node.name}/y", "Reshape", (result,), (y,), {"shape": shape}))
    return nodes


def _groups(node: Node) -> int:
    """Attribute `num_groups`; 0, which is refused, where it is absent."""
    return node.attr_int("num_groups", 0)


def _scale_of_a_group(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 18 has a scale and a bias per group."""
    groups = _groups(node)
    x = group_types(node, types, groups, groups)
    return group_nodes(node, x, groups, (node.inputs[1], node.inputs[2]), node.outputs[0])


@register
class GroupNormalization(Operator):
    """Groups of channels by their mean and deviation, then scale and bias per channel.

    BatchNormalization of one image, of which the channels are the groups of all samples, then Mul and Add.
    """

    name = "GroupNormalization"
    training = Training(learned={1: GAIN, 2: BIAS})
    file = FileSpec(versions=(21,), older={18: _scale_of_a_group})
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        channels = (*operands(node, inputs, 1)[0].shape, 0, 0)[1]
        return (group_types(node, inputs, _groups(node), channels),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The unit values times scale plus bias."""
        x, scale, bias = arrays(inputs, 3)
        unit = group_values(node, x, _groups(node))
        return (np.asarray(unit * along_channels(scale, x.ndim) + along_channels(bias, x.ndim), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Scale and bias per channel come behind the groups, unless each channel is one."""
        x, groups = operands(node, inputs, 1)[0], _groups(node)
        if groups == x.shape[1]:
            return group_nodes(node, x, groups, (node.inputs[1], node.inputs[2]), node.outputs[0])
        unit, scaled, scale, bias = (f"{node.name}/{label}" for label in ("unit", "scaled", "scale", "bias"))
        shape = (x.shape[1], *[1] * (len(x.shape) - 2))
        return [
            *group_nodes(node, x, groups, None, unit),
            Node(scale, "Reshape", node.inputs[1:2], (scale,), {"shape": shape}),
            Node(scaled, "Mul", (unit, scale), (scaled,)),
            Node(bias, "Reshape", node.inputs[2:], (bias,), {"shape": shape}),
            Node(node.name, "Add", (scaled, bias), node.outputs),
        ]


@register
class InstanceNormalization(Operator):
    """Each channel of each sample by its own mean and deviation, then scale and bias.

    BatchNormalization of one image, of which the channels are those of all samples.
    """

    name = "InstanceNormalization"
    training = Training(learned={1: GAIN, 2: BIAS})
    file = FileSpec(versions=(6, 22), older={1: CONSUMED})
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = operands(node, inputs, 1)[0]
        if not x.shape[2:]:
            raise mismatch(node, f"{x} has no axis behind its channels to take a mean over", inputs)
        channels = x.shape[1]
        return (group_types(node, inputs, channels, channels),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The unit values times scale plus bias."""
        x, scale, bias = arrays(inputs, 3)
        y = group_values(node, x, x.shape[1]) * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)
        return (np.asarray(y, x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Scale and bias are those of the groups."""
        x = operands(node, inputs, 1)[0]
        return group_nodes(node, x, x.shape[1], (node.inputs[1], node.inputs[2]), node.outputs[0])


NORMS = {1: "ReduceL1", 2: "ReduceL2"}
"""The reduction for each `p`."""
LEAST = float(np.finfo(np.float32).tiny)
"""The smallest normal float: a norm below is taken for it, so that zeros stay zeros."""


@register
class LpNormalization(Operator):
    """X over its norm along an axis, and zeros where that is zero. A reduction, a bound below, and Div."""

    name = "LpNormalization"
    file = FileSpec(versions=(1, 22))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        normalized_axes(node, (node.attr_int("axis", -1),), len(x.shape), inputs)
        if node.attr_int("p", 2) not in NORMS:
            raise unsupported(node, f"p is {node.attrs['p']}", "p 1 or 2")
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X over the sum of magnitudes, or over the root of the sum of squares."""
        x = arrays(inputs, 1)[0]
        axis = node.attr_int("axis", -1)
        powers = np.abs(x) if node.attr_int("p", 2) == 1 else np.square(x)
        total = powers.sum(axis, dtype=x.dtype, keepdims=True)
        norm = total if node.attr_int("p", 2) == 1 else np.sqrt(total)
        return (np.asarray(x / np.maximum(norm, x.dtype.type(LEAST))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The norm, at least the smallest float, and the quotient."""
        norm, least, bound = (f"{node.name}/{label}" for label in ("norm", "least", "bound"))
        along: dict[str, AttrValue] = {"axes": (node.attr_int("axis", -1),), "keepdims": 1}
        return [
            Node(norm, NORMS[node.attr_int("p", 2)], node.inputs[:1], (norm,), along),
            constant_scalar(least, LEAST),
            Node(bound, "Max", (norm, least), (bound,)),
            Node(node.name, "Div", (node.inputs[0], bound), node.outputs),
        ]


ALPHA, BETA, LRN_BIAS = 1e-4, 3 / 4, 1.0


@register
class LRN(Operator):
    """Y = X / (bias + alpha mean(X X))^beta, with the mean over `size` neighbouring channels, zeros beyond them.

    Made of Mul, AveragePool over channels as rows of an image, Add, Pow and Div.
    """

    name = "LRN"
    file = FileSpec(versions=(1, 13))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        if len(x.shape) < 2 or node.attr_int("size", 0) < 1:
            raise mismatch(node, f"{x} has no channels, or size {node.attr_int('size', 0)} is not positive", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The formula, channel by channel."""
        x = arrays(inputs, 1)[0]
        size, kind = node.attr_int("size", 0), x.dtype.type
        begin = (size - 1) // 2
        total = np.zeros_like(x)
        for channel in range(x.shape[1]):
            near = x[:, max(channel - begin, 0) : channel - begin + size]
            total[:, channel] = np.square(near).sum(1, dtype=x.dtype)
        alpha, beta, bias = _factors(node)
        return (np.asarray(x / np.power(kind(bias) + kind(alpha / size) * total, kind(beta)), x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The mean of the squares of a window of channels, and what becomes of it."""
        shape, size = floats(node, inputs, 1)[0].shape, node.attr_int("size", 0)
        begin = (size - 1) // 2
        pool: dict[str, AttrValue] = {"kernel_shape": (size, 1), "pads": (begin, 0, size - 1 - begin, 0)}
        pool["count_include_pad"] = 1
        names = ("squares", "image", "mean", "means", "alpha", "part", "bias", "base", "beta", "norm")
        squares, image, mean, means, alpha, scaled, bias, base, beta, norm = (f"{node.name}/{n}" for n in names)
        factors = _factors(node)
        return [
            Node(squares, "Mul", (node.inputs[0], node.inputs[0]), (squares,)),
            Node(image, "Reshape", (squares,), (image,), {"shape": (shape[0], 1, shape[1], math.prod(shape[2:]))}),
            Node(mean, "AveragePool", (image,), (mean,), pool),
            Node(means, "Reshape", (mean,), (means,), {"shape": shape}),
            *(constant_scalar(name, value) for name, value in zip((alpha, beta, bias), factors, strict=True)),
            Node(scaled, "Mul", (means, alpha), (scaled,)),
            Node(base, "Add", (scaled, bias), (base,)),
            Node(norm, "Pow", (base, beta), (norm,)),
            Node(node.name, "Div", (node.inputs[0], norm), node.outputs),
        ]


def _factors(node: Node) -> tuple[float, float, float]:
    """alpha, beta and bias."""
    return node.attr_float("alpha", ALPHA), node.attr_float("beta", BETA), node.attr_float("bias", LRN_BIAS)


MEAN_VARIANCE_EPSILON = 1e-9
"""What ONNX's body adds to the deviation."""


@register
class MeanVarianceNormalization(Operator):
    """X by its mean and deviation over some axes.

    ONNX's body of it subtracts the square of the mean from the mean of squares, which cancels where the mean is large;
    here the squares are of distances from the mean, and from these their own mean is taken once more: what rounding it
    left.

    Means, differences, the root of their squares' mean, and a quotient.
    """

    name = "MeanVarianceNormalization"
    file = FileSpec(versions=(9, 13))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x = floats(node, inputs, 1)[0]
        _axes(node, x)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's mean, twice, and deviation."""
        x = arrays(inputs, 1)[0]
        axes = _axes(node, TensorType("float32", x.shape))
        near = x - x.mean(axes, dtype=x.dtype, keepdims=True)
        distance = near - near.mean(axes, dtype=x.dtype, keepdims=True)
        deviation = np.sqrt(np.square(distance).mean(axes, dtype=x.dtype, keepdims=True))
        return (np.asarray(distance / (deviation + x.dtype.type(MEAN_VARIANCE_EPSILON))),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The formula, node by node."""
        names = ("mean", "near", "rest", "distance", "squares", "variance", "deviation", "epsilon", "above")
        mean, near, rest, distance, squares, variance, deviation, epsilon, above = (f"{node.name}/{n}" for n in names)
        along: dict[str, AttrValue] = {"axes": _axes(node, floats(node, inputs, 1)[0]), "keepdims": 1}
        return [
            Node(mean, "ReduceMean", node.inputs[:1], (mean,), along),
            Node(near, "Sub", (node.inputs[0], mean), (near,)),
            Node(rest, "ReduceMean", (near,), (rest,), along),
            Node(distance, "Sub", (near, rest), (distance,)),
            Node(squares, "Mul", (distance, distance), (squares,)),
            Node(variance, "ReduceMean", (squares,), (variance,), along),
            Node(deviation, "Sqrt", (variance,), (deviation,)),
            constant_scalar(epsilon, MEAN_VARIANCE_EPSILON),
            Node(above, "Add", (deviation, epsilon), (above,)),
            Node(node.name, "Div", (distance, above), node.outputs),
        ]


def _axes(node: Node, x: TensorType) -> tuple[int, ...]:
    """Axes counted from the front; by default all but the channels."""
    axes = node.attr_ints("axes", (0, 2, 3))
    return normalized_axes(node, axes, len(x.shape), (x,))
