"""Functions of ONNX without operator here: their bodies train, and say so; names within are safe."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import DeployerWarning, UnsupportedOperator
from deployer.core.operator import registry
from deployer.frontend import check, parse
from deployer.verify.reference import run_inference
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import built, check_differences, graph_of, opened, random
from DeployTest.support.graphs.small_graphs import Model, chain, constant, node, raises, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.fixture(autouse=True)
def _without_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink, the least function that has a body, is read by it where there is no operator of that name."""
    others = {name: operator for name, operator in registry().items() if name != "Shrink"}
    monkeypatch.setattr("deployer.frontend.resolve.registry", lambda: others)


HEADS = {"q_num_heads": 4, "kv_num_heads": 2}
PARTS: dict[str, tuple[Sequence[onnx.NodeProto], Sequence[onnx.TensorProto]]] = {
    "attention": (
        [
            node("MatMul", ("h", "wk"), ("keys",)),
            node("MatMul", ("h", "wv"), ("values",)),
            node("Attention", ("h", "keys", "values"), ("y",), is_causal=1, softcap=2.0, **HEADS),
        ],
        (constant("wk", random(8, 4)), constant("wv", random(8, 4, seed=1))),
    ),
    "masked": (
        [node("Attention", ("h", "h", "h", "mask"), ("y",), q_num_heads=2, kv_num_heads=2, scale=0.5)],
        (constant("mask", np.array([[True, False, True], [True, True, True], [False, False, True]])),),
    ),
    "rotary": (
        [node("RotaryEmbedding", ("h", "cosines", "sines"), ("y",), num_heads=2)],
        (constant("cosines", random(2, 3, 2, seed=2)), constant("sines", random(2, 3, 2, seed=3))),
    ),
    "shrink": ([node("Shrink", ("h",), ("y",), lambd=0.25, bias=0.125)], ()),
    "cropped": (
        [node("CenterCropPad", ("h", "size"), ("y",), axes=[1, 2])],
        (constant("size", np.array([5, 6])),),
    ),
    "clip": (
        [node("Mul", ("low", "half"), ("bound",)), node("Clip", ("h", "bound"), ("y",))],
        (constant("low", random(1, seed=4).reshape(())), constant("half", np.float32(0.5))),
    ),
}
LOW = {"clip": {"low"}}
"""Parameters without axes, which are not trained unless asked for."""
OPSET = (("", 23),)


def model(part: str) -> Model:
    """x [2,5] -> h [2,3,8], then the part."""
    nodes, constants = PARTS[part]
    front = [node("MatMul", ("x", "w1"), ("flat",)), node("Reshape", ("flat", "shape"), ("h",))]
    first = (constant("w1", random(5, 24)), constant("shape", np.array((2, 3, 8))))
    return Model([*front, *nodes], (value("x", (2, 5)),), (value("y", None),), (*first, *constants), opsets=OPSET)


@pytest.mark.parametrize("part", PARTS)
def test_gradients(part: str, tmp_path: Path) -> None:
    """Those of all float parameters are those of central differences; the training graph has the body's nodes."""
    report = built(tmp_path, model(part), samples=1, trainable="w1|(co)?sines" if part == "rotary" else "")
    floats = {t.name for t in PARTS[part][1] if t.data_type == onnx.TensorProto.FLOAT and len(t.dims)}
    assert set(report.trained) == {"w1", *floats}
    check_differences(*opened(report.train))
    written = {n.op_type for n in graph_of(report).node}
    assert not written & {"Attention", "RotaryEmbedding", "Shrink", "CastLike", "Shape", "Range"}


def test_attention_trains(tmp_path: Path) -> None:
    """In generated C with tiles, to the losses and weights of the reference."""
    report = built(tmp_path, model("attention"), samples=2, n_accum=2)
    assert deployer("train", "-t", report.train, "-o", tmp_path, "--l1", 8000) == 0


def test_what_is_said(tmp_path: Path) -> None:
    """One warning for all nodes of a graph that are computed by bodies, in the training graph's making as well."""
    with pytest.warns(DeployerWarning, match="Shrink of ONNX .* function bod") as caught:
        built(tmp_path, model("shrink"), samples=1)
    assert [w.message.facts for w in caught if isinstance(w.message, DeployerWarning)] == [(("Shrink", "Shrink_y"),)]


def _values(path: Path, x: np.ndarray) -> np.ndarray:
    return run_inference(check.check_program(parse.read_graphs(path, None)), {"x": x})["y"]


