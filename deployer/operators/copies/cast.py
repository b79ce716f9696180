"""Cast: X in another element type; a target has two of them, float32 and int32."""

from collections.abc import Iterator, Sequence

import numpy as np
from onnx import TensorProto

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Kernel, Sample, register, rng, unsupported
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal, operands

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@register
class Cast(Flat):
    """Between floats, and between integers, it is nothing; integers at run time become floats by a kernel.

    Floats become int32 by Truncate, int64, and anything truths, of constants alone.
    """

    name = "Cast"
    versions = (6, 9, 13, 19, 21, 23, 24, 25, 28)
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

    def samples(self) -> Iterator[Sample]:
        """Floats and integers as floats, integers as integers, one beyond what floats hold exactly."""
        r = rng(130)
        yield Sample("floats", (normal(r, 3, 4),), {"to": TensorProto.FLOAT})
        numbers = np.array([-3, 0, 7, (1 << 24) + 1, -(1 << 31)], np.int32)
        yield Sample("numbers", (numbers,), {"to": TensorProto.FLOAT})
        yield Sample("integers", (numbers,), {"to": TensorProto.INT64})
        yield Sample("truncated", (normal(r, 3, 4) * np.float32(100),), {"to": TensorProto.INT32})

    def sweep(self) -> Iterator[Sample]:
        """Vectors of integers."""
        for size in (64, 512, 4096):
            yield Sample(f"n{size}", (np.arange(size, dtype=np.int32),), {"to": TensorProto.FLOAT})
