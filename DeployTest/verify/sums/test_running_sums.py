"""Running statistics of values that cancel: a mean of +-5000 is a rounding of 5000, however small it is."""

from pathlib import Path

import numpy as np
import pytest

from deployer import judging, pipeline
from deployer.core.ir import Node
from deployer.pipeline import Case
from deployer.training.train_graph import build_train_graph
from deployer.verify.checks import WELL_WITHIN, Judge
from deployer.verify.reference import Memory
from deployer.verify.same_state import recorded_passes
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import compile_case
from DeployTest.support.graphs.small_graphs import Model, constant, node, value
from DeployTest.support.graphs.turned import recorded_run

pytestmark = [pytest.mark.host, pytest.mark.training]
PASSES, BATCH, COLUMNS, UNITS, SIZE = 3, 64, 4, 8, 5000.0


def cancelling(folder: Path, seed: int) -> Case:
    """A layer whose results are of one size and either sign, and a batch norm that keeps their mean."""
    draw = np.random.default_rng(seed)
    half = SIZE * draw.uniform(0.5, 1.5, (PASSES, BATCH // 2, COLUMNS))
    x = np.concatenate([half, 0.01 * draw.standard_normal(half.shape) - half], 1).astype(np.float32)
    weights = {
        "w1": draw.standard_normal((UNITS, COLUMNS)).astype(np.float32),
        "w2": draw.standard_normal((2, UNITS)).astype(np.float32),
    }
    weights |= {n: np.full(UNITS, v, np.float32) for n, v in (("scale", 1), ("shift", 0), ("mean", 0), ("var", 1))}
    nodes = (
        node("Gemm", ("x", "w1"), ("h",), "first", transB=1),
        node("BatchNormalization", ("h", "scale", "shift", "mean", "var"), ("n", "m", "v"), "norm", training_mode=1),
        node("Gemm", ("n", "w2"), ("y",), "last", transB=1),
    )
    constants = [constant(n, v) for n, v in weights.items()]
    model = Model(nodes, (value("x", (BATCH, COLUMNS)),), (value("y", (BATCH, 2)),), constants)
    data = {"x": x, "labels": draw.integers(0, 2, (PASSES, BATCH))}
    path = model.save(folder / "model.onnx")
    options = {"data": data, "n_batches": PASSES, "statistics": True}
    return pipeline.load_training(
        build_train_graph(path, "cross_entropy", "sgd", 1e-6, "", folder / "case", **options).train
    )


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("seed", range(6))
def test_means_that_cancel_are_well_within_their_bounds(seed: int, tmp_path: Path) -> None:
    """The program's mean is a rounding off, of the size of what it adds up."""
    case = cancelling(tmp_path, seed)
    built = compile_case(case, tmp_path / "c", "auto", 32000)
    pipeline.build_case(built.plan, built.directory)
    outcome = pipeline.execute(case, built.plan, built.directory)
    report, _ = judging.judged(case, built.plan, outcome, TOLERANCES.loss)
    assert report.passed
    assert max(row.severity for row in report.checks.rows) <= WELL_WITHIN


@pytest.mark.parametrize("factor", [1 + 1e-3, 0.9])
def test_wrong_means_fail(factor: float, tmp_path: Path) -> None:
    """A running mean is still compared with what is due where values do not cancel as far as their rounding."""
    case = cancelling(tmp_path, 0)
    assert case.dataset is not None

    def fault(index: int, step: Node, memory: Memory) -> None:
        if step.op == "RunningStatistics":
            memory[step.outputs[0]] = (memory[step.outputs[0]] * np.float32(factor)).astype(np.float32)
            memory[step.outputs[1]] = (memory[step.outputs[1]] * np.float32(factor)).astype(np.float32)

    passes = recorded_passes(case.program, case.dataset, recorded_run(case, after=fault), PASSES)
    assert Judge(case.program, case.dataset, TOLERANCES.loss, passes).checks().faults
