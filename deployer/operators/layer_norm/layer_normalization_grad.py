"""LayerNormalizationGrad: dX, dscale and dbias of layer normalization from the statistics of its rows."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.forms import Extra, Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.layer_norm.layer_normalization import LayerNormalization
from deployer.operators.layer_norm.rows_by_columns import first_axis

FOUR = 4
"""The inputs of the form without statistics."""


@register
class LayerNormalizationGrad(Operator):
    """dY, X, scale, mean, inv_std to dX, dscale, dbias; an output may be absent.

    In a form of four inputs the bias of the norm is in the place of the statistics, which are computed again.
    """

    name = "LayerNormalizationGrad"
    custom = Form((4, 5), (1, 3), {"axis": "INT", "epsilon": "FLOAT"})
    extras = (Extra("stash_type", ("INT",), "the type of saved statistics, which here is float32"),)
    no_gradient = "it is itself a gradient"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X for dX, and the type of scale for dscale and dbias."""
        dy, x, scale, *rest = floats(node, inputs, len(node.inputs))
        axis = first_axis(node, x.shape)
        if dy != x or scale.shape != x.shape[axis:]:
            raise mismatch(node, "dY, X and scale do not belong together", inputs)
        if len(rest) == 1 and rest != [scale]:
            raise mismatch(node, "it has four inputs, and the last one is not a bias of the type of scale", inputs)
        if len(rest) > 1 and any(t.size != math.prod(x.shape[:axis]) for t in rest):
            raise mismatch(node, "mean or inv_std does not have one element per row", inputs)
        return (x, scale, scale)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dX from two means per row; dscale and dbias are sums over the rows."""
        dy, x, scale, *rest = arrays(inputs, 5)
        axis = first_axis(node, x.shape)
        if len(rest) == 1:
            _, *rest = LayerNormalization().reference(_norm(node, ("", "", "")), (x, scale))
        mean, inv_std = rest
        columns, rows = tuple(range(axis, x.ndim)), tuple(range(axis))
        shape = x.shape[:axis] + (1,) * len(columns)
        inv_std = inv_std.reshape(shape)
        unit = (x - mean.reshape(shape)) * inv_std
        scaled = dy * scale
        total, dot = (v.mean(columns, keepdims=True, dtype=x.dtype) for v in (scaled, scaled * unit))
        dx = inv_std * (scaled - total - unit * dot)
        return (np.asarray(dx), (dy * unit).sum(rows, dtype=x.dtype), dy.sum(rows, dtype=x.dtype))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One step per output: dscale and dbias sum over the rows, dX needs two sums per row."""
        if len(node.inputs) == FOUR:
            statistics = f"{node.name}/mean", f"{node.name}/inv_std"
            return [_norm(node, ("", *statistics)), replace(node, inputs=(*node.inputs[:3], *statistics))]
        dy, x, scale, mean, inv_std = node.inputs
        dx, dscale, dbias = (*node.outputs, "", "")[:3]
        shape, name = floats(node, inputs, 2)[1].shape, node.name
        axis = first_axis(node, shape)
        rows: dict[str, AttrValue] = {"axis": axis}
        nodes = []
        if dbias:
            nodes.append(self._total(name, dy, dbias, shape, axis))
        if dscale:
            nodes.append(Node(f"{name}/dscale", "LayerScaleGrad", (dy, x, mean, inv_std), (dscale,), rows))
        if dx:
            sums, operands = (f"{name}/total", f"{name}/dot"), (dy, x, scale, mean, inv_std)
            nodes.append(Node(f"{name}/sums", "LayerSums", operands, sums, rows))
            nodes.append(Node(name, "LayerNormalizeGrad", (*operands, *sums), (dx,), rows))
        return nodes

    @staticmethod
    def _total(name: str, dy: str, dbias: str, shape: tuple[int, ...], axis: int) -> Node:
        """The node that sums dY over the rows; a view of dY where there is only one row."""
        if axis == 0:
            return Node(f"{name}/dbias", "Reshape", (dy,), (dbias,), {"shape": shape})
        return Node(f"{name}/dbias", "ReduceSum", (dy,), (dbias,), {"axes": tuple(range(axis)), "keepdims": 0})

    def samples(self) -> Iterator[Sample]:
        """All gradients of rows, of one row, and of axes in the middle; dX alone, and without it."""
        r = rng(98)
        forms = (("rows", (7, 5), -1), ("row", (1, 13), 1), ("middle", (2, 3, 4, 5), 2), ("whole", (3, 4), 0))
        for label, shape, axis in forms:
            first = axis % len(shape)
            statistic = shape[:first] + (1,) * (len(shape) - first)
            wide, row = (normal(r, *shape), normal(r, *shape)), shape[first:]
            inputs = (*wide, normal(r, *row), normal(r, *statistic), np.abs(normal(r, *statistic)))
            yield Sample(label, inputs, {"axis": axis}, 3, onnx=False)
            yield Sample(f"{label}_dx", inputs, {"axis": axis}, 1, onnx=False)
            four = (*inputs[:3], normal(r, *row))
            yield Sample(f"{label}_four", four, {"axis": axis, "epsilon": 0.01}, 3, onnx=False)


def _norm(node: Node, outputs: tuple[str, ...]) -> Node:
    """The norm whose gradient a node of four inputs is."""
    return Node(f"{node.name}/norm", LayerNormalization.name, node.inputs[1:3], outputs, dict(node.attrs))
