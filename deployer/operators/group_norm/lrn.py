"""LRN: Y = X / (bias + alpha mean(X X))^beta, with the mean over `size` neighbouring channels, zeros beyond them."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.reduction.composed import number

ALPHA, BETA, BIAS = 1e-4, 3 / 4, 1.0


@register
class LRN(Operator):
    """Made of Mul, AveragePool over channels as rows of an image, Add, Pow and Div."""

    name = "LRN"
    versions = (1, 13)
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
        squares, image, mean, means, alpha, part, bias, base, beta, norm = (f"{node.name}/{n}" for n in names)
        factors = _factors(node)
        return [
            Node(squares, "Mul", (node.inputs[0], node.inputs[0]), (squares,)),
            Node(image, "Reshape", (squares,), (image,), {"shape": (shape[0], 1, shape[1], math.prod(shape[2:]))}),
            Node(mean, "AveragePool", (image,), (mean,), pool),
            Node(means, "Reshape", (mean,), (means,), {"shape": shape}),
            *(number(name, value) for name, value in zip((alpha, beta, bias), factors, strict=True)),
            Node(part, "Mul", (means, alpha), (part,)),
            Node(base, "Add", (part, bias), (base,)),
            Node(norm, "Pow", (base, beta), (norm,)),
            Node(node.name, "Div", (node.inputs[0], norm), node.outputs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Windows of odd and even length, wider than the channels, with all factors."""
        r = rng(123)
        factors: dict[str, AttrValue] = {"alpha": 0.5, "beta": 0.6, "bias": 2.0}
        yield Sample("default", (normal(r, 1, 6, 3, 4),), {"size": 3})
        yield Sample("factors", (normal(r, 2, 5, 2, 3),), {"size": 3, **factors})
        yield Sample("wide", (normal(r, 1, 4, 2, 2),), {"size": 7, **factors})
        yield Sample("even", (normal(r, 1, 5, 2, 2),), {"size": 4, **factors}, onnx=False)


def _factors(node: Node) -> tuple[float, float, float]:
    """alpha, beta and bias."""
    return node.attr_float("alpha", ALPHA), node.attr_float("beta", BETA), node.attr_float("bias", BIAS)
