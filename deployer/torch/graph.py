"""The ONNX graph that is built while a PyTorch graph is walked, and the registry of what each ATen operator becomes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import numpy_helper

from deployer.core.errors import UnsupportedOperator
from deployer.core.operator import Array

OPSET, IR_VERSION = 21, 10


@dataclass(frozen=True)
class Value:
    """A tensor of the ONNX graph: its name, shape, and dtype in numpy's words."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """The axis counted from the front."""
        return axis % max(self.rank, 1)


Operand = Value | Array | float | int
"""What an ATen operator takes for a tensor: one of the graph, one that is known, or a number."""


@dataclass(eq=False)
class GraphBuilder:
    """Nodes and initializers in the order they are added.

    `operator` is the ATen operator that is lowered now, `place` the submodule that called it. Without `drops` nothing
    is dropped at random.
    """

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, Array] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    place: str = ""
    operator: str = ""
    drops: bool = True
    _constants: dict[tuple[str, tuple[int, ...], bytes], Value] = field(default_factory=dict)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        name, count = stem, 1
        while name in self.reserved:
            name, count = f"{stem}_{count}", count + 1
        self.reserved.add(name)
        return name

    def constant(self, array: Any, dtype: str = "float32") -> Value:
        """A constant tensor; equal ones are one."""
        value = np.ascontiguousarray(np.asarray(array, dtype))
        key = (dtype, value.shape, value.tobytes())
        if key not in self._constants:
            name = self.fresh("constant")
            self.initializers[name] = value.reshape(np.shape(array))
            self._constants[key] = Value(name, np.shape(array), dtype)
        return self._constants[key]

    def value(self, operand: Operand, dtype: str = "float32") -> Value:
        """The operand as a tensor of the graph."""
        if isinstance(operand, Value):
            return operand
        return self.constant(operand, dtype)

    def emit(
        self, op: str, inputs: Sequence[Operand | None], shape: Sequence[int], dtype: str = "float32", **attrs: Any
    ) -> Value:
        """Add a node with one output of that shape."""
        return self.emit_several(op, inputs, [shape], dtype, **attrs)[0]

    def emit_several(
        self,
        op: str,
        inputs: Sequence[Operand | None],
        shapes: Sequence[Sequence[int]],
        dtype: str = "float32",
        **attrs: Any,
    ) -> list[Value]:
        """Add a node with an output of each shape."""
        names = ["" if x is None else self.value(x).name for x in inputs]
        outputs = [Value(self.fresh(op.lower()), tuple(shape), dtype) for shape in shapes]
        given = {name: value for name, value in attrs.items() if value is not None}
        name = self.fresh(f"{self.place}/{op}" if self.place else op)
        self.nodes.append(onnx.helper.make_node(op, names, [x.name for x in outputs], name, **given))
        return outputs

    def ints(self, numbers: Sequence[int]) -> Value:
        """Axes, a shape or bounds as a constant."""
        return self.constant(np.array(numbers, np.int64), "int64")

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """The elements of x in another shape."""
        if tuple(shape) == x.shape:
            return x
        return self.emit("Reshape", [x, self.ints(shape)], shape, x.dtype)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """The axes of x in another order."""
        if tuple(order) == tuple(range(x.rank)):
            return x
        return self.emit("Transpose", [x], [x.shape[a] for a in order], x.dtype, perm=list(order))

    def slice(self, x: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Elements begin, begin + step, ... below end along an axis."""
        size = len(range(begin, end, step))
        if size == x.shape[axis]:
            return x
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        bounds = [self.ints([n]) for n in (begin, end, axis, step)]
        return self.emit("Slice", [x, *bounds], shape, x.dtype)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """The parts one behind the other."""
        first = parts[0]
        if len(parts) == 1:
            return first
        shape = (*first.shape[:axis], sum(p.shape[axis] for p in parts), *first.shape[axis + 1 :])
        return self.emit("Concat", parts, shape, first.dtype, axis=axis)

    def binary(self, op: str, a: Operand, b: Operand) -> Value:
        """An elementwise operator with broadcasting."""
        x, y = self.value(a), self.value(b)
        return self.emit(op, [x, y], np.broadcast_shapes(x.shape, y.shape), x.dtype)

    def unary(self, op: str, x: Value, **attrs: Any) -> Value:
        """An elementwise operator of one tensor."""
        return self.emit(op, [x], x.shape, x.dtype, **attrs)

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
        """A reduction over axes; over all where there are none."""
        of = sorted({x.axis(a) for a in axes}) or list(range(x.rank))
        shape = [1 if a in of else n for a, n in enumerate(x.shape) if keep or a not in of]
        return self.emit(op, [x, self.ints(of)], shape, x.dtype, keepdims=int(keep))

    def dropout(self, x: Operand, share: float, train: bool | None = True) -> Value:
        """The elements of x of which a share is dropped at random in training, and the others scaled."""
        value = self.value(x)
        if not (share and train and self.drops):
            return value
        if share == 1:
            return self.binary("Mul", value, 0.0)
        return self.emit("Dropout", [value, float(np.float32(share)), self.constant(True, "bool")], value.shape)

    def refusal(self, reason: str, hint: str) -> UnsupportedOperator:
        """The error for a form of the operator that is walked now."""
        return UnsupportedOperator(f"{self.operator}: {reason}", [("in", self.place or "the module")], hint)

    def model(self, inputs: Sequence[Value], output: Value) -> onnx.ModelProto:
        """The whole as a model."""
        values = [
            onnx.helper.make_tensor_value_info(x.name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), x.shape)
            for x in (*inputs, output)
        ]
        read = {name for node in self.nodes for name in node.input}
        arrays = [numpy_helper.from_array(a, n) for n, a in self.initializers.items() if n in read]
        graph = onnx.helper.make_graph(self.nodes, "module", values[:-1], values[-1:], arrays)
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


Lowering = Callable[..., Any]
"""(graph, *arguments of the ATen operator) -> Value, or a tuple of them where the operator has several results."""
LOWERINGS: dict[str, Lowering] = {}


_Lowering = TypeVar("_Lowering", bound=Lowering)


def lowers(*names: str) -> Callable[[_Lowering], _Lowering]:
    """Register the lowering of ATen operators by name, without overload: `relu` is `aten.relu` in all its forms."""

    def register(function: _Lowering) -> _Lowering:
        for name in names:
            if name in LOWERINGS:
                raise ValueError(f"aten.{name} has a lowering already")
            LOWERINGS[name] = function
        return function

    return register
