"""Split and Gather from the file to the trained weight: fused projections, tables of rows, ids of samples."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from deployer.core.errors import DatasetMismatch, ShapeMismatch, UnsupportedOperator
from deployer.verify.reference import run_inference
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import built, check_differences, graph_of, mlp, opened, random
from DeployTest.support.graphs.small_graphs import INT64, Model, chain, constant, infer, node, ops, raises, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]

ROWS, COLUMNS, WORDS = 7, 6, (2, 5)


def ints(name: str, *values: int) -> onnx.TensorProto:
    """A constant vector."""
    return constant(name, np.array(values, np.int64))


ATTENTION = (
    node("Reshape", ("h", "three"), ("f",)),
    node("Transpose", ("f",), ("fused",), perm=[1, 0, 2]),
    *(node("Gather", ("fused", f"at{i}"), (name,), axis=0) for i, name in enumerate(("q", "k", "v"))),
    node("Mul", ("q", "k"), ("a",)),
    node("Add", ("a", "v"), ("y",)),
)
"""What exporters write for a fused projection: one product, of which Gather takes each part by its number."""
FUSED = (ints("three", 2, 2, 2), *(constant(f"at{i}", np.int64(n)) for i, n in enumerate((0, 1, -1))))
TRAINED: dict[str, tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]] = {
    "split": (
        [
            node("Split", ("h", "lengths"), ("left", "right"), axis=1),
            node("Concat", ("right", "left"), ("joined",), axis=1),
            node("Mul", ("joined", "h"), ("y",)),
        ],
        (ints("lengths", 1, 3),),
    ),
    "split_unread": (
        [node("Split", ("h",), ("a", "", "c", ""), axis=-1), node("Mul", ("a", "c"), ("y",))],
        (),
    ),
    "split_one": ([node("Split", ("h",), ("", "y"), axis=1)], ()),
    "attention": (ATTENTION, FUSED),
    "slice": ([node("Gather", ("h", "at"), ("y",), axis=1)], (ints("at", 1, 3),)),
    "any": ([node("Gather", ("h", "at"), ("y",), axis=1)], (ints("at", 2, 0, -2, 2),)),
}


@pytest.mark.parametrize("name", TRAINED)
def test_training(name: str, tmp_path: Path) -> None:
    """The gradient is that of central differences; compiled, cases of both kinds reach the weights of the reference."""
    nodes, constants = TRAINED[name]
    model = mlp(*nodes)
    report = built(tmp_path, replace(model, initializers=(*model.initializers, *constants)), trainable="w1")
    check_differences(*opened(report.train))
    if name in ("attention", "any"):
        assert deployer("train", "-t", report.train, "-o", tmp_path) == 0


def test_parts_are_joined_once(tmp_path: Path) -> None:
    """The gradient of a Split of which several parts are read is one Concat, without a sum."""
    nodes, constants = TRAINED["split"]
    model = mlp(*nodes[:1], node("Relu", ("right",), ("r",)), node("Concat", ("r", "left"), ("y",), axis=1))
    report = built(tmp_path, replace(model, initializers=(*model.initializers, *constants)), trainable="w1")
    backward = [n.op_type for n in graph_of(report).node if "_Grad/" in n.name]
    assert backward.count("Concat") == 1
    assert not {"Add", "Pad"} & set(backward)


def embedding(**parts: object) -> Model:
    """ids [2,5] -> rows of a table, their mean, and a layer of three outputs."""
    nodes = (
        node("Gather", ("table", "ids"), ("rows",)),
        node("ReduceMean", ("rows",), ("mean",), axes=[1], keepdims=0),
        node("Gemm", ("mean", "w"), ("y",), transB=1),
    )
    weights = (constant("table", random(ROWS, COLUMNS)), constant("w", random(3, COLUMNS)))
    inputs = (value("ids", WORDS, INT64),)
    return replace(Model(nodes, inputs, (value("y", (2, 3)),), weights), **parts)  # type: ignore[arg-type]


def test_embedding(tmp_path: Path) -> None:
    """A table of rows is trained with drawn ids as data, in small tiles, and its ids are no labels of the loss."""
    report = built(tmp_path, embedding(), "cross_entropy", samples=3)
    assert set(report.trained) == {"table", "w"}
    program, dataset = opened(report.train)
    assert all(0 <= sample[0].min() <= sample[0].max() < ROWS for sample in dataset.samples)
    check_differences(program, dataset)
    assert deployer("train", "-t", report.train, "-o", tmp_path, "--l1", 1200) == 0


def test_repeated_ids(tmp_path: Path) -> None:
    """The same row many times, rows counted from the end, and rows that no id names, which stay as they are.

    Ids of a case are ONNX's, so that those from the end are rows; whoever makes one from samples counts from the front.
    """
    ids = np.array([[[1, 1, 1, -6, 2], [1, 0, -7, 2, 2]]], np.int64)
    data = {"ids": ids % ROWS, "target": random(1, 2, 3)}
    report = built(tmp_path, embedding(), data=data)
    arrays = dict(np.load(report.train / "inputs.npz"))
    np.testing.assert_array_equal(arrays["arr_0000"], ids[0] % ROWS)
    np.savez(report.train / "inputs.npz", **{**arrays, "arr_0000": ids[0]})
    program, dataset = opened(report.train)
    assert dataset.samples[0][0].min() == -ROWS
    check_differences(program, dataset, entries=ROWS * COLUMNS)
    assert deployer("train", "-t", report.train, "-o", tmp_path, "--dump", tmp_path / "dump.npz") == 0
    trained = np.load(tmp_path / "dump.npz")["table"]
    np.testing.assert_array_equal(trained[3:], random(ROWS, COLUMNS)[3:])
    assert (trained[:3] != random(ROWS, COLUMNS)[:3]).any(1).all()


@pytest.mark.parametrize("wrong", [ROWS, -ROWS - 1])
def test_ids_outside_the_table(wrong: int, tmp_path: Path) -> None:
    """An id that is no row is found in the data, by the name of the array and of the node."""
    ids = np.zeros((1, *WORDS), np.int64)
    ids[0, 1, 2] = wrong
    texts = (f"index {wrong}, outside the rows", "node 'Gather_rows' (Gather)")
    with raises(DatasetMismatch, *texts, f"0 to {ROWS - 1}", "ids[0, 1, 2]"):
        built(tmp_path, embedding(), data={"ids": ids, "target": random(1, 2, 3)})
    constants = (*embedding().initializers, constant("ids", ids[0]))
    with raises(DatasetMismatch, "constant 'ids'", *texts, f"{-ROWS} to {ROWS - 1}"):
        infer(tmp_path, embedding(inputs=(value("table", (ROWS, COLUMNS)),), initializers=constants[1:]))
    number = (ints("at", wrong),)
    with raises(ShapeMismatch, f"index {wrong} is outside {ROWS} rows"):
        infer(tmp_path, chain(node("Gather", ("x", "at"), ("y",)), x=(ROWS, 2), initializers=number))


CONSTANTS = {
    "number": (np.int64(2), ["Slice"]),
    "vector of one": (np.array([-1]), ["Slice"]),
    "range": (np.array([1, 2, 3]), ["Slice"]),
    "from the end": (np.array([-3, -2]), ["Slice"]),
    "both ends": (np.array([-1, 0]), ["Gather"]),
    "everything": (np.arange(4), []),
    "backward": (np.array([3, 2, 1]), ["Gather"]),
    "repeated": (np.array([1, 1]), ["Gather"]),
    "matrix": (np.array([[0, 1], [2, 3]]), ["Gather"]),
    "matrix of one": (np.array([[1]]), ["Gather"]),
}


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("axis", [0, 1])
def test_constant_indices(name: str, axis: int, tmp_path: Path) -> None:
    """ONNX Runtime's values; a Slice where that can say it."""
    indices, steps = CONSTANTS[name]
    model = chain(node("Gather", ("x", "at"), ("y",), axis=axis), x=(4, 4), initializers=(constant("at", indices),))
    program = infer(tmp_path, model)
    assert ops(program) == steps
    x = random(4, 4)
    session = onnxruntime.InferenceSession(str(tmp_path / "network.onnx"))
    assert_close("Gather", run_inference(program, {"x": x})["y"], session.run(None, {"x": x})[0])


