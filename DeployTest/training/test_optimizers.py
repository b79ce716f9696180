"""Optimizers beside formulas of their own in float64, beside PyTorch, in groups, and with limits of gradients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core.errors import UnsupportedOperator
from deployer.core.operator import Operator
from deployer.core.samples import Sample
from deployer.core.traits.training import Optimizer
from deployer.frontend import parse
from deployer.testing.bench import run_step, step_of
from deployer.training.train_graph import build_train_graph
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import bits, deployer, refused
from DeployTest.support.graphs.built_cases import opened
from DeployTest.support.references.updates import RATE, UPDATES, narrow
from DeployTest.support.tolerances import assert_close, table

pytestmark = [pytest.mark.host, pytest.mark.training]
Array = np.ndarray[Any, Any]
SIZE, STEPS, SEEDS = 37, 25, (0, 1, 2)


def _gradients(seed: int) -> Iterator[Array]:
    """Gradients of sizes that differ from step to step; those of the first weights are zero always, or at first."""
    draw = np.random.default_rng(seed)
    for k in range(STEPS):
        g = draw.standard_normal(SIZE) * 10.0 ** draw.uniform(-3, 1)
        g[0], g[1] = 0.0, g[1] * (k > STEPS // 2)
        yield g.astype(np.float32)


def _start(operator: Operator, seed: int) -> tuple[Array, list[Array]]:
    declared = operator.role(Optimizer)
    assert declared is not None
    w = np.random.default_rng([seed, 1]).standard_normal(SIZE).astype(np.float32)
    return w, [np.full(SIZE, s.initial, np.float32) for _, s in sorted(declared.states.items())]


def _sample(operator: Operator, inputs: list[Array], count: int, attributes: dict[str, float]) -> Sample:
    declared = operator.role(Optimizer)
    counted = declared is not None and declared.count is not None
    counts = [np.array([count], np.int32)] if counted else []
    return Sample("update", (*inputs, *counts), dict(attributes), len(inputs) - 1, onnx=False)


@pytest.mark.parametrize("name", UPDATES)
def test_every_step_from_its_own_state(name: str) -> None:
    """The kernel's weight and state after each of many steps, and the operator's meaning, by a formula in float64."""
    case = UPDATES[name]
    operator, attributes = case.operator()
    for seed in SEEDS:
        w, states = _start(operator, seed)
        formula = case.formula(float(np.float32(RATE)), **narrow(case.formula_words))
        for count, g in enumerate(_gradients(seed), 1):
            step = step_of(operator, _sample(operator, [w, g, *states], count, attributes))
            results = run_step(step, step.access.sizes)
            wide = [x.astype(np.float64) for x in (w, g, *states)]
            expected = formula(wide[0], wide[1], wide[2:], count)
            counts = [np.array([count])] if len(step.arrays) > len(wide) else []
            meaning = operator.reference(step.node, [*wide, *counts])
            bound = table()["several"]["float64"]
            for actual, exact, due in zip(results, meaning, expected, strict=True):
                np.testing.assert_allclose(exact, due, bound["rtol"], bound["atol"], err_msg=f"{name}, step {count}")
                assert_close(operator.name, actual, due)
            w, *states = results


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.torch
def test_many_steps_are_pytorchs(name: str) -> None:
    """Weights after each of many steps of PyTorch's optimizer in float64."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    case = UPDATES[name]
    operator, attributes = case.operator()
    bound = table()["several"]["float64"]
    for seed in SEEDS:
        start, states = _start(operator, seed)
        w, states = start.astype(np.float64), [s.astype(np.float64) for s in states]
        parameter = torch.nn.Parameter(torch.tensor(w))
        words = narrow(case.torch_words)
        optimizer = getattr(torch.optim, case.torch)([parameter], float(np.float32(RATE)), **words)
        for count, g in enumerate(_gradients(seed), 1):
            sample = _sample(operator, [w, g.astype(np.float64), *states], count, attributes)
            w, *states = operator.reference(step_of(operator, _float32(sample)).node, sample.inputs)
            parameter.grad = torch.tensor(g, dtype=torch.float64)
            optimizer.step()
            due = parameter.detach().numpy()
            np.testing.assert_allclose(w, due, bound["rtol"], bound["atol"], err_msg=f"{name}, step {count}")


