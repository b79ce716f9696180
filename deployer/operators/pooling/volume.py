"""Pooling over three spatial axes: over the planes first, then over the depth of what comes out.

The maximum of maxima is the maximum, and the first of equal ones stays the first; a mean over the elements of planes,
then over those of the depth, divides by the product of both counts, whichever padding counts.
"""

from collections.abc import Sequence

from deployer.core.ir import AttrValue, Node
from deployer.operators.pooling.windows import AxisWindows

Attrs = dict[str, AttrValue]
PASSED = ("ceil_mode", "count_include_pad")


class Volume:
    """The nodes that stand for `node`, a pooling over X of that shape, or its gradient."""

    def __init__(self, node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> None:
        self.node, self.nodes = node, list[Node]()
        n, channels, depth = shape[:3]
        _, height, width = axes
        self.full, self.out = shape, (n, channels, *(a.count for a in axes))
        self.flat = (n, channels * depth, *shape[3:])
        self.pooled = (n, channels * depth, height.count, width.count)
        self.columns = (n, channels, depth, height.count * width.count)
        self.last = (n, channels, axes[0].count, height.count * width.count)
        passed = {name: node.attrs[name] for name in PASSED if name in node.attrs}
        self.plane = _attrs(axes[1:]) | passed
        self.depth = _attrs((axes[0], AxisWindows(self.columns[-1], count=self.columns[-1]))) | passed

    def emit(self, label: str, op: str, inputs: Sequence[str], attrs: Attrs) -> str:
        """Append a node and give the name of its result."""
        name = f"{self.node.name}/{label}"
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs))
        return name

    def shaped(self, label: str, value: str, shape: tuple[int, ...]) -> str:
        """The value in another shape."""
        return self.emit(label, "Reshape", (value,), {"shape": shape})

    def ended(self, value: str, shape: tuple[int, ...]) -> list[Node]:
        """All nodes, with the node's result in that shape at the end."""
        return [*self.nodes, Node(self.node.name, "Reshape", (value,), self.node.outputs[:1], {"shape": shape})]


def _attrs(axes: Sequence[AxisWindows]) -> Attrs:
    return {
        "kernel_shape": tuple(a.kernel for a in axes),
        "strides": tuple(a.stride for a in axes),
        "dilations": tuple(a.dilation for a in axes),
        "pads": tuple(a.pad for a in axes) + tuple(a.end for a in axes),
    }


def pooled(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> list[Node]:
    """The nodes that a pooling of X of that shape stands for."""
    v = Volume(node, shape, axes)
    planes = v.emit("planes", node.op, (v.shaped("flat", node.inputs[0], v.flat),), v.plane)
    layers = v.emit("layers", node.op, (v.shaped("columns", planes, v.columns),), v.depth)
    return v.ended(layers, v.out)


def mean_gradient(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows]) -> list[Node]:
    """The nodes that the gradient of means stands for, dY -> dX of that shape."""
    v = Volume(node, shape, axes)
    dy = v.shaped("last", node.inputs[0], v.last)
    dy = v.emit("layers", node.op, (dy,), {**v.depth, "input_shape": v.columns})
    dy = v.emit("planes", node.op, (v.shaped("pooled", dy, v.pooled),), {**v.plane, "input_shape": v.flat})
    return v.ended(dy, shape)


def maximum_gradient(node: Node, shape: tuple[int, ...], axes: Sequence[AxisWindows], forward: str) -> list[Node]:
    """The nodes that the gradient of maxima stands for, dY, X -> dX; `forward` is the operator of the pooling."""
    v = Volume(node, shape, axes)
    x = v.shaped("flat", node.inputs[1], v.flat)
    columns = v.shaped("columns", v.emit("maxima", forward, (x,), v.plane), v.columns)
    dy = v.emit("layers", node.op, (v.shaped("last", node.inputs[0], v.last), columns), v.depth)
    dy = v.emit("planes", node.op, (v.shaped("pooled", dy, v.pooled), x), v.plane)
    return v.ended(dy, shape)
