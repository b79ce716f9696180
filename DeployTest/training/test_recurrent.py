"""Recurrent layers trained: gradients through all their states, and the same bits however their steps are tiled."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.access import Mirror, order_dims
from deployer.core.errors import DatasetMismatch, ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, registry
from deployer.core.plan import Tiling
from DeployTest.support.building.cases import Built, compile_case, faults, result_hash
from DeployTest.support.graphs.built_cases import built, check_differences, opened
from DeployTest.support.graphs.small_graphs import Model, constant, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]

TIME, BATCH, UNITS, FEATURES = 7, 2, 5, 3
WHOLE_L1 = 200_000


def drawn(random: np.random.Generator, *shape: int) -> Array:
    """Normal values of half the deviation."""
    return np.asarray(0.5 * random.standard_normal(shape), np.float32)


def weights(name: str, gates: int, features: int, directions: int = 1, bias: bool = True) -> list[Any]:
    """W, R and, if wanted, B of a layer."""
    random = np.random.default_rng(sum(name.encode()))
    shapes = {"w": (features,), "r": (UNITS,), "b": ()} if bias else {"w": (features,), "r": (UNITS,)}
    rows = {"b": 2 * gates * UNITS}
    return [
        constant(f"{kind}_{name}", drawn(random, directions, rows.get(kind, gates * UNITS), *rest))
        for kind, rest in shapes.items()
    ]


def model(directions: int) -> Model:
    """LSTM of so many directions, two kinds of GRU and an RNN: each starts where one before it ended."""
    wide = directions * UNITS
    shapes = {"joined": (TIME, BATCH, wide), "single": (TIME, BATCH, UNITS), "rows": (BATCH, UNITS)}
    shapes |= {"zero": (0,), "one": (1,)}
    constants = [constant(name, np.array(numbers)) for name, numbers in shapes.items()]
    random = np.random.default_rng(3)
    constants += [constant(n, drawn(random, directions, BATCH, UNITS)) for n in ("h_first", "c_first")]
    constants += [*weights("lstm", 4, FEATURES, directions), *weights("gru", 3, wide), *weights("rnn", 1, UNITS)]
    constants += weights("reset", 3, UNITS, bias=False)
    way = "bidirectional" if directions > 1 else "reverse"
    places = ("x", "w_lstm", "r_lstm", "b_lstm", "", "h_first", "c_first")
    gru, relu = {"linear_before_reset": 1, "direction": "reverse"}, {"activations": ["Relu"]}
    nodes = [
        node("LSTM", places, ("y1", "h1", "c1"), hidden_size=UNITS, direction=way),
        node("Transpose", ("y1",), ("s1",), perm=[0, 2, 1, 3]),
        node("Reshape", ("s1", "joined"), ("x2",)),
        node("Slice", ("h1", "zero", "one", "zero"), ("h_gru",)),
        node("GRU", ("x2", "w_gru", "r_gru", "b_gru", "", "h_gru"), ("y2",), hidden_size=UNITS, **gru),
        node("Reshape", ("y2", "single"), ("x3",)),
        node("Slice", ("c1", "zero", "one", "zero"), ("h_reset",)),
        node("GRU", ("x3", "w_reset", "r_reset", "", "", "h_reset"), ("y3", "h3"), hidden_size=UNITS),
        node("Reshape", ("y3", "single"), ("x4",)),
        node("RNN", ("x4", "w_rnn", "r_rnn", "b_rnn", "", "h3"), ("", "h4"), hidden_size=UNITS, **relu),
        node("Reshape", ("h4", "rows"), ("y",)),
    ]
    return Model(nodes, (value("x", (TIME, BATCH, FEATURES)),), (value("y", None),), constants)


def test_gradients(tmp_path: Path) -> None:
    """Those of all weights and initial states are those of central differences."""
    report = built(tmp_path, model(directions=2), samples=1, trainable=".")
    assert {"h_first", "c_first", "w_lstm", "r_reset", "b_gru", "b_rnn"} <= set(report.trained)
    check_differences(*opened(report.train), entries=2)


Lengths = Sequence[Mapping[str, int]]
"""Tile lengths that recurrences take in turns."""


def tiled(tiling: Tiling, double: bool, lengths: Lengths) -> Tiling:
    """The tiling with nothing resident; recurrences have these tiles, as far as they may, all other steps one."""
    steps, recurrences = [], 0
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        tile = step.access.sizes
        if "time" in tile:
            own = lengths[recurrences % len(lengths)]
            tile |= {d.name: d.rounded(min(own[d.name], d.size)) for d in step.access.dims}
            recurrences += 1
        changes = {o.arg: any(tile[n] < step.access.dim(n).size for n in o.dims) for o in step.access.operands}
        pipelined = double and any(changes.values())
        slots = {arg: 2 if pipelined and changed else 1 for arg, changed in changes.items()}
        order, buffering = order_dims(step.access), "double" if pipelined else "single"
        steps.append(replace(choice, tile=tile, order=order, buffering=buffering, slots=slots))
    return replace(tiling, resident=(), steps=tuple(steps))


def with_tiles(whole: Built, folder: Path, double: bool, lengths: Lengths) -> Built:
    """The case under other tiles of its recurrences."""
    edited = tiled(whole.tiling, double, lengths)
    plan = pipeline.place_edited(edited, whole.plan.running)
    pipeline.write_case(whole.case, edited, plan, folder)
    pipeline.build_case(plan, folder)
    return Built(whole.case, edited, plan, folder)


STEP_BY_STEP = {"batch": 1, "time": 1, "gate": 1, "unit": 2}
THREE = {"batch": 2, "time": 3, "gate": 3, "unit": UNITS}
SEQUENCE = {"batch": 1, "time": TIME, "gate": 3, "unit": UNITS}
STEPS = {"batch": 2, "time": 1, "gate": 2, "unit": UNITS}
EACH = [
    (True, [STEP_BY_STEP, THREE, SEQUENCE]),
    *(
        pytest.param(double, [lengths], marks=pytest.mark.slow)
        for double in (False, True)
        for lengths in (STEP_BY_STEP, THREE, SEQUENCE, STEPS)
    ),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A case in memory enough that every step is one tile."""
    folder = tmp_path_factory.mktemp("whole")
    report = built(folder, model(directions=1), samples=2, trainable=".", n_batches=4)
    return compile_case(pipeline.load_training(report.train), folder, "single", WHOLE_L1)