def _float32(sample: Sample) -> Sample:
    inputs = tuple(x.astype(np.float32) if x is not None and x.dtype.kind == "f" else x for x in sample.inputs)
    return Sample(sample.label, inputs, sample.attrs, sample.outputs, sample.onnx)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier."""
    folder = tmp_path_factory.mktemp("model")
    simple_mlp.generate(folder)
    return folder / "simple_mlp.onnx"


GROUPS = ("--param-group", "fc1:lr=0.002,weight_decay=0.5", "--param-group", "fc2.bias:frozen")
RUNS = {
    "adam": ("--optimizer", "adam", "--max-grad-norm", "0.5", "--max-grad-value", "0.25", *GROUPS),
    "nesterov": ("--optimizer", "sgd", "--momentum", "0.9", "--nesterov"),
    "decay": ("--optimizer", "sgd", "--weight-decay", "0.1", "--max-grad-norm", "1"),
    "rmsprop": ("--optimizer", "rmsprop"),
    "rmsprop_momentum": ("--optimizer", "rmsprop", "--momentum", "0.5"),
    "adagrad": ("--optimizer", "adagrad", "--max-grad-value", "0.01"),
    "adamw": ("--optimizer", "adamw", "--beta1", "0.8", "--max-grad-norm", "0.5"),
}


@pytest.mark.parametrize("name", [n if n == "adam" else pytest.param(n, marks=pytest.mark.slow) for n in RUNS])
def test_same_bits_in_any_memory(name: str, model: Path, tmp_path: Path) -> None:
    """A run is right from each of its states, with the same bits tiled, double-buffered, fused and at other levels."""
    words = ("--loss", "cross_entropy", *RUNS[name], "--n-steps", "6", "-o", tmp_path)
    assert deployer("train-graph", model, *words) == 0
    whole, tiled = tmp_path / "whole.npz", tmp_path / "tiled.npz"
    run = ("train", "-t", tmp_path / "simple_mlp_train")
    assert deployer(*run, "-o", tmp_path / "a", "--dump", whole) == 0
    small = ("--l1", "2500", "--buffering", "double", "--defaultMemLevel", "L3", "--l2", "30000")
    assert deployer(*run, "-o", tmp_path / "b", "--dump", tiled, *small) == 0
    assert bits(whole) == bits(tiled)
    assert deployer(*run, "-o", tmp_path / "c", "--dump", tiled, "--fused", "--l1", "8000") == 0
    assert bits(whole) == bits(tiled)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--momentum 1", "--momentum 1 is out of range"),
        ("--momentum 0.99999999", "out of range"),
        ("--momentum -0.1", "out of range"),
        ("--momentum nan", "not a finite number"),
        ("--beta1 0.5", "belongs to     adam, adamw"),
        ("--optimizer adam --beta2 1", "--beta2 1 is out of range"),
        ("--optimizer adam --eps 0", "--eps 0 is out of range"),
        ("--optimizer adam --nesterov", "--nesterov has no effect here"),
        ("--nesterov", "nesterov with momentum 0"),
        ("--weight-decay -1", "--weight-decay -1 is out of range"),
        ("--max-grad-norm 0", "--max-grad-norm 0.0 is not positive"),
        ("--max-grad-value -1", "--max-grad-value -1.0 is not positive"),
        ("--lr -1", "--lr -1.0 is not positive"),
        ("--lr 1e-60", "0 in float32"),
    ],
)
def test_refused_settings(
    words: str, said: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers that cannot be right, and settings that the optimizer does not have."""
    command = ("train-graph", model, "--loss", "cross_entropy", "-o", tmp_path, *words.split())
    assert said in refused(capsys, *command)


def test_numbers_of_a_file(model: Path, tmp_path: Path) -> None:
    """An out-of-range number in a file's optimizer graph is refused with its node."""
    report = build_train_graph(
        model, "cross_entropy", "rmsprop", 0.01, "", tmp_path, settings={"momentum": 0.5, "alpha": 0.5}
    )
    path = parse.optimizer_dir(report.train) / "network.onnx"
    made = onnx.load(str(path))
    next(a for a in made.graph.node[0].attribute if a.name == "alpha").f = 1.5
    onnx.save(made, str(path))
    with pytest.raises(UnsupportedOperator, match=r"alpha is 1\.5"):
        opened(report.train)
