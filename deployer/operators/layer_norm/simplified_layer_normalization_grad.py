"""SimplifiedLayerNormalizationGrad: dX and dscale of an RMS norm from the inverse root that its rows had."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Extra, Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.layer_norm.rows_by_columns import first_axis


@register
class SimplifiedLayerNormalizationGrad(Operator):
    """dY, X, scale and inv_std to dX and dscale; an output may be absent."""

    name = "SimplifiedLayerNormalizationGrad"
    custom = Form((4, 4), (1, 2), {"axis": "INT", "epsilon": "FLOAT"})
    extras = (Extra("stash_type", ("INT",), "the type of saved statistics, which here is float32"),)
    composite = True
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of X and scale."""
        dy, x, scale, inv_std = floats(node, inputs, 4)
        axis = first_axis(node, x.shape)
        if dy != x or scale.shape != x.shape[axis:]:
            raise mismatch(node, "dY, X and scale do not belong together", inputs)
        if inv_std.size != math.prod(x.shape[:axis]):
            raise mismatch(node, "inv_std does not have one element per row", inputs)
        return (x, scale)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dX from one mean per row; dscale is a sum over the rows."""
        dy, x, scale, inv_std = arrays(inputs, 4)
        axis = first_axis(node, x.shape)
        columns, rows = tuple(range(axis, x.ndim)), tuple(range(axis))
        inv_std = inv_std.reshape(x.shape[:axis] + (1,) * len(columns))
        unit, scaled = x * inv_std, dy * scale
        dot = (scaled * unit).mean(columns, keepdims=True, dtype=x.dtype)
        return np.asarray(inv_std * (scaled - unit * dot)), (dy * unit).sum(rows, dtype=x.dtype)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Products, ReduceMean of each row, ReduceSum of all rows."""
        (dy, x, scale, inv_std), (dx, dscale) = node.inputs, (*node.outputs, "")[:2]
        shape, parts = floats(node, inputs, 2)[1].shape, Construction(node.name)
        axis = first_axis(node, shape)
        columns = tuple(range(axis, len(shape)))
        row = parts.emit("Reshape", (inv_std,), shape=shape[:axis] + (1,) * len(columns))
        unit = parts.emit("Mul", (x, row))
        if dx:
            scaled = parts.emit("Mul", (dy, scale))
            dot = parts.emit("ReduceMean", (parts.emit("Mul", (scaled, unit)),), axes=columns, keepdims=1)
            rest = parts.emit("Sub", (scaled, parts.emit("Mul", (unit, dot))))
            parts.emit("Mul", (row, rest), dx)
        if dscale and axis:
            total = parts.emit("Mul", (dy, unit))
            parts.emit("ReduceSum", (total,), dscale, axes=tuple(range(axis)), keepdims=0)
        elif dscale:
            parts.emit("Mul", (dy, unit), dscale)
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """Both gradients of rows, of axes in the middle and of all, and dX alone."""
        r = rng(140)
        for label, shape, axis in (("rows", (7, 5), -1), ("middle", (2, 3, 4, 5), 2), ("whole", (3, 4), 0)):
            first = axis % len(shape)
            statistic = shape[:first] + (1,) * (len(shape) - first)
            inputs = (normal(r, *shape), normal(r, *shape), normal(r, *shape[first:]), np.abs(normal(r, *statistic)))
            yield Sample(label, inputs, {"axis": axis}, 2, onnx=False)
            yield Sample(f"{label}_dx", inputs, {"axis": axis}, 1, onnx=False)
