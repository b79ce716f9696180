"""Layer normalization, its gradients, and norms that are fused with a residual."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.ir import BIAS, GAIN, AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Extra, Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Training
from deployer.operators.base.operands import Construction, arrays, floats
from deployer.operators.normalization.layer_norm_steps import EPSILON, first_axis


def _training_form(node: Node, fresh: Callable[[str], str]) -> Node:
    """With mean and inv_std as outputs."""
    outputs = [*node.outputs, *[""] * (3 - len(node.outputs))]
    for i, label in ((1, "saved_mean"), (2, "saved_inv_std")):
        outputs[i] = outputs[i] or fresh(f"{node.name}_{label}")
    return replace(node, outputs=tuple(outputs))


@register
class LayerNormalization(Operator):
    """Y = (X - mean) inv_std scale + bias, with mean and variance of the axes from `axis` on.

    X, scale[, bias] to Y[, mean, inv_std]; biased variance, `epsilon` under the root.
    """

    name = "LayerNormalization"
    training = Training(learned={1: GAIN, 2: BIAS}, training_form=_training_form)
    file = FileSpec(
        versions=(17,), custom=Signature((2, 3), (1, 3), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"})
    )

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


FOUR = 4
"""The inputs of the form without statistics."""


@register
class LayerNormalizationGrad(Operator):
    """dX, dscale and dbias of layer normalization from the statistics of its rows.

    dY, X, scale, mean, inv_std to dX, dscale, dbias; an output may be absent.

    In a form of four inputs the bias of the norm is in the place of the statistics, which are computed again.
    """

    name = "LayerNormalizationGrad"
    file = FileSpec(
        custom=Signature((4, 5), (1, 3), {"axis": "INT", "epsilon": "FLOAT"}),
        extras=(Extra("stash_type", ("INT",), "the type of saved statistics, which here is float32"),),
    )
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


def _norm(node: Node, outputs: tuple[str, ...]) -> Node:
    """The norm whose gradient a node of four inputs is."""
    return Node(f"{node.name}/norm", LayerNormalization.name, node.inputs[1:3], outputs, dict(node.attrs))


SKIP_EPSILON = 1e-12
"""ONNX Runtime's, where a node has none."""
TOTAL = 3
"""The position of the sum among the outputs."""


class SkipNormalization(Operator):
    """X, skip and the factors of the norm `of`, and a bias of X's last axis, to Y, statistics and the sum.

    `factors` are scale and what the norm has besides; all but scale and those before may be absent.
    """

    composite = True
    of: ClassVar[str]
    factors: ClassVar[int]
    statistics: ClassVar[tuple[int, ...]]
    """The positions of the norm's outputs behind Y that ONNX Runtime gives."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X for Y and the sum, and one element per row."""
        x, skip, scale = floats(node, inputs, 3)
        try:
            fits = np.broadcast_shapes(x.shape, skip.shape) == x.shape
        except ValueError:
            fits = False
        if not fits:
            raise mismatch(node, "skip does not broadcast to X", inputs)
        if any(kind is not None and kind != scale for kind in inputs[3:]) or scale.shape != x.shape[-1:]:
            raise mismatch(node, f"scale or a bias is not of shape {list(x.shape[-1:])}", inputs)
        if node.attr_float("epsilon", SKIP_EPSILON) < 0:
            raise unsupported(node, "its epsilon is negative", "an epsilon of 0 or more")
        row = TensorType("float32", (*x.shape[:-1], 1))
        return (x, row, row, x)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The norm of the sum; statistics that it does not have are zero."""
        x, skip = arrays(inputs, 2)
        bias = inputs[2 + self.factors] if len(inputs) > 2 + self.factors else None
        total = np.asarray(x + skip if bias is None else x + skip + bias)
        norm = replace(node, op=self.of, attrs=self._attributes(node))
        y, *found = registry()[self.of].reference(norm, [total, *inputs[2 : 2 + self.factors]])
        empty = np.zeros((*x.shape[:-1], 1), x.dtype)
        rows = dict(zip(self.statistics, found, strict=False))
        return (y, rows.get(1, empty), rows.get(2, empty), total)

    def _attributes(self, node: Node) -> dict[str, AttrValue]:
        return {"axis": -1, "epsilon": node.attr_float("epsilon", SKIP_EPSILON)}

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sums, and the norm."""
        graph = Construction(node.name)
        outputs = [*node.outputs, *[""] * (TOTAL + 1 - len(node.outputs))]
        x, skip = node.inputs[:2]
        for bias in filter(None, node.inputs[2 + self.factors :]):
            x, skip = graph.emit("Add", (x, skip)), bias
        total = graph.emit("Add", (x, skip), outputs[TOTAL])
        operands = [total, *node.inputs[2 : 2 + self.factors]]
        while not operands[-1]:
            operands.pop()
        results = [outputs[0], *(outputs[place] for place in self.statistics)]
        graph.several(self.of, operands, results, **self._attributes(node))
        return graph.nodes


@register
class SkipLayerNormalization(SkipNormalization):
    """Layer normalization of X + skip + bias, as ONNX Runtime joins the two.

    X, skip, scale[, bias of the norm, bias of the sum] to Y[, mean, inv_std, sum].
    """

    name = "SkipLayerNormalization"
    file = FileSpec(custom=Signature((3, 5), (1, TOTAL + 1), {"epsilon": "FLOAT"}))
    of = "LayerNormalization"
    factors = 2
    statistics = (1, 2)


@register
class SkipSimplifiedLayerNormalization(SkipNormalization):
    """An RMS norm of X + skip + bias, as ONNX Runtime joins the two.

    X, skip, scale[, bias of the sum] to Y[, nothing, inv_std, sum].
    """

    name = "SkipSimplifiedLayerNormalization"
    file = FileSpec(custom=Signature((3, 4), (1, TOTAL + 1), {"epsilon": "FLOAT"}))
    of = "SimplifiedLayerNormalization"
    factors = 1
    statistics = (2,)
