"""Recurrent layers, one step of time after the other."""

from collections.abc import Callable, Sequence

from deployer.torch.graph import GraphBuilder, Value, lowers
from deployer.torch.lowerings.matrix import linear
from deployer.torch.lowerings.shapes import select, stack

Cell = Callable[[GraphBuilder, Value, tuple[Value, ...], Sequence[Value | None]], tuple[Value, ...]]
"""(graph, projected input [batch, gates], state, weights of the hidden part) -> the state after the step."""


def _gates(g: GraphBuilder, x: Value, count: int) -> list[Value]:
    size = x.shape[1] // count
    return [g.slice(x, 1, i * size, (i + 1) * size) for i in range(count)]


def lstm_cell(
    g: GraphBuilder, x: Value, state: tuple[Value, ...], weights: Sequence[Value | None]
) -> tuple[Value, ...]:
    """Gates: input, forget, cell, output."""
    hidden, cell = state
    total = g.binary("Add", x, linear(g, hidden, weights[0], weights[1]))  # type: ignore[arg-type]
    i, f, c, o = _gates(g, total, 4)
    new = g.binary("Mul", g.unary("Sigmoid", i), g.unary("Tanh", c))
    after = g.binary("Add", g.binary("Mul", g.unary("Sigmoid", f), cell), new)
    return g.binary("Mul", g.unary("Sigmoid", o), g.unary("Tanh", after)), after


def gru_cell(g: GraphBuilder, x: Value, state: tuple[Value, ...], weights: Sequence[Value | None]) -> tuple[Value, ...]:
    """Gates: reset, update, new; the reset gate is on the product, not on the state."""
    [hidden] = state
    recurrent = _gates(g, linear(g, hidden, weights[0], weights[1]), 3)  # type: ignore[arg-type]
    r, z, n = _gates(g, x, 3)
    reset = g.unary("Sigmoid", g.binary("Add", r, recurrent[0]))
    update = g.unary("Sigmoid", g.binary("Add", z, recurrent[1]))
    new = g.unary("Tanh", g.binary("Add", n, g.binary("Mul", reset, recurrent[2])))
    return (g.binary("Add", new, g.binary("Mul", update, g.binary("Sub", hidden, new))),)


def _plain(op: str) -> Cell:
    def cell(g: GraphBuilder, x: Value, state: tuple[Value, ...], weights: Sequence[Value | None]) -> tuple[Value, ...]:
        total = g.binary("Add", x, linear(g, state[0], weights[0], weights[1]))  # type: ignore[arg-type]
        return (g.unary(op, total),)

    return cell


def layers(
    g: GraphBuilder,
    cell: Cell,
    x: Value,
    states: Sequence[Value],
    weights: Sequence[Value],
    has_bias: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """All layers and directions; the outputs of the last, and the last state of each."""
    if x.rank != 3:
        raise g.refusal("its input has no batch axis", "an input of [time, batch, features]")
    directions, each = 2 if bidirectional else 1, 4 if has_bias else 2
    time = 1 if batch_first else 0
    sequence = [select(g, x, time, t) for t in range(x.shape[time])]
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(count):
        outputs = []
        sequence = [g.dropout(x, dropout, train) for x in sequence] if layer else sequence
        for direction in range(directions):
            place = layer * directions + direction
            w = weights[place * each : (place + 1) * each]
            state = tuple(select(g, s, 0, place) for s in states)
            hidden = [w[1], w[3] if has_bias else None]
            along, found = list(range(len(sequence))), dict[int, Value]()
            for t in reversed(along) if direction else along:
                projected = linear(g, sequence[t], w[0], w[2] if has_bias else None)
                state = cell(g, projected, state, hidden)
                found[t] = state[0]
            outputs.append([found[t] for t in along])
            for kept, value in zip(last, state, strict=True):
                kept.append(value)
        sequence = [g.concat(list(parts), 1) for parts in zip(*outputs, strict=True)]
    return stack(g, sequence, time), *(stack(g, kept, 0) for kept in last)


@lowers("lstm")
def lstm(
    g: GraphBuilder, x: Value, state: Sequence[Value], weights: Sequence[Value], *options: object
) -> tuple[Value, ...]:
    """Long short-term memory."""
    return layers(g, lstm_cell, x, [g.value(s) for s in state], weights, *options)  # type: ignore[arg-type]


@lowers("gru")
def gru(g: GraphBuilder, x: Value, state: Value, weights: Sequence[Value], *options: object) -> tuple[Value, ...]:
    """Gated recurrent units."""
    return layers(g, gru_cell, x, [g.value(state)], weights, *options)  # type: ignore[arg-type]


@lowers("rnn_tanh")
def rnn_tanh(g: GraphBuilder, x: Value, state: Value, weights: Sequence[Value], *options: object) -> tuple[Value, ...]:
    """The plain recurrent layer by tanh."""
    return layers(g, _plain("Tanh"), x, [g.value(state)], weights, *options)  # type: ignore[arg-type]


@lowers("rnn_relu")
def rnn_relu(g: GraphBuilder, x: Value, state: Value, weights: Sequence[Value], *options: object) -> tuple[Value, ...]:
    """The plain recurrent layer by relu."""
    return layers(g, _plain("Relu"), x, [g.value(state)], weights, *options)  # type: ignore[arg-type]
