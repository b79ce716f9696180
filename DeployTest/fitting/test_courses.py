"""Runs whose rates follow a schedule, whose nets drop elements and keep running statistics: bits, resumption, use."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer import pipeline
from deployer.core.errors import OptionProblem, UnsupportedOperator
from deployer.fitting.export import export_weights
from deployer.fitting.fit import Fitted
from deployer.fitting.history import LOSS
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.training.order import Order
from deployer.training.train_graph import build_train_graph
from DeployTest.fitting.runs import BATCH, OPTIONS, SAMPLES, WIDTHS, Stops, files, small_data, small_fit
from DeployTest.support.building.cases import compile_case

pytestmark = [pytest.mark.host, pytest.mark.training]
IGNORED = {"ignore-index": 2}
LR_SCHEDULE = {
    "lr_scheduler": "cosine:end-factor=0.1", "warmup_steps": "2", "accumulate_grad_batches": 5, "accumulate": "mean",
    "partial_accumulation": "apply", "ignore_index": IGNORED["ignore-index"],
}  # fmt: skip
"""Twelve passes are two updates of five, and one of the two that are left; their labels do not all count."""


def net(path: Path) -> Path:
    """Write two layers with a batch norm and a dropout between, both in training form."""
    draw = np.random.default_rng(5)
    shapes = {"first": (WIDTHS[1], WIDTHS[0]), "second": (WIDTHS[2], WIDTHS[1])}
    arrays = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    ones = np.ones(WIDTHS[1], np.float32)
    arrays |= {"scale": ones, "bias": 0 * ones, "mean": 0 * ones, "var": ones}
    fixed = {"ratio": np.array(0.25, np.float32), "trains": np.array(True)}
    norm = ("h", "scale", "bias", "mean", "var")
    nodes = [
        helper.make_node("Gemm", ("input", "first"), ("h",), "first_layer", transB=1),
        helper.make_node("BatchNormalization", norm, ("n", "mean_after", "var_after"), "norm", training_mode=1),
        helper.make_node("Relu", ("n",), ("r",), "relu"),
        helper.make_node("Dropout", ("r", "ratio", "trains"), ("d",), "drop"),
        helper.make_node("Gemm", ("d", "second"), ("output",), "second_layer", transB=1),
    ]
    ends = [("input", (BATCH, WIDTHS[0])), ("output", (BATCH, WIDTHS[2]))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends]
    constants = [numpy_helper.from_array(array, name) for name, array in {**arrays, **fixed}.items()]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's file."""
    return net(tmp_path_factory.mktemp("model") / "net.onnx")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model: Path) -> tuple[Path, Fitted]:
    """A run from begin to end."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, small_fit(folder, model, validation=small_data(), check_passes=4, **LR_SCHEDULE)


@pytest.mark.slow
def test_bits_of_train(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Losses, weights and statistics have the bits of one program that makes all passes, under the simulator."""
    order, data = Order(SAMPLES, BATCH, OPTIONS["seed"]), small_data()
    passes = OPTIONS["epochs"] * order.passes
    rows = [order.indices(index) for index in range(passes)]
    report = build_train_graph(
        model, "cross_entropy", OPTIONS["optimizer"], OPTIONS["lr"], "", tmp_path,
        data={name: np.stack([array[row] for row in rows]) for name, array in data.items()}, seed=OPTIONS["seed"],
        n_accum=LR_SCHEDULE["accumulate_grad_batches"], n_batches=passes, statistics=True, mean=True, flush=True,
        settings=IGNORED, lr_schedule=read_schedule(LR_SCHEDULE["lr_scheduler"], LR_SCHEDULE["warmup_steps"]),
    )  # fmt: skip
    outcome: Any = compile_case(pipeline.load_training(report.train), tmp_path / "c", "auto", 64000).run()
    fitted = whole[1]
    assert (fitted.verdict, fitted.faults) == ("passed", ())
    assert fitted.losses == outcome.losses
    found = fitted.weights | fitted.buffers
    assert sorted(fitted.buffers) == ["mean", "var"]
    for name, original in (report.trained | report.running).items():
        assert found[original].tobytes() == outcome.arrays[name].tobytes(), original
    assert [row.rate / OPTIONS["lr"] for row in fitted.rows] == pytest.approx([1 / 3, 2 / 3, 1])
    assert "incomplete accumulation window at the end, applied: 2 of 5 passes" in fitted.notes


