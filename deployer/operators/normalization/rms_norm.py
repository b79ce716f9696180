"""Normalization by the root of the mean of squares, under the names that files give it, and its gradients."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import GAIN, AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Extra, Signature
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.training import Training
from deployer.operators.base.operands import Construction, arrays, floats
from deployer.operators.base.sums import LONGEST_ROW
from deployer.operators.base.work_split import SplitOperator
from deployer.operators.normalization.layer_norm_steps import (
    ADDED,
    EPSILON,
    SCALARS,
    AddsToDX,
    Layerwise,
    WholeRows,
    adds,
    first_axis,
    layer_kernel,
)


@register
class RmsRows(WholeRows):
    """An RMS norm by rows: Y = X inv_std scale with inv_std = 1 / sqrt(mean(X X) + epsilon).

    X and scale to Y and inv_std, which may be absent.
    """

    name = "RmsRows"
    layout: ClassVar[dict[str, str]] = {"x": "rc", "scale": "c", "y": "rc", "inv_std": "r"}
    kernel = layer_kernel("rms_rows_f32", layout, ("y", "inv_std"), *SCALARS, "epsilon")
    execution = Execution(optional_outputs={"inv_std": 1})
    walks = 2

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """X inv_std scale, and inv_std."""
        x, scale = operands
        mean = np.square(x).mean(1, dtype=x.dtype, keepdims=True)
        inv_std = 1 / np.sqrt(mean + x.dtype.type(_epsilon(node)))
        return x * inv_std * scale, inv_std

    def more_args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Epsilon."""
        return {"epsilon": Const(_epsilon(node))}


@register
class RmsInputGrad(AddsToDX, WholeRows):
    """An RMS norm's dX by rows: inv_std (dY scale - X inv_std mean(dY scale X inv_std)).

    dY, X, scale, inv_std[, what is added] to dX.
    """

    name = "RmsInputGrad"
    layout: ClassVar[dict[str, str]] = {"dy": "rc", "x": "rc", "scale": "c", "inv_std": "r", ADDED: "rc", "dx": "rc"}
    kernel = layer_kernel("rms_input_grad_f32", layout, ("dx",), *SCALARS)
    fusion = Fusion(epilogue_bias=adds(layout))
    walks = 2

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """inv_std (dY scale - X inv_std mean(dY scale X inv_std))."""
        dy, x, scale, inv_std = operands
        unit, scaled = x * inv_std, dy * scale
        dot = (scaled * unit).mean(1, keepdims=True, dtype=x.dtype)
        return (inv_std * (scaled - unit * dot),)


@register
class RmsScaleGrad(SplitOperator, Layerwise):
    """Per column the sum of dY X inv_std over the rows, the gradient of an RMS norm's scale."""

    name = "RmsScaleGrad"
    layout: ClassVar[dict[str, str]] = {"dy": "rc", "x": "rc", "inv_std": "r", "dscale": "c"}
    kernel = layer_kernel("rms_scale_grad_f32", layout, ("dscale",), sums=True)
    execution = Execution(sums=Sums(("r",)))

    def formula(self, node: Node, *operands: Array) -> tuple[Array, ...]:
        """The sum of dY X inv_std over the rows."""
        dy, x, inv_std = operands
        return ((dy * (x * inv_std)).sum(0, dtype=x.dtype),)


def _epsilon(node: Node) -> float:
    return node.attr_float("epsilon", EPSILON)


def _training_form(node: Node, fresh: Callable[[str], str]) -> Node:
    """With inv_std as an output."""
    y, inv_std = (*node.outputs, "")[:2]
    return replace(node, outputs=(y, inv_std or fresh(f"{node.name}_saved_inv_std")))


