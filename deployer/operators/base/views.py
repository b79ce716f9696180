"""Base class of views, which give the same elements another shape and copy nothing, and of compile-time operators."""

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, unsupported
from deployer.operators.base.operands import arrays, operands


class View(Operator):
    """Same elements, another shape; a subclass says which."""

    view = True

    @abstractmethod
    def shape(self, node: Node, x: TensorType) -> tuple[int, ...]:
        """The output's shape; raises ShapeMismatch or UnsupportedOperator."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The input's dtype in the new shape."""
        x = operands(node, inputs, 1)[0]
        shape = self.shape(node, x)
        if math.prod(shape) != x.size:
            raise mismatch(node, f"{x.size} elements do not fill shape {shape}", inputs)
        return (TensorType(x.dtype, shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The same elements, row-major."""
        x = arrays(inputs, 1)[0]
        return (x.reshape(self.shape(node, TensorType("float32", x.shape))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY in the shape of X."""
        if b.needs_grad(0):
            reshape_to(b, douts[0], b.type(node.inputs[0]).shape, b.grad(0))


def reshape_to(b: GradientBuilder, name: str, shape: tuple[int, ...], out: str) -> None:
    """Emit `out` = `name` in that shape."""
    b.emit("Reshape", (name, b.constant("shape", np.array(shape, np.int64))), (out,))


def normalized_axes(node: Node, axes: Sequence[int], rank: int, inputs: Sequence[TensorType | None]) -> tuple[int, ...]:
    """Axes counted from the front, in their order; ShapeMismatch where one is outside the rank or occurs twice."""
    if any(not -rank <= axis < rank for axis in axes):
        raise mismatch(node, f"axes {tuple(axes)} outside rank {rank}", inputs)
    positions = tuple(axis % rank for axis in axes)
    if len(set(positions)) < len(positions):
        raise mismatch(node, f"axes {tuple(axes)} name one axis twice", inputs)
    return positions


class Folded(Operator):
    """An operator of compile-time values; the check stage replaces its nodes by the constants their reference gives."""

    no_gradient = "its value does not depend on the values of its inputs"

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """UnsupportedOperator: such a node never reaches the target."""
        raise unsupported(node, "could not be folded to a constant", "constant inputs")