def test_lengths_of_axes_are_picked(tmp_path: Path) -> None:
    """A length that exporters pick from a shape by its index is known at compile time."""
    nodes = (
        node("Shape", ("x",), ("s",)),
        node("Gather", ("s", "one"), ("n",)),
        node("Unsqueeze", ("n", "zero"), ("length",)),
        node("Concat", ("length", "rest"), ("shape",), axis=0),
        node("Reshape", ("x", "shape"), ("y",)),
    )
    constants = (constant("one", np.int64(1)), ints("zero", 0), ints("rest", -1))
    program = infer(tmp_path, chain(*nodes, x=(2, 3, 4), initializers=constants))
    assert ops(program) == []
    assert program.tensors["y"].type.shape == (3, 8)


@pytest.mark.parametrize(
    ("attrs", "outputs", "text"),
    [
        ({}, 3, "4 elements do not make 3 equal parts"),
        ({"num_outputs": 3}, 2, "makes 3 parts of 4 elements for 2 outputs"),
    ],
)
def test_parts_that_do_not_fit(attrs: dict[str, int], outputs: int, text: str, tmp_path: Path) -> None:
    """Their number is that of the outputs, absent ones too."""
    names = ("y", *(f"o{i}" for i in range(1, outputs)))
    model = chain(node("Split", ("x",), names, **attrs), x=(4, 2), opsets=(("", 18 if attrs else 17),))
    with raises(ShapeMismatch, "node 'Split_y' (Split)", text):
        infer(tmp_path, model)


