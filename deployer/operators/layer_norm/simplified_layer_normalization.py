"""SimplifiedLayerNormalization: Y = X scale / sqrt(mean(X X) + epsilon), ONNX Runtime's name of an RMS norm."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, register, rng, unsupported
from deployer.operators.construction import Construction
from deployer.operators.inputs import arrays, floats, normal
from deployer.operators.layer_norm.rows_by_columns import EPSILON, first_axis


@register
class SimplifiedLayerNormalization(Operator):
    """X and scale to Y and, for the gradient, 1 / sqrt(mean(X X) + epsilon) of each row."""

    name = "SimplifiedLayerNormalization"
    custom = Form((2, 2), (1, 2), {"axis": "INT", "epsilon": "FLOAT", "stash_type": "INT"})
    domain = ""
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X, and one element per row."""
        x, scale = floats(node, inputs, 2)
        if node.attr_int("stash_type", 1) != 1:
            raise unsupported(node, f"stash_type is {node.attrs['stash_type']}, not float32", "stash_type 1")
        axis = first_axis(node, x.shape)
        if scale.shape != x.shape[axis:]:
            raise mismatch(node, f"scale is not of shape {list(x.shape[axis:])}", inputs)
        return (x, TensorType("float32", x.shape[:axis] + (1,) * (len(x.shape) - axis)))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X inv_std scale, and inv_std."""
        x, scale = arrays(inputs, 2)
        axes = tuple(range(first_axis(node, x.shape), x.ndim))
        mean = np.square(x).mean(axes, dtype=x.dtype, keepdims=True)
        inv_std = np.asarray(1 / np.sqrt(mean + x.dtype.type(node.attr_float("epsilon", EPSILON))), x.dtype)
        return (np.asarray(x * inv_std * scale), inv_std)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Mul, ReduceMean, Add, Sqrt, Reciprocal."""
        (x, scale), (y, inv_std) = node.inputs, (*node.outputs, "")[:2]
        shape, parts = floats(node, inputs, 1)[0].shape, Construction(node.name)
        axes = tuple(range(first_axis(node, shape), len(shape)))
        mean = parts.emit("ReduceMean", (parts.emit("Mul", (x, x)),), axes=axes, keepdims=1)
        above = parts.emit("Add", (mean, parts.number(node.attr_float("epsilon", EPSILON))))
        inv_std = parts.emit("Reciprocal", (parts.emit("Sqrt", (above,)),), inv_std)
        if y:
            parts.emit("Mul", (parts.emit("Mul", (x, inv_std)), scale), y)
        return parts.nodes

    def samples(self) -> Iterator[Sample]:
        """Rows and axes in the middle, with and without the second output."""
        r = rng(139)
        for label, shape, axis in (("rows", (7, 5), -1), ("middle", (2, 3, 4, 5), 2)):
            inputs = (normal(r, *shape), normal(r, *shape[axis:]))
            yield Sample(label, inputs, {"axis": axis, "epsilon": 0.01})
            yield Sample(f"{label}_all", inputs, {"axis": axis, "epsilon": 0.01}, 2)
