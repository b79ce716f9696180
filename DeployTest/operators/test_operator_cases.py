"""Every single-operator case through the command line: right to its gold, the same bits tiled and whole."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.verify.reference import run_inference
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import SHARED, needs_shared
from DeployTest.support.building.command_line import bits, deployer
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.models]
OPERATORS = SHARED / "operators"
LARGE, TIGHT = 131072, (1000, 2000, 4000, 8000, 16000, 32000, 64000)
CASES = (
    "Add/Regular",
    "AveragePool",
    "AveragePoolGrad",
    "BatchNormInternal",
    "BatchNormalizationGrad",
    "Conv/DW_2D_Bias",
    "Conv/Regular_2D_Bias",
    "Conv/Regular_2D_NoBias",
    "ConvGrad",
    "ConvGradW_DW",
    "ConvGradW_PW",
    "ConvGradW_R8_L3_conv2",
    "ConvGradX_DW",
    "ConvGradX_PW",
    "ConvGradX_R8_L3_conv2",
    "GELU",
    "GEMM/NoBias",
    "GEMM/Regular",
    "GEMM/TransB",
    "GlobalAveragePool",
    "GlobalAveragePoolGrad",
    "LayerNorm",
    "LayerNormGrad",
    "MSELoss",
    "MSELossGrad",
    "MatMul",
    "MaxPool/Regular_2D",
    "MaxPoolGrad",
    "Mul",
    "ReLU",
    "ReduceMean/KeepDims/Axes1_3",
    "ReduceMean/NoKeepDims/AllAxes",
    "ReduceSum",
    "ReluGrad",
    "Reshape/SkipConnection",
    "Softmax/CrossEntropyGrad",
    "Softmax/Grad",
    "Softmax/Regular",
    "Squeeze",
    "Transpose",
)
WRONG_GOLD = {"Softmax/CrossEntropyGrad": 0.25}
"""Cases whose recorded output is that factor times what its graph means."""


def _folder(test: str) -> Path:
    """The case's folder; a skip without reference data."""
    return needs_shared(OPERATORS / test)


def test_list_is_complete() -> None:
    """No case is left out."""
    needs_shared(OPERATORS)
    cases = {path.parent.relative_to(OPERATORS).as_posix() for path in OPERATORS.rglob("network.onnx")}
    assert cases == set(CASES)


RIGHT = [test for test in CASES if test not in WRONG_GOLD]
FIRST = {test.split("/")[0].split("_")[0]: test for test in reversed(RIGHT)}
"""The first case of each operator: the quick suite's."""


@pytest.mark.parametrize(
    "test", [pytest.param(test, marks=[pytest.mark.slow] * (test not in FIRST.values())) for test in RIGHT]
)
def test_case(test: str, tmp_path: Path) -> None:
    """As it stands, with the criterion's own tolerances, and with the least L1 of a list that has room for a tile."""
    folder = _folder(test)
    untiled, tiled = tmp_path / "whole.npz", tmp_path / "tiled.npz"
    assert deployer("infer", "-t", folder, "-o", tmp_path, "--l1", LARGE, "--dump", untiled) == 0
    for l1 in TIGHT:
        code = deployer("infer", "-t", folder, "-o", tmp_path, "--l1", l1, "--dump", tiled)
        if code != 2:
            break
    assert code == 0
    assert bits(untiled) == bits(tiled)


def test_criterion(tmp_path: Path) -> None:
    """A difference counts against the tolerance and a share of the tensor's largest magnitude, not of the element's."""
    folder, copy = _folder("ConvGradX_R8_L3_conv2"), tmp_path / "case"
    shutil.copytree(folder, copy)
    with np.load(folder / "outputs.npz") as recorded:
        [(name, gold)] = recorded.items()
    small = np.unravel_index(np.abs(gold).argmin(), gold.shape)
    largest, tolerance = float(np.abs(gold).max()), table()["training"]["weight"]
    assert deployer("infer", "-t", folder, "-o", tmp_path, "--dump", tmp_path / "dump.npz") == 0
    computed = np.load(tmp_path / "dump.npz")[name].reshape(gold.shape)
    for share, code in ((0.9, 0), (1.1, 1)):
        planted = computed.copy()
        planted[small] += np.float32(share * (tolerance + TOLERANCES.relative * largest))
        np.savez(copy / "outputs.npz", **{name: planted})
        assert deployer("infer", "-t", copy, "-o", tmp_path) == code


@pytest.mark.parametrize(("test", "factor"), WRONG_GOLD.items())
def test_wrong_gold(test: str, factor: float, tmp_path: Path) -> None:
    """The run fails; what it computes is the float64 meaning of the graph, and the gold is that times a factor."""
    folder, dump = _folder(test), tmp_path / "dump.npz"
    assert deployer("infer", "-t", folder, "-o", tmp_path, "--dump", dump) == 1
    case = pipeline.load_inference_case(folder)
    meaning = run_inference(case.program, case.inputs, np.float64)
    tolerance = table()["training"]["weight"]
    with np.load(dump) as results:
        assert set(results.files) == set(case.expected)
        for name, gold in case.expected.items():
            exact = meaning[name].reshape(gold.shape)
            assert np.abs(results[name].reshape(gold.shape) - exact).max() <= tolerance
            assert np.abs(gold - factor * exact).max() <= tolerance
            assert np.abs(gold - exact).max() > 1000 * tolerance
