"""Rotation of pairs of elements by angles, as rotary position embeddings do it."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Operand, Whole, Window
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.traits.fusion import Fusion
from deployer.operators.base.operands import arrays, floats

OPERATIONS = 3
"""Multiply-accumulates and moves of an element, in elements of a product."""


@register
class Rotation(Operator):
    """Pairs (a, b) of X become (a cos - b sin, b cos + a sin); each product, and their sum, is rounded.

    X, cos and sin to Y. X is [outer, t, inner, 2, j], or with `neighbours` [outer, t, inner, j, 2]. The tables have t
    rows; in each every `step`-th number, the first j of these, is a pair's. An `inverse` rotation has -sin. `adds_zero`
    says that 0 is added to each result, which makes -0 a 0.
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
            *(("cos_t", "u32"), ("sin_t", "u32"), ("step", "u32"), ("sign", "f32"), ("zero", "f32")),
        ),
    )
    fusion = Fusion(is_rotation=True)
    no_gradient = "it is what fusion makes of others, after gradients have been taken"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, cos, sin = floats(node, inputs, 3)
        rows = cos.shape[0] if len(cos.shape) == 2 else 0
        pairs = self._pairs(node, x.shape, cos.shape) if rows else 0
        fits = rows and x.size == 2 * self._rows(node, rows) * pairs and (pairs - 1) * _step(node) < cos.shape[1]
        if cos != sin or not fits:
            raise mismatch(node, "the tables do not fit the pairs of X", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both of each pair."""
        x, cos, sin = arrays(inputs, 3)
        view = self._view(node, x.shape, cos.shape)
        pairs = x.reshape(view)
        cos, sin = (table[:, :: _step(node)][:, : x.size // 2 // math.prod(view[:3])] for table in (cos, sin))
        axis = 4 if node.attr_int("neighbours", 0) else 3
        first, second = (part.squeeze(axis) for part in np.split(pairs, 2, axis))
        cos, sin = cos[:, None], sin[:, None] * x.dtype.type(-1 if node.attr_int("inverse", 0) else 1)
        turned = np.stack([first * cos - second * sin, second * cos + first * sin], axis)
        return (np.asarray(turned + x.dtype.type(0) if node.attr_int("adds_zero", 0) else turned).reshape(x.shape),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims o, t, m and j; both of a pair are in one tile."""
        table = types[node.inputs[1]].shape
        view = self._view(node, types[node.inputs[0]].shape, table)
        pairs = math.prod(view[3:]) // 2
        pair: tuple[Axis, Axis] = (At("j"), Whole()) if node.attr_int("neighbours", 0) else (Whole(), At("j"))
        axes: tuple[Axis, ...] = (At("o"), At("t"), At("m"), *pair)
        listed = [Operand("x", node.inputs[0], "in", view, axes)]
        for arg, name in zip(("cos", "sin"), node.inputs[1:], strict=True):
            listed.append(Operand(arg, name, "in", table, (At("t"), Window("j", 1, _step(node)))))
        dims = (Dim("o", view[0]), Dim("t", view[1]), Dim("m", view[2]), Dim("j", pairs))
        return Access(dims, (*listed, Operand("y", node.outputs[0], "out", view, axes)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths of the tile, strides, the sign of sin, and what is added to results: 0, or -0, which changes none."""
        places = (0, 1, 2, *((3, 4) if node.attr_int("neighbours", 0) else (4, 3)))
        values: dict[str, ArgValue] = {name: Extent(name) for name in "otmj"}
        values |= {f"{arg}_{axis}": Stride(arg, at) for arg in "xy" for axis, at in zip("otmjp", places, strict=True)}
        values |= {"cos_t": Stride("cos", 0), "sin_t": Stride("sin", 0), "step": Const(_step(node))}
        values["sign"] = Const(-1.0 if node.attr_int("inverse", 0) else 1.0)
        return values | {"zero": Const(0.0 if node.attr_int("adds_zero", 0) else -0.0)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Some operations per element; cores share rows."""
        rows = tile["o"] * tile["t"] * tile["m"]
        return Work(macs=0, elements=2 * OPERATIONS * rows * tile["j"], parallel=rows)

    @staticmethod
    def _rows(node: Node, places: int) -> int:
        return node.attr_int("outer", 1) * places * node.attr_int("inner", 1)

    def _pairs(self, node: Node, shape: tuple[int, ...], table: tuple[int, ...]) -> int:
        return math.prod(shape) // (2 * self._rows(node, table[0]))

    def _view(self, node: Node, shape: tuple[int, ...], table: tuple[int, ...]) -> tuple[int, ...]:
        pairs = self._pairs(node, shape, table)
        pair = (pairs, 2) if node.attr_int("neighbours", 0) else (2, pairs)
        return (node.attr_int("outer", 1), table[0], node.attr_int("inner", 1), *pair)


def _step(node: Node) -> int:
    return node.attr_int("step", 1)
