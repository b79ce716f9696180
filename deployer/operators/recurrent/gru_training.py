"""GRUTraining: a GRU of ONNX Runtime's training graphs, with its gates of all steps as an output."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, registry
from deployer.operators.recurrent.gru import AFTER, GRU, is_after
from deployer.operators.recurrent.lstm_training import layer_inputs
from deployer.operators.recurrent.trained import BIASES, Layer, TrainedLayer

ATTRIBUTES = {
    **{"activations": "STRINGS", "activation_alpha": "FLOATS", "activation_beta": "FLOATS", "clip": "FLOAT"},
    **{"direction": "STRING", "hidden_size": "INT", AFTER: "INT"},
}


@register
class GRUTraining(TrainedLayer):
    """X, W, R[, B, no lengths, h] to Y, the last h, and z, r and n of all steps."""

    name = "GRUTraining"
    custom = Form((3, 6), (1, 3), ATTRIBUTES)
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

    def samples(self) -> Iterator[Sample]:
        """With all inputs and outputs, with few, and of one step; the reset gate on the product or on the state."""
        for label, inputs in layer_inputs(self.gates, self.states).items():
            for after in (0, 1):
                yield Sample(f"{label}_{after}", inputs, {"hidden_size": 4, AFTER: after}, 3, onnx=False)
