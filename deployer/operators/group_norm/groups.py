"""What normalizations by groups share: a group of a sample is a channel of one image for BatchNormalization."""

import math
from collections.abc import Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, mismatch
from deployer.operators.inputs import floats

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
