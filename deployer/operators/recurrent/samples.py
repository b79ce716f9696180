"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample, inherited_sweep, measured, samples_of, sweep_of
from deployer.operators.recurrent.layers import AFTER, BIASES, DIRECTIONS, LENGTHS, RecurrentLayer
from deployer.operators.recurrent.steps import BackwardSteps, Recurrence, drawn
from deployer.operators.recurrent.training import GRUGrad, GRUTraining, LSTMGrad, LSTMTraining

ALL, LENGTHS_GIVEN, PEEPHOLES_GIVEN = "xwrbhc", "l", "p"
"""Letters by which samples name the inputs that they have."""


@samples_of(RecurrentLayer)
def recurrent_layer_samples(op: RecurrentLayer) -> Iterator[Sample]:
    """All directions and layouts, with bias and states or without; other functions and attributes in two forms;
    sequences of several lengths, and steps that are written out.
    """
    cases: list[tuple[str, str, dict[str, AttrValue]]] = [("plain", "xwr", {}), ("stated", ALL, {})]
    cases += [(name, ALL, {"direction": name}) for name in ("reverse", "bidirectional")]
    cases += [("batch_first", ALL, {"layout": 1, "direction": name}) for name in ("reverse", "bidirectional")]
    others = [case for case in cases if case[0] in ("stated", "bidirectional")]
    for number, (names, trial) in enumerate(product(op.activations, op.trials)):
        for label, given, attrs in others if number else cases:
            own = {**attrs, **trial}
            if names != op.activations[0]:
                own["activations"] = names * len(DIRECTIONS[str(attrs.get("direction", "forward"))])
            label = "_".join([label, names[-1].lower(), str(attrs.get("direction", "forward")), *trial])
            yield _layer_sample(op, label, given, own)
    yield _layer_sample(op, "lengths", ALL + LENGTHS_GIVEN, {"direction": "bidirectional"})
    for number, trial in enumerate((*op.trials, *op.written)):
        more = PEEPHOLES_GIVEN if op.peepholes else ""
        rare = {"direction": "bidirectional", "clip": 0.75, **op.rare, **trial}
        yield _layer_sample(op, f"written_{number}", ALL + LENGTHS_GIVEN + more, rare)


def _layer_sample(op: RecurrentLayer, label: str, given: str, attrs: dict[str, AttrValue]) -> Sample:
    """Five steps, three sequences, two features, four units; ONNX Runtime does not know batches first.

    `given` are the letters of inputs that are there.
    """
    count, units, swapped = len(DIRECTIONS[str(attrs.get("direction", "forward"))]), 4, "layout" in attrs
    rows, state = op.gates * units, (3, count, units) if swapped else (count, 3, units)
    shapes: dict[str, tuple[int, ...]] = {
        "x": (3, 5, 2) if swapped else (5, 3, 2),
        "w": (count, rows, 2),
        "r": (count, rows, units),
    }
    shapes |= {"b": (count, BIASES * rows), LENGTHS_GIVEN: (3,)}
    shapes |= dict(zip("hc", (state,) * op.states, strict=False))
    shapes |= {PEEPHOLES_GIVEN: (count, op.peepholes * units)} if op.peepholes else {}
    inputs: list[Array | None] = [
        drawn(f"{op.name}{label}{i}", shape) if name in given else None
        for i, (name, shape) in enumerate(shapes.items())
    ]
    if LENGTHS_GIVEN in given:
        inputs[LENGTHS] = np.array([2, 5, 0], np.int32)
    while inputs[-1] is None:
        inputs.pop()
    return Sample(label, tuple(inputs), {**attrs, "hidden_size": units}, 1 + op.states, onnx=not swapped)


@samples_of(Recurrence)
def recurrence_samples(op: Recurrence) -> Iterator[Sample]:
    """Both directions, with and without states, one step, one sequence, and products of two blocks."""
    for label, shape, stated, reverse in (
        ("short", (5, 3, 4), True, 0),
        ("reverse", (4, 2, 5), True, 1),
        ("unstated", (6, 1, 7), False, 1),
        ("one", (1, 2, 3), False, 0),
        ("wide", (3, 2, 150), True, 0),
    ):
        for number, more in enumerate(op.variants):
            name = f"{label}_{number}" if number else label
            yield op.sample(name, shape, stated, {"reverse": reverse, **more})


@sweep_of(Recurrence)
def recurrence_sweep(op: Recurrence) -> Iterator[Sample]:
    """Few and many steps, sequences and units."""
    for time, batch, units in measured("recurrences"):
        yield op.sample(f"{time}x{batch}x{units}", (time, batch, units), True, op.variants[0])


@sweep_of(BackwardSteps)
def backward_steps_sweep(op: BackwardSteps) -> Iterator[Sample]:
    """Those of several steps: the first one has no product."""
    yield from (
        sample
        for sample in inherited_sweep(op, BackwardSteps)
        if sample.inputs[0] is not None and len(sample.inputs[0]) > 1
    )


@samples_of(LSTMTraining)
def lstm_training_samples(op: LSTMTraining) -> Iterator[Sample]:
    """With all inputs and outputs, with few, and of one step."""
    for label, inputs in layer_inputs(op.gates, op.states).items():
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


@samples_of(LSTMGrad)
def lstm_grad_samples(op: LSTMGrad) -> Iterator[Sample]:
    """Of the samples of the layer: all gradients arriving, or that of Y alone."""
    forward = registry()["LSTMTraining"]
    for label, given in layer_inputs(op.gates, op.states).items():
        node = Node(label, "LSTMTraining", tuple("x" for _ in given), (), {"hidden_size": 4})
        y, last, cell, cells, gates = forward.reference(node, given)
        x, w, r, _, _, h, c = (*given, *[None] * 7)[:7]
        dy = drawn(f"{label}dy", y.shape)
        ends = [] if label == "plain" else [drawn(f"{label}{i}d", v.shape) for i, v in enumerate((last, cell))]
        operands = (x, w, r, None, h, c, y, cells, gates, dy, *ends)
        yield Sample(label, tuple(operands), {"hidden_size": 4}, 6, onnx=False)


@samples_of(GRUTraining)
def gru_training_samples(op: GRUTraining) -> Iterator[Sample]:
    """With all inputs and outputs, with few, and of one step; the reset gate on the product or on the state."""
    for label, inputs in layer_inputs(op.gates, op.states).items():
        for after in (0, 1):
            yield Sample(f"{label}_{after}", inputs, {"hidden_size": 4, AFTER: after}, 3, onnx=False)


@samples_of(GRUGrad)
def gru_grad_samples(op: GRUGrad) -> Iterator[Sample]:
    """Of the samples of the layer: all gradients arriving, or that of Y alone."""
    forward = registry()["GRUTraining"]
    for label, given in layer_inputs(op.gates, op.states).items():
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
