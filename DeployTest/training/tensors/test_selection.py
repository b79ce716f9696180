"""Tensors of a forward model that are trained: by default, in bodies of nodes, tied ones, by given parameters."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deployer.core.errors import DeployerWarning, OptionProblem
from deployer.fitting.export import export_arrays
from deployer.training.groups import read_group
from deployer.training.train_graph import CaseReport, build_train_graph
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.built_cases import check_differences, opened, random
from DeployTest.support.graphs.small_graphs import Model, constant, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]

X = (value("x", (2, 4)),)
Y = (value("y", None),)
W, V = random(4, 4), random(4, 3, seed=1)


def made(folder: Path, model: Model, trainable: str = "", **options: Any) -> tuple[CaseReport, list[DeployerWarning]]:
    """The training case of a model, and its warnings."""
    found: list[DeployerWarning] = []
    path = model.save(folder / "model.onnx")
    report = build_train_graph(
        path, "mse", "sgd", 0.1, trainable, folder, samples=1, warn=found.append, force=True, **options
    )
    return report, found


def roles(report: CaseReport) -> dict[str, str]:
    """The role of each float tensor."""
    return {tensor.name: tensor.role for tensor in report.tensors}


MASK = np.triu(np.full((2, 2), -1e9, np.float32), 1)
ANGLE = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
OTHERS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], dict[str, str]]] = {
    "mask": (
        [node("MatMul", ("h", "t"), ("s",)), node("Add", ("s", "mask"), ("y",))],
        {"mask": MASK},
        {"mask": "constant"},
    ),
    "scale": ([node("Mul", ("h", "half"), ("y",))], {"half": np.float32([0.5])}, {"half": "constant"}),
    "rotary": (
        [node("Mul", ("h", "a"), ("p",)), node("Mul", ("h", "b"), ("q",)), node("Add", ("p", "q"), ("y",))],
        {"a": np.cos(ANGLE), "b": np.sin(ANGLE)},
        {"a": "constant", "b": "constant"},
    ),
    "norm": (
        [node("LayerNormalization", ("h", "gain", "val_3"), ("y",))],
        {"gain": np.ones(4, np.float32), "val_3": np.zeros(4, np.float32)},
        {"gain": "trained", "val_3": "constant"},
    ),
    "bias": ([node("Add", ("h", "b"), ("y",))], {"b": random(4)}, {"b": "trained"}),
    "slope": ([node("PRelu", ("h", "a"), ("y",))], {"a": np.full(4, 0.25, np.float32)}, {"a": "trained"}),
    "literal": (
        [node("Constant", (), ("c",), value=constant("", V)), node("MatMul", ("h", "c"), ("y",))],
        {},
        {"c": "trained"},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_roles(name: str, tmp_path: Path) -> None:
    """Parameters of layers are trained; masks, tables, scales, and an exporter's own ones and zeros are not."""
    nodes, arrays, expected = OTHERS[name]
    front = [node("MatMul", ("x", "w"), ("h",)), node("Transpose", ("h",), ("t",), perm=[1, 0])]
    front = front if name == "mask" else front[:1]
    initializers = [constant("w", W), *(constant(n, a) for n, a in arrays.items())]
    model = Model([*front, *nodes], X, Y, initializers, opsets=OPSET)
    assert roles(made(tmp_path, model)[0]) == {"w": "trained", **expected}


OPSET = (("", 20),)
FREE = Model(
    (node("MatMul", ("x", "w"), ("h",)), node("Tanh", ("h",), ("t",)), node("Add", ("t", "places"), ("y",))),
    X,
    Y,
    (constant("w", W), constant("places", random(2, 4, seed=3))),
)


def test_undecided(tmp_path: Path) -> None:
    """A tensor that no layer reads is listed with its shape, its reader and options, which work."""
    with pytest.raises(OptionProblem, match="say which") as caught:
        made(tmp_path, FREE)
    for words in ("places [2, 4]", "Add", "--trainable", "--parameters", "'^(places)$:trained'"):
        assert words in str(caught.value)
    for word, role in (("trained", "trained"), ("frozen", "frozen"), ("lr=0.5", "trained")):
        report, _ = made(tmp_path, FREE, groups=[read_group(f"^(places)$:{word}")])
        assert roles(report) == {"w": "trained", "places": role}
    assert roles(made(tmp_path, FREE, "^places$")[0]) == {"w": "frozen", "places": "trained"}
    assert roles(made(tmp_path, FREE, expected=("w",))[0]) == {"w": "trained", "places": "frozen"}


