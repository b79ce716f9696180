"""LpPool: the p-norm of each window."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.pooling.windows import FORMS, padded, sides, taps, windows
from deployer.operators.reduction.composed import number

P = 2


def _whole(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has a real p."""
    p = node.attr_float("p", P)
    if p != int(p):
        raise unsupported(node, f"p is {p}", "a whole p")
    return [Node(node.name, node.op, node.inputs, node.outputs, {**node.attrs, "p": int(p)})]


def order_of(node: Node) -> int:
    """The p of the norm; UnsupportedOperator below 1."""
    p = node.attr_int("p", P)
    if p < 1:
        raise unsupported(node, f"p is {p}", "a p of 1 and above")
    return p


def powers(node: Node, x: str, p: int) -> tuple[list[Node], str]:
    """Nodes of the p-th power of the magnitude of each element, and their result."""
    power, size = f"{node.name}/power", f"{node.name}/size"
    if p == 2:
        return [Node(power, "Mul", (x, x), (power,))], power
    nodes = [Node(size, "Abs", (x,), (size,))]
    if p == 1:
        return nodes, size
    exponent = f"{node.name}/exponent"
    return [*nodes, number(exponent, float(p)), Node(power, "Pow", (size, exponent), (power,))], power


def root(node: Node, total: str, p: int) -> list[Node]:
    """Nodes that give the node's output as the p-th root of what is summed."""
    if p == 1:
        return [Node(node.name, "Identity", (total,), node.outputs)]
    if p == 2:
        return [Node(node.name, "Sqrt", (total,), node.outputs)]
    inverse = f"{node.name}/inverse"
    return [number(inverse, 1 / p), Node(node.name, "Pow", (total, inverse), node.outputs)]


@register
class LpPool(Operator):
    """Made of AveragePool over powers, times the elements of a window; padding is zero."""

    name = "LpPool"
    versions = (2, 11, 18, 22)
    older: ClassVar[dict[int, Rule]] = {1: _whole}
    flags = ("ceil_mode",)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along each spatial axis."""
        x = floats(node, inputs, 1)[0]
        order_of(node)
        if node.attr_int("ceil_mode", 0):
            raise unsupported(node, "ceil_mode is 1", "ceil_mode 0")
        return (TensorType(x.dtype, (*x.shape[:2], *(axis.count for axis in windows(node, x.shape)))),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The root of the sum of powers over the window's positions, one position after the other."""
        x, p = arrays(inputs, 1)[0], order_of(node)
        axes = sides(node, x.shape)
        powered = padded(np.abs(x) ** p, axes, 0.0)
        total = sum((powered[tap] for tap in taps(axes)), start=x.dtype.type(0))
        shape = (*x.shape[:2], *(axis.count for axis in windows(node, x.shape)))
        return (np.asarray(total ** (1 / p), x.dtype).reshape(shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Powers, their mean, the sum, the root."""
        p = order_of(node)
        elements = np.prod([axis.kernel for axis in windows(node, floats(node, inputs, 1)[0].shape)])
        first, powered = powers(node, node.inputs[0], p)
        mean, count, total = (f"{node.name}/{label}" for label in ("mean", "count", "total"))
        attrs: dict[str, AttrValue] = {k: v for k, v in node.attrs.items() if k not in ("p", "ceil_mode")}
        return [
            *first,
            Node(mean, "AveragePool", (powered,), (mean,), {**attrs, "count_include_pad": 1}),
            number(count, float(elements)),
            Node(total, "Mul", (mean, count), (total,)),
            *root(node, total, p),
        ]

    def samples(self) -> Iterator[Sample]:
        """All forms, and other norms."""
        r = rng(169)
        for label, (shape, attrs) in FORMS.items():
            if not attrs.get("ceil_mode"):
                yield Sample(label, (normal(r, *shape),), attrs, onnx=False)
        shape, attrs = FORMS["overlap"]
        for p in (1, P + 1):
            yield Sample(f"p{p}", (normal(r, *shape),), {**attrs, "p": p}, onnx=False)
