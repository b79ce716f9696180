"""Numbers in data that choose rows: those outside of a table are refused before training, negative ones included."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import DatasetMismatch
from deployer.fitting.call import fit
from deployer.training.train_graph import build_train_graph
from DeployTest.support.building.command_line import refused

pytestmark = [pytest.mark.host, pytest.mark.training]
ROWS, COLUMNS, BATCH, WORDS, SAMPLES = 5, 3, 2, 4, 6
Capture = pytest.CaptureFixture[str]


def _model(path: Path, nodes: Sequence[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], ids: str = "ids") -> Path:
    """A model with a table whose output is named `y`, with samples of these shapes."""
    draw = np.random.default_rng(0)
    kinds = {name: TensorProto.INT64 if name == ids else TensorProto.FLOAT for name in inputs}
    ends = [helper.make_tensor_value_info(name, kinds[name], (BATCH, *shape)) for name, shape in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (BATCH, COLUMNS))
    constants = {
        "table": draw.standard_normal((ROWS, COLUMNS), np.float32),
        "cube": draw.standard_normal((2, ROWS, COLUMNS), np.float32),
        "head": draw.standard_normal((COLUMNS, COLUMNS), np.float32),
        "zero": np.array(0, np.int64),
    }
    used = [numpy_helper.from_array(a, n) for n, a in constants.items() if any(n in node.input for node in nodes)]
    graph = helper.make_graph(list(nodes), "model", ends, [out], used)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def _node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], f"{kind}_{output}", **attributes)


LOOKUP = [_node("Gather", "table ids", "e"), _node("ReduceMean", "e", "y", axes=[1], keepdims=0)]
PLACES = [_node("GatherND", "cube ids", "y")]
MASKED = [
    *(_node("Gather", "table ids", "e"), _node("Less", "ids zero", "pad"), _node("Cast", "pad", "p", to=1)),
    *(_node("ReduceMax", "p", "m", axes=[1], keepdims=1), _node("ReduceMean", "e", "f", axes=[1], keepdims=0)),
    _node("Sub", "f m", "y"),
]
LAST = [
    *(_node("Gather", "x ids", "e", axis=0), _node("MatMul", "e head", "y")),
]


def _data(shape: tuple[int, ...], limits: Sequence[int] = (ROWS,)) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    ids = np.stack([draw.integers(0, n, (SAMPLES, *shape[:-1])) for n in limits], -1) if len(limits) > 1 else None
    ids = draw.integers(0, limits[0], (SAMPLES, *shape)) if ids is None else ids
    return {"ids": ids, "labels": np.arange(SAMPLES) % COLUMNS}


def _both(model: Path, data: Any, folder: Path, **more: Any) -> list[str]:
    """Errors of training over epochs and of a training case for the data; none where both accept them."""
    said = []
    for train in (
        lambda: fit(model, data, "cross_entropy", folder=folder / "run", check_passes=0, force=True, **more),
        lambda: build_train_graph(
            model, "cross_entropy", "", 0.01, more.get("trainable", ""), folder / "case", data=data, force=True
        ),
    ):
        try:
            train()
        except DatasetMismatch as error:
            said.append(str(error))
    assert not (folder / "run/code").exists() or not said, "nothing is compiled before"
    return said


@pytest.mark.parametrize("number", [-1, -ROWS, ROWS, -ROWS - 1])
@pytest.mark.parametrize("trainable", ["", "head"])
def test_rows_of_a_table(number: int, trainable: str, tmp_path: Path) -> None:
    """A number that is no row counted from the front is refused by its place, also of a table that is frozen."""
    nodes = [*LOOKUP[:1], _node("ReduceMean", "e", "f", axes=[1], keepdims=0), _node("MatMul", "f head", "y")]
    model = _model(tmp_path / "m.onnx", nodes, {"ids": (WORDS,)})
    data = _data((WORDS,))
    assert not _both(model, data, tmp_path, trainable=trainable)
    data["ids"][4, 2] = number
    said = _both(model, data, tmp_path / "b", trainable=trainable)
    assert len(said) == 2
    for message in said:
        assert f"holds index {number}, outside the rows\n  rows           0 to {ROWS - 1}\n" in message
        assert "table          'table', float32[5,3]\n" in message
        assert "at             ids[4, 2]" in message


def test_rows_in_a_table_of_text(tmp_path: Path, capsys: Capture) -> None:
    """The place is a row and a column."""
    model = _model(tmp_path / "m.onnx", LOOKUP, {"ids": (WORDS,)})
    (tmp_path / "data.csv").write_text("p,y,q,r,s\n0,0,1,2,3\n4,2,3,2,1\n0,1,0,-1,0\n")
    for command in ("fit", "train-graph"):
        words = [command, model, "--data", tmp_path / "data.csv", "--loss", "cross_entropy", "-o", tmp_path / "out"]
        message = refused(capsys, *words)
        assert "holds index -1" in message
        assert "at             row 3, column 'r'" in message


@pytest.mark.parametrize(("place", "most"), [((0, 2), 1), ((0, -1), None), ((-1, 0), None), ((2, 0), 1), ((0, 5), 4)])
def test_places_in_a_table(place: tuple[int, int], most: int | None, tmp_path: Path) -> None:
    """Each index of a place has its own limit: the second axis is longer than the first."""
    model = _model(tmp_path / "m.onnx", PLACES, {"ids": (2,)})
    data = _data((2,), (2, ROWS))
    data["ids"][3] = place
    said = _both(model, data, tmp_path)
    if most is not None and place == (0, 2):
        assert not said, "within the second axis"
        return
    axis = next(n for n, (i, size) in enumerate(zip(place, (2, ROWS), strict=True)) if not 0 <= i < size)
    assert len(said) == 2
    for message in said:
        assert f"holds index {place[axis]}" in message
        assert f"rows           0 to {(1, ROWS - 1)[axis]}" in message
        assert f"at             ids[3, {axis}]" in message


def test_numbers_with_another_use(tmp_path: Path) -> None:
    """ONNX counts negative numbers from the end; a graph that asks for their sign may mean that, and is trained.

    Beyond the table they are refused here, too.
    """
    model = _model(tmp_path / "m.onnx", MASKED, {"ids": (WORDS,)})
    data = _data((WORDS,))
    data["ids"][4, 2] = -1
    assert not _both(model, data, tmp_path)
    data["ids"][4, 2] = -ROWS - 1
    assert len(_both(model, data, tmp_path / "b")) == 2


def test_rows_of_what_is_computed(tmp_path: Path) -> None:
    """Rows of data or of results, such as the last one of a text, may be counted from the end."""
    model = _model(tmp_path / "m.onnx", LAST, {"x": (COLUMNS,), "ids": ()})
    data = {"x": np.ones((SAMPLES, COLUMNS), np.float32), "ids": np.full(SAMPLES, -1), "labels": np.arange(SAMPLES) % 3}
    assert not _both(model, data, tmp_path)