def test_casts_of_constants(tmp_path: Path) -> None:
    """Lengths go through floats and back, as exporters scale images; ids become the target's integers."""
    nodes = (
        node("Shape", ("x",), ("s",)),
        node("Cast", ("s",), ("f",), to=onnx.TensorProto.FLOAT),
        node("Mul", ("f", "half"), ("g",)),
        node("Cast", ("g",), ("n",), to=onnx.TensorProto.INT64),
        node("Slice", ("x", "zeros", "n"), ("y",)),
    )
    constants = (constant("half", np.float32(0.7)), ints("zeros", 0, 0))
    program = infer(tmp_path, chain(*nodes, x=(5, 4), initializers=constants))
    assert program.tensors["y"].type.shape == (3, 2)
    with raises(UnsupportedOperator, "node 'Cast_t' (Cast)", "at run time becomes integers"):
        back = node("Cast", ("t",), ("y",), to=onnx.TensorProto.FLOAT)
        infer(tmp_path, chain(node("Cast", ("x",), ("t",), to=onnx.TensorProto.BOOL), back))
    with raises(UnsupportedOperator, "(Cast)", "it casts to UINT8, which no target has"):
        infer(tmp_path, chain(node("Cast", ("x",), ("y",), to=onnx.TensorProto.UINT8)))


def test_positions_are_folded(tmp_path: Path) -> None:
    """Rows of a table by numbers that Range counts are the table's first rows, a Slice."""
    nodes = (node("Range", ("zero", "four", "one"), ("at",)), node("Gather", ("x", "at"), ("y",)))
    constants = tuple(constant(name, np.int64(n)) for name, n in (("zero", 0), ("four", 4), ("one", 1)))
    assert ops(infer(tmp_path, chain(*nodes, x=(6, 3), initializers=constants))) == ["Slice"]
