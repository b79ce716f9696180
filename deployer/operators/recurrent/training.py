"""Recurrent layers of ONNX Runtime's training graphs, in one direction, and their gradients."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.operators.base.operands import Construction, floats
from deployer.operators.recurrent.layers import AFTER, BIASES, GRU, LENGTHS, LSTM, is_after
from deployer.operators.recurrent.unrolled import Sizes, activations_of


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

    def slice_of(self, name: str, begin: int, end: int, axis: int) -> str:
        """Elements from begin to end along an axis."""
        return self.emit("Slice", (name,), starts=(begin,), ends=(end,), axes=(axis,))

    def before(self, name: str, initial: str) -> str:
        """The states before each step [time, batch, units], of those behind each."""
        sizes = self.sizes
        first = self.matrix(initial, 1, sizes.batch, sizes.units) if initial else self.zeros(1)
        if sizes.time == 1:
            return first
        states = self.matrix(name, sizes.time, sizes.batch, sizes.units)
        return self.emit("Concat", (first, self.slice_of(states, 0, sizes.time - 1, 0)), axis=0)

    def zeros(self, time: int) -> str:
        """A state of zeros for so many steps."""
        return self.emit("Expand", (self.number(0.0),), shape=(time, self.sizes.batch, self.sizes.units))


LSTM_FLAGS, GRU_FLAGS = ("input_forget",), (AFTER,)


class RecurrentTraining(Operator):
    """A layer of `gates` per unit with X, W, R[, B, no lengths, initial states], all in one direction.

    `states` are the initial states; `usual` the functions of the recurrence, which are the only ones.
    """

    composite = True
    gates: ClassVar[int]
    states: ClassVar[int]
    usual: ClassVar[tuple[str, ...]]

    def check_attributes(self, node: Node) -> None:
        """Raise UnsupportedOperator for an attribute value that ONNX Runtime does not train."""
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


class TrainedLayer(RecurrentTraining):
    """The forward layer: Y, last states, and `saved` outputs behind them."""

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

    def bias(self, graph: Layer, name: str) -> tuple[str, str]:
        """The bias of W X, and that of R h where the recurrence takes it apart."""
        width = self.gates * graph.sizes.units
        both = graph.matrix(name, BIASES, width)
        return graph.emit("ReduceSum", (both,), axes=(0,), keepdims=0), ""

    def started(self, graph: Layer, node: Node) -> tuple[str, str, str, list[str]]:
        """W X of all steps with its bias, R, the bias of R, and the initial states."""
        x, w, r, b, _, *initial = [*node.inputs, *[""] * (LENGTHS + 1 + self.states - len(node.inputs))]
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        of_w, of_r = self.bias(graph, b) if b else ("", "")
        operands = [graph.rows(x, sizes.features), graph.matrix(w, width, sizes.features)] + [of_w] * bool(of_w)
        product = graph.emit("Gemm", operands, transB=1)
        states = [graph.matrix(name, sizes.batch, sizes.units) if name else "" for name in initial[: self.states]]
        steps = graph.matrix(product, sizes.time, sizes.batch, width)
        return steps, graph.matrix(r, width, sizes.units), of_r, states


class Shapes(NamedTuple):
    """Shapes of a layer's operands: bias, a state, Y, and the gates of all steps."""

    bias: tuple[int, ...]
    state: tuple[int, ...]
    y: tuple[int, ...]
    gates: tuple[int, ...]


