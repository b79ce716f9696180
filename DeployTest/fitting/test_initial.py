"""Initial weights by rule: which parameters are weights, how wide they are, and what is drawn for them."""

import importlib
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, numpy_helper

from deployer.core.errors import OptionProblem
from deployer.core.traits.training import Fans
from deployer.training import forward
from deployer.training.initial import BLOCK, RULES, InitialRule, drawn_weights, natural_log, normal_quantile, widths
from deployer.training.tensors.selection import select
from deployer.training.train_graph import build_train_graph
from DeployTest.fitting.runs import small_fit, small_model
from DeployTest.support.building.command_line import deployer, refused
from DeployTest.support.graphs.small_graphs import Model, node, value

pytestmark = [pytest.mark.host, pytest.mark.training]
X, IDS = (4, 6), (4, 2)
VARIANCES = {
    **{"xavier": lambda i, o: 2 / (i + o), "kaiming": lambda i, o: 2 / i, "lecun": lambda i, o: 1 / i},
    "fan_in": lambda i, o: 1 / (3 * i),
}
"""By the papers, from the numbers of inputs and outputs."""
WIDE = Fans(50, 20)


def _model(folder: Path, *nodes: NodeProto, x: tuple[int, ...] = X, **shapes: tuple[int, ...]) -> Path:
    """A model of parameters of zeros; its output is `y`."""
    constants = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in shapes.items()]
    return Model(nodes, (value("x", x),), (value("y", None),), tuple(constants)).save(folder / "net.onnx")


def _widths(path: Path) -> dict[str, tuple[int, int]]:
    model = forward.load(path)
    return {name: (f.inputs, f.outputs) for name, f in widths(model, select(model, ".").parameters).items()}


@pytest.mark.parametrize(
    ("nodes", "shapes", "expected"),
    [
        ([("Gemm", "x w b", {})], {"w": (6, 3), "b": (3,)}, {"w": (6, 3)}),
        ([("Gemm", "x w b", {"transB": 1})], {"w": (3, 6), "b": (1, 3)}, {"w": (6, 3)}),
        ([("Gemm", "w x", {"transA": 1})], {"w": (4, 3)}, {"w": (4, 3)}),
        ([("MatMul", "x w", {})], {"w": (2, 6, 3)}, {"w": (6, 3)}),
        ([("MatMul", "x w", {})], {"w": (6,)}, {"w": (6, 1)}),
        ([("MatMul", "w x", {})], {"w": (4,)}, {"w": (4, 1)}),
        ([("Transpose", "w > t", {"perm": [1, 0]}), ("MatMul", "x t", {})], {"w": (3, 6)}, {"w": (6, 3)}),
        ([("Mul", "w s > t", {}), ("MatMul", "x t", {})], {"w": (6, 3), "s": (1, 3)}, {"w": (6, 3), "s": (6, 3)}),
        ([("Add", "x b > h", {}), ("MatMul", "h w", {})], {"w": (6, 3), "b": (6,)}, {"w": (6, 3)}),
        ([("MatMul", "x a > h", {}), ("MatMul", "h b", {})], {"a": (6, 2), "b": (2, 5)}, {"a": (6, 2), "b": (2, 5)}),
        ([("Einsum", "x w", {"equation": "ij,kj->ik"})], {"w": (3, 6)}, {"w": (6, 3)}),
        ([("Mul", "x s > h", {}), ("Gemm", "h w", {})], {"s": (6,), "w": (6, 3)}, {"w": (6, 3)}),
        ([("LayerNormalization", "x s b > h", {}), ("Gemm", "h w", {})], {"s": (6,), "b": (6,), "w": (6, 3)},
         {"w": (6, 3)}),
    ],
    ids=lambda v: "-".join(op for op, *_ in v) if isinstance(v, list) else "",
)  # fmt: skip
def test_widths(nodes: Any, shapes: dict[str, tuple[int, ...]], expected: dict[str, Any], tmp_path: Path) -> None:
    """Weights are what is multiplied and added up, also behind transpositions and products of parameters alone.

    Biases and scales are none, wherever their result goes.
    """
    protos = []
    for number, (op, names, attrs) in enumerate(nodes):
        inputs, _, output = names.partition(" > ")
        protos.append(node(op, tuple(inputs.split()), (output or "y",), name=f"n{number}", **attrs))
    assert _widths(_model(tmp_path, *protos, **shapes)) == expected


def test_tables_and_recurrent_layers(tmp_path: Path) -> None:
    """Rows that are looked up are no weights; in a recurrent layer both matrices are, of each direction alike."""
    layer = node("LSTM", ("x", "w", "r", "b"), ("y",), hidden_size=3, direction="bidirectional")
    path = _model(tmp_path, layer, x=(5, 2, 6), w=(2, 12, 6), r=(2, 12, 3), b=(2, 24))
    assert _widths(path) == {"w": (6, 12), "r": (3, 12)}
    rows = node("Gather", ("t", "x"), ("h",)), node("MatMul", ("h", "w"), ("y",), name="m")
    tables = [numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in {"t": (9, 4), "w": (4, 3)}.items()]
    ids = value("x", IDS, onnx.TensorProto.INT64)
    assert _widths(Model(rows, (ids,), (value("y", None),), tuple(tables)).save(tmp_path / "t.onnx")) == {"w": (4, 3)}