@register
class SimplifiedLayerNormalization(Operator):
    """Y = X scale / sqrt(mean(X X) + epsilon), ONNX Runtime's name of an RMS norm.

    X and scale to Y and, for the gradient, 1 / sqrt(mean(X X) + epsilon) of each row.
    """

    name = "SimplifiedLayerNormalization"
    training = Training(learned={1: GAIN}, training_form=_training_form)
    file = FileSpec(
        custom=Signature((2, 2), (1, 2), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"}), domain=""
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and one element per row."""
        x, scale = floats(node, inputs, 2)
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        axis = first_axis(node, x.shape)
        if scale.shape != x.shape[axis:]:
            raise mismatch(node, f"scale is not of shape {list(x.shape[axis:])}", inputs)
        return (x, TensorType("float32", x.shape[:axis] + (1,) * (len(x.shape) - axis)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X inv_std scale, and inv_std."""
        x, scale = arrays(inputs, 2)
        axes = tuple(range(first_axis(node, x.shape), x.ndim))
        mean = np.square(x).mean(axes, dtype=x.dtype, keepdims=True)
        inv_std = np.asarray(1 / np.sqrt(mean + x.dtype.type(_epsilon(node))), x.dtype)
        return (np.asarray(x * inv_std * scale), inv_std)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One step by rows; for long rows Mul, ReduceMean, Add, Sqrt, Reciprocal."""
        (x, scale), (y, inv_std) = node.inputs, (*node.outputs, "")[:2]
        shape, graph = floats(node, inputs, 1)[0].shape, Construction(node.name)
        axis = first_axis(node, shape)
        if y and math.prod(shape[axis:]) <= LONGEST_ROW:
            attrs: dict[str, AttrValue] = {"axis": axis, "epsilon": _epsilon(node)}
            return [Node(node.name, RmsRows.name, (x, scale), (y, inv_std) if inv_std else (y,), attrs)]
        axes = tuple(range(axis, len(shape)))
        mean = graph.emit("ReduceMean", (graph.emit("Mul", (x, x)),), axes=axes, keepdims=1)
        above = graph.emit("Add", (mean, graph.number(_epsilon(node))))
        inv_std = graph.emit("Reciprocal", (graph.emit("Sqrt", (above,)),), inv_std)
        if y:
            graph.emit("Mul", (graph.emit("Mul", (x, inv_std)), scale), y)
        return graph.nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """SimplifiedLayerNormalizationGrad with the saved statistic, computed again where nothing saved it."""
        if any(douts[1:]) or not douts[0]:
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only Y has a gradient")
        x, scale = node.inputs
        axis, inv_std = first_axis(node, b.type(x).shape), (*node.outputs, "")[1]
        if not inv_std:
            inv_std = b.temp("inv_std")
            b.emit(self.name, (x, scale), (b.temp("y"), inv_std), axis=axis, epsilon=_epsilon(node))
        outputs = tuple(b.grad(i) if b.needs_grad(i) else "" for i in range(len(node.inputs)))
        b.emit(SimplifiedLayerNormalizationGrad.name, (douts[0], x, scale, inv_std), outputs, axis=axis)


@register
class SimplifiedLayerNormalizationGrad(Operator):
    """dX and dscale of an RMS norm from the inverse root that its rows had.

    dY, X, scale and inv_std to dX and dscale; an output may be absent.
    """

    name = "SimplifiedLayerNormalizationGrad"
    file = FileSpec(
        custom=Signature((4, 4), (1, 2), {"axis": "INT", "epsilon": "FLOAT"}),
        extras=(Extra("stash_type", ("INT",), "the type of saved statistics, which here is float32"),),
    )
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
        """A step for each; dX of long rows is made of products and a ReduceMean."""
        (dy, x, scale, inv_std), (dx, dscale) = node.inputs, (*node.outputs, "")[:2]
        shape, graph = floats(node, inputs, 2)[1].shape, Construction(node.name)
        axis = first_axis(node, shape)
        rows: dict[str, AttrValue] = {"axis": axis}
        if dscale:
            graph.nodes.append(Node(f"{node.name}/dscale", RmsScaleGrad.name, (dy, x, inv_std), (dscale,), rows))
        if dx and math.prod(shape[axis:]) <= LONGEST_ROW:
            graph.nodes.append(Node(node.name, RmsInputGrad.name, node.inputs, (dx,), rows))
        elif dx:
            columns = tuple(range(axis, len(shape)))
            row = graph.emit("Reshape", (inv_std,), shape=shape[:axis] + (1,) * len(columns))
            unit, scaled = graph.emit("Mul", (x, row)), graph.emit("Mul", (dy, scale))
            dot = graph.emit("ReduceMean", (graph.emit("Mul", (scaled, unit)),), axes=columns, keepdims=1)
            rest = graph.emit("Sub", (scaled, graph.emit("Mul", (unit, dot))))
            graph.emit("Mul", (row, rest), dx)
        return graph.nodes


NAMES = ("eps", "epsilon")
"""Names of the attribute that is added to the mean."""


@register
class RMSNorm(Operator):
    """Y = X scale / sqrt(mean(X X) + eps), the name that exporters of microcontroller compilers give it.

    RMSNormalization, whose epsilon has two names here and no default that all exporters share.
    """

    name = "RMSNorm"
    file = FileSpec(
        custom=Signature((2, 2), (1, 1), {"axis": "INT", "stash_type": "INT", **dict.fromkeys(NAMES, "FLOAT")}),
        domain="",
    )
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        given = [name for name in NAMES if name in node.attrs]
        if len(given) != 1:
            why = (
                "both eps and epsilon"
                if given
                else "neither eps nor epsilon, for which exporters have several defaults"
            )
            raise unsupported(node, f"it has {why}", "one of eps and epsilon")
        return registry()["RMSNormalization"].infer(_plain(node), inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of RMSNormalization."""
        return registry()["RMSNormalization"].reference(_plain(node), inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """RMSNormalization."""
        return [_plain(node)]


def _plain(node: Node) -> Node:
    """The node of the operator that ONNX has."""
    attrs: dict[str, AttrValue] = {name: value for name, value in node.attrs.items() if name not in NAMES}
    attrs["epsilon"] = next(node.attrs[name] for name in NAMES if name in node.attrs)
    return replace(node, op="RMSNormalization", attrs=attrs)


@register
class RMSNormalization(Operator):
    """Y = X scale / sqrt(mean(X X) + epsilon), with the mean over the axes from `axis` on.

    Files of older versions of ONNX may have it, too.
    """

    name = "RMSNormalization"
    training = Training(learned={1: GAIN})
    file = FileSpec(
        versions=(23,),
        custom=Signature((2, 2), (1, 1), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"}),
        domain="",
    )
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; scale broadcasts to it."""
        x, scale = floats(node, inputs, 2)
        first_axis(node, x.shape)
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        ending = x.shape[len(x.shape) - len(scale.shape) :] if len(scale.shape) <= len(x.shape) else ()
        if any(a not in (1, b) for a, b in zip(scale.shape, ending, strict=False)) or len(ending) < len(scale.shape):
            raise mismatch(node, "scale does not broadcast to X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X over the root of the mean of its squares, times scale."""
        x, scale = arrays(inputs, 2)
        axes = tuple(range(first_axis(node, x.shape), x.ndim))
        mean = np.square(x).mean(axes, dtype=x.dtype, keepdims=True)
        return (np.asarray(x / np.sqrt(mean + x.dtype.type(_epsilon(node))) * scale, x.dtype),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The simplified layer normalization, of a scale of ones with a Mul behind where scale is no row."""
        kind, factors = floats(node, inputs, 2)
        graph, (x, scale) = Construction(node.name), node.inputs
        row = kind.shape[first_axis(node, kind.shape) :]
        attrs: dict[str, AttrValue] = {"axis": len(kind.shape) - len(row), "epsilon": _epsilon(node)}
        if factors.shape == row:
            return [Node(node.name, SimplifiedLayerNormalization.name, (x, scale), node.outputs, attrs)]
        ones = graph.emit("Constant", (), value_floats=(1.0,) * math.prod(row))
        ones = ones if len(row) == 1 else graph.emit("Reshape", (ones,), shape=row)
        unit = graph.emit(SimplifiedLayerNormalization.name, (x, ones), "", **attrs)
        graph.emit("Mul", (unit, scale), node.outputs[0])
        return graph.nodes
