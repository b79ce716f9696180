"""Scale: Y = X * scale, or X / scale under `scale_down`."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, mismatch, register, rng
from deployer.operators.inputs import arrays, normal, operands


@register
class Scale(Operator):
    """ONNX Runtime's operator: scale is a tensor of one element, attribute `scale_down` is 0 or 1.

    The scale may be an integer known at compile time, as where it is a quotient of sizes.
    """

    name = "Scale"
    custom = Form((2, 2), (1, 1), {"scale_down": "INT"})
    flags = ("scale_down",)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X."""
        x, scale = operands(node, inputs, 2)
        if scale.size != 1 or scale.dtype not in (x.dtype, "int32"):
            raise mismatch(node, "scale is not one element of the dtype of X, or an integer", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X * scale or X / scale."""
        x, scale = arrays(inputs, 2)
        scale = scale.reshape(()).astype(x.dtype)
        return (np.asarray(x / scale if node.attr_int("scale_down", 0) else x * scale),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dX = dY * scale, or dY / scale under `scale_down`."""
        if b.needs_grad(1):
            raise NotDifferentiable(f"node {node.name!r} (Scale) has no gradient with respect to the scale")
        if b.needs_grad(0):
            b.emit("Scale", (douts[0], node.inputs[1]), (b.grad(0),), scale_down=node.attr_int("scale_down", 0))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Mul or Div by the scale as a scalar."""
        op = "Div" if node.attr_int("scale_down", 0) else "Mul"
        (x, scale), factor, nodes = operands(node, inputs, 2), node.inputs[1], []
        if scale.dtype != x.dtype:
            number = f"{node.outputs[0]}_number"
            nodes.append(Node(f"{node.name}_number", "AsFloat", (factor,), (number,)))
            factor = number
        if scale.shape:
            scalar = f"{node.outputs[0]}_scale"
            nodes.append(Node(f"{node.name}_scale", "Reshape", (factor,), (scalar,), {"shape": ()}))
            factor = scalar
        return [*nodes, Node(node.name, op, (node.inputs[0], factor), node.outputs)]

    def samples(self) -> Iterator[Sample]:
        """Up and down, scale as a scalar, as a vector of one and as an integer."""
        r = rng(44)
        yield Sample("up", (normal(r, 5, 7), np.array(0.3, np.float32)), onnx=False)
        yield Sample("down", (normal(r, 5, 7), np.array(3, np.float32)), {"scale_down": 1}, onnx=False)
        yield Sample("vector", (normal(r, 7), np.array([3], np.float32)), {"scale_down": 1}, onnx=False)
        yield Sample("integer", (normal(r, 5, 7), np.array(6, np.int32)), {"scale_down": 1}, onnx=False)
