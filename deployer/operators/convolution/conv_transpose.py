"""ConvTranspose: the gradient of a convolution with respect to X, as a forward pass."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Fans
from deployer.core.ir import BIAS, AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.convolution.conv_grad_x import ConvGradX
from deployer.operators.convolution.geometry import fans_of, smallest_input
from deployer.operators.inputs import floats, normal

SAME = ("SAME_UPPER", "SAME_LOWER")
"""Values of `auto_pad` with which Y has strides times the extents of X."""


@register
class ConvTranspose(Operator):
    """X[N, C, ..], W[C, M / group, ..], optional B[M] to Y[N, M, ..]: X is the dY of a Conv with that W."""

    name = "ConvTranspose"
    learned: ClassVar[dict[int, str]] = {2: BIAS}
    versions = (1, 11, 22)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The least extents that X can come from, and `output_padding` behind them."""
        x, w = floats(node, inputs, 2)
        y = ConvGradX().infer(_convolution(node, x, w, inputs), (x, w))[0]
        if len(inputs) > 2 and inputs[2] is not None and inputs[2] != TensorType("float32", y.shape[1:2]):
            raise mismatch(node, f"B is {inputs[2]}, Y has {y.shape[1]} channels", inputs)
        return (y,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of ConvGradX, and the bias."""
        x, w, *rest = inputs
        assert x is not None
        assert w is not None
        types = [TensorType("float32", v.shape) for v in (x, w)]
        y = ConvGradX().reference(_convolution(node, types[0], types[1], types), (x, w))[0]
        if rest and rest[0] is not None:
            y = np.asarray(y + rest[0].reshape(-1, *[1] * (x.ndim - 2)), x.dtype)
        return (y,)

    def fans(self, node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
        """As those of the Conv that it is the gradient of."""
        return fans_of(types[node.inputs[1]])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ConvGradX, and the bias behind it."""
        x, w = floats(node, inputs, 2)
        attrs, operands = _convolution(node, x, w, inputs).attrs, node.inputs[:2]
        if len(node.inputs) < 3 or not node.inputs[2]:
            return [Node(node.name, "ConvGradX", operands, node.outputs, attrs)]
        sums, column = f"{node.name}/sums", f"{node.name}/column"
        shape = (-1, *[1] * (len(x.shape) - 2))
        return [
            Node(sums, "ConvGradX", operands, (sums,), attrs),
            Node(column, "Reshape", node.inputs[2:], (column,), {"shape": shape}),
            Node(node.name, "Add", (sums, column), node.outputs),
        ]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX is the Conv of dY, dW its ConvGradW, dB the sum over batch and space."""
        x, w = (b.type(name) for name in node.inputs[:2])
        attrs = _convolution(node, x, w, (x, w)).attrs
        attrs = {name: value for name, value in attrs.items() if name != "input_shape"}
        if b.needs_grad(0):
            b.emit("Conv", (douts[0], node.inputs[1]), (b.grad(0),), **attrs)
        if b.needs_grad(1):
            b.emit("ConvGradW", (node.inputs[0], douts[0]), (b.grad(1),), **attrs)
        if len(node.inputs) > 2 and node.inputs[2] and b.needs_grad(2):
            axes = b.constant("axes", np.array((0, *range(2, len(x.shape))), np.int64))
            b.emit("ReduceSum", (douts[0], axes), (b.grad(2),), keepdims=0)

    def samples(self) -> Iterator[Sample]:
        """Strides, pads, dilations, groups, padding of the output, signals, with and without bias."""
        r = rng(124)
        forms: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, AttrValue], bool]] = {
            "plain": ((1, 3, 4, 5), (3, 2, 3, 3), {}, False),
            "bias": ((2, 2, 3, 4), (2, 3, 2, 3), {"pads": (1, 0, 0, 1)}, True),
            "strided": ((1, 2, 4, 3), (2, 3, 2, 2), {"strides": (2, 2)}, True),
            "padded": (
                (1, 2, 4, 3),
                (2, 3, 3, 3),
                {"strides": (2, 2), "pads": (1,) * 4, "output_padding": (1, 1)},
                True,
            ),
            "dilated": ((1, 2, 4, 3), (2, 1, 3, 2), {"dilations": (2, 3)}, False),
            "groups": ((1, 4, 3, 3), (4, 2, 3, 3), {"group": 2, "kernel_shape": (3, 3)}, True),
            "depthwise": ((1, 3, 3, 4), (3, 1, 3, 3), {"group": 3, "strides": (2, 1)}, False),
            "same": ((1, 2, 3, 3), (2, 1, 3, 4), {"strides": (2, 1), "auto_pad": "SAME_UPPER"}, True),
            "lower": ((1, 2, 3, 3), (2, 1, 3, 4), {"strides": (2, 3), "auto_pad": "SAME_LOWER"}, False),
            "shaped": ((1, 1, 3, 3), (1, 2, 3, 3), {"strides": (3, 2), "output_shape": (10, 6)}, False),
            "signal": ((1, 3, 7), (3, 2, 4), {"strides": (2,), "pads": (1, 1)}, True),
            "volume": ((1, 2, 3, 3, 2), (2, 3, 2, 3, 3), {"strides": (2, 1, 2), "pads": (1, 0, 1, 0, 1, 1)}, True),
        }
        for label, (x, w, attrs, biased) in forms.items():
            channels = w[1] * int(str(attrs.get("group", 1)))
            bias = (normal(r, channels),) if biased else ()
            yield Sample(label, (normal(r, *x), normal(r, *w), *bias), attrs)


def _convolution(node: Node, x: TensorType, w: TensorType, inputs: Sequence[TensorType | None]) -> Node:
    """The node whose gradient this is, with the extents of its X, which are those of Y."""
    spatial = len(x.shape) - 2
    names = ("kernel_shape", "strides", "pads", "dilations", "group")
    attrs = {name: node.attrs[name] for name in names if name in node.attrs}
    if len(w.shape) != len(x.shape) or x.shape[1:2] != w.shape[:1]:
        raise mismatch(node, f"X has {x.shape}, W {w.shape}: not as many channels, or axes", inputs)
    more = node.attr_ints("output_padding", (0,) * spatial)
    if len(more) != spatial or min(more, default=0) < 0:
        raise mismatch(node, f"output_padding {more} is not that of {spatial} spatial axes", inputs)
    attrs = {"kernel_shape": w.shape[2:], **attrs}
    wanted = _wanted(node, x, spatial)
    if wanted is not None:
        attrs["pads"] = (0,) * 2 * spatial
    inner = Node(node.name, node.op, node.inputs[:2], node.outputs, attrs)
    least = smallest_input(inner, x.shape, w.shape, inputs)
    extents = tuple(a + b for a, b in zip(least, more, strict=True))
    if wanted is not None:
        attrs["pads"], extents = _pads(node, extents, wanted), wanted
    return Node(node.name, node.op, node.inputs[:2], node.outputs, {**attrs, "input_shape": extents})


def _wanted(node: Node, x: TensorType, spatial: int) -> tuple[int, ...] | None:
    """The extents of Y where the pads follow from them: `output_shape`, or strides times X's where Y is the SAME."""
    manner = node.attr_str("auto_pad", "NOTSET")
    if manner not in ("NOTSET", "VALID", "", *SAME):
        raise unsupported(node, f"auto_pad is {manner!r}", f"one of NOTSET, VALID, {', '.join(SAME)}")
    if "output_shape" in node.attrs:
        shape = node.attr_ints("output_shape", ())[-spatial:]
        if len(shape) != spatial or min(shape, default=1) < 1:
            raise unsupported(node, f"output_shape is {shape}", f"a length for each of {spatial} spatial axes")
        return shape
    if manner not in SAME:
        return None
    strides = node.attr_ints("strides", (1,) * spatial)
    return tuple(n * stride for n, stride in zip(x.shape[2:], strides, strict=True))


def _pads(node: Node, plain: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """What is cut off of the plain extents: of an odd number one more at the end for SAME_UPPER, else at the start.

    Extents that are longer than those have zeros at their end.
    """
    upper = node.attr_str("auto_pad", "NOTSET") == SAME[0]
    totals = [max(a - b, 0) for a, b in zip(plain, wanted, strict=True)]
    begins = [total // 2 if upper else total - total // 2 for total in totals]
    return (*begins, *(total - begin for total, begin in zip(totals, begins, strict=True)))