@pytest.mark.torch
def test_widths_of_pytorch(tmp_path: Path) -> None:
    """They are those that `torch.nn.init` computes, of each kind of layer."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn, capture = torch.nn, importlib.import_module("deployer.torch").capture
    fans_of = nn.init._calculate_fan_in_and_fan_out
    for module, shape in (
        (nn.Linear(6, 3), (2, 6)),
        (nn.Conv1d(4, 6, 3), (2, 4, 9)),
        (nn.Conv2d(4, 6, (3, 2), groups=2), (2, 4, 9, 9)),
        (nn.Conv2d(4, 8, 3, groups=4, stride=2), (2, 4, 9, 9)),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (nn.ConvTranspose2d(4, 6, 3, groups=2, stride=2), (2, 4, 5, 5)),
        (nn.GRU(5, 4), (3, 2, 5)),
    ):
        captured = capture(module.train(), [torch.zeros(shape)])
        expected = {n: fans_of(p) for n, p in module.named_parameters() if "weight" in n}
        found = widths(forward.load(captured.save(tmp_path / "net.onnx")), captured.parameters)
        assert {n: (f.inputs, f.outputs) for n, f in found.items()} == expected, module


@pytest.mark.parametrize("name", RULES)
def test_variances(name: str) -> None:
    """They are those of the papers; a uniform rule reaches to the square root of three times that, and no further."""
    rule, kind = RULES[name], name.rpartition("_")[0]
    variance = VARIANCES[kind](WIDE.inputs, WIDE.outputs)
    assert rule.variance(WIDE) == variance
    assert rule.is_normal == name.endswith("normal")
    values = drawn_weights(rule, WIDE, 4096, 1, "w") / math.sqrt(variance)
    if not rule.is_normal:
        edges = np.sort(values) / math.sqrt(3)
        assert -1 < edges[0] < -0.99
        assert 0.99 < edges[-1] < 1
    assert np.unique(values).size == values.size


def test_quantiles_are_those_of_normal_numbers() -> None:
    """In float32 each is that of Python's own normal distribution, in the middle, in the tails, at their ends."""
    shares = np.concatenate([np.linspace(1e-4, 1 - 1e-4, 4001), [2.0**-33, 1 - 2.0**-33, 0.075, 0.925, 0.5]])
    expected = [NormalDist().inv_cdf(share) for share in shares]
    assert np.array_equal(normal_quantile(shares).astype(np.float32), np.array(expected, np.float32))
    powers = 2.0 ** -np.arange(1, 40)
    expected = [math.log(x) for x in (*shares, *powers)]
    assert np.array_equal(natural_log(np.concatenate([shares, powers])).astype(np.float32), np.float32(expected))


def test_numbers_follow_from_seed_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed, or another name, draws others; how much is drawn at once, and how many, changes none."""
    rule = InitialRule(lambda fans: 1.0, is_normal=True)
    numbers = drawn_weights(rule, WIDE, 1000, 3, "w")
    others = [drawn_weights(rule, WIDE, 1000, 4, "w"), drawn_weights(rule, WIDE, 1000, 3, "v")]
    assert all(not np.intersect1d(numbers, other).size for other in others)
    assert np.array_equal(drawn_weights(rule, WIDE, 10, 3, "w"), numbers[:10])
    more = drawn_weights(rule, WIDE, BLOCK + 5, 3, "w")
    assert np.array_equal(more[:1000], numbers)
    assert not np.intersect1d(more[BLOCK:], more[:BLOCK]).size


def test_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command draws the weights that are trained, says so, and the same from the same seed; data needs no other."""
    layers = node("Gemm", ("x", "w", "b"), ("h",), name="a"), node("Gemm", ("h", "v"), ("y",), name="b")
    path = _model(tmp_path, *layers, w=(6, 3), b=(3,), v=(3, 2))
    np.savez(tmp_path / "data.npz", x=np.ones((4, 6), np.float32), target=np.ones((4, 2), np.float32))
    words = ["train-graph", path, "--loss", "mse", "--data", tmp_path / "data.npz", "--init", "kaiming_normal"]
    for name, more in (("one", []), ("two", []), ("three", ["--seed", 1]), ("few", ["--trainable", "w|b"])):
        assert deployer(*words, *more, "-o", tmp_path / name) == 0
        assert f"drawn: {'w' if name == 'few' else 'w, v'}\n" in capsys.readouterr().out
    inputs = {n: np.load(tmp_path / n / "net_train" / "inputs.npz") for n in ("one", "two", "three", "few")}
    w, b, v = (inputs["one"][f"arr_{i:04d}"] for i in (2, 3, 4))
    assert [array.any() for array in (w, b, v)] == [True, False, True]
    assert np.array_equal(inputs["two"]["arr_0002"], w)
    assert not np.array_equal(inputs["three"]["arr_0002"], w)
    assert np.array_equal(inputs["few"]["arr_0002"], w), "what else is trained has no say in it"
    assert "no operator multiplies" in refused(capsys, *words, "--trainable", "^b$", "-o", tmp_path / "none")
    with pytest.raises(OptionProblem, match="no initial rule 'ones'"):
        build_train_graph(path, "mse", "", 0.1, "", tmp_path / "none", initial="ones")
    assert not (tmp_path / "none").exists()


def test_fit(tmp_path: Path) -> None:
    """`fit` draws them, too, and a run that begins elsewhere is another one."""
    path = small_model(tmp_path)
    options = {"epochs": 1, "check_passes": 1, "init": "xavier_uniform"}
    fitted = small_fit(tmp_path / "run", path, **options)
    assert fitted.verdict == "passed"
    assert fitted.notes[0] == "initial weights drawn by xavier_uniform from seed 3: first.weight, second.weight"
    with pytest.raises(OptionProblem, match="task differs"):
        small_fit(tmp_path / "run", path, epochs=1, check_passes=1, resume=True)
