"""Recurrent layers of ONNX Runtime's training graphs: in one direction, with what their gradients read as outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, registry, unsupported
from deployer.operators.construction import Construction
from deployer.operators.inputs import floats
from deployer.operators.recurrent.parts import Sizes
from deployer.operators.recurrent.unrolled import activations_of

BIASES = 2
"""The bias of W and the bias of R, one behind the other."""
LENGTHS = 4
"""The position of sequence_lens among the inputs of a layer."""
X, W, R = 0, 1, 2


@dataclass
class Layer(Construction):
    """The nodes of a layer or of its gradient."""

    sizes: Sizes

    def matrix(self, name: str, *shape: int) -> str:
        """A value in another shape."""
        return self.emit("Reshape", (name,), shape=shape)

    def rows(self, name: str, width: int) -> str:
        """A sequence as the rows of one matrix."""
        return self.matrix(name, self.sizes.time * self.sizes.batch, width)

    def columns(self, name: str, begin: int, end: int, axis: int) -> str:
        """Elements from begin to end along an axis."""
        return self.emit("Slice", (name,), starts=(begin,), ends=(end,), axes=(axis,))

    def before(self, name: str, initial: str) -> str:
        """The states before each step [time, batch, units], of those behind each."""
        sizes = self.sizes
        first = self.matrix(initial, 1, sizes.batch, sizes.units) if initial else self.zeros(1)
        if sizes.time == 1:
            return first
        states = self.matrix(name, sizes.time, sizes.batch, sizes.units)
        return self.emit("Concat", (first, self.columns(states, 0, sizes.time - 1, 0)), axis=0)

    def zeros(self, time: int) -> str:
        """A state of zeros for so many steps."""
        return self.emit("Expand", (self.number(0.0),), shape=(time, self.sizes.batch, self.sizes.units))


class Trained(Operator):
    """A layer of `gates` per unit with X, W, R[, B, no lengths, initial states], all in one direction.

    `states` are the initial states; `usual` the functions of the recurrence, which are the only ones.
    """

    composite = True
    gates: ClassVar[int]
    states: ClassVar[int]
    usual: ClassVar[tuple[str, ...]]
    flags: ClassVar[tuple[str, ...]] = ()

    def check_attributes(self, node: Node) -> None:
        """Raise UnsupportedOperator for an attribute that ONNX Runtime trains in no other manner."""
        if node.attr_str("direction", "forward") != "forward":
            raise unsupported(node, f"its direction is {node.attrs['direction']!r}", "'forward', a node per direction")
        if "clip" in node.attrs:
            raise unsupported(node, f"clip is {node.attrs['clip']}", "no clip")
        if node.attr_int("input_forget", 0):
            raise unsupported(node, "input_forget is set", "input_forget 0")
        [functions] = activations_of(node, self.usual, 1)
        if tuple(f.name for f in functions) != tuple(name.lower() for name in self.usual):
            raise unsupported(node, f"activations are {node.attrs['activations']}", ", ".join(self.usual))

    def sizes(self, node: Node, inputs: Sequence[TensorType | None]) -> Sizes:
        """The layer's sizes, from X and R; ShapeMismatch where X, W and R do not belong together."""
        x, w, r = floats(node, inputs, 3)
        if {len(x.shape), len(w.shape), len(r.shape)} != {3}:
            raise mismatch(node, "X, W or R has not three axes", inputs)
        time, batch, features = x.shape
        sizes = Sizes(time, batch, features, r.shape[2], 1)
        rows = self.gates * sizes.units
        if w.shape != (1, rows, sizes.features) or r.shape != (1, rows, sizes.units):
            raise mismatch(node, f"W and R are not of {self.gates} gates of {sizes.units} units each", inputs)
        if node.attr_int("hidden_size", sizes.units) != sizes.units:
            raise mismatch(node, f"hidden_size is {node.attrs['hidden_size']}, R has {sizes.units} units", inputs)
        return sizes

    def check_operands(
        self, node: Node, inputs: Sequence[TensorType | None], shapes: Sequence[tuple[int, ...] | None]
    ) -> None:
        """Raise ShapeMismatch for an input of another shape, and UnsupportedOperator for one that has none here."""
        for position, (kind, shape) in enumerate(zip(inputs, shapes, strict=False)):
            if kind is not None and shape is None:
                why = f"input {position} is there: lengths of sequences, or peepholes"
                raise unsupported(node, why, "a node without it")
            if kind is not None and kind != TensorType("float32", shape or ()):
                raise mismatch(node, f"its input {position} is not of shape {list(shape or ())}", inputs)