def _body(*extra: onnx.NodeProto, initializers: tuple[TensorProto, ...] = ()) -> onnx.GraphProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in ("state", "next")]
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    go = [helper.make_tensor_value_info(n, TensorProto.BOOL, []) for n in ("go", "on")]
    nodes = [*extra, node("MatMul", ("state", "w"), ("m",)), node("Tanh", ("m",), ("next",))]
    nodes.append(node("Identity", ("go",), ("on",)))
    return helper.make_graph(nodes, "body", [count, go[0], ends[0]], [go[1], ends[1]], list(initializers))


def _loop(body: onnx.GraphProto) -> Model:
    nodes = (node("Loop", ("three", "", "x"), ("h",), "loop", body=body), node("MatMul", ("h", "v"), ("y",)))
    return Model(nodes, X, (value("y", (2, 3)),), (constant("three", np.int64(3)), constant("v", V)), opsets=OPSET)


BODIES = {
    "initializer": _body(initializers=(constant("w", W),)),
    "constant": _body(node("Constant", (), ("w",), value=constant("", W))),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("trainable", ["", "^w$"])
def test_weights_in_a_loop(name: str, trainable: str, tmp_path: Path) -> None:
    """A weight of a body is one for all turns, and has the gradient of all of them."""
    report, _ = made(tmp_path, _loop(BODIES[name]), trainable)
    assert list(report.trained) == (["v", "w"] if not trainable else ["w"])
    check_differences(*opened(report.train))
    assert deployer("train", "-t", report.train, "-o", tmp_path / "c") == 0


def test_weights_in_branches(tmp_path: Path) -> None:
    """Weights of both branches are named; that of the branch that is computed is trained."""
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 4])
    product, graphs = node("MatMul", ("x", "w"), ("z",)), {}
    for seed, key in enumerate(("then_branch", "else_branch")):
        graphs[key] = helper.make_graph([product], key, [], [out], [constant("w", random(4, 4, seed=seed))])
    nodes = (node("If", ("yes",), ("h",), "choice", **graphs), node("MatMul", ("h", "v"), ("y",)))
    initializers = (constant("yes", np.array(True)), constant("v", V))
    report, _ = made(tmp_path, Model(nodes, X, (value("y", (2, 3)),), initializers, opsets=OPSET))
    assert roles(report) == {
        "v": "trained",
        "choice/then_branch/w": "trained",
        "choice/else_branch/w": "frozen",
    }
    check_differences(*opened(report.train))


TIED = Model(
    (
        node("MatMul", ("x", "w"), ("h",)),
        node("Tanh", ("h",), ("t",)),
        node("MatMul", ("t", "val_2"), ("y",)),
    ),
    X,
    (value("y", (2, 4)),),
    (constant("w", W), constant("val_2", np.ascontiguousarray(W.T))),
)


@pytest.mark.parametrize("trainable", ["", "."])
def test_tied_weights(trainable: str, tmp_path: Path) -> None:
    """A transposed copy under an exporter's name is the same weight: one tensor with the gradient of both places."""
    report, _ = made(tmp_path, TIED, trainable)
    assert report.trained == {"w": "w"}
    assert {t.name: t.why for t in report.tensors}["val_2"] == "one with w"
    check_differences(*opened(report.train))
    new = random(4, 4, seed=9)
    assert export_arrays(tmp_path / "model.onnx", {"w": new}, Path("new.npz"), tmp_path / "new.onnx") == ("w", "val_2")
    written = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "new.onnx").graph.initializer}
    np.testing.assert_array_equal(written["val_2"], new.T)


def test_equal_weights_of_own_names_are_two(tmp_path: Path) -> None:
    """Equal numbers alone make no tie: layers may begin alike."""
    initializers = (constant("w", W), constant("head.weight", np.ascontiguousarray(W.T)))
    nodes = (*TIED.nodes[:2], node("MatMul", ("t", "head.weight"), ("y",)))
    report, _ = made(tmp_path, Model(nodes, X, (value("y", (2, 4)),), initializers))
    assert set(report.trained.values()) == {"w", "head.weight"}


