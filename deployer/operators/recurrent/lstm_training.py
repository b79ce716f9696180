"""LSTMTraining: an LSTM of ONNX Runtime's training graphs, with its gates and cells of all steps as outputs."""

from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, Sample, register, registry
from deployer.operators.recurrent.lstm import LSTM
from deployer.operators.recurrent.steps.recurrence import drawn
from deployer.operators.recurrent.trained import BIASES, Layer, TrainedLayer

ATTRIBUTES = {
    **{"activations": "STRINGS", "activation_alpha": "FLOATS", "activation_beta": "FLOATS", "clip": "FLOAT"},
    **{"direction": "STRING", "hidden_size": "INT", "input_forget": "INT"},
}


@register
class LSTMTraining(TrainedLayer):
    """X, W, R[, B, no lengths, h, c, no peepholes] to Y, the last h and c, c of all steps, and i, o, f and g of all."""

    name = "LSTMTraining"
    custom = Form((3, 8), (1, 5), ATTRIBUTES)
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

    def samples(self) -> Iterator[Sample]:
        """With all inputs and outputs, with few, and of one step."""
        for label, inputs in layer_inputs(self.gates, self.states).items():
            yield Sample(label, inputs, {"hidden_size": 4}, 5, onnx=False)


def layer_inputs(gates: int, states: int) -> dict[str, tuple[Array | None, ...]]:
    """Inputs of layers with four units, by label: X, W, R, B, no lengths, and initial states."""
    found: dict[str, tuple[Array | None, ...]] = {}
    for label, time in (("all", 5), ("plain", 3), ("one", 1)):
        shapes = {"x": (time, 3, 2), "w": (1, gates * 4, 2), "r": (1, gates * 4, 4), "b": (1, BIASES * gates * 4)}
        values = [drawn(f"{label}{gates}{name}", shape) for name, shape in shapes.items()]
        initial = [drawn(f"{label}{gates}{i}", (1, 3, 4)) for i in range(states)]
        found[label] = tuple(values[:3]) if label == "plain" else (*values, None, *initial)
    return found
