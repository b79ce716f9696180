"""Recurrent layers of ONNX Runtime's training graphs and their gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.operators.base.operands import Construction, floats
from deployer.operators.recurrent.layers import AFTER, GRU, LSTM, is_after
from deployer.operators.recurrent.unrolled import Sizes, activations_of

# Recurrent layers of ONNX Runtime's training graphs: one direction, with outputs for their gradients.

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
                why = f"input {position} is given: sequence lengths or peepholes"
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


LSTM_ATTRIBUTES = {
    **{"activations": "STRINGS", "activation_alpha": "FLOATS", "activation_beta": "FLOATS", "clip": "FLOAT"},
    **{"direction": "STRING", "hidden_size": "INT", "input_forget": "INT"},
}


@register
class LSTMTraining(TrainedLayer):
    """An LSTM of ONNX Runtime's training graphs, with its gates and cells of all steps as outputs.

    X, W, R[, B, no lengths, h, c, no peepholes] to Y, the last h and c, c of all steps, and i, o, f and g of all.
    """

    name = "LSTMTraining"
    custom = Signature((3, 8), (1, 5), LSTM_ATTRIBUTES)
    gates, states, usual = LSTM.gates, LSTM.states, LSTM.activations[0]
    flags = ("input_forget",)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Those of the recurrence over W X."""
        x, w, r, b, _, h, c = [*inputs, *[None] * (7 - len(inputs))][:7]
        assert x is not None
        assert w is not None
        assert r is not None
        bias = 0 if b is None else b[0].reshape(BIASES, -1).sum(0)
        states = [None if s is None else s[0] for s in (h, c)]
        step = Node(node.name, "LSTMRecurrence", (), ())
        results = registry()[step.op].reference(step, [x @ w[0].T + bias, r[0], *states])
        y, last, cell, gates, _, before, _ = results
        cells = np.concatenate([before[1:], cell[None]])
        return tuple(
            np.asarray(v, x.dtype) for v in (y[:, None], last[None], cell[None], cells[:, None], gates[:, None])
        )

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One product for all steps, and LSTMRecurrence."""
        parts = Layer(node.name, self.sizes(node, inputs))
        sizes = parts.sizes
        steps, r, _, states = self.started(parts, node)
        y, last, cell, cells, gates = (*node.outputs, *[""] * 5)[:5]
        name = node.name
        results = [f"{name}/y" if y else "", f"{name}/last" if last else "", f"{name}/cell"]
        results += [f"{name}/gates" if gates else "", "", f"{name}/before" if cells else "", f"{name}/state"]
        parts.several("LSTMRecurrence", (steps, r, *states), results)
        state = (1, sizes.batch, sizes.units)
        if y:
            parts.emit("Reshape", results[:1], y, shape=(sizes.time, *state))
        for target, source in ((last, results[1]), (cell, results[2])):
            if target:
                parts.emit("Reshape", (source,), target, shape=state)
        if cells:
            self._cells(parts, results[2], results[5], cells)
        if gates:
            parts.emit("Reshape", (results[3],), gates, shape=(sizes.time, 1, sizes.batch, self.gates * sizes.units))
        return parts.nodes

    @staticmethod
    def _cells(parts: Layer, cell: str, before: str, output: str) -> None:
        """c behind each step, of those before each and the last one."""
        sizes = parts.sizes
        joined = parts.matrix(cell, 1, sizes.batch, sizes.units)
        if sizes.time > 1:
            joined = parts.emit("Concat", (parts.columns(before, 1, sizes.time, 0), joined), axis=0)
        parts.emit("Reshape", (joined,), output, shape=(sizes.time, 1, sizes.batch, sizes.units))


LSTM_INPUTS = 12


@register
class LSTMGrad(TrainedGrad):
    """The gradients of LSTMTraining, of what it saved of all steps.

    X, W, R, no lengths, h, c, Y, c of all steps, the gates, dY, dh and dc of the end to dX, dW, dR, dB, dh, dc.
    """

    name = "LSTMGrad"
    custom = Signature((LSTM_INPUTS - 3, LSTM_INPUTS), (1, 6), LSTM_ATTRIBUTES)
    gates, states, usual, flags = LSTMTraining.gates, LSTMTraining.states, LSTMTraining.usual, LSTMTraining.flags

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of the layer's inputs."""
        self.check_attributes(node)
        sizes = self.sizes(node, inputs)
        x, w, r = (kind for kind in inputs[:3] if kind is not None)
        state: tuple[int, ...] = (1, sizes.batch, sizes.units)
        y, width = (sizes.time, *state), self.gates * sizes.units
        gates = (sizes.time, 1, sizes.batch, width)
        given = [None, None, None, *inputs[3:]]
        self.check_operands(node, given, (None, None, None, None, state, state, y, y, gates, y, state, state))
        if any(kind is None for kind in (*inputs[6:9], *[None] * (9 - len(inputs)))) or not any(inputs[9:]):
            raise mismatch(node, "Y, c or gates of all steps, or all gradients, are absent", inputs)
        bias, start = TensorType("float32", (1, BIASES * width)), TensorType("float32", state)
        return (x, w, r, bias, start, start)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The values of the nodes that it is made of."""
        return self.evaluate(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LSTMRecurrenceGrad, and products for all steps."""
        parts = Layer(node.name, self.sizes(node, inputs))
        sizes, width = parts.sizes, self.gates * parts.sizes.units
        _, _, r, _, h, c, y, cells, gates, dy, dh, dc = (*node.inputs, *[""] * LSTM_INPUTS)[:LSTM_INPUTS]
        _, _, dr, _, dh_start, dc_start = (*node.outputs, *[""] * 6)[:6]
        steps, state = (sizes.time, sizes.batch), (sizes.batch, sizes.units)
        recurrent = parts.matrix(r, width, sizes.units)
        arriving = [parts.matrix(dy, *steps, sizes.units) if dy else ""]
        arriving += [parts.matrix(name, *state) if name else "" for name in (dh, dc)]
        operands = (parts.matrix(gates, *steps, width), recurrent, parts.before(cells, c), *arriving)
        of_steps, of_cell = f"{node.name}/steps", f"{node.name}/dc"
        parts.several("LSTMRecurrenceGrad", operands, (of_steps, of_cell, f"{node.name}/state"))
        flat = parts.rows(of_steps, width)
        self.weights(parts, node, flat, (flat,))
        if dr:
            before = parts.rows(parts.before(y, h), sizes.units)
            product = parts.emit("Gemm", (flat, before), transA=1, beta=0.0)
            parts.emit("Reshape", (product,), dr, shape=(1, width, sizes.units))
        if dh_start:
            first = parts.columns(flat, 0, sizes.batch, 0)
            product = parts.emit("Gemm", (first, recurrent), beta=0.0)
            parts.emit("Reshape", (product,), dh_start, shape=(1, *state))
        if dc_start:
            parts.emit("Reshape", (of_cell,), dc_start, shape=(1, *state))
        return parts.nodes


