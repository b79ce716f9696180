"""LSTMGrad: the gradients of LSTMTraining, of what it saved of all steps."""

from collections.abc import Iterator, Sequence

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, mismatch, register, registry
from deployer.operators.recurrent.lstm_training import ATTRIBUTES, LSTMTraining, layer_inputs
from deployer.operators.recurrent.steps.recurrence import drawn
from deployer.operators.recurrent.trained import BIASES, Layer, TrainedGrad

INPUTS = 12


@register
class LSTMGrad(TrainedGrad):
    """X, W, R, no lengths, h, c, Y, c of all steps, the gates, dY, dh and dc of the end to dX, dW, dR, dB, dh, dc."""

    name = "LSTMGrad"
    custom = Form((INPUTS - 3, INPUTS), (1, 6), ATTRIBUTES)
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
        _, _, r, _, h, c, y, cells, gates, dy, dh, dc = (*node.inputs, *[""] * INPUTS)[:INPUTS]
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

    def samples(self) -> Iterator[Sample]:
        """Of the samples of the layer: all gradients arriving, or that of Y alone."""
        forward = registry()["LSTMTraining"]
        for label, given in layer_inputs(self.gates, self.states).items():
            node = Node(label, "LSTMTraining", tuple("x" for _ in given), (), {"hidden_size": 4})
            y, last, cell, cells, gates = forward.reference(node, given)
            x, w, r, _, _, h, c = (*given, *[None] * 7)[:7]
            dy = drawn(f"{label}dy", y.shape)
            ends = [] if label == "plain" else [drawn(f"{label}{i}d", v.shape) for i, v in enumerate((last, cell))]
            operands = (x, w, r, None, h, c, y, cells, gates, dy, *ends)
            yield Sample(label, tuple(operands), {"hidden_size": 4}, 6, onnx=False)
