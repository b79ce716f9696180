"""Integers at run time in generated C: the same as in numpy, whole and in tiles, on the host and on QEMU."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.pipeline import Case
from deployer.verify.reference import run_inference
from DeployTest.support.building.cases import compile_case
from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value
from DeployTest.targets.simulators import needs_simulator

pytestmark = [pytest.mark.host, pytest.mark.models]
ROWS, COLUMNS = 24, 20
NAN = 0x7FA00001
"""Bits of a NaN that signals, which a load of floats need not keep."""
NODES = (
    node("Gather", ("x", "ids"), ("gathered",), axis=0),
    node("GatherElements", ("gathered", "places"), ("picked",), axis=1),
    node("Pad", ("picked", "pads"), ("zeros",)),
    node("Pad", ("picked", "pads", "minus"), ("minuses",)),
    node("Transpose", ("zeros",), ("turned",)),
    node("Transpose", ("turned",), ("back",)),
    node("Concat", ("back", "minuses"), ("joined",), axis=1),
    node("Slice", ("joined", "starts", "ends", "axes", "steps"), ("sliced",)),
    node("Expand", ("sliced", "shape"), ("expanded",)),
    node("OneHot", ("numbers", "depth", "x_two"), ("hot",), axis=0),
    node("TopK", ("gathered", "few"), ("most", "order"), axis=1),
    node("TopK", ("x", "few"), ("least", ""), axis=0, largest=0),
    node("ReduceMax", ("x", "axes"), ("rows",)),
    node("ReduceMin", ("x", "axis"), ("columns",), keepdims=0),
    node("CumSum", ("x", "axis"), ("sums",)),
    node("CumProd", ("x", "axis"), ("products",), exclusive=1, reverse=1),
    node("MaxPool", ("bytes",), ("pooled",), kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    node("Pow", ("x", "exponents"), ("powers",)),
    node("Cast", ("floats",), ("truncated",), to=onnx.TensorProto.INT32),
)
"""Each kernel that moves integers, compares or adds them; x passes through some of them several times."""
CONSTANTS = {
    **{"pads": [1, 0, 0, 2], "minus": -3, "starts": [1], "ends": [99], "axes": [1], "steps": [3], "shape": [2, 1, 1]},
    **{"depth": 7, "few": [5], "axis": 0},
}
OUTPUTS = (
    "expanded",
    "hot",
    "most",
    "order",
    "least",
    "rows",
    "columns",
    "sums",
    "products",
    "pooled",
    "powers",
    "truncated",
)


def _inputs() -> dict[str, np.ndarray]:
    r = np.random.default_rng(0)
    x = np.arange(ROWS * COLUMNS, dtype=np.int32).reshape(ROWS, COLUMNS)
    x[::2] += NAN
    x[1::4] -= 1 << 30
    ids = r.integers(-ROWS, ROWS, 17)
    return {
        **{"x": x, "x_two": np.array([-1, NAN], np.int32), "ids": ids.astype(np.int32)},
        "places": r.integers(0, COLUMNS, (17, 13)).astype(np.int32),
        "numbers": r.integers(-7, 7, 31).astype(np.int32),
        "bytes": r.integers(0, 256, (1, 3, 9, 11)).astype(np.int32),
        "floats": np.array([2.9, -2.9, 0, -0.5, 3e9, -3e9, np.inf, -np.inf, np.nan, 1 << 30], np.float32),
        "exponents": r.integers(-2, 9, COLUMNS).astype(np.int32),
    }


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """All nodes with inputs of the numbers above, as a case whose gold is numpy's."""
    folder, inputs = tmp_path_factory.mktemp("integers"), _inputs()
    kinds = dict.fromkeys(inputs, onnx.TensorProto.INT32) | dict.fromkeys(("ids", "places", "numbers"), INT64)
    kinds |= {"bytes": onnx.TensorProto.UINT8, "floats": onnx.TensorProto.FLOAT}
    types = {"minus": np.int32}
    model = Model(
        NODES,
        tuple(value(name, array.shape, kinds[name]) for name, array in inputs.items()),
        tuple(value(name, None, 0) for name in OUTPUTS),
        tuple(constant(name, np.array(given, types.get(name, np.int64))) for name, given in CONSTANTS.items()),
        opsets=(("", 26),),
    )
    model.save(folder / "network.onnx")
    np.savez(folder / "inputs.npz", **inputs)
    return pipeline.load_inference_case(folder)


PLANS = {
    "whole": ("single", 60000, "L2", "host"),
    "tiles": ("single", 1500, "L2", "host"),
    "double": ("double", 2500, "L3", "host"),
    "qemu": ("auto", 2500, "L2", "qemu_riscv"),
}


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("plan", [pytest.param(x, marks=[pytest.mark.qemu_riscv] * (x == "qemu")) for x in PLANS])
def test_integers(plan: str, case: Case, tmp_path: Path) -> None:
    """Every element, to the bit."""
    strategy, l1, outermost, target = PLANS[plan]
    if target != "host":
        needs_simulator(target)
    built = compile_case(case, tmp_path, strategy, l1, target=target, outermost=outermost)
    results = built.run().arrays
    meant = run_inference(case.program, case.inputs)
    for name in OUTPUTS:
        np.testing.assert_array_equal(results[name].reshape(meant[name].shape), meant[name])
