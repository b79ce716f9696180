"""LayerNormalization: Y = (X - mean) inv_std scale + bias, with mean and variance of the axes from `axis` on."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.forms import Form
from deployer.core.ir import BIAS, GAIN, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.inputs import floats, normal
from deployer.operators.layer_norm.rows_by_columns import EPSILON, first_axis


@register
class LayerNormalization(Operator):
    """X, scale[, bias] to Y[, mean, inv_std]; biased variance, `epsilon` under the root."""

    name = "LayerNormalization"
    learned: ClassVar[dict[int, str]] = {1: GAIN, 2: BIAS}
    versions = (17,)
    custom = Form((2, 3), (1, 3), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X for Y, and one element per row for the mean and for inv_std."""
        x, *factors = floats(node, inputs, 3 if len(inputs) > 2 and inputs[2] else 2)
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        axis = first_axis(node, x.shape)
        if any(t.shape != x.shape[axis:] for t in factors):
            raise mismatch(node, f"scale or bias is not of shape {list(x.shape[axis:])}", inputs)
        row = TensorType("float32", x.shape[:axis] + (1,) * (len(x.shape) - axis))
        return (x, row, row)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Y, mean and inv_std."""
        x, scale, *bias = (v for v in inputs if v is not None)
        axes = tuple(range(first_axis(node, x.shape), x.ndim))
        mean = x.mean(axes, dtype=x.dtype, keepdims=True)
        variance = np.square(x - mean).mean(axes, dtype=x.dtype, keepdims=True)
        inv_std = 1 / np.sqrt(variance + x.dtype.type(node.attr_float("epsilon", EPSILON)))
        y = (x - mean) * inv_std * scale + (bias[0] if bias else 0)
        return tuple(np.asarray(v, x.dtype) for v in (y, mean, inv_std))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The rows of X become the channels of one image for ChannelMoments, then LayerNormalize computes Y."""
        x, scale, *bias = node.inputs
        y, mean, inv_std = (*node.outputs, "", "")[:3]
        shape = floats(node, inputs, 1)[0].shape
        axis, name = first_axis(node, shape), node.name
        rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
        row = shape[:axis] + (1,) * (len(shape) - axis)
        flat, *moments = (f"{name}/{label}_flat" for label in ("x", "mean", "inv_std"))
        epsilon = {"epsilon": node.attr_float("epsilon", EPSILON)}
        nodes = [
            Node(flat, "Reshape", (x,), (flat,), {"shape": (1, rows, columns)}),
            Node(f"{name}/moments", "ChannelMoments", (flat,), tuple(moments), {**epsilon}),
        ]
        for source, target in zip(moments, (mean, inv_std), strict=True):
            if target:
                nodes.append(Node(source, "Reshape", (source,), (target,), {"shape": row}))
        if y:
            nodes.append(Node(name, "LayerNormalize", (x, *moments, scale, *bias), (y,), {"axis": axis}))
        return nodes

    def training_form(self, node: Node, fresh: Callable[[str], str]) -> Node:
        """With mean and inv_std as outputs."""
        outputs = [*node.outputs, *[""] * (3 - len(node.outputs))]
        for i, label in ((1, "saved_mean"), (2, "saved_inv_std")):
            outputs[i] = outputs[i] or fresh(f"{node.name}_{label}")
        return replace(node, outputs=tuple(outputs))

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """LayerNormalizationGrad with the saved statistics, computed again where nothing saved them."""
        if any(douts[1:]) or not douts[0]:
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only Y has a gradient")
        x, scale, *_ = node.inputs
        axis, epsilon = first_axis(node, b.type(x).shape), node.attr_float("epsilon", EPSILON)
        statistics = node.outputs[1:]
        if len(statistics) < 2 or not all(statistics):
            statistics = (b.temp("mean"), b.temp("inv_std"))
            b.emit("LayerNormalization", (x, scale), (b.temp("y"), *statistics), axis=axis, epsilon=epsilon)
        outputs = tuple(b.grad(i) if b.needs_grad(i) else "" for i in range(len(node.inputs)))
        b.emit("LayerNormalizationGrad", (douts[0], x, scale, *statistics), outputs, axis=axis)

    def samples(self) -> Iterator[Sample]:
        """Rows and axes in the middle, with and without bias and statistics."""
        r = rng(97)
        forms = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("middle", (2, 3, 4, 5), 2), ("sequence", (2, 6, 9), -1))
        for label, shape, axis in forms:
            row = shape[axis:]
            inputs = (normal(r, *shape), normal(r, *row), normal(r, *row))
            yield Sample(label, inputs, {"axis": axis})
            yield Sample(f"{label}_all", inputs, {"axis": axis, "epsilon": 0.01}, outputs=3)
            yield Sample(f"{label}_unbiased", inputs[:2], {"axis": axis})