@pytest.mark.slow
def test_resumed(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Interrupted inside of an update: rates, masks and statistics go on where they were. Other rates are refused."""
    options = {"validation": small_data(), "check_passes": 1, "checkpoint_every": 1, **LR_SCHEDULE}
    with contextlib.suppress(KeyboardInterrupt):
        small_fit(tmp_path, model, **options, callback=Stops(7))
    others = [
        ({"epochs": 4}, "partial_accumulation, rates"),
        ({"lr_scheduler": "linear"}, "rates"),
        ({"accumulate": "sum"}, "task"),
    ]
    for more, names in [*others, ({"partial_accumulation": "skip", "epochs": 4}, "partial_accumulation")]:
        with pytest.raises(OptionProblem, match=f"another run: {names} differ"):
            small_fit(tmp_path, model, **{**options, **more}, resume=True)
    with pytest.raises(OptionProblem, match="task differs") as caught:
        small_fit(tmp_path, model, **options, dropout="off", resume=True)
    assert caught.value.facts == (("dropout", "false, in the file true"),)
    fitted = small_fit(tmp_path, model, **options, resume=True)
    assert fitted.losses == whole[1].losses
    assert files(tmp_path) == files(whole[0])


@pytest.mark.slow
def test_longer_runs_of_a_mean(model: Path, tmp_path: Path) -> None:
    """An update that is open where a run ends counts the passes to come: a longer run goes on with the same bits."""
    options = {
        "accumulate_grad_batches": 5,
        "accumulate": "mean",
        "ignore_index": IGNORED["ignore-index"],
        "check_passes": 2,
    }
    short = small_fit(tmp_path / "short", model, **options)
    assert "incomplete accumulation window at the end, not applied: 2 of 5 passes" in short.notes
    small_fit(tmp_path / "short", model, **options, epochs=6, resume=True)
    small_fit(tmp_path / "long", model, **options, epochs=6)
    assert files(tmp_path / "short") == files(tmp_path / "long")
    flushed = small_fit(tmp_path / "flushed", model, **options, partial_accumulation="apply")
    assert flushed.losses == short.losses
    assert all((flushed.weights[name] != short.weights[name]).any() for name in ("first", "second"))


def test_validation_is_evaluation(model: Path, whole: tuple[Path, Fitted], tmp_path: Path) -> None:
    """Exported, the net without dropout and with its running statistics has the validation's loss in ONNX Runtime."""
    out = tmp_path / "trained.onnx"
    assert {"mean", "var"} < set(export_weights(model, whole[0] / "trained.npz", out))
    by_checkpoint = tmp_path / "again.onnx"
    export_weights(model, whole[0] / "checkpoint.safetensors", by_checkpoint)
    assert by_checkpoint.read_bytes() == out.read_bytes()
    proto = onnx.load(out)
    norm, drop = proto.graph.node[1], proto.graph.node[3]
    del norm.output[1:], norm.attribute[:], drop.input[1:]
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    data, rows = small_data(), np.arange(16) % SAMPLES
    scores = np.concatenate([session.run(None, {"input": data["input"][rows[i : i + 4]]})[0] for i in range(0, 16, 4)])
    wide = scores[:SAMPLES].astype(np.float64)
    each = np.log(np.exp(wide).sum(1)) - wide[np.arange(SAMPLES), data["labels"]]
    loss = np.mean(each[data["labels"] != IGNORED["ignore-index"]])
    assert whole[1].rows[-1].metrics[LOSS] == pytest.approx(loss, abs=1e-6)


def test_statistics_that_nothing_renews(model: Path, tmp_path: Path) -> None:
    """A norm whose running mean is computed cannot be evaluated: refused before anything is done."""
    proto = onnx.load(model)
    proto.graph.node[1].input[3] = "computed"
    proto.graph.node.insert(1, helper.make_node("ReduceMean", ("h",), ("average",), "average", axes=[0], keepdims=0))
    proto.graph.node.insert(2, helper.make_node("Add", ("average", "mean"), ("computed",), "moved"))
    onnx.save(proto, tmp_path / "computed.onnx")
    with pytest.raises(UnsupportedOperator, match="no pass renews 'computed', which is not an initializer"):
        small_fit(tmp_path / "run", model, validation=small_data(), evaluated=tmp_path / "computed.onnx")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"lr_scheduler": "sawtooth"}, "no schedule 'sawtooth'"),
        ({"warmup_steps": "6"}, "the warm-up does not end before the run"),
        ({"accumulate": "median"}, "accumulate is 'median'"),
        ({"partial_accumulation": "drop"}, "partial_accumulation is 'drop'"),
    ],
)
def test_refused(more: dict[str, object], word: str, model: Path, tmp_path: Path) -> None:
    """Before anything is compiled."""
    with pytest.raises(OptionProblem, match=word):
        small_fit(tmp_path / "run", model, **more)
    assert not (tmp_path / "run").exists()
