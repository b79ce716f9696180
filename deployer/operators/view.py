"""What views share: operators that give the same elements another shape and copy nothing."""

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch
from deployer.operators.inputs import arrays, operands


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