class TrainedLayer(Trained):
    """The forward layer: Y, last states, and `saved` outputs behind them."""

    recurrence: ClassVar[str]
    of: ClassVar[str]

    def states_shape(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape of a state before or behind all steps."""
        return (1, sizes.batch, sizes.units)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y[time, 1, batch, units], last states, and what is saved of each step."""
        self.check_attributes(node)
        sizes = self.sizes(node, inputs)
        state = self.states_shape(sizes)
        bias = (1, BIASES * self.gates * sizes.units)
        shapes = (None, None, None, bias, None, *[state] * self.states, None)
        self.check_operands(node, [None, None, None, *inputs[3:]], shapes)
        y, gates = (sizes.time, *state), (sizes.time, 1, sizes.batch, self.gates * sizes.units)
        saved = [*[y] * (self.states - 1), gates]
        return tuple(TensorType("float32", shape) for shape in (y, *[state] * self.states, *saved))

    def bias(self, parts: Layer, name: str) -> tuple[str, str]:
        """The bias of W X, and that of R h where the recurrence takes it apart."""
        width = self.gates * parts.sizes.units
        both = parts.matrix(name, BIASES, width)
        return parts.emit("ReduceSum", (both,), axes=(0,), keepdims=0), ""

    def started(self, parts: Layer, node: Node) -> tuple[str, str, str, list[str]]:
        """W X of all steps with its bias, R, the bias of R, and the initial states."""
        x, w, r, b, _, *initial = [*node.inputs, *[""] * (LENGTHS + 1 + self.states - len(node.inputs))]
        sizes, width = parts.sizes, self.gates * parts.sizes.units
        of_w, of_r = self.bias(parts, b) if b else ("", "")
        operands = [parts.rows(x, sizes.features), parts.matrix(w, width, sizes.features)] + [of_w] * bool(of_w)
        product = parts.emit("Gemm", operands, transB=1)
        states = [parts.matrix(name, sizes.batch, sizes.units) if name else "" for name in initial[: self.states]]
        steps = parts.matrix(product, sizes.time, sizes.batch, width)
        return steps, parts.matrix(r, width, sizes.units), of_r, states


class TrainedGrad(Trained):
    """The gradient of a layer, in the order dX, dW, dR, dB and those of the initial states; each may be absent."""

    no_gradient = "it belongs to a backward pass"
    forward: ClassVar[str]

    def weights(self, parts: Layer, node: Node, of_x: str, bias_parts: Sequence[str]) -> None:
        """Append dX and dW, from the gradients of W X, and dB, from those of both products."""
        x, w = node.inputs[:2]
        dx, dw, _, db = (*node.outputs, *[""] * 4)[:4]
        sizes, width = parts.sizes, self.gates * parts.sizes.units
        if dx:
            flat = parts.emit("Gemm", (of_x, parts.matrix(w, width, sizes.features)), beta=0.0)
            parts.emit("Reshape", (flat,), dx, shape=(sizes.time, sizes.batch, sizes.features))
        if dw:
            product = parts.emit("Gemm", (of_x, parts.rows(x, sizes.features)), transA=1, beta=0.0)
            parts.emit("Reshape", (product,), dw, shape=(1, width, sizes.features))
        if db:
            sums = [parts.emit("ReduceSum", (name,), axes=(0,), keepdims=0) for name in dict.fromkeys(bias_parts)]
            joined = parts.emit("Concat", (sums[0], sums[-1]), axis=0)
            parts.emit("Reshape", (joined,), db, shape=(1, BIASES * width))

    def evaluate(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The lowered nodes' values: the meaning of the gradient is that of the operators it is made of."""
        names = [f"in{i}" if value is not None else "" for i, value in enumerate(inputs)]
        outputs = tuple(f"out{i}" for i in range(len(self.infer(node, [_type(v) for v in inputs]))))
        plain = Node("grad", node.op, tuple(names), outputs, node.attrs)
        values = {name: value for name, value in zip(names, inputs, strict=True) if name and value is not None}
        for part in self.lower(plain, [_type(value) for value in inputs]) or ():
            operands = [values[name] if name else None for name in part.inputs]
            results = registry()[part.op].reference(part, operands)
            values |= {name: value for name, value in zip(part.outputs, results, strict=False) if name}
        return tuple(np.asarray(values[name]) for name in outputs)


def _type(value: Array | None) -> TensorType | None:
    return None if value is None else TensorType("float32" if value.dtype.kind == "f" else "int32", value.shape)