def test_parameters_by_numbers(tmp_path: Path) -> None:
    """Turned, repeated and renamed ones are found; what is no parameter stays frozen; a tied one is one tensor."""
    token = random(1, 4, seed=5)
    nodes = (
        node("MatMul", ("x", "val_0"), ("h",)),
        node("Add", ("h", "expand"), ("a",)),
        node("Add", ("a", "other"), ("b",)),
        node("MatMul", ("b", "val_1"), ("y",)),
    )
    arrays = {"val_0": np.ascontiguousarray(W.T), "expand": np.repeat(token, 2, 0), "other": random(2, 4), "val_1": W}
    model = Model(nodes, X, (value("y", (2, 4)),), [constant(n, a) for n, a in arrays.items()])
    report, found = made(tmp_path, model, expected={"layer.weight": W, "token": token})
    assert set(report.trained.values()) == {"val_0", "expand"}
    assert roles(report) == {"val_0": "trained", "expand": "trained", "other": "frozen", "val_1": "trained"}
    program, dataset = opened(report.train)
    assert program.tensors["expand"].type.shape == (1, 4)
    check_differences(program, dataset)
    assert not found


def test_parameters_without_tensor(tmp_path: Path) -> None:
    """A folded weight has the name and other numbers; what is missing is named, each with its reason."""
    with pytest.raises(OptionProblem, match="2 parameters of --parameters have no tensor") as caught:
        made(tmp_path, TIED, expected={"w": W + np.float32(0.5), "norm.weight": np.ones(4, np.float32)})
    for words in ("w [4, 4]", "by up to 0.5", "folded", "norm.weight [4]", "all 1"):
        assert words in str(caught.value)


def test_ambiguous_parameters(tmp_path: Path) -> None:
    """One parameter of ones and two tensors that may be it: both are listed."""
    names, ones = ("gain1", "gain2"), np.ones(4, np.float32)
    nodes = [node("MatMul", ("x", "w"), ("h",))]
    for index, name in enumerate(names):
        nodes.append(node("LayerNormalization", (nodes[-1].output[0], name), ("n", "y")[index : index + 1]))
    model = Model(nodes, X, Y, [constant("w", W), *(constant(n, ones) for n in names)], opsets=OPSET)
    with pytest.raises(OptionProblem, match="several tensors match a parameter") as caught:
        made(tmp_path, model, expected={"w": W, "norm.weight": ones})
    assert "gain1 [4]" in str(caught.value)
    assert "gain2 [4]" in str(caught.value)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers come from a file; the text and the JSON name every tensor, as the report of the run does."""
    path = TIED.save(tmp_path / "net.onnx")
    np.savez(tmp_path / "state.npz", w=W)
    words = ["train-graph", path, "--loss", "mse", "-o", tmp_path / "case", "--parameters", tmp_path / "state.npz"]
    assert deployer(*words) == 0
    out = capsys.readouterr().out
    assert "trained: w, val_2 (one with w)" in out
    assert "frozen: none\nconstants: none\nstates: none" in out
    assert deployer("train", "-t", tmp_path / "case", "-o", tmp_path / "out") == 0
    assert '"role": "trained"' in (tmp_path / "out" / "report.json").read_text()


def test_statistics_that_are_merged_with_parameters(tmp_path: Path) -> None:
    """A batch norm that begins with a gain and a variance of ones, written once, trains the gain alone."""
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    norm = node("BatchNormalization", ("h", "gain", "bias", "bias", "gain"), ("y",), "norm")
    initializers = [constant(n, a) for n, a in {"w": W, "gain": ones, "bias": zeros}.items()]
    report, _ = made(tmp_path, Model([node("MatMul", ("x", "w"), ("h",)), norm], X, Y, initializers, opsets=OPSET))
    own = {"w": "trained", "gain": "trained", "bias": "trained"}
    assert roles(report) == own | {"norm/bias": "state", "norm/gain": "state"}
    check_differences(*opened(report.train))