@pytest.mark.slow
@pytest.mark.parametrize(("double", "lengths"), EACH)
def test_tiles_of_time(whole: Built, double: bool, lengths: Lengths, tmp_path: Path) -> None:
    """Tiles of one step and some units, of three steps, of all: right, under late transfers, and the same bits."""
    outcome = whole.run()
    assert faults(whole, outcome) == ()
    other = with_tiles(whole, tmp_path, double, lengths)
    times = [step for step in other.tiling.lifetimes.schedule.steps if "time" in step.access.sizes]
    mirrored = [step for step in times if any(isinstance(a, Mirror) for o in step.access.operands for a in o.axes)]
    assert (len(times), len(mirrored)) == (8, 4)
    assert result_hash(other.run("--dma-order", "late", "--core-order", "reverse")) == result_hash(outcome)


def test_matrices_beyond_memory(tmp_path: Path) -> None:
    """R of a GRU of 128 units, three times the memory, passes by in rows of a gate at each step."""
    random, units, features = np.random.default_rng(5), 128, 64
    shapes = {"w": (1, 3 * units, features), "r": (1, 3 * units, units), "b": (1, 6 * units)}
    constants = [constant(name, drawn(random, *shape) / 4) for name, shape in shapes.items()]
    layer = node("GRU", ("x", "w", "r", "b"), ("", "y"), hidden_size=units)
    net = Model([layer], (value("x", (2, 1, features)),), (value("y", None),), constants)
    case = pipeline.load_training(built(tmp_path, net, samples=2, n_batches=2).train)
    small = compile_case(case, tmp_path / "small", "double", 64_000)
    outcome = small.run()
    assert faults(small, outcome) == ()
    assert result_hash(outcome) == result_hash(compile_case(case, tmp_path / "large", "single", 240_000).run())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "double", "auto"])
@pytest.mark.parametrize("l1", [6000, 40000])
def test_memory(whole: Built, strategy: str, l1: int, tmp_path: Path) -> None:
    """Whatever the solver chooses for little memory and for more."""
    assert result_hash(compile_case(whole.case, tmp_path, strategy, l1).run()) == result_hash(whole.run())


X, W, R = (TensorType("float32", shape) for shape in ((4, 2, 3), (1, 20, 3), (1, 20, 5)))


@pytest.mark.parametrize(
    ("more", "attrs", "word"),
    [
        ((None, TensorType("float32", (2,))), {}, r"is not int32\[2\]"),
        ((None, TensorType("int32", (3,))), {}, r"is not int32\[2\]"),
        ((None, None, None, None, TensorType("float32", (1, 20))), {}, r"is not float32\[1,15\]"),
        ((), {"activations": ("Relu", "Tanh", "Wave")}, "activations are Relu, Tanh, Wave"),
        ((), {"activations": ("Sigmoid", "Tanh")}, "activations are Sigmoid, Tanh"),
        ((), {"activations": ("Sigmoid", "Affine", "Tanh")}, "affine has no alpha"),
        ((), {"activation_alpha": (0.5,)}, "activation_alpha has 1 numbers, and 0 of its activations take one"),
        ((), {"clip": 0.0}, "clip is 0.0"),
        ((), {"clip": float("nan")}, "clip is nan"),
        ((), {"direction": "sideways"}, "'sideways'"),
        ((None, None, TensorType("float32", (1, 3, 5))), {}, "is not float32"),
        ((TensorType("float32", (1, 20)),), {}, "is not float32"),
        ((), {"hidden_size": 4}, "hidden_size is 4"),
    ],
)
def test_refused(more: tuple[TensorType | None, ...], attrs: dict[str, Any], word: str) -> None:
    """An unsupported variant is refused with a message that names it."""
    inputs = (X, W, R, *more)
    step = Node("n", "LSTM", tuple(f"x{i}" for i in range(len(inputs))), ("y",), attrs)
    with pytest.raises((UnsupportedOperator, ShapeMismatch), match=word):
        registry()["LSTM"].infer(step, inputs)


