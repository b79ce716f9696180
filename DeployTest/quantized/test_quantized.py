"""Models that ONNX Runtime has quantized: every element as its runtime and as integers in numpy compute it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.cli import main
from deployer.core.ir import Program
from deployer.frontend.check import check_program
from deployer.frontend.parse import read_graphs
from deployer.verify.reference import Memory, run_graph
from DeployTest.quantized import judge
from DeployTest.quantized.models import FORMATS, MODELS, TYPES, Array, quantized_model, samples
from DeployTest.targets.simulators import needs_simulator

onnxruntime = pytest.importorskip("onnxruntime")
COUNT = 10
PRECISE = "session.x64quantprecision"
"""The option by which kernels for processors without VNNI do not saturate sums of two products."""
INTEGERS = {"Int8Conv", "Int8DepthwiseConv", "Int8Add", "Int8AveragePool", "Int8MaxPool", "Int8Lookup", "Int8Concat"}
BORDERS = {"QuantizeInt8", "QuantizeInt8Images", "DequantizeInt8", "DequantizeInt8Images"}


def program_of(path: Path) -> Program:
    """The program of a model's file."""
    return check_program(read_graphs(path, None))


def results(program: Program, xs: list[Array]) -> Array:
    """Results of the operators' references for some samples."""
    found = []
    for x in xs:
        memory = Memory(program, np.float64)
        memory[program.data[0]] = x
        run_graph(program.graphs[0], memory)
        found.append(memory[program.outputs[0]].astype(np.float32))
    return np.array(found)


def by_runtime(path: Path, xs: list[Array]) -> Array:
    """Results of ONNX Runtime for them, without saturating sums where it can."""
    options = onnxruntime.SessionOptions()
    if "QOperator" not in path.name:  # where it has no kernels for signed numbers then
        options.add_session_config_entry(PRECISE, "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"x": x})[0] for x in xs])


def _forms() -> Iterator[Any]:
    """Each format with each choice of types; one choice of each is fast."""
    for form in FORMATS:
        for kinds in TYPES:
            fast = kinds == TYPES[FORMATS.index(form) - 1]
            yield pytest.param(
                form, kinds, marks=() if fast else pytest.mark.slow, id="_".join(map(str, (form, *kinds)))
            )


@pytest.mark.parametrize(("form", "kinds"), list(_forms()))
@pytest.mark.parametrize("name", MODELS)
def test_equals_runtime_and_integers(name: str, form: str, kinds: tuple[str, str, bool], tmp_path: Path) -> None:
    """No element differs; every layer between the borders is one over integers."""
    path = quantized_model(name, form, kinds, tmp_path)
    program = program_of(path)
    operators = {node.op for node in program.nodes}
    assert operators <= INTEGERS | BORDERS, f"float layers are left: {operators - INTEGERS - BORDERS}"
    xs = list(samples(name, COUNT, 77))
    ours = results(program, xs)
    saturates = form == "QOperator" and kinds[:2] == ("QUInt8", "QInt8")
    if not saturates:  # whose kernels for AVX2 clip sums of two products to 16 bits
        theirs = by_runtime(path, xs)
        assert np.array_equal(ours, theirs), f"{np.count_nonzero(ours != theirs)} of {ours.size} differ"
    if form == "QOperator":
        due = np.array([judge.run(path, x) for x in xs])
        assert np.array_equal(ours, due), f"{np.count_nonzero(ours != due)} of {ours.size} differ from integers"


@pytest.mark.parametrize(("x_zero", "y_zero"), [(0, 0), (3, 4), (3, 5), (4, 3)])
def test_means_differ_at_ties_alone(x_zero: int, y_zero: int) -> None:
    """ONNX Runtime's kernel takes means of floats, and rounds behind the zero: ties may fall to the other side."""
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, (1, 4, 8, 8)).astype(np.int8)
    zeros, scale = (np.int8(x_zero), np.int8(y_zero)), np.float32(0.05)
    names = ["x", "scale", "x_zero", "scale", "y_zero"]
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    node = helper.make_node("QLinearAveragePool", names, ["y"], domain="com.microsoft", **attrs)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.INT8, shape) for name, shape in (("x", x.shape), ("y", None))
    ]
    constants = zip(("scale", "x_zero", "y_zero"), (scale, *zeros), strict=True)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "mean", [ends[0]], [ends[1]], tensors)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    ours = judge.average(node, x, scale, zeros[0], scale, zeros[1])
    sums = (x.astype(np.int64) - x_zero).reshape(1, 4, 4, 2, 4, 2).sum((3, 5))
    differs = ours.astype(np.int64) - theirs
    assert not differs[sums % 4 != 2].any()
    assert np.abs(differs).max() <= 1


OPTIONS = (
    ("host",),
    ("host", "--l1", "2500"),
    ("host", "--l1", "3000", "--l2", "1500", "--doublebuffer", "--defaultMemLevel", "L3"),
    ("host", "--l1", "2500", "--l2", "1200", "--singlebuffer", "--defaultMemLevel", "L3"),
)
"""Targets and memories; with the last ones the largest model has tensors in all three levels."""


def _runs() -> Iterator[Any]:
    """Models with targets and options; one model is fast on the simulator."""
    for name in MODELS:
        for number, options in enumerate(OPTIONS):
            marks = [pytest.mark.host, *([] if name == "residual" else [pytest.mark.slow])]
            yield pytest.param(name, options, marks=marks, id=f"{name}-{number}")
        for target in ("host_flat", "qemu_riscv", "siracusa"):
            marks = [pytest.mark.slow] if target == "host_flat" else [pytest.mark.slow, getattr(pytest.mark, target)]
            yield pytest.param(name, (target,), marks=marks, id=f"{name}-{target}")


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(("name", "options"), list(_runs()))
def test_runs(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """A program has the bytes of the model's runtime, for any tiles, buffering, memory levels and target."""
    needs_simulator(options[0])
    path = quantized_model(name, "QOperator", ("QInt8", "QInt8", True), tmp_path)
    case = tmp_path / "case"
    case.mkdir()
    (case / "network.onnx").write_bytes(path.read_bytes())
    [x] = samples(name, 1, 78)
    [y] = by_runtime(path, [x])
    np.savez(case / "inputs.npz", x=x)
    np.savez(case / "outputs.npz", **{program_of(path).outputs[0]: y})
    assert main(["infer", "-t", str(case), "-o", str(tmp_path / "c"), "-p", *options]) == 0
    if name == "residual" and "L3" in options:
        homes = json.loads((tmp_path / "c/plan.json").read_text())["body"]["homes"]
        assert {home["level"] for home in homes} == {"L1", "L2", "L3"}
