"""What DepthToSpace and SpaceToDepth share."""

from deployer.core.ir import Node, TensorType
from deployer.core.operator import mismatch

IMAGE = len(("N", "C", "H", "W"))
"""Axes of X."""


def block_size(node: Node, x: TensorType) -> int:
    """The side of a block; ShapeMismatch where there is none, or X is no image."""
    block = node.attr_int("blocksize", 0)
    if block < 1 or len(x.shape) != IMAGE:
        raise mismatch(node, f"blocksize is {block}, X {x}: no blocks of an image [N, C, H, W]", (x,))
    return block


def moved(node: Node, inner: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]) -> list[Node]:
    """X as `inner`, its axes in that order, and that in its final shape."""
    blocks, turned = f"{node.name}/blocks", f"{node.name}/turned"
    return [
        Node(blocks, "Reshape", node.inputs[:1], (blocks,), {"shape": inner}),
        Node(turned, "Transpose", (blocks,), (turned,), {"perm": order}),
        Node(node.name, "Reshape", (turned,), node.outputs, {"shape": shape}),
    ]
