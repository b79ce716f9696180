"""Running statistics of ONNX Runtime's training graphs: renewed in place by each pass, with the biased variance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.runtime_cases import (
    EACH,
    MICROSOFT,
    PASSES,
    RATE,
    TRAIN,
    Arrays,
    Artifacts,
    checkpoint,
    initial,
    samples,
    trained,
)
from DeployTest.support.graphs.small_graphs import node, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
MOMENTUM, FEATURES = 0.75, 5
FLAGS = ("--lr", RATE, "--accumulate-grad-batches", EACH)
STATISTICS = {"running_mean": np.linspace(-1, 1, FEATURES), "running_var": np.linspace(0.5, 2, FEATURES)}
FROZEN: Arrays = {name: array.astype(np.float32) for name, array in STATISTICS.items()}
FACTORS: Arrays = {"scale": np.ones(FEATURES, np.float32), "shift": np.zeros(FEATURES, np.float32)}


def norm(number: int, op: str) -> NodeProto:
    """A batch norm of the data, whose results nothing reads."""
    outputs = [f"{label}{number}" for label in ("y", "mean", "var", "saved_mean", "saved_inv_std")]
    domain, count = (MICROSOFT, 5) if op == "BatchNormInternal" else ("", 3)
    inputs = ("x", *FACTORS, *FROZEN)
    attrs = {"momentum": MOMENTUM, "epsilon": 0.01, "training_mode": 1}
    return node(op, inputs, outputs[:count], f"norm{number}", domain=domain, **attrs)


def artifacts(op: str, count: int, expected: Arrays | None = None) -> Artifacts:
    """The case with so many norms in front, all of the same statistics."""
    extra = tuple(value(name, array.shape) for name, array in (FACTORS | FROZEN).items())
    nodes = (*(norm(i, op) for i in range(count)), *TRAIN.nodes)
    train = replace(TRAIN, nodes=nodes, inputs=(*TRAIN.inputs[:-1], *extra, TRAIN.inputs[-1]))
    return Artifacts(train, parameters={"checkpoint": checkpoint(initial(), FACTORS | FROZEN)}, expected=expected)


def renewed(count: int) -> Arrays:
    """Running statistics after all passes by ONNX Runtime's formula."""
    mean, variance = (FROZEN[name].astype(np.float64) for name in STATISTICS)
    for x in samples()["x"]:
        for _ in range(count):
            mean = MOMENTUM * mean + (1 - MOMENTUM) * x.mean(0)
            variance = MOMENTUM * variance + (1 - MOMENTUM) * x.var(0)
    return dict(zip(STATISTICS, (mean, variance), strict=True))


@pytest.mark.parametrize("op", ["BatchNormInternal", "BatchNormalization"])
@pytest.mark.parametrize("count", [1, 2], ids=["alone", "shared"])
def test_statistics_follow_the_data(op: str, count: int, tmp_path: Path) -> None:
    """Every pass renews them, those of several nodes one after the other; all else trains as before."""
    folder, dump = artifacts(op, count).write(tmp_path / "case"), tmp_path / "dump.npz"
    assert deployer("train", "-t", folder, "-o", tmp_path / "c", "--dump", dump, *FLAGS) == 0
    with np.load(dump) as found:
        for name, array in renewed(count).items():
            assert_close("BatchNormInternal", found[name], array.astype(np.float32))
        for name, array in FACTORS.items():
            np.testing.assert_array_equal(found[name], array)
        assert_close("MSELoss", found["loss"], np.array(trained()[0]))


def test_statistics_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right ones in expected.npz pass; those of a sample, which PyTorch would leave, are a fault by name."""
    right: dict[str, Any] = {name: array.astype(np.float32) for name, array in renewed(1).items()}
    folder = artifacts("BatchNormInternal", 1, right).write(tmp_path / "right")
    assert deployer("train", "-t", folder, "-o", tmp_path / "c", *FLAGS) == 0
    kept = MOMENTUM**PASSES
    batches = right["running_var"] - kept * FROZEN["running_var"]
    wrong = right | {"running_var": kept * FROZEN["running_var"] + batches * np.float32(4 / 3)}
    folder = artifacts("BatchNormInternal", 1, wrong).write(tmp_path / "wrong")
    capsys.readouterr()
    assert deployer("train", "-t", folder, "-o", tmp_path / "d", *FLAGS) == 1
    assert "FAULT running_var" in capsys.readouterr().out


def test_a_reader_of_a_renewed_statistic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node behind that reads the statistic itself is refused, since it may read it before or after."""
    case = artifacts("BatchNormInternal", 1)
    reader = node("Mul", ("running_mean", "mean0"), ("product",), "reader")
    gradient = TRAIN.nodes[0]
    late = node("Add", ("x", "product"), ("shifted",), "late")
    first = replace_input(gradient, "x", "shifted")
    nodes = (case.train.nodes[0], reader, late, first, *TRAIN.nodes[1:])
    folder = replace(case, train=replace(case.train, nodes=nodes)).write(tmp_path / "case")
    assert "after it was overwritten" in refused(capsys, "train", "-t", folder, "-o", tmp_path / "c", *FLAGS)


def replace_input(old: NodeProto, name: str, other: str) -> NodeProto:
    """The node with another operand."""
    made = NodeProto()
    made.CopyFrom(old)
    made.input[:] = [other if item == name else item for item in old.input]
    return made
