"""SkipLayerNormalization: layer normalization of X + skip + bias, as ONNX Runtime joins the two."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, registry, rng
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal

EPSILON = 1e-12
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
        return {"axis": -1, "epsilon": node.attr_float("epsilon", EPSILON)}

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The sums, and the norm."""
        parts = Construction(node.name)
        outputs = [*node.outputs, *[""] * (TOTAL + 1 - len(node.outputs))]
        x, skip = node.inputs[:2]
        for bias in filter(None, node.inputs[2 + self.factors :]):
            x, skip = parts.emit("Add", (x, skip)), bias
        total = parts.emit("Add", (x, skip), outputs[TOTAL])
        operands = [total, *node.inputs[2 : 2 + self.factors]]
        while not operands[-1]:
            operands.pop()
        results = [outputs[0], *(outputs[place] for place in self.statistics)]
        parts.several(self.of, operands, results, **self._attributes(node))
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """With and without biases and further outputs."""
        r = rng(141 + self.factors)
        wide = (normal(r, 2, 3, 5), normal(r, 2, 3, 5))
        vectors = tuple(normal(r, 5) for _ in range(self.factors + 1))
        attrs: dict[str, AttrValue] = {"epsilon": 0.01}
        yield Sample("plain", (*wide, vectors[0]), attrs)
        yield Sample("biased", (*wide, *vectors), attrs)
        if len(self.statistics) == TOTAL - 1:
            yield Sample("all", (*wide, *vectors), attrs, TOTAL + 1, onnx=False)


@register
class SkipLayerNormalization(SkipNormalization):
    """X, skip, scale[, bias of the norm, bias of the sum] to Y[, mean, inv_std, sum]."""

    name = "SkipLayerNormalization"
    custom = Form((3, 5), (1, TOTAL + 1), {"epsilon": "FLOAT"})
    of = "LayerNormalization"
    factors = 2
    statistics = (1, 2)
