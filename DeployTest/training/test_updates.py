"""Groups of parameters, and limits of gradients."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core.errors import OptionProblem
from deployer.frontend import parse
from deployer.training.groups import ParameterGroup, read_group
from deployer.training.train_graph import build_train_graph
from deployer.training.update_graph import Limits
from deployer.verify.reference import run_training
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.built_cases import built, mlp, opened
from DeployTest.support.graphs.small_graphs import node
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier."""
    folder = tmp_path_factory.mktemp("model")
    simple_mlp.generate(folder)
    return folder / "simple_mlp.onnx"


def test_groups(model: Path, tmp_path: Path) -> None:
    """Each parameter has the rate and the settings of its group; a state is kept only where one is needed."""
    groups = [read_group(text) for text in ("fc1.weight:lr=0.5,momentum=0.5", "bias:frozen")]
    report = build_train_graph(model, "cross_entropy", "sgd", 0.25, "", tmp_path, groups=groups)
    assert sorted(report.trained.values()) == ["fc1.weight", "fc2.weight"]
    assert sorted(report.frozen) == ["fc1.bias", "fc2.bias"]
    graph = onnx.load(str(parse.optimizer_dir(report.train) / "network.onnx")).graph
    numbers = {n.input[0]: {a.name: a.f for a in n.attribute} for n in graph.node}
    assert numbers == {"fc1_weight": {"lr": 0.5, "momentum": 0.5}, "fc2_weight": {"lr": 0.25}}
    assert [i.name for i in graph.input if i.name.endswith("_momentum")] == ["fc1_weight_momentum"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["fc1:"], ["has no settings"]),
        (["fc1"], ["has no settings"]),
        (["(:frozen"], ["no regular expression"]),
        (["nowhere:frozen"], ["matches no trained parameter", "fc1.weight"]),
        (["fc1:lr=0.1", "weight:frozen"], ["two groups", "fc1.weight"]),
        (["fc:frozen"], ["freeze every parameter"]),
        (["fc1:lr=-1"], ["lr -1", "not positive"]),
        (["fc1:lr=x"], ["'x'", "not a number"]),
        (["fc1:frozen,lr=1"], ["a frozen group has no other settings"]),
        (["fc1:lr=1,lr=2"], ["once for each name"]),
        (["fc1:beta1=0.5"], ["--beta1 has no effect", "adam"]),
        (["fc1:momentum=1"], ["--momentum 1 is out of range", "[0, 1)"]),
    ],
)
def test_refused_groups(texts: list[str], words: list[str], model: Path, tmp_path: Path) -> None:
    """A group that says nothing, matches nothing, contradicts another or has a number out of range."""
    with pytest.raises(OptionProblem) as caught:
        build_train_graph(model, "cross_entropy", "sgd", 0.1, "", tmp_path, groups=[read_group(text) for text in texts])
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not (tmp_path / "simple_mlp_train").exists()


def test_rates_of_groups_are_not_replaced(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One rate on the command line cannot stand for several."""
    words = ("--loss", "cross_entropy", "--param-group", "fc1:lr=0.5", "-o", tmp_path)
    assert deployer("train-graph", model, *words) == 0
    said = refused(capsys, "compile", "-t", tmp_path, "-o", tmp_path / "c", "--lr", "0.1")
    assert "several learning rates" in said


def _clipped(
    folder: Path, limits: Limits, groups: tuple[ParameterGroup, ...] = ()
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Gradients of the first pass and the movement of each weight, in float64, with rate 1."""
    case = mlp(node("Relu", ("h",), ("r",)), node("Gemm", ("r", "w2"), ("y",), transB=1))
    path = case.save(folder / "model.onnx")
    moved = {}
    for name, bound in (("free", Limits()), ("bound", limits)):
        report = build_train_graph(path, "mse", "sgd", 1.0, "", folder / name, samples=1, limits=bound, groups=groups)
        program, dataset = opened(report.train)
        _, final = run_training(program, dataset, np.float64)
        moved[name] = {n: dataset.weights[n].astype(np.float64) - w for n, w in final.items()}
    return moved["free"], moved["bound"]


def test_limits_of_gradients(tmp_path: Path) -> None:
    """Each element, the norm of all together as PyTorch's clip_grad_norm_ has it, and both, elements first."""
    for k, (value, norm) in enumerate(((0.125, None), (None, 0.25), (None, 1e6), (0.125, 0.25))):
        free, bound = _clipped(tmp_path / str(k), Limits(value, norm))
        expected = {n: g if value is None else np.clip(g, -value, value) for n, g in free.items()}
        size = np.sqrt(sum(np.sum(g**2) for g in expected.values()))
        scale = 1.0 if norm is None else min(1.0, norm / (size + float(np.float32(1e-6))))
        assert (scale < 1) == (norm == 0.25)
        assert value is None or max(np.abs(g).max() for g in free.values()) > value
        tolerance = table()["several"]["float64"]
        for name, gradient in expected.items():
            np.testing.assert_allclose(
                bound[name], scale * gradient, tolerance["rtol"], tolerance["atol"], err_msg=name
            )


@pytest.mark.torch
def test_limits_are_pytorchs(tmp_path: Path) -> None:
    """The norm's scale is that of clip_grad_norm_."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    free, bound = _clipped(tmp_path, Limits(None, 0.25))
    parameters = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in free.values()]
    for parameter, gradient in zip(parameters, free.values(), strict=True):
        parameter.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_(parameters, 0.25)
    tolerance = table()["several"]["float64"]
    for name, parameter in zip(free, parameters, strict=True):
        np.testing.assert_allclose(bound[name], parameter.grad.numpy(), tolerance["rtol"], tolerance["atol"])


def test_frozen_parameters_do_not_enter_the_norm(tmp_path: Path) -> None:
    """The norm is over what is trained."""
    free, bound = _clipped(tmp_path, Limits(None, 0.25), (read_group("w2:frozen"),))
    assert list(free) == ["w1"]
    size = np.sqrt(np.sum(free["w1"] ** 2))
    tolerance = table()["several"]["float64"]
    np.testing.assert_allclose(np.sqrt(np.sum(bound["w1"] ** 2)), 0.25 * size / (size + 1e-6), tolerance["rtol"])


def test_limit_of_one_weight(tmp_path: Path) -> None:
    """A case with a limit reads back as it was written."""
    report = built(tmp_path, mlp(node("Relu", ("h",), ("y",))), trainable="w1", limits=Limits(0.5, 0.5))
    program, _ = opened(report.train)
    assert [n.op for n in program.graphs[-1].nodes] == ["Clip", "SquareSum", "NormScale", "Mul", "SGD"]
