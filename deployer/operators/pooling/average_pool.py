"""AveragePool: the mean of each window, over its elements inside X or over the whole window."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.forms import Rule
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, GradientBuilder, Sample, register, rng, unsupported
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.pooling.volume import pooled
from deployer.operators.pooling.windows import (
    FORMS,
    FORWARD,
    SPATIAL,
    Pool,
    divisors,
    padded,
    pool_kernel,
    sides,
    stacked,
    windows,
)


def _unpadded(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 cannot say whether padding counts: ONNX's text excludes it, ONNX's reference evaluator counts it."""
    if any(node.attr_ints("pads", ())) or node.attr_str("auto_pad", "NOTSET") not in ("", "NOTSET", "VALID"):
        raise unsupported(node, "version 1 leaves open whether padding counts", "a Pad before it, or opset 7 and above")
    return [node]


@register
class AveragePool(Pool):
    """X[N, C, ...] of one to three spatial axes; `count_include_pad` counts padding too."""

    name = "AveragePool"
    versions = (7, 10, 11, 19, 22)
    older: ClassVar[dict[int, Rule]] = {1: _unpadded}
    flags = ("ceil_mode", "count_include_pad")
    kernel = pool_kernel("avg_pool_f32", ("x",), "y", *FORWARD, "include_pad")

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's batch and channels, and the number of windows along each spatial axis."""
        if node.attr_int("ceil_mode", 0) and node.attr_int("count_include_pad", 0):
            raise unsupported(node, "ceil_mode together with count_include_pad", "either of them")
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum over the window's positions, divided."""
        x = arrays(inputs, 1)[0]
        axes = sides(node, x.shape)
        y = stacked(padded(x, axes, 0.0), axes).sum(0, dtype=x.dtype) / divisors(node, axes).astype(x.dtype)
        shape = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        return (np.asarray(y, x.dtype).reshape(shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A volume by its planes and its depth."""
        shape = operands(node, inputs, 1)[0].shape
        axes = windows(node, shape)
        return pooled(node, shape, axes) if len(axes) == SPATIAL else None

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY over the count, to each element of its window."""
        if b.needs_grad(0):
            attrs = {**node.attrs, "input_shape": b.type(node.inputs[0]).shape}
            b.emit("AveragePoolGrad", (douts[0],), (b.grad(0),), **attrs)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The arguments of Pool, and those that say which padding counts."""
        return super().args(node, access) | {"include_pad": Const(node.attr_int("count_include_pad", 0))}

    def samples(self) -> Iterator[Sample]:
        """All forms, and padding that counts."""
        r = rng(82)
        for label, (shape, attrs) in FORMS.items():
            yield Sample(label, (normal(r, *shape),), attrs)
        shape, attrs = FORMS["overlap"]
        yield Sample("include_pad", (normal(r, *shape),), {**attrs, "count_include_pad": 1})