class TrainedGrad(RecurrentTraining):
    """The gradient of a layer, in the order dX, dW, dR, dB and those of the initial states; each may be absent."""

    no_gradient = "it belongs to a backward pass"
    saved: ClassVar[range]
    """Input positions of the values saved by the layer; the gradients follow."""
    saved_names: ClassVar[str]

    @abstractmethod
    def operand_shapes(self, s: Shapes) -> tuple[tuple[int, ...] | None, ...]:
        """Shapes of the inputs behind X, W and R; None for an unsupported one."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of the layer's inputs."""
        self.check_attributes(node)
        sizes = self.sizes(node, inputs)
        x, w, r = (kind for kind in inputs[:3] if kind is not None)
        state, width = (1, sizes.batch, sizes.units), self.gates * sizes.units
        shapes = Shapes((1, BIASES * width), state, (sizes.time, *state), (sizes.time, 1, sizes.batch, width))
        self.check_operands(node, [None, None, None, *inputs[3:]], (None, None, None, *self.operand_shapes(shapes)))
        present = [bool(kind) for kind in inputs]
        if not all(present[i : i + 1] == [True] for i in self.saved) or not any(present[self.saved.stop :]):
            raise mismatch(node, f"{self.saved_names} of all steps, or all gradients, are absent", inputs)
        bias, start = TensorType("float32", shapes.bias), TensorType("float32", state)
        return (x, w, r, bias, *[start] * self.states)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The values of the lowered nodes."""
        return self.evaluate(node, inputs)

    def weights(self, graph: Layer, node: Node, of_x: str, sums_of_bias: Sequence[str]) -> None:
        """Append dX and dW, from the gradients of W X, and dB, from those of both products."""
        x, w = node.inputs[:2]
        dx, dw, _, db = (*node.outputs, *[""] * 4)[:4]
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        if dx:
            flat = graph.emit("Gemm", (of_x, graph.matrix(w, width, sizes.features)), beta=0.0)
            graph.emit("Reshape", (flat,), dx, shape=(sizes.time, sizes.batch, sizes.features))
        if dw:
            product = graph.emit("Gemm", (of_x, graph.rows(x, sizes.features)), transA=1, beta=0.0)
            graph.emit("Reshape", (product,), dw, shape=(1, width, sizes.features))
        if db:
            sums = [graph.emit("ReduceSum", (name,), axes=(0,), keepdims=0) for name in dict.fromkeys(sums_of_bias)]
            joined = graph.emit("Concat", (sums[0], sums[-1]), axis=0)
            graph.emit("Reshape", (joined,), db, shape=(1, BIASES * width))

    def evaluate(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Evaluate the lowered nodes: the gradient is defined by the operators it is lowered to."""
        names = [f"in{i}" if value is not None else "" for i, value in enumerate(inputs)]
        outputs = tuple(f"out{i}" for i in range(len(self.infer(node, [_type(v) for v in inputs]))))
        plain = Node("grad", node.op, tuple(names), outputs, node.attrs)
        values = {name: value for name, value in zip(names, inputs, strict=True) if name and value is not None}
        for inner in self.lower(plain, [_type(value) for value in inputs]) or ():
            operands = [values[name] if name else None for name in inner.inputs]
            results = registry()[inner.op].reference(inner, operands)
            values |= {name: value for name, value in zip(inner.outputs, results, strict=False) if name}
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
    gates, states, usual = LSTM.gates, LSTM.states, LSTM.activations[0]
    file = FileSpec(custom=Signature((3, 8), (1, 5), LSTM_ATTRIBUTES), flags=LSTM_FLAGS)

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
        graph = Layer(node.name, self.sizes(node, inputs))
        sizes = graph.sizes
        steps, r, _, states = self.started(graph, node)
        y, last, cell, cells, gates = (*node.outputs, *[""] * 5)[:5]
        name = node.name
        results = [f"{name}/y" if y else "", f"{name}/last" if last else "", f"{name}/cell"]
        results += [f"{name}/gates" if gates else "", "", f"{name}/before" if cells else "", f"{name}/state"]
        graph.several("LSTMRecurrence", (steps, r, *states), results)
        state = (1, sizes.batch, sizes.units)
        if y:
            graph.emit("Reshape", results[:1], y, shape=(sizes.time, *state))
        for target, source in ((last, results[1]), (cell, results[2])):
            if target:
                graph.emit("Reshape", (source,), target, shape=state)
        if cells:
            self._cells(graph, results[2], results[5], cells)
        if gates:
            graph.emit("Reshape", (results[3],), gates, shape=(sizes.time, 1, sizes.batch, self.gates * sizes.units))
        return graph.nodes

    @staticmethod
    def _cells(graph: Layer, cell: str, before: str, output: str) -> None:
        """c behind each step, of those before each and the last one."""
        sizes = graph.sizes
        joined = graph.matrix(cell, 1, sizes.batch, sizes.units)
        if sizes.time > 1:
            joined = graph.emit("Concat", (graph.slice_of(before, 1, sizes.time, 0), joined), axis=0)
        graph.emit("Reshape", (joined,), output, shape=(sizes.time, 1, sizes.batch, sizes.units))


LSTM_INPUTS = 12