def test_steps_that_are_written_out_are_limited() -> None:
    """A file may say any number of steps; those of a recurrence are a loop."""
    long = TensorType("float32", (100_000, 2, 3))
    attrs: dict[str, Any] = {}
    step = Node("n", "LSTM", ("x", "w", "r"), ("y",), attrs)
    assert registry()["LSTM"].infer(step, (long, W, R))[0].shape[0] == 100_000
    attrs["clip"] = 1.0
    with pytest.raises(UnsupportedOperator, match="100000 steps of a form that is written out"):
        registry()["LSTM"].infer(step, (long, W, R))


def rare_model(time: int) -> Model:
    """Three layers over sequences of several lengths: a plain LSTM both ways, one with peepholes, and a GRU that is
    written out; the last states of two of them are joined.
    """
    constants = [*weights("lstm", 4, FEATURES, 2), *weights("peeped", 4, 2 * UNITS), *weights("gru", 3, UNITS, 2)]
    random = np.random.default_rng(5)
    constants += [constant("p_peeped", drawn(random, 1, 3 * UNITS)), constant("h_gru", drawn(random, 2, BATCH, UNITS))]
    shapes = {"joined": (time, BATCH, 2 * UNITS), "single": (time, BATCH, UNITS), "rows": (BATCH, -1)}
    constants += [constant(name, np.array(numbers)) for name, numbers in shapes.items()]
    sized = {"hidden_size": UNITS}
    rare = {"activations": ["HardSigmoid", "Softsign"] * 2, "direction": "bidirectional", "clip": 2.0}
    nodes = [
        node("LSTM", ("x", "w_lstm", "r_lstm", "b_lstm", "n"), ("y1", "", "c1"), **sized, direction="bidirectional"),
        node("Transpose", ("y1",), ("s1",), perm=[0, 2, 1, 3]),
        node("Reshape", ("s1", "joined"), ("x2",)),
        node("LSTM", ("x2", "w_peeped", "r_peeped", "b_peeped", "n", "", "", "p_peeped"), ("y2",), **sized),
        node("Reshape", ("y2", "single"), ("x3",)),
        node("GRU", ("x3", "w_gru", "r_gru", "b_gru", "n", "h_gru"), ("", "h3"), **sized, **rare),
        node("Concat", ("c1", "h3"), ("both",), axis=2),
        node("Transpose", ("both",), ("by_sequence",), perm=[1, 0, 2]),
        node("Reshape", ("by_sequence", "rows"), ("y",)),
    ]
    inputs = (value("x", (time, BATCH, FEATURES)), value("n", (BATCH,), onnx.TensorProto.INT32))
    return Model(nodes, inputs, (value("y", None),), constants)


@pytest.mark.slow
def test_gradients_of_other_forms(tmp_path: Path) -> None:
    """Of lengths that are data, peepholes, other activations and clipped sums, by central differences.

    A length beyond the steps is refused.
    """
    report = built(tmp_path, rare_model(4), samples=2, trainable=".")
    assert {"w_lstm", "r_peeped", "p_peeped", "h_gru", "b_gru"} <= set(report.trained)
    check_differences(*opened(report.train), entries=2)
    arrays = dict(np.load(report.train / "inputs.npz"))
    [name] = [n for n, x in arrays.items() if n.startswith("mb1") and x.dtype.kind == "i" and x.shape == (BATCH,)]
    np.savez(report.train / "inputs.npz", **{**arrays, name: np.array([4, 5])})
    with pytest.raises(DatasetMismatch, match="length 5, outside the lengths"):
        pipeline.load_training(report.train)


@pytest.mark.slow
def test_bits_of_other_forms(tmp_path: Path) -> None:
    """The same for little memory and for all that is wanted."""
    report = built(tmp_path, rare_model(2), samples=2, trainable=".")
    case = pipeline.load_training(report.train)
    whole = compile_case(case, tmp_path / "whole", "single", WHOLE_L1)
    outcome = whole.run()
    assert faults(whole, outcome) == ()
    assert result_hash(compile_case(case, tmp_path / "small", "single", 1500).run()) == result_hash(outcome)
