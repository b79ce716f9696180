"""Batch normalization in training graphs: what the builder makes of the forms a model may hold."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto

from deployer.core.errors import DeployerWarning, NotDifferentiable
from DeployTest.support.graphs.built_cases import built, check_differences, graph_of, opened, random
from DeployTest.support.graphs.small_graphs import Model, constant, node, raises, value

pytestmark = [pytest.mark.host, pytest.mark.training]
STATISTICS = ("mean", "var")
SAVED = "BatchNormInternal"


def layer(outputs: Sequence[str] = ("h",), op: str = "BatchNormalization", **attrs: object) -> Model:
    """x [2,3,4] -> BatchNorm h -> Conv y, with everything float an initializer."""
    arrays = {n: random(3, seed=i) for i, n in enumerate(("scale", "shift", *STATISTICS))} | {"w": random(2, 3, 1)}
    nodes: list[NodeProto] = [
        node(op, ("x", "scale", "shift", *STATISTICS), outputs, "norm", **attrs),
        node("Conv", ("h", "w"), ("y",), "conv"),
    ]
    constants = [constant(n, a) for n, a in arrays.items()]
    return Model(nodes, (value("x", (2, 3, 4)),), (value("y", None),), constants)


@pytest.mark.parametrize("outputs", [("h",), ("h", "new_mean", "new_var")], ids=["y", "running"])
def test_training_form_saves_its_statistics(outputs: Sequence[str], tmp_path: Path) -> None:
    """As ONNX Runtime's exporter has it: the backward node reads mean and inv_std, and nothing computes them again."""
    report = built(tmp_path, layer(outputs, training_mode=1, momentum=0.75, epsilon=0.01))
    nodes = {n.op_type: n for n in graph_of(report).node}
    norm, back = nodes[SAVED], nodes["BatchNormalizationGrad"]
    assert list(norm.output)[:3] == [*outputs, "", ""][:3]
    assert list(back.input)[3:] == list(norm.output)[3:]
    assert {a.name for a in norm.attribute} >= {"momentum", "epsilon"}
    assert not {"ChannelMoments", "BatchNormalization"} & set(nodes)
    check_differences(*opened(report.train))


def test_saved_statistics_keep_their_names(tmp_path: Path) -> None:
    """A node that already has all five outputs stays as it is."""
    outputs = ("h", "", "", "kept_mean", "kept_inv_std")
    report = built(tmp_path, layer(outputs, SAVED, epsilon=0.01))
    [norm] = [n for n in graph_of(report).node if n.op_type == SAVED]
    assert tuple(norm.output) == outputs
    check_differences(*opened(report.train))


@pytest.mark.parametrize("training", [0, 1], ids=["inference", "training"])
def test_running_statistics_are_not_trained(training: int, tmp_path: Path) -> None:
    """By default scale and shift train; whoever asks for the statistics hears of it."""
    still = contextlib.nullcontext() if training else pytest.warns(DeployerWarning, match="inference mode")
    with still:
        report = built(tmp_path, layer(training_mode=training))
    assert list(report.trained) == ["scale", "shift", "w"]
    assert {t.name for t in report.tensors if t.role == "state"} == set(STATISTICS)
    check_differences(*opened(report.train))
    with raises(NotDifferentiable, "'norm'", "input 3, 'mean'", "freeze"):
        built(tmp_path, layer(training_mode=training), trainable="mean", warn=lambda warning: None)


def test_a_batch_of_one_pixel(tmp_path: Path) -> None:
    """One element per channel has no variance: the layer gives its shift, and no gradient reaches what is before it."""
    arrays = {"before": random(3, 3, 1), "scale": random(3), "shift": random(3, seed=1), "mean": random(3)}
    arrays |= {"var": random(3)}
    nodes = [
        node("Conv", ("x", "before"), ("h",), "conv"),
        node("BatchNormalization", ("h", "scale", "shift", "mean", "var"), ("y",), "norm", training_mode=1),
    ]
    constants = [constant(n, a) for n, a in arrays.items()]
    model = Model(nodes, (value("x", (1, 3, 1)),), (value("y", None),), constants)
    report = built(tmp_path, model)
    final = np.load(report.train / "outputs.npz")
    np.testing.assert_array_equal(final["before"], arrays["before"])
    np.testing.assert_array_equal(final["scale"], arrays["scale"])
    assert np.isfinite(report.losses).all()
    assert np.abs(final["shift"] - arrays["shift"]).max() > 0
