"""A library that is called from Python: its C predicts here as it does on a board."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper as h

from deployer import pipeline
from deployer.core.errors import DatasetMismatch
from deployer.core.operator import Array, rng
from deployer.core.plan import Options
from deployer.firmware.sources import library_rules
from deployer.fitting.engine import FitEvaluator
from deployer.fitting.segments import build_segment
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import model_material

BATCH = 2


def dense(path: Path) -> Path:
    """Two inputs, a product and an activation, for batches of two."""
    weight = onnx.numpy_helper.from_array(rng(3).normal(size=(5, 4)).astype(np.float32), "w")
    nodes = [h.make_node("Add", ["a", "b"], ["s"]), h.make_node("MatMul", ["s", "w"], ["p"])]
    nodes.append(h.make_node("Tanh", ["p"], ["y"]))
    ends = [h.make_tensor_value_info(name, T.FLOAT, [BATCH, size]) for name, size in (("a", 5), ("b", 5), ("y", 4))]
    graph = h.make_graph(nodes, "dense", ends[:2], ends[2:], [weight])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.fixture
def library(tmp_path: Path) -> Library:
    case = pipeline.load_inference_case(dense(tmp_path / "dense.onnx"))
    made = model_material(case, "dense", Options(library_rules().target))
    return write_library(made, tmp_path / "dense")


def expected(folder: Path, a: Array, b: Array) -> Array:
    """The results of the program that this machine runs by itself."""
    program = pipeline.load_inference_case(folder.parent / "dense.onnx").program
    plan = build_segment(program, Options(library_rules().target), folder.parent / "code")
    batches = [(a[i : i + BATCH], b[i : i + BATCH]) for i in range(0, len(a), BATCH)]
    return FitEvaluator(program, plan, folder.parent / "code").outputs({}, batches).reshape(len(a), -1)


def test_it_predicts_several_batches(library: Library) -> None:
    a, b = (rng(seed).normal(size=(6, 5)).astype(np.float32) for seed in (1, 2))
    found = library.predict(a, b)
    assert found.tobytes() == expected(library.folder, a, b).tobytes()
    assert library.predict(a[:BATCH], b[:BATCH]).tobytes() == found[:BATCH].tobytes()


def test_other_shapes_are_refused(library: Library) -> None:
    a = np.zeros((BATCH, 5), np.float32)
    for wrong in ((a[:1], a[:1]), (a, a[:, :4]), (a, a, a), (), (a, np.zeros((4, 5)))):
        with pytest.raises(DatasetMismatch, match=r"not the inputs of a prediction"):
            library.predict(*wrong)
