"""Convolutions over three spatial axes by those over two: windows along the depth become channels.

W[M, C, KD, KH, KW] lies in memory as W[M, C KD, KH, KW]. X whose windows along the depth lie side by side, an image of
C KD channels for each output along the depth, makes the same products in the same order: channels, then taps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from deployer.core.ir import AttrValue, Node
from deployer.operators.convolution.geometry import Geometry, Shape


@dataclass
class Volume:
    """The nodes that stand for `node`, a convolution of that shape or one of its gradients."""

    node: Node
    shape: Geometry
    nodes: list[Node] = field(default_factory=list)

    def emit(self, label: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        """Append a node and give the name of its result."""
        name = f"{self.node.name}/{label}"
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs))
        return name

    def last(self, op: str, value: str, **attrs: AttrValue) -> list[Node]:
        """All nodes, with one at the end that gives the node's result."""
        return [*self.nodes, Node(self.node.name, op, (value,), self.node.outputs[:1], attrs)]

    @property
    def images(self) -> int:
        """Images of X's windows, and of Y: one for each output along the depth."""
        return self.shape.n * self.shape.out[0]

    @property
    def weights(self) -> Shape:
        """The shape of W with its taps along the depth as channels."""
        s = self.shape
        return (s.group * s.m, s.c * s.kernel[0], *s.kernel[1:])

    @property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes of the convolution of images."""
        s = self.shape
        return {
            "kernel_shape": s.kernel[1:],
            "strides": s.strides[1:],
            "dilations": s.dilations[1:],
            "pads": (*s.begin[1:], *s.end[1:]),
            "group": s.group,
        }

    @property
    def _padded(self) -> int:
        """X's depth with its padding."""
        return self.shape.begin[0] + self.shape.size[0] + self.shape.end[0]

    @property
    def _layers(self) -> Shape:
        """The shape of X with its padding as layers of all channels: [n, depth, channels, plane]."""
        s = self.shape
        return (s.n, self._padded, s.group * s.c, math.prod(s.size[1:]))

    def unfolded(self, x: str) -> str:
        """X[n, channels, depth, ..] as images whose channels are X's channels at the taps along the depth."""
        s, (n, depth, channels, plane) = self.shape, self._layers
        x = self.emit("planes", "Reshape", (x,), shape=(n, channels, s.size[0], plane))
        x = self.emit("layers", "Transpose", (x,), perm=(0, 2, 1, 3))
        if depth > s.size[0]:
            x = self.emit("padded", "Pad", (x,), pads=(0, s.begin[0], 0, 0, 0, s.end[0], 0, 0))
        taps = []
        for tap in range(s.kernel[0]):
            first = tap * s.dilations[0]
            ends = first + (s.out[0] - 1) * s.strides[0] + 1
            part = self.emit(
                f"tap{tap}", "Slice", (x,), starts=(first,), ends=(ends,), axes=(1,), steps=(s.strides[0],)
            )
            shape = (self.images * channels, 1, plane)
            taps.append(self.emit(f"tap{tap}_channels", "Reshape", (part,), shape=shape))
        joined = self.emit("taps", "Concat", taps, axis=1) if len(taps) > 1 else taps[0]
        return self.emit("images", "Reshape", (joined,), shape=(self.images, channels * len(taps), *s.size[1:]))

    def folded(self, images: str) -> list[Node]:
        """All nodes, with the sum of the images' channels where they come from in X at the end."""
        s, (n, depth, channels, plane) = self.shape, self._layers
        rows = self.emit("channels", "Reshape", (images,), shape=(self.images * channels, s.kernel[0], plane))
        taps = []
        for tap in range(s.kernel[0]):
            part = self.emit(f"tap{tap}", "Slice", (rows,), starts=(tap,), ends=(tap + 1,), axes=(1,))
            part = self.emit(f"tap{tap}_layers", "Reshape", (part,), shape=(n, s.out[0], channels, plane))
            place = {"starts": (0, tap * s.dilations[0], 0, 0), "steps": (1, s.strides[0], 1, 1)}
            taps.append(self.emit(f"tap{tap}_place", "SliceGrad", (part,), input_shape=self._layers, **place))
        x = self.emit("sum", "Sum", taps)
        if depth > s.size[0]:
            x = self.emit("inner", "Slice", (x,), starts=(s.begin[0],), ends=(s.begin[0] + s.size[0],), axes=(1,))
        x = self.emit("planes", "Transpose", (x,), perm=(0, 2, 1, 3))
        return self.last("Reshape", x, shape=(n, channels, *s.size))

    def planes(self, dy: str) -> str:
        """dY[n, outputs, depth, ..] as an image for each output along the depth."""
        s, outputs = self.shape, self.shape.group * self.shape.m
        dy = self.emit("dy_planes", "Reshape", (dy,), shape=(s.n, outputs, s.out[0], math.prod(s.out[1:])))
        dy = self.emit("dy_layers", "Transpose", (dy,), perm=(0, 2, 1, 3))
        return self.emit("dy_images", "Reshape", (dy,), shape=(self.images, outputs, *s.out[1:]))


def convolved(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a Conv over a volume stands for."""
    v = Volume(node, shape)
    w = v.emit("weights", "Reshape", node.inputs[1:2], shape=v.weights)
    y = v.emit("convolved", node.op, (v.unfolded(node.inputs[0]), w, *node.inputs[2:]), **v.attrs)
    outputs = shape.group * shape.m
    y = v.emit("outputs", "Reshape", (y,), shape=(shape.n, shape.out[0], outputs, math.prod(shape.out[1:])))
    y = v.emit("depth", "Transpose", (y,), perm=(0, 2, 1, 3))
    return v.last("Reshape", y, shape=shape.y_shape)


def input_gradient(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a ConvGradX over a volume stands for."""
    v = Volume(node, shape)
    dy, w = v.planes(node.inputs[0]), v.emit("weights", "Reshape", node.inputs[1:2], shape=v.weights)
    return v.folded(v.emit("images", node.op, (dy, w), input_shape=shape.size[1:], **v.attrs))


def weight_gradient(node: Node, shape: Geometry) -> list[Node]:
    """The nodes that a ConvGradW over a volume stands for."""
    v = Volume(node, shape)
    dy, images = v.planes(node.inputs[0]), v.unfolded(node.inputs[1])
    dw = v.emit("weights", node.op, (dy, images), **v.attrs)
    return v.last("Reshape", dw, shape=(shape.group * shape.m, shape.c, *shape.kernel))
