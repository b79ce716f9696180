"""DepthToSpace: channels become blocks of an image."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.forms import Rule
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.copies.blocks import block_size, moved
from deployer.operators.inputs import arrays, normal, operands

ORDERS: dict[str, tuple[int, ...]] = {"DCR": (0, 3, 4, 1, 5, 2), "CRD": (0, 1, 4, 2, 5, 3)}
"""Axes of [N, b, b, C, H, W], or of [N, C, b, b, H, W], in the order [N, C, H, b, W, b]."""


def _depth_first(node: Node, types: Sequence[TensorType | None]) -> list[Node]:
    """Version 1 has the one mode that later is the default."""
    return [node]


@register
class DepthToSpace(Operator):
    """A Transpose between two views."""

    name = "DepthToSpace"
    versions = (11, 13, 28)
    older: ClassVar[dict[int, Rule]] = {1: _depth_first}
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A block of channels less, a block of rows and columns more."""
        x = operands(node, inputs, 1)[0]
        block = block_size(node, x)
        if node.attr_str("mode", "DCR") not in ORDERS:
            raise unsupported(node, f"mode is {node.attr_str('mode', 'DCR')!r}", f"one of {', '.join(ORDERS)}")
        n, c, h, w = x.shape
        if c % (block * block):
            raise mismatch(node, f"{c} channels are no blocks of {block} x {block}", inputs)
        return (TensorType(x.dtype, (n, c // (block * block), h * block, w * block)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's transpose between two shapes."""
        x = arrays(inputs, 1)[0]
        y = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        inner, order = self._moves(node, x.shape)
        return (x.reshape(inner).transpose(order).reshape(y).copy(),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Reshape, Transpose, Reshape."""
        inner, order = self._moves(node, operands(node, inputs, 1)[0].shape)
        return moved(node, inner, order, self.infer(node, inputs)[0].shape)

    @staticmethod
    def _moves(node: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        mode, block = node.attr_str("mode", "DCR"), node.attr_int("blocksize", 1)
        n, c, h, w = shape
        depth = c // (block * block)
        inner = (n, block, block, depth, h, w) if mode == "DCR" else (n, depth, block, block, h, w)
        return inner, ORDERS[mode]

    def samples(self) -> Iterator[Sample]:
        """Both modes."""
        r = rng(126)
        forms: dict[str, dict[str, AttrValue]] = {
            "default": {"blocksize": 2},
            "columns_first": {"blocksize": 2, "mode": "CRD"},
            "thirds": {"blocksize": 3, "mode": "DCR"},
        }
        for label, attrs in forms.items():
            block = int(np.asarray(attrs["blocksize"]))
            yield Sample(label, (normal(r, 2, 2 * block * block, 2, 3),), attrs)