@register
class LSTMGrad(TrainedGrad):
    """The gradients of LSTMTraining, from the values it saved of all steps.

    X, W, R, no lengths, h, c, Y, c of all steps, the gates, dY, dh and dc of the end to dX, dW, dR, dB, dh, dc.
    """

    name = "LSTMGrad"
    file = FileSpec(custom=Signature((LSTM_INPUTS - 3, LSTM_INPUTS), (1, 6), LSTM_ATTRIBUTES), flags=LSTM_FLAGS)
    gates, states, usual = LSTMTraining.gates, LSTMTraining.states, LSTMTraining.usual
    saved = range(6, 9)
    saved_names = "Y, c or gates"

    def operand_shapes(self, s: Shapes) -> tuple[tuple[int, ...] | None, ...]:
        """None for lengths, h, c, Y, c of all steps, gates, dY, dh and dc."""
        return (None, s.state, s.state, s.y, s.y, s.gates, s.y, s.state, s.state)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LSTMRecurrenceGrad, and products for all steps."""
        graph = Layer(node.name, self.sizes(node, inputs))
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        _, _, r, _, h, c, y, cells, gates, dy, dh, dc = (*node.inputs, *[""] * LSTM_INPUTS)[:LSTM_INPUTS]
        _, _, dr, _, dh_start, dc_start = (*node.outputs, *[""] * 6)[:6]
        steps, state = (sizes.time, sizes.batch), (sizes.batch, sizes.units)
        recurrent = graph.matrix(r, width, sizes.units)
        arriving = [graph.matrix(dy, *steps, sizes.units) if dy else ""]
        arriving += [graph.matrix(name, *state) if name else "" for name in (dh, dc)]
        operands = (graph.matrix(gates, *steps, width), recurrent, graph.before(cells, c), *arriving)
        of_steps, of_cell = f"{node.name}/steps", f"{node.name}/dc"
        graph.several("LSTMRecurrenceGrad", operands, (of_steps, of_cell, f"{node.name}/state"))
        flat = graph.rows(of_steps, width)
        self.weights(graph, node, flat, (flat,))
        if dr:
            before = graph.rows(graph.before(y, h), sizes.units)
            product = graph.emit("Gemm", (flat, before), transA=1, beta=0.0)
            graph.emit("Reshape", (product,), dr, shape=(1, width, sizes.units))
        if dh_start:
            first = graph.slice_of(flat, 0, sizes.batch, 0)
            product = graph.emit("Gemm", (first, recurrent), beta=0.0)
            graph.emit("Reshape", (product,), dh_start, shape=(1, *state))
        if dc_start:
            graph.emit("Reshape", (of_cell,), dc_start, shape=(1, *state))
        return graph.nodes


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
    gates, states, usual = GRU.gates, GRU.states, GRU.activations[0]
    file = FileSpec(custom=Signature((3, 6), (1, 3), GRU_ATTRIBUTES), flags=GRU_FLAGS)

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

    def bias(self, graph: Layer, name: str) -> tuple[str, str]:
        """Both apart: `started` leaves the second to the recurrence."""
        width = self.gates * graph.sizes.units
        both = graph.matrix(name, BIASES, width)
        of_w, of_r = (graph.matrix(graph.slice_of(both, i, i + 1, 0), width) for i in range(BIASES))
        return of_w, of_r

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """One product for all steps, and the recurrence by where the reset gate is."""
        graph = Layer(node.name, self.sizes(node, inputs))
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        steps, r, of_r, [state] = self.started(graph, node)
        y, last, gates = (*node.outputs, *[""] * 3)[:3]
        name = node.name
        results = [f"{name}/y" if y else "", f"{name}/last" if last else "", f"{name}/gates" if gates else ""]
        results += ["", f"{name}/state"]
        if is_after(node):
            graph.several("GRURecurrence", (steps, r, of_r, state), results)
        else:
            steps = graph.emit("Add", (steps, of_r)) if of_r else steps
            graph.several("GRUStateRecurrence", (steps, r, state), results)
        if y:
            graph.emit("Reshape", results[:1], y, shape=(sizes.time, 1, sizes.batch, sizes.units))
        if last:
            graph.emit("Reshape", results[1:2], last, shape=(1, sizes.batch, sizes.units))
        if gates:
            kept = graph.slice_of(results[2], 0, width, 2)
            graph.emit("Reshape", (kept,), gates, shape=(sizes.time, 1, sizes.batch, width))
        return graph.nodes


GRU_INPUTS = 10


@register
class GRUGrad(TrainedGrad):
    """The gradients of GRUTraining, from the values it saved of all steps.

    X, W, R, B, no lengths, h, Y, the gates, dY and dh of the end to dX, dW, dR, dB and dh of the start.
    """

    name = "GRUGrad"
    file = FileSpec(custom=Signature((GRU_INPUTS - 2, GRU_INPUTS), (1, 5), GRU_ATTRIBUTES), flags=GRU_FLAGS)
    gates, states, usual = GRUTraining.gates, GRUTraining.states, GRUTraining.usual
    saved = range(6, 8)
    saved_names = "Y or gates"

    def operand_shapes(self, s: Shapes) -> tuple[tuple[int, ...] | None, ...]:
        """The bias, None for lengths, h, Y, gates, dY and dh."""
        return (s.bias, None, s.state, s.y, s.gates, s.y, s.state)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The gradient of the recurrence, and products for all steps."""
        graph = Layer(node.name, self.sizes(node, inputs))
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        _, _, r, b, _, h, y, gates, dy, dh = (*node.inputs, *[""] * GRU_INPUTS)[:GRU_INPUTS]
        steps, state = (sizes.time, sizes.batch), (sizes.batch, sizes.units)
        recurrent, before = graph.matrix(r, width, sizes.units), graph.before(y, h)
        arriving = [graph.matrix(dy, *steps, sizes.units) if dy else "", graph.matrix(dh, *state) if dh else ""]
        known = graph.matrix(gates, *steps, width)
        make = self._after if is_after(node) else self._on_state
        make(graph, node, (known, recurrent, before, b), arriving)
        return graph.nodes

    def _after(self, graph: Layer, node: Node, values: Sequence[str], arriving: Sequence[str]) -> None:
        """The reset gate is on R h + bias, whose last gate is computed again."""
        (known, recurrent, before, b), sizes = values, graph.sizes
        units, width, name = sizes.units, self.gates * sizes.units, node.name
        flat = graph.rows(before, units)
        weights = graph.slice_of(recurrent, 2 * units, width, 0)
        bias = [graph.slice_of(graph.matrix(b, BIASES * width), 2 * width - units, 2 * width, 0)] if b else []
        product = graph.emit("Gemm", (flat, weights, *bias), transB=1)
        gates = graph.emit("Concat", (known, graph.matrix(product, sizes.time, sizes.batch, units)), axis=2)
        results = [f"{name}/{label}" for label in ("dx", "dq", "dh", "state")]
        graph.several("GRURecurrenceGrad", (gates, recurrent, before, *arriving), results)
        of_x, of_h = (graph.rows(result, width) for result in results[:2])
        self.weights(graph, node, of_x, (of_x, of_h))
        _, _, dr, _, start = (*node.outputs, *[""] * 5)[:5]
        if dr:
            product = graph.emit("Gemm", (of_h, flat), transA=1, beta=0.0)
            graph.emit("Reshape", (product,), dr, shape=(1, width, units))
        if start:
            first = graph.slice_of(of_h, 0, sizes.batch, 0)
            product = graph.emit("Gemm", (first, recurrent, results[2]))
            graph.emit("Reshape", (product,), start, shape=(1, sizes.batch, units))

    def _on_state(self, graph: Layer, node: Node, values: Sequence[str], arriving: Sequence[str]) -> None:
        """The reset gate is on h, and r h is computed again."""
        (known, recurrent, before, _), sizes = values, graph.sizes
        units, width, name = sizes.units, self.gates * sizes.units, node.name
        reset = graph.slice_of(known, units, 2 * units, 2)
        gated = graph.emit("Mul", (reset, before))
        gates = graph.emit("Concat", (known, gated), axis=2)
        results = [f"{name}/{label}" for label in ("dx", "dh", "state")]
        graph.several("GRUStateRecurrenceGrad", (gates, recurrent, before, *arriving), results)
        of_x = graph.rows(results[0], width)
        self.weights(graph, node, of_x, (of_x,))
        _, _, dr, _, start = (*node.outputs, *[""] * 5)[:5]
        ends = ((0, 2 * units, before), (2 * units, width, gated))
        if dr:
            products = [
                graph.emit("Gemm", (graph.slice_of(of_x, begin, end, 1), graph.rows(source, units)), transA=1, beta=0.0)
                for begin, end, source in ends
            ]
            graph.emit("Reshape", (graph.emit("Concat", products, axis=0),), dr, shape=(1, width, units))
        if start:
            first = graph.slice_of(graph.slice_of(of_x, 0, sizes.batch, 0), 0, 2 * units, 1)
            weights = graph.slice_of(recurrent, 0, 2 * units, 0)
            product = graph.emit("Gemm", (first, weights, results[1]))
            graph.emit("Reshape", (product,), start, shape=(1, sizes.batch, units))