def test_names_within(tmp_path: Path) -> None:
    """Two calls of one name, in a graph whose values and nodes have the names that a body would take."""
    names = ("x", "same/Zero", "same/Where", "y")
    calls = [node("Shrink", (a,), (b,), "same", lambd=0.25, bias=0.5) for a, b in itertools.pairwise(names)]
    calls[1].name = "same/Less"
    x = np.array([[1.0, -2.0, 0.5], [-0.25, 3.0, 0.0]], np.float32)
    expected = x
    for _ in calls:
        expected = np.where(expected < -0.25, expected + 0.5, np.where(expected > 0.25, expected - 0.5, 0))
    path = chain(*calls).save(tmp_path / "network.onnx")
    assert_close("Add", _values(path, x), expected)


def test_a_mask_of_bools_is_none_of_numbers(tmp_path: Path) -> None:
    """A result of comparisons, with new axes, is a mask; numbers are added."""
    q = np.random.default_rng(2).standard_normal((1, 1, 2, 3)).astype(np.float32)
    for bools in (True, False):
        mask = [node("Greater", ("x", "zero"), ("m1",)), node("Unsqueeze", ("m1", "axes"), ("m2",))]
        mask += [] if bools else [node("Cast", ("m2",), ("m3",), to=onnx.TensorProto.FLOAT)]
        nodes = [*mask, node("Attention", ("q", "q", "q", mask[-1].output[0]), ("y",))]
        constants = (constant("q", q), constant("zero", np.float32(0)), constant("axes", np.array([0, 1])))
        whole = Model(nodes, (value("x", (2, 2)),), (value("y", None),), constants, opsets=OPSET)
        x = np.array([[1, -1], [1, 1]], np.float32)
        scores = q @ q.transpose(0, 1, 3, 2) / np.sqrt(3)
        with np.errstate(divide="ignore"):
            scores = scores + (np.log((x > 0).astype(np.float64)) if bools else x > 0)
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        assert_close("Softmax", _values(whole.save(tmp_path / "network.onnx"), x), weights @ q)


def test_without_a_better_body(tmp_path: Path) -> None:
    """Axes at run time are refused in the words of the operator, not of its body."""
    nodes = (node("Cast", ("x",), ("i",), to=onnx.TensorProto.INT64), node("ReduceL2", ("x", "axes"), ("y",)))
    inputs = (value("x", (2, 3)), value("axes", (1,), onnx.TensorProto.INT64))
    whole = Model(nodes[1:], inputs, (value("y", None),), opsets=(("", 18),))
    with raises(UnsupportedOperator, "(ReduceL2)", "'axes', is computed at run time"):
        check.check_program(parse.read_graphs(whole.save(tmp_path / "network.onnx"), None))


def test_versions_to_come(tmp_path: Path) -> None:
    """A version of the domain that is not known may have another function of that name."""
    call = node("Shrink", ("x",), ("y",), lambd=0.5)
    later = Model((call,), (value("x", (2, 3)),), (value("y", (2, 3)),), opsets=(("", 999),))
    with raises(UnsupportedOperator, "(Shrink)", "version 999", "no such version is known"):
        parse.read_graphs(later.save(tmp_path / "network.onnx"), None)


def test_bodies_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are short, what they become is not: it is counted before it is typed."""
    monkeypatch.setattr("deployer.frontend.functions.bodies.MOST_NODES", 20)
    names = ("x", "a", "b", "y")
    path = chain(*(node("Shrink", (a,), (b,)) for a, b in itertools.pairwise(names))).save(tmp_path / "network.onnx")
    with raises(UnsupportedOperator, "(Shrink)", "at most 20"):
        check.check_program(parse.read_graphs(path, None))


def test_of_several_imports(tmp_path: Path) -> None:
    """Bodies of several versions are taken where they are one."""
    call = node("Shrink", ("x",), ("y",), lambd=0.5)
    inputs, outputs = (value("x", (2, 3)),), (value("y", (2, 3)),)
    both = Model((call,), inputs, outputs, opsets=(("", 17), ("", 21)))
    assert _values(both.save(tmp_path / "network.onnx"), np.ones((2, 3), np.float32)).tolist() == [[1] * 3] * 2
    attention = node("Attention", ("x", "x", "x"), ("y",), q_num_heads=1, kv_num_heads=1, softcap=2.0)
    two = Model((attention,), (value("x", (1, 2, 3)),), (value("y", None),), opsets=(("", 23), ("", 24)))
    with raises(UnsupportedOperator, "(Attention)", "versions 23 and 24", "several bodies"):
        check.check_program(parse.read_graphs(two.save(tmp_path / "network.onnx"), None))
