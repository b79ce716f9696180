"""GRUGrad: the gradients of GRUTraining, of what it saved of all steps."""

from collections.abc import Iterator, Sequence

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, registry
from deployer.operators.recurrent.gru import AFTER, is_after
from deployer.operators.recurrent.gru_training import ATTRIBUTES, GRUTraining
from deployer.operators.recurrent.lstm_training import layer_inputs
from deployer.operators.recurrent.steps.recurrence import drawn
from deployer.operators.recurrent.trained import BIASES, Layer, TrainedGrad

INPUTS = 10


@register
class GRUGrad(TrainedGrad):
    """X, W, R, B, no lengths, h, Y, the gates, dY and dh of the end to dX, dW, dR, dB and dh of the start."""

    name = "GRUGrad"
    custom = Form((INPUTS - 2, INPUTS), (1, 5), ATTRIBUTES)
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
        _, _, r, b, _, h, y, gates, dy, dh = (*node.inputs, *[""] * INPUTS)[:INPUTS]
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

    def samples(self) -> Iterator[Sample]:
        """Of the samples of the layer: all gradients arriving, or that of Y alone."""
        forward = registry()["GRUTraining"]
        for label, given in layer_inputs(self.gates, self.states).items():
            for after in (0, 1):
                node = Node(label, "GRUTraining", (), (), {"hidden_size": 4, AFTER: after})
                y, last, gates = forward.reference(node, given)
                x, w, r, b, _, h = (*given, *[None] * 6)[:6]
                ends = [] if label == "plain" else [drawn(f"{label}d", last.shape)]
                operands: tuple[Array | None, ...] = (
                    x,
                    w,
                    r,
                    b,
                    None,
                    h,
                    y,
                    gates,
                    drawn(f"{label}dy", y.shape),
                    *ends,
                )
                yield Sample(f"{label}_{after}", operands, dict(node.attrs), 5, onnx=False)
