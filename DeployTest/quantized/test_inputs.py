"""Models whose inputs have 8 bits: a byte an element from the file to the C, with the results of ONNX Runtime."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.cli import main
from DeployTest.quantized.models import MODELS, Array, quantized_model
from DeployTest.targets.simulators import needs_simulator

onnxruntime = pytest.importorskip("onnxruntime")
UNSIGNED, SIGNED = ("QUInt8", "QUInt8", False), ("QInt8", "QInt8", True)
TILED = ("host", "--l1", "2500", "--l2", "1200", "--singlebuffer", "--defaultMemLevel", "L3")


def bytes_model(name: str, form: str, kinds: tuple[str, str, bool], folder: Path, keep: tuple[str, ...] = ()) -> Path:
    """A quantized model that takes the numbers of its first value in place of floats."""
    model = onnx.load(quantized_model(name, form, kinds, folder, keep))
    graph = model.graph
    first = [node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x"]
    [zero] = [tensor for tensor in graph.initializer if tensor.name == first[0].input[2]]
    del graph.input[:]
    graph.input.append(helper.make_tensor_value_info(first[0].output[0], zero.data_type, MODELS[name][1]))
    for node in first:
        graph.node.remove(node)
    onnx.save(model, folder / "bytes.onnx")
    return folder / "bytes.onnx"


def numbers(path: Path, seed: int) -> Array:
    """Numbers for the input of a model, all equally often."""
    kind = onnx.load(path).graph.input[0].type.tensor_type
    ends = np.iinfo(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    shape = [d.dim_value for d in kind.shape.dim]
    return np.random.default_rng(seed).integers(ends.min, ends.max + 1, shape, ends.dtype)


def by_runtime(path: Path, x: Array, precise: bool) -> Array:
    """The result of ONNX Runtime, without sums that saturate where it has such kernels."""
    options = onnxruntime.SessionOptions()
    if precise:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


def case_of(path: Path, x: Array, y: Array, folder: Path) -> Path:
    """A folder with a model, its input, and the result that is due."""
    folder.mkdir()
    model = onnx.load(path)
    onnx.save(model, folder / "network.onnx")
    np.savez(folder / "inputs.npz", **{model.graph.input[0].name: x})
    np.savez(folder / "outputs.npz", **{model.graph.output[0].name: y})
    return folder


def _runs() -> Iterator[Any]:
    """Models, formats and types, with targets; few are fast."""
    for name in MODELS:
        for form, kinds in (("QDQ", UNSIGNED), ("QDQ", SIGNED), ("QOperator", SIGNED)):
            for options in (("host",), TILED, ("host_flat",), ("qemu_riscv",), ("siracusa",)):
                fast = options == ("host",) and (name in ("depthwise", "perceptron") or form == "QOperator")
                marks = [] if fast else [pytest.mark.slow]
                marks += [getattr(pytest.mark, options[0])] if options[0] != "host_flat" else []
                yield pytest.param(
                    name, form, kinds, options, marks=marks, id=f"{name}-{form}-{kinds[0]}-{options[0]}{len(options)}"
                )


@pytest.mark.parametrize(("name", "form", "kinds", "options"), list(_runs()))
def test_runs(name: str, form: str, kinds: tuple[str, str, bool], options: tuple[str, ...], tmp_path: Path) -> None:
    """The program has the bytes of ONNX Runtime, an input of a byte an element, and no floats in front."""
    needs_simulator(options[0])
    path = bytes_model(name, form, kinds, tmp_path)
    x = numbers(path, 4)
    case = case_of(path, x, by_runtime(path, x, form == "QDQ"), tmp_path / "case")
    assert main(["infer", "-t", str(case), "-o", str(tmp_path / "c"), "-p", *options]) == 0
    plan = json.loads((tmp_path / "c/plan.json").read_text())["body"]
    [home] = [home for home in plan["homes"] if home["storage"] == onnx.load(path).graph.input[0].name]
    assert home["type"]["dtype"] == {"QUInt8": "uint8", "QInt8": "int8"}[kinds[0]]
    assert plan["steps"][0]["op"] in ("Int8Images", "UInt8Images", "UInt8Numbers", "Int8Conv")


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_no_zero_point(kind: str, tmp_path: Path) -> None:
    """Numbers without a zero stand for their products with the scale, signed or not."""
    ends = np.iinfo(kind)
    element = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}[kind]
    x = np.arange(ends.min, ends.max + 1, 5).astype(kind)[None]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s"], ["v"]),
        helper.make_node("QuantizeLinear", ["v", "t", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "t", "z"], ["y"]),
    ]
    constants = {"s": np.float32(0.05), "t": np.float32(0.11), "z": np.int8(-3)}
    infos = [helper.make_tensor_value_info("x", element, x.shape), helper.make_tensor_value_info("y", 1, x.shape)]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "zero", infos[:1], infos[1:], tensors)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    case = case_of(path, x, by_runtime(path, x, True), tmp_path / "case")
    assert main(["infer", "-t", str(case), "-o", str(tmp_path / "c"), "-p", "host"]) == 0


def test_cast_keeps_words(tmp_path: Path) -> None:
    """An input of 8 bits that an operator of words reads has four bytes an element, and the same results."""
    nodes = [helper.make_node("Cast", ["x"], ["v"], to=1), helper.make_node("Relu", ["v"], ["y"])]
    infos = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [2, 6]),
        helper.make_tensor_value_info("y", 1, [2, 6]),
    ]
    path = tmp_path / "model.onnx"
    graph = helper.make_graph(nodes, "cast", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    x = numbers(path, 5)
    case = case_of(path, x, by_runtime(path, x, False), tmp_path / "case")
    assert main(["infer", "-t", str(case), "-o", str(tmp_path / "c"), "-p", "host"]) == 0


def test_floats_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Floats are no numbers of 8 bits, and neither are integers beyond them."""
    path = bytes_model("perceptron", "QDQ", SIGNED, tmp_path)
    for x, says in (
        (np.zeros((1, 24), np.float32), "another dtype"),
        (np.full((1, 24), 128), "holds 128, beyond int8"),
    ):
        folder = case_of(path, x, np.zeros((1, 7), np.float32), tmp_path / f"case{x.dtype}")
        assert main(["infer", "-t", str(folder), "-o", str(tmp_path / "c"), "-p", "host"]) == 2
        assert says in " ".join(capsys.readouterr().err.split())
