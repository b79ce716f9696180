"""Rotation of pairs of elements by angles, as rotary position embeddings do it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Operand, Whole, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.operands import arrays, floats

FLAGS = ("neighbours", "inverse", "adds_zero", "kept_adds_zero")
ATTRIBUTES = ("outer", "inner", "step", "before", "behind", *FLAGS)
OPERATIONS = 3
"""Multiply-accumulates and moves of an element, in elements of a product."""


@register
class Rotation(Operator):
    """Pairs (a, b) of X become (a cos - b sin, b cos + a sin); each product, and their sum, is rounded.

    X, cos and sin to Y. X is [outer, t, inner, 2, j], or with `neighbours` [outer, t, inner, j, 2]. The tables have t
    rows; in each every `step`-th number, the first j of these, is a pair's. An `inverse` rotation has -sin. `adds_zero`
    says that 0 is added to each result, which makes -0 a 0. Of each row of X the first `before` and the last `behind`
    elements are no part of a pair and stay what they are; `kept_adds_zero` says that 0 is added to these.
    """

    name = "Rotation"
    kernel = Kernel(
        "rotation_f32",
        pointers=(
            ("x", "float32", False),
            ("cos", "float32", False),
            ("sin", "float32", False),
            ("y", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("o", "t", "m", "j")),
            *((f"{arg}_{axis}", "u32") for arg in "xy" for axis in "otmjp"),
            *((name, "u32") for name in ("cos_t", "sin_t", "step", "before", "behind")),
            *((name, "f32") for name in ("sign", "zero", "kept_zero")),
        ),
    )
    fusion = Fusion(is_rotation=True)
    file = FileSpec(custom=Signature((3, 3), (1, 1), dict.fromkeys(ATTRIBUTES, "INT")), flags=FLAGS)
    no_gradient = "it is what fusion makes of others, after gradients have been taken, or of a model that only predicts"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, cos, sin = floats(node, inputs, 3)
        rows = cos.shape[0] if len(cos.shape) == 2 else 0
        pairs = self._pairs(node, x.shape, cos.shape) if rows else 0
        width = 2 * pairs + sum(_kept(node))
        fits = pairs > 0 and x.size == self._rows(node, rows) * width and (pairs - 1) * _step(node) < cos.shape[1]
        if cos != sin or not fits:
            raise mismatch(node, "the tables do not fit the pairs of X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both of each pair, between what is kept."""
        x, cos, sin = arrays(inputs, 3)
        view, (before, behind) = self._view(node, x.shape, cos.shape), _kept(node)
        count = math.prod(view[3:]) // 2
        lines = x.reshape(*view[:3], -1)
        pairs = lines[..., before : before + 2 * count].reshape(view)
        cos, sin = (table[:, :: _step(node)][:, :count] for table in (cos, sin))
        axis = 4 if node.attr_int("neighbours", 0) else 3
        first, second = (part.squeeze(axis) for part in np.split(pairs, 2, axis))
        cos, sin = cos[:, None], sin[:, None] * x.dtype.type(-1 if node.attr_int("inverse", 0) else 1)
        turned = np.stack([first * cos - second * sin, second * cos + first * sin], axis)
        turned = np.asarray(turned + x.dtype.type(0) if node.attr_int("adds_zero", 0) else turned)
        kept = lines + x.dtype.type(0) if node.attr_int("kept_adds_zero", 0) else lines
        parts = (kept[..., :before], turned.reshape(*view[:3], -1), kept[..., lines.shape[-1] - behind :])
        return (np.concatenate(parts, -1).reshape(x.shape),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, t, m and j; both of a pair are in one tile, and whole rows where some elements are kept."""
        table = types[node.inputs[1]].shape
        view = self._view(node, types[node.inputs[0]].shape, table)
        pairs = math.prod(view[3:]) // 2
        if any(_kept(node)):
            return self._access_of_rows(node, table, (*view[:3], 2 * pairs + sum(_kept(node))))
        pair: tuple[Axis, Axis] = (At("j"), Whole()) if node.attr_int("neighbours", 0) else (Whole(), At("j"))
        axes: tuple[Axis, ...] = (At("o"), At("t"), At("m"), *pair)
        listed = [Operand("x", node.inputs[0], "in", view, axes)]
        for arg, name in zip(("cos", "sin"), node.inputs[1:], strict=True):
            listed.append(Operand(arg, name, "in", table, (At("t"), Window("j", 1, _step(node)))))
        dims = (Dim("o", view[0]), Dim("t", view[1]), Dim("m", view[2]), Dim("j", pairs))
        return Access(dims, (*listed, Operand("y", node.outputs[0], "out", view, axes)))

    @staticmethod
    def _access_of_rows(node: Node, table: tuple[int, ...], view: tuple[int, ...]) -> Access:
        axes: tuple[Axis, ...] = (At("o"), At("t"), At("m"), Whole())
        listed = [Operand("x", node.inputs[0], "in", view, axes)]
        for arg, name in zip(("cos", "sin"), node.inputs[1:], strict=True):
            listed.append(Operand(arg, name, "in", table, (At("t"), Whole())))
        dims = tuple(Dim(name, size) for name, size in zip("otm", view, strict=False))
        return Access(dims, (*listed, Operand("y", node.outputs[0], "out", view, axes)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths of the tile, strides, the sign of sin, and what is added to results: 0, or -0, which changes none."""
        neighbours, kept = node.attr_int("neighbours", 0), _kept(node)
        places = (0, 1, 2, *((3, 4) if neighbours else (4, 3)))
        values: dict[str, ArgValue] = {name: Extent(name) for name in "otm"}
        if any(kept):
            pairs = (access.operand("x").view[-1] - sum(kept)) // 2
            strides = {"j": Const(2 if neighbours else 1), "p": Const(1 if neighbours else pairs)}
            values |= {"j": Const(pairs)} | {f"{arg}_{axis}": strides[axis] for arg in "xy" for axis in "jp"}
        else:
            values["j"] = Extent("j")
        axes = zip("otmjp", places, strict=True)
        values |= {f"{arg}_{a}": Stride(arg, at) for a, at in axes for arg in "xy" if f"{arg}_{a}" not in values}
        values |= {"cos_t": Stride("cos", 0), "sin_t": Stride("sin", 0), "step": Const(_step(node))}
        values |= {"before": Const(kept[0]), "behind": Const(kept[1])}
        values["sign"] = Const(-1.0 if node.attr_int("inverse", 0) else 1.0)
        added = {"zero": "adds_zero", "kept_zero": "kept_adds_zero"}
        return values | {arg: Const(0.0 if node.attr_int(flag, 0) else -0.0) for arg, flag in added.items()}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Some operations per element; cores share rows."""
        rows, kept = tile["o"] * tile["t"] * tile["m"], sum(_kept(node))
        pairs = (access.operand("x").view[-1] - kept) // 2 if kept else tile["j"]
        return Work(macs=0, elements=rows * (2 * OPERATIONS * pairs + kept), parallel=rows)

    @staticmethod
    def _rows(node: Node, places: int) -> int:
        return node.attr_int("outer", 1) * places * node.attr_int("inner", 1)

    def _pairs(self, node: Node, shape: tuple[int, ...], table: tuple[int, ...]) -> int:
        return (math.prod(shape) // self._rows(node, table[0]) - sum(_kept(node))) // 2

    def _view(self, node: Node, shape: tuple[int, ...], table: tuple[int, ...]) -> tuple[int, ...]:
        pairs = self._pairs(node, shape, table)
        pair = (pairs, 2) if node.attr_int("neighbours", 0) else (2, pairs)
        return (node.attr_int("outer", 1), table[0], node.attr_int("inner", 1), *pair)


def _step(node: Node) -> int:
    return node.attr_int("step", 1)


def _kept(node: Node) -> tuple[int, int]:
    """Counts of the elements of a row that stay what they are, before and behind those of pairs."""
    return node.attr_int("before", 0), node.attr_int("behind", 0)
