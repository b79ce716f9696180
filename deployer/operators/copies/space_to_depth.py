"""SpaceToDepth: blocks of an image become channels."""

from collections.abc import Iterator, Sequence

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.copies.blocks import block_size, moved
from deployer.operators.inputs import arrays, normal, operands

ORDERS: dict[str, tuple[int, ...]] = {"DCR": (0, 3, 5, 1, 2, 4), "CRD": (0, 1, 3, 5, 2, 4)}
"""Axes of [N, C, H, b, W, b] in the order [N, b, b, C, H, W], or [N, C, b, b, H, W]."""


@register
class SpaceToDepth(Operator):
    """A Transpose between two views."""

    name = "SpaceToDepth"
    versions = (1, 13, 28)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A block of rows and columns less, a block of channels more."""
        x = operands(node, inputs, 1)[0]
        block = block_size(node, x)
        if node.attr_str("mode", "DCR") not in ORDERS:
            raise unsupported(node, f"mode is {node.attr_str('mode', 'DCR')!r}", f"one of {', '.join(ORDERS)}")
        n, c, h, w = x.shape
        if h % block or w % block:
            raise mismatch(node, f"an image of {h} x {w} is no blocks of {block} x {block}", inputs)
        return (TensorType(x.dtype, (n, c * block * block, h // block, w // block)),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's transpose between two shapes."""
        x = arrays(inputs, 1)[0]
        y = self.infer(node, (TensorType("float32", x.shape),))[0].shape
        blocks = x.reshape(self._inner(node, x.shape))
        return (blocks.transpose(ORDERS[node.attr_str("mode", "DCR")]).reshape(y).copy(),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Reshape, Transpose, Reshape."""
        inner = self._inner(node, operands(node, inputs, 1)[0].shape)
        return moved(node, inner, ORDERS[node.attr_str("mode", "DCR")], self.infer(node, inputs)[0].shape)

    @staticmethod
    def _inner(node: Node, shape: tuple[int, ...]) -> tuple[int, ...]:
        block = node.attr_int("blocksize", 1)
        n, c, h, w = shape
        return (n, c, h // block, block, w // block, block)

    def samples(self) -> Iterator[Sample]:
        """Blocks of two and of three."""
        r = rng(127)
        yield Sample("halves", (normal(r, 2, 3, 4, 6),), {"blocksize": 2})
        yield Sample("columns_first", (normal(r, 1, 2, 4, 2),), {"blocksize": 2, "mode": "CRD"}, onnx=False)
        yield Sample("thirds", (normal(r, 1, 2, 6, 3),), {"blocksize": 3})
