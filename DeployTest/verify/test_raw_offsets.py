"""Passes over raw columns: rounding ahead of a batch norm flips decisions, more of them than a search can name."""

from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Node
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph
from deployer.verify.checks import Checks, Judge
from deployer.verify.reference import Memory
from deployer.verify.same_state import recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.graphs.turned import Hook, recorded_run

pytestmark = [pytest.mark.host, pytest.mark.training]
SEEDS = range(4)
PASSES, BATCH, COLUMNS, UNITS, CLASSES = 4, 32, 8, 16, 4
DEVIATION = 0.6
OFFSETS = (-5693.0, -30000.0)
"""Pressures, say: their sums round by a thousandth of what the norm leaves, or more."""


def raw_case(folder: Path, seed: int, offset: float) -> Case:
    """A layer over eight columns, three of them far from zero, a batch norm, Relu and a layer."""
    draw = np.random.default_rng(seed)
    x = (DEVIATION * draw.standard_normal((PASSES, BATCH, COLUMNS))).astype(np.float32)
    x[..., [2, 3, 5]] += np.float32(offset)
    labels = draw.integers(0, CLASSES, (PASSES, BATCH))
    shapes = {"w1": (UNITS, COLUMNS), "w2": (CLASSES, UNITS)}
    weights = {n: (draw.standard_normal(s) / np.sqrt(s[1])).astype(np.float32) for n, s in shapes.items()}
    norm = {"scale": 1.0, "shift": 0.0, "mean": 0.0, "var": 1.0}
    weights |= {n: np.full(UNITS, v, np.float32) for n, v in norm.items()}
    nodes = (
        node("Gemm", ("x", "w1"), ("h",), "first", transB=1),
        node("BatchNormalization", ("h", *norm), ("n", "mean_after", "var_after"), "norm", training_mode=1),
        node("Relu", ("n",), ("r",), "gate"),
        node("Gemm", ("r", "w2"), ("y",), "last", transB=1),
    )
    constants = [constant(n, v) for n, v in weights.items()]
    model = Model(nodes, (value("x", (BATCH, COLUMNS)),), (value("y", (BATCH, CLASSES)),), constants)
    path, data = model.save(folder / "raw.onnx"), {"x": x, "labels": labels}
    options = {"data": data, "n_batches": PASSES, "settings": {"momentum": 0.9}}
    return pipeline.load_training(build_train_graph(path, "cross_entropy", "sgd", 1e-9, "", folder, **options).train)


def checks_of(case: Case, fault: Hook = lambda *_: None) -> Checks:
    """The verdict on numpy's float32 run."""
    assert case.dataset is not None
    passes = recorded_passes(case.program, case.dataset, recorded_run(case, after=fault), PASSES)
    return Judge(case.program, case.dataset, TOLERANCES.loss, passes).checks()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """A case per seed and offset."""
    return [raw_case(tmp_path_factory.mktemp("raw"), seed, offset) for seed in SEEDS for offset in OFFSETS]


def test_right_runs_do_not_fail(cases: list[Case]) -> None:
    """A right kernel loses digits here, and does not fail."""
    checks = [checks_of(case) for case in cases]
    assert [c.faults for c in checks if c.faults] == []
    assert any(row.magnifies for c in checks for row in c.rows)


@pytest.mark.parametrize(
    ("op", "factor"),
    [("ReluGrad", -1.0), ("ReluGrad", 0.5), ("ChannelNormalizeGrad", -1.0), ("SoftmaxCrossEntropyLossGrad", -1.0)],
)
def test_wrong_kernels_fail(op: str, factor: float, cases: list[Case]) -> None:
    """No wrong factor of a gradient hides behind what rounding may flip."""

    def fault(index: int, step: Node, memory: Memory) -> None:
        if step.op == op:
            memory[step.outputs[0]] = (memory[step.outputs[0]] * np.float32(factor)).astype(np.float32)

    for case in cases:
        checks = checks_of(case, fault)
        assert checks.faults
        assert not checks.explained