GRU_ATTRIBUTES = {
    **{"activations": "STRINGS", "activation_alpha": "FLOATS", "activation_beta": "FLOATS", "clip": "FLOAT"},
    **{"direction": "STRING", "hidden_size": "INT", AFTER: "INT"},
}


@register
class GRUTraining(TrainedLayer):
    """A GRU of ONNX Runtime's training graphs, with its gates of all steps as an output.

    X, W, R[, B, no lengths, h] to Y, the last h, and z, r and n of all steps.
    """

    name = "GRUTraining"
    custom = Signature((3, 6), (1, 3), GRU_ATTRIBUTES)
    gates, states, usual = GRU.gates, GRU.states, GRU.activations[0]
    flags = (AFTER,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Those of the recurrence over W X."""
        x, w, r, b, _, h = [*inputs, *[None] * (6 - len(inputs))][:6]
        assert x is not None
        assert w is not None
        assert r is not None
        of_w, of_r = np.zeros((BIASES, w.shape[1]), x.dtype) if b is None else b[0].reshape(BIASES, -1)
        product, state = x @ w[0].T + of_w, None if h is None else h[0]
        if is_after(node):
            step = Node(node.name, "GRURecurrence", (), ())
            results = registry()[step.op].reference(step, [product, r[0], of_r, state])
        else:
            step = Node(node.name, "GRUStateRecurrence", (), ())
            results = registry()[step.op].reference(step, [product + of_r, r[0], state])
        y, last, gates, *_ = results
        return tuple(np.asarray(v, x.dtype) for v in (y[:, None], last[None], gates[:, None, :, : w.shape[1]]))

    def bias(self, parts: Layer, name: str) -> tuple[str, str]:
        """Both apart: `started` leaves the second to the recurrence."""
        width = self.gates * parts.sizes.units
        both = parts.matrix(name, BIASES, width)
        of_w, of_r = (parts.matrix(parts.columns(both, i, i + 1, 0), width) for i in range(BIASES))
        return of_w, of_r

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One product for all steps, and the recurrence by where the reset gate is."""
        parts = Layer(node.name, self.sizes(node, inputs))
        sizes, width = parts.sizes, self.gates * parts.sizes.units
        steps, r, of_r, [state] = self.started(parts, node)
        y, last, gates = (*node.outputs, *[""] * 3)[:3]
        name = node.name
        results = [f"{name}/y" if y else "", f"{name}/last" if last else "", f"{name}/gates" if gates else ""]
        results += ["", f"{name}/state"]
        if is_after(node):
            parts.several("GRURecurrence", (steps, r, of_r, state), results)
        else:
            steps = parts.emit("Add", (steps, of_r)) if of_r else steps
            parts.several("GRUStateRecurrence", (steps, r, state), results)
        if y:
            parts.emit("Reshape", results[:1], y, shape=(sizes.time, 1, sizes.batch, sizes.units))
        if last:
            parts.emit("Reshape", results[1:2], last, shape=(1, sizes.batch, sizes.units))
        if gates:
            kept = parts.columns(results[2], 0, width, 2)
            parts.emit("Reshape", (kept,), gates, shape=(sizes.time, 1, sizes.batch, width))
        return parts.nodes


GRU_INPUTS = 10


@register
class GRUGrad(TrainedGrad):
    """The gradients of GRUTraining, of what it saved of all steps.

    X, W, R, B, no lengths, h, Y, the gates, dY and dh of the end to dX, dW, dR, dB and dh of the start.
    """

    name = "GRUGrad"
    custom = Signature((GRU_INPUTS - 2, GRU_INPUTS), (1, 5), GRU_ATTRIBUTES)
    gates, states, usual, flags = GRUTraining.gates, GRUTraining.states, GRUTraining.usual, GRUTraining.flags

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of the layer's inputs."""
        self.check_attributes(node)
        sizes = self.sizes(node, inputs)
        x, w, r = (kind for kind in inputs[:3] if kind is not None)
        state: tuple[int, ...] = (1, sizes.batch, sizes.units)
        y, width = (sizes.time, *state), self.gates * sizes.units
        gates, bias = (sizes.time, 1, sizes.batch, width), (1, BIASES * width)
        given = [None, None, None, *inputs[3:]]
        self.check_operands(node, given, (None, None, None, bias, None, state, y, gates, y, state))
        if any(kind is None for kind in (*inputs[6:8], *[None] * (8 - len(inputs)))) or not any(inputs[8:]):
            raise mismatch(node, "Y or gates of all steps, or all gradients, are absent", inputs)
        return (x, w, r, TensorType("float32", bias), TensorType("float32", state))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The values of the nodes that it is made of."""
        return self.evaluate(node, inputs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The gradient of the recurrence, and products for all steps."""
        parts = Layer(node.name, self.sizes(node, inputs))
        sizes, width = parts.sizes, self.gates * parts.sizes.units
        _, _, r, b, _, h, y, gates, dy, dh = (*node.inputs, *[""] * GRU_INPUTS)[:GRU_INPUTS]
        steps, state = (sizes.time, sizes.batch), (sizes.batch, sizes.units)
        recurrent, before = parts.matrix(r, width, sizes.units), parts.before(y, h)
        arriving = [parts.matrix(dy, *steps, sizes.units) if dy else "", parts.matrix(dh, *state) if dh else ""]
        known = parts.matrix(gates, *steps, width)
        make = self._after if is_after(node) else self._on_state
        make(parts, node, (known, recurrent, before, b), arriving)
        return parts.nodes

    def _after(self, parts: Layer, node: Node, values: Sequence[str], arriving: Sequence[str]) -> None:
        """The reset gate is on R h + bias, whose last gate is computed again."""
        (known, recurrent, before, b), sizes = values, parts.sizes
        units, width, name = sizes.units, self.gates * sizes.units, node.name
        flat = parts.rows(before, units)
        weights = parts.columns(recurrent, 2 * units, width, 0)
        bias = [parts.columns(parts.matrix(b, BIASES * width), 2 * width - units, 2 * width, 0)] if b else []
        product = parts.emit("Gemm", (flat, weights, *bias), transB=1)
        gates = parts.emit("Concat", (known, parts.matrix(product, sizes.time, sizes.batch, units)), axis=2)
        results = [f"{name}/{label}" for label in ("dx", "dq", "dh", "state")]
        parts.several("GRURecurrenceGrad", (gates, recurrent, before, *arriving), results)
        of_x, of_h = (parts.rows(result, width) for result in results[:2])
        self.weights(parts, node, of_x, (of_x, of_h))
        _, _, dr, _, start = (*node.outputs, *[""] * 5)[:5]
        if dr:
            product = parts.emit("Gemm", (of_h, flat), transA=1, beta=0.0)
            parts.emit("Reshape", (product,), dr, shape=(1, width, units))
        if start:
            first = parts.columns(of_h, 0, sizes.batch, 0)
            product = parts.emit("Gemm", (first, recurrent, results[2]))
            parts.emit("Reshape", (product,), start, shape=(1, sizes.batch, units))

    def _on_state(self, parts: Layer, node: Node, values: Sequence[str], arriving: Sequence[str]) -> None:
        """The reset gate is on h, and r h is computed again."""
        (known, recurrent, before, _), sizes = values, parts.sizes
        units, width, name = sizes.units, self.gates * sizes.units, node.name
        reset = parts.columns(known, units, 2 * units, 2)
        gated = parts.emit("Mul", (reset, before))
        gates = parts.emit("Concat", (known, gated), axis=2)
        results = [f"{name}/{label}" for label in ("dx", "dh", "state")]
        parts.several("GRUStateRecurrenceGrad", (gates, recurrent, before, *arriving), results)
        of_x = parts.rows(results[0], width)
        self.weights(parts, node, of_x, (of_x,))
        _, _, dr, _, start = (*node.outputs, *[""] * 5)[:5]
        ends = ((0, 2 * units, before), (2 * units, width, gated))
        if dr:
            products = [
                parts.emit("Gemm", (parts.columns(of_x, begin, end, 1), parts.rows(source, units)), transA=1, beta=0.0)
                for begin, end, source in ends
            ]
            parts.emit("Reshape", (parts.emit("Concat", products, axis=0),), dr, shape=(1, width, units))
        if start:
            first = parts.columns(parts.columns(of_x, 0, sizes.batch, 0), 0, 2 * units, 1)
            weights = parts.columns(recurrent, 0, 2 * units, 0)
            product = parts.emit("Gemm", (first, weights, results[1]))
            parts.emit("Reshape", (product,), start, shape=(1, sizes.batch, units))
