"""Conversion between element types, and assignment to a state."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from deployer.core.ir import Node, TensorType
from deployer.core.kernel import Kernel
from deployer.core.operator import Array, GradientBuilder, register, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec
from deployer.operators.base.elementwise import Flat
from deployer.operators.base.operands import arrays, operands

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@register
class Cast(Flat):
    """X in another element type; a target has two of them, float32 and int32.

    Between floats, and between integers, it is nothing; integers at run time become floats by a kernel.

    Floats become int32 by Truncate, int64, and anything truths, of constants alone.
    """

    name = "Cast"
    file = FileSpec(versions=(6, 9, 13, 19, 21, 23, 24, 25, 28))
    kernel = Kernel("cast_f32", pointers=(("x", "int32", False), ("y", "float32", True)), scalars=(("n", "u32"),))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """X's shape in the new type."""
        to = node.attr_int("to", TensorProto.UNDEFINED)
        if to not in (*FLOATS, *INTEGERS, TensorProto.BOOL):
            known = to in TensorProto.DataType.values()
            name = TensorProto.DataType.Name(to) if known else str(to)
            raise unsupported(node, f"it casts to {name}, which no target has", "FLOAT, INT64, INT32 or BOOL")
        return (TensorType("float32" if to in FLOATS else "int32", operands(node, inputs, 1)[0].shape),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's astype, towards zero for integers; a truth is whether X is not zero."""
        x, to = arrays(inputs, 1)[0], node.attr_int("to", TensorProto.UNDEFINED)
        floats = x.dtype.kind == "f"
        if to in FLOATS:
            return (x if floats else x.astype(np.float32),)
        if to == TensorProto.BOOL:
            return (np.asarray(x != 0).astype(np.int32),)
        return (np.trunc(x).astype(np.int64 if to == TensorProto.INT64 else np.int32) if floats else x,)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY, where both are floats."""
        if b.needs_grad(0):
            b.emit("Identity", douts[:1], (b.grad(0),))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Identity where the target's type is the same; UnsupportedOperator for what only constants become."""
        x, y = operands(node, inputs, 1)[0], self.infer(node, inputs)[0]
        if x.dtype == "float32" and node.attr_int("to", 0) == TensorProto.INT32:
            return [Node(node.name, "Truncate", node.inputs, node.outputs)]
        if y.dtype == "int32" and (x.dtype != y.dtype or node.attr_int("to", 0) == TensorProto.BOOL):
            raise unsupported(node, f"{x} at run time becomes integers or truths", "int32, constants, or a comparison")
        return [Node(node.name, "Identity", node.inputs, node.outputs)] if x.dtype == y.dtype else None


@register
class Assign(Flat):
    """A state, which lasts from pass to pass, becomes a value that the pass has computed, in place.

    state, X to X; nothing reads the old state behind it.
    """

    name = "Assign"
    file = FileSpec(custom=Signature((2, 2), (0, 1)))
    inplace: ClassVar[dict[int, int]] = {0: 0}
    no_gradient = "what lasts from pass to pass is not part of a gradient"
    execution = Execution(moved=("state", "x"))
    kernel = Kernel("assign_f32", (("state", "float32", True), ("x", "float32", False)), (("n", "u32"),))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """X."""
        return (arrays(inputs, 2)[1].copy(),)
