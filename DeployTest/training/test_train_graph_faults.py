"""Every fault of a forward model or of the options is named, with a way out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer.core.errors import (
    DatasetMismatch,
    FileProblem,
    GraphProblem,
    InternalError,
    NotDifferentiable,
    OptionProblem,
    ShapeMismatch,
    UnsupportedOperator,
)
from deployer.core.operator import registry
from deployer.training.autodiff import GradientRule
from deployer.training.train_graph import build_train_graph
from DeployTest.support.graphs.built_cases import built, mlp, random
from DeployTest.support.graphs.small_graphs import INT64, Model, chain, constant, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.training]

RELU = mlp(node("Relu", ("h",), ("y",)))
FAULTS: dict[str, tuple[Model, dict[str, Any], pytest.RaisesExc]] = {
    "unknown_operator": (
        mlp(node("Wave", ("h",), ("y",), "wave")),
        {},
        raises(UnsupportedOperator, "'wave' (Wave)", "no such operator"),
    ),
    "backward_operator": (
        mlp(node("ReluGrad", ("h", "h"), ("y",), "odd")),
        {},
        raises(NotDifferentiable, "'odd' (ReluGrad)", "backward pass", "weights behind it w1", "freeze"),
    ),
    "vector": (
        mlp(node("MatMul", ("h", "v"), ("y",), "dot"), initializers={"v": random(4)}),
        {"trainable": "w1"},
        raises(NotDifferentiable, "'dot' (MatMul)", "vector", "w1", "--trainable"),
    ),
    "exponent": (
        mlp(node("Pow", ("h", "p"), ("y",), "power"), initializers={"p": random(4)}),
        {"trainable": "p"},
        raises(NotDifferentiable, "'power' (Pow)", "exponent", "p", "freeze"),
    ),
    "no_match": (RELU, {"trainable": "bias"}, raises(OptionProblem, "'bias' matches no", "w1", "try")),
    "no_expression": (RELU, {"trainable": "w["}, raises(OptionProblem, "not a regular expression", "unterminated")),
    "unused": (RELU, {"trainable": "w2"}, raises(GraphProblem, "does not depend", "'w2'", "no node", "freeze")),
    "no_way_to_the_loss": (
        mlp(
            node("Shape", ("h",), ("n",)),
            node("Reshape", ("x2", "n"), ("y",)),
            inputs=(value("x", (2, 3)), value("x2", (8,))),
        ),
        {"trainable": "w1"},
        raises(GraphProblem, "does not depend", "'w1'", "'first' (Gemm)"),
    ),
    "nothing_trainable": (chain(node("Relu", ("x",), ("y",))), {}, raises(OptionProblem, "no initializer", "none")),
    "two_outputs": (
        mlp(node("Relu", ("h",), ("y",)), outputs=(value("y", None), value("h", None))),
        {},
        raises(GraphProblem, "2 outputs", "y, h", "leave the output"),
    ),
    "vector_scores": (
        mlp(
            node("Flatten", ("h",), ("f",), axis=0),
            node("Squeeze", ("f", "axis"), ("y",)),
            initializers={"axis": np.array([0])},
        ),
        {"loss": "cross_entropy"},
        raises(ShapeMismatch, "'y'", "SoftmaxCrossEntropyLoss", "float32[8]", "[N, C, ...]", "mse"),
    ),
    "one_class": (
        mlp(node("Gemm", ("h", "v"), ("y",)), initializers={"v": random(4, 1)}),
        {"loss": "cross_entropy"},
        raises(ShapeMismatch, "float32[2,1]", "two classes"),
    ),
    "integer_output": (
        mlp(node("Shape", ("h",), ("y",))),
        {"trainable": "w1"},
        raises(ShapeMismatch, "int32[2]", "float"),
    ),
    "unknown_loss": (
        RELU,
        {"loss": "hinge"},
        raises(OptionProblem, "no loss 'hinge'", "cross_entropy", "mse", "model"),
    ),
    "no_samples": (RELU, {"samples": 0}, raises(OptionProblem, "no update", "samples")),
    "too_few_passes": (RELU, {"n_accum": 4, "n_batches": 3}, raises(OptionProblem, "no update", "4")),
    "taken_name": (
        Model(
            (node("Gemm", ("target", "w"), ("y",)),),
            (value("target", (2, 3)),),
            (value("y", None),),
            (constant("w", random(3, 4)),),
        ),
        {},
        raises(GraphProblem, "'target'", "rename"),
    ),
    "no_integer_samples": (
        mlp(node("Relu", ("h",), ("y",)), inputs=(value("x", (2, 3)), value("ids", (2,), INT64))),
        {"trainable": "w1"},
        raises(OptionProblem, "'ids'", "--data"),
    ),
    "data_without_target": (
        RELU,
        {"trainable": "w1", "data": {"x": random(2, 2, 3)}},
        raises(DatasetMismatch, "'target'", "x float32"),
    ),
    "data_without_an_axis": (
        mlp(
            node("Mul", ("h", "scale"), ("y",)),
            inputs=(value("x", (2, 3)), value("scale", ())),
        ),
        {"trainable": "w1", "data": {"x": random(2, 2, 3), "scale": random(), "target": random(2, 2, 4)}},
        raises(DatasetMismatch, "no samples for 'scale'", "scale float32[]"),
    ),
    "data_of_wrong_shape": (
        RELU,
        {"trainable": "w1", "data": {"x": random(2, 2, 4), "target": random(2, 2, 4)}},
        raises(DatasetMismatch, "'x'", "[2, 3]", "[2, 2, 4]"),
    ),
    "data_of_two_lengths": (
        RELU,
        {"trainable": "w1", "data": {"x": random(2, 2, 3), "target": random(3, 2, 4)}},
        raises(DatasetMismatch, "different numbers", "'target': 3"),
    ),
    "missing_data": (
        RELU,
        {"trainable": "w1", "data": Path("nowhere.npz")},
        raises(FileProblem, "nowhere.npz", "does not exist"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name: str, tmp_path: Path) -> None:
    """Every fault of a model or of the options has its place, its cause and a way out."""
    model, options, error = FAULTS[name]
    with error:
        built(tmp_path, model, **{"loss": "mse", **options})


@pytest.mark.parametrize(
    ("optimizer", "rate", "error"),
    [
        ("lion", 0.1, raises(OptionProblem, "no optimizer 'lion'", "sgd")),
        ("sgd", 0.0, raises(OptionProblem, "learning rate 0.0")),
        ("sgd", float("nan"), raises(OptionProblem, "learning rate nan")),
        ("sgd", 1e30, raises(OptionProblem, "learning rate 1e+30 is too large", "--any-rate")),
    ],
)
def test_optimizer_faults(optimizer: str, rate: float, error: pytest.RaisesExc, tmp_path: Path) -> None:
    """An unknown optimizer, a rate that is no rate, and one that is too large."""
    path = RELU.save(tmp_path / "model.onnx")
    with error:
        build_train_graph(path, "mse", optimizer, rate, "w1", tmp_path)


@pytest.mark.filterwarnings("error")
def test_divergence(tmp_path: Path) -> None:
    """A run whose loss leaves float32 has no gold, and none is written; of a rate that is meant no warning is given."""
    path = RELU.save(tmp_path / "model.onnx")
    with raises(DatasetMismatch, "diverges in pass", "smaller learning rate"):
        build_train_graph(path, "mse", "sgd", 1e30, "w1", tmp_path, free_rates=True)


def test_missing_model(tmp_path: Path) -> None:
    """The path is in the message."""
    with raises(FileProblem, "model.onnx", "does not exist"):
        build_train_graph(tmp_path / "model.onnx", "mse", "sgd", 0.1, "", tmp_path)


def test_rule_without_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that leaves out a gradient which is needed."""
    monkeypatch.setattr(type(registry()["Relu"]), "gradient", lambda self, n, douts, b: None)
    with raises(NotDifferentiable, "Relu", "no gradient with respect to input 0, 'h'", "w1"):
        built(tmp_path, RELU)


def test_rule_with_wrong_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that gives the gradient another shape is our fault."""

    def wrong(self: object, n: object, douts: Sequence[str], b: GradientRule) -> None:
        b.emit("Transpose", (douts[0],), (b.grad(0),), perm=(1, 0))

    monkeypatch.setattr(type(registry()["Relu"]), "gradient", wrong)
    with raises(InternalError, "gradient rule of Relu", "float32[4,2]", "float32[2,4]"):
        built(tmp_path, RELU)
