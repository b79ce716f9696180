"""Recurrent layers, each direction of each as ONNX's operator; PyTorch's weights have their gates in another order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Subgraph, Value, lowers


@dataclass(frozen=True)
class RecurrentOptions:
    """ONNX's operator of a layer: which of PyTorch's gates stands at each place, and attributes."""

    op: str
    order: tuple[int, ...]
    attrs: dict[str, Any]

    def weights(self, g: GraphBuilder, matrix: Value, copies: int = 1) -> Value:
        """PyTorch's rows of a matrix, or of vectors one behind the other, as the operator's, for one direction."""
        order = [copy * len(self.order) + gate for copy in range(copies) for gate in self.order]
        shape = matrix.shape
        if len(self.order) > 1:
            gates = g.reshape(matrix, (len(order), int(np.prod(shape)) // len(order)))
            ids = g.constant(np.array(order, np.int64), "int64")
            matrix = g.emit("Gather", [gates, ids], gates.shape, axis=0)
        return g.reshape(matrix, (1, *shape))

    def direction(
        self,
        g: GraphBuilder,
        x: Value,
        states: Sequence[Value | None],
        weights: Sequence[Value],
        reverse: bool,
        written_out: bool = False,
    ) -> list[Value]:
        """Y[time, batch, unit] and the last states [1, batch, unit] of one direction; weights are W, R and biases."""
        w, r, *biases = weights
        units = r.shape[1]
        bias = self.weights(g, g.concat(biases, 0), len(biases)) if biases else None
        y = (x.shape[0], 1, x.shape[1], units)
        inputs = [x, self.weights(g, w), self.weights(g, r), bias, None, *states]
        while inputs[-1] is None:
            inputs.pop()
        direction = "reverse" if reverse else "forward"
        several = [y, *[y[1:]] * len(states)]
        emit = g.emit_composite if written_out else g.emit_several
        steps, *last = emit(self.op, inputs, several, hidden_size=units, direction=direction, **self.attrs)
        return [g.reshape(steps, (y[0], *y[2:])), *last]


LSTM = RecurrentOptions("LSTM", (0, 3, 1, 2), {})
"""PyTorch has input, forget, cell, output; ONNX input, output, forget, cell."""
GRU = RecurrentOptions("GRU", (1, 0, 2), {"linear_before_reset": 1})
"""PyTorch has reset, update, new; ONNX update, reset, hidden."""
TANH, RELU = (RecurrentOptions("RNN", (0,), {"activations": [name]}) for name in ("Tanh", "Relu"))


def layers(
    g: GraphBuilder,
    cell: RecurrentOptions,
    x: Value,
    states: Sequence[Operand],
    weights: Sequence[Value],
    has_bias: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """All layers and directions; the outputs of the last, and the last state of each."""
    if x.rank != len(("time", "batch", "features")):
        raise g.refusal("its input has no batch axis", "an input of [time, batch, features]")
    directions, each = 2 if bidirectional else 1, 4 if has_bias else 2
    if len(weights) != count * directions * each:
        raise g.refusal("it has projections of its state", "proj_size 0")
    x = g.transpose(x, (1, 0, 2)) if batch_first else x
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(count):
        outputs = []
        x = g.dropout(x, dropout, train) if layer else x
        for direction in range(directions):
            place = layer * directions + direction
            own = [_state(g, state, place) for state in states]
            y, *ends = cell.direction(g, x, own, weights[place * each : (place + 1) * each], bool(direction))
            outputs.append(y)
            for kept, value in zip(last, ends, strict=True):
                kept.append(value)
        x = g.concat(outputs, 2)
    x = g.transpose(x, (1, 0, 2)) if batch_first else x
    return x, *(g.concat(kept, 0) for kept in last)


def _state(g: GraphBuilder, state: Operand, place: int) -> Value | None:
    """The initial state of a layer's direction; None for known zeros, which the operator has without."""
    if not isinstance(state, Value) and not np.any(state):
        return None
    return g.slice(g.value(state), 0, place, place + 1)


@lowers("lstm")
def lstm(
    g: GraphBuilder, x: Value, state: Sequence[Operand], weights: Sequence[Value], *options: Any
) -> tuple[Value, ...]:
    """Long short-term memory."""
    return layers(g, LSTM, x, state, weights, *options)


def _of_one_state(aten: str, cell: RecurrentOptions) -> None:
    """Register a layer whose only state is its output."""

    @lowers(aten)
    def layer(g: GraphBuilder, x: Value, state: Operand, weights: Sequence[Value], *options: Any) -> tuple[Value, ...]:
        return layers(g, cell, x, [state], weights, *options)


for _aten, _form in (("gru", GRU), ("rnn_tanh", TANH), ("rnn_relu", RELU)):
    _of_one_state(_aten, _form)


FORMS = {"lstm": LSTM, "gru": GRU, "rnn_tanh": TANH, "rnn_relu": RELU}


@lowers("deployer::recurrent")
def recurrent(
    g: GraphBuilder, kind: str, x: Value, states: Sequence[Operand], weights: Sequence[Value], reverse: bool
) -> list[Value]:
    """One direction of one layer, written out as the nodes that its gradient is pulled back over."""
    cell, begin = FORMS[kind], len(g.nodes)
    given = [x, *map(g.value, states), *weights]
    source, *rest = (g.emit("Identity", [v], v.shape) for v in given)  # what is in front of it is no part of it
    own = [None if _is_zero(state) else s for state, s in zip(states, rest, strict=False)]
    results = cell.direction(g, source, own, rest[len(own) :], reverse, written_out=True)
    names = tuple(v.name for v in given), tuple(y.name for y in results)
    g.subgraphs[results[0].name] = Subgraph(tuple(g.nodes[begin:]), *names)
    return results


@lowers("deployer::recurrent_backward")
def recurrent_backward(
    g: GraphBuilder,
    grads: Sequence[Value],
    kind: str,
    x: Value,
    states: Sequence[Operand],
    weights: Sequence[Value],
    outputs: Sequence[Value],
) -> tuple[Value | None, ...]:
    """The gradients of x, of the states and of the weights, from what the forward nodes saved."""
    subgraph = g.subgraphs[outputs[0].name]
    known = (g.known(dy) for dy in grads)
    arriving = ["" if zero is not None and not zero.any() else dy.name for zero, dy in zip(known, grads, strict=True)]
    return g.pulled(subgraph.nodes, dict(zip(subgraph.results, arriving, strict=True)), subgraph.sources)


def _is_zero(state: Operand) -> bool:
    return not isinstance(state, Value) and not np.any(state)
