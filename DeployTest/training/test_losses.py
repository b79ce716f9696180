"""Losses beside formulas of their own in float64, and beside PyTorch; what is refused; the model's own loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer.core.errors import DatasetMismatch, DeployerWarning, GraphProblem, ShapeMismatch
from deployer.core.operator import losses
from deployer.core.traits.training import Loss
from deployer.training.train_graph import CaseReport, build_train_graph
from deployer.verify.reference import run_training
from DeployTest.support.building.command_line import bits, deployer, refused
from DeployTest.support.graphs.built_cases import check_differences, gradients, graph_of, opened, random
from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
Array = np.ndarray[Any, Any]
Formula = Callable[[Array, Array], float]
BATCH, CLASSES, PASSES = 6, 5, 6
WEIGHTS = (0.5, 2.0, 1.0, 0.25, 1.5)
BOUND = table()["several"]["float64"]


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _huber(d: Array, delta: float) -> Array:
    return np.where(np.abs(d) < delta, d**2 / 2, delta * (np.abs(d) - delta / 2))


def _bce(p: Array, t: Array) -> float:
    return float(-(t * np.log(p) + (1 - t) * np.log(1 - p)).mean())


def _kl(y: Array, t: Array) -> float:
    return float(np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - y), 0).sum() / len(y))


def _labelled(
    log_prob: Array, labels: Array, weights: Sequence[float] = (), smoothing: float = 0.0, ignored: int | None = None
) -> float:
    """PyTorch's documentation of CrossEntropyLoss, label by label."""
    w = np.array(weights or np.ones(log_prob.shape[1]), np.float32).astype(np.float64)
    total = count = 0.0
    for row, label in zip(log_prob, labels, strict=True):
        if label == ignored:
            continue
        total -= (1 - smoothing) * w[label] * row[label] + smoothing / len(w) * float(w @ row)
        count += w[label]
    return total / count


def _cross_entropy(**words: Any) -> Formula:
    return lambda y, labels: _labelled(np.log(_softmax(y)), labels, **words)


@dataclass(frozen=True)
class Case:
    """A loss with settings, as the compiler, a formula and PyTorch have it; `tail` are the model's last nodes."""

    choice: str
    formula: Formula
    torch: str
    words: Mapping[str, Any] = field(default_factory=dict)
    torch_words: Mapping[str, Any] = field(default_factory=dict)
    tail: str = ""


CASES = {
    "l1": Case("l1", lambda y, t: float(np.abs(y - t).mean()), "l1_loss"),
    "mse": Case("mse", lambda y, t: float(((y - t) ** 2).mean()), "mse_loss"),
    "huber": Case("huber", lambda y, t: float(_huber(y - t, 1).mean()), "huber_loss"),
    "huber_delta": Case(
        "huber",
        lambda y, t: float(_huber(y - t, 0.375).mean()),
        "huber_loss",
        {"settings": {"delta": 0.375}},
        {"delta": 0.375},
    ),
    "smooth_l1": Case(
        "smooth_l1",
        lambda y, t: float(_huber(y - t, 0.25).mean() / 0.25),
        "smooth_l1_loss",
        {"settings": {"beta": 0.25}},
        {"beta": 0.25},
    ),
    "bce": Case("bce", _bce, "binary_cross_entropy", tail="Softmax"),
    "bce_with_logits": Case(
        "bce_with_logits", lambda y, t: _bce(1 / (1 + np.exp(-y)), t), "binary_cross_entropy_with_logits"
    ),
    "kl_div": Case("kl_div", _kl, "kl_div", {}, {"reduction": "batchmean"}, "LogSoftmax"),
    "nll": Case("nll", _labelled, "nll_loss", tail="LogSoftmax"),
    "nll_weights": Case(
        "nll",
        lambda y, labels: _labelled(y, labels, WEIGHTS, 0.0, 1),
        "nll_loss",
        {"class_weights": WEIGHTS, "settings": {"ignore-index": 1}},
        {"weight": WEIGHTS, "ignore_index": 1},
        "LogSoftmax",
    ),
    "cross_entropy": Case("cross_entropy", _cross_entropy(), "cross_entropy"),
    "ignored": Case(
        "cross_entropy",
        _cross_entropy(ignored=1),
        "cross_entropy",
        {"settings": {"ignore-index": 1}},
        {"ignore_index": 1},
    ),
    "weights": Case(
        "cross_entropy",
        _cross_entropy(weights=WEIGHTS),
        "cross_entropy",
        {"class_weights": WEIGHTS},
        {"weight": WEIGHTS},
    ),
    "smooth": Case(
        "cross_entropy",
        _cross_entropy(smoothing=0.25),
        "cross_entropy",
        {"settings": {"label-smoothing": 0.25}},
        {"label_smoothing": 0.25},
    ),
    "all": Case(
        "cross_entropy",
        _cross_entropy(weights=WEIGHTS, smoothing=0.125, ignored=1),
        "cross_entropy",
        {"class_weights": WEIGHTS, "settings": {"label-smoothing": 0.125, "ignore-index": 1}},
        {"weight": WEIGHTS, "label_smoothing": 0.125, "ignore_index": 1},
    ),
}


def _model(*tail: str, outputs: tuple[str, ...] = ("y",)) -> Model:
    """x [BATCH, 3] -> Gemm, Relu, Gemm -> y [BATCH, CLASSES], through the operators of `tail` if there are some."""
    draw = np.random.default_rng(5)
    arrays = {"w1": (7, 3), "b1": (7,), "w2": (CLASSES, 7)}
    constants = tuple(constant(n, draw.standard_normal(s).astype(np.float32)) for n, s in arrays.items())
    names = [*(f"t{i}" for i in range(len(tail))), "y"]
    nodes = [node("Gemm", ("x", "w1", "b1"), ("h",), transB=1), node("Relu", ("h",), ("r",))]
    nodes.append(node("Gemm", ("r", "w2"), (names[0],), transB=1))
    nodes += [node(op, (a,), (b,)) for op, a, b in zip(tail, names, names[1:], strict=False)]
    return Model(tuple(nodes), (value("x", (BATCH, 3)),), tuple(value(n, None) for n in outputs), constants)


def _data(name: str) -> dict[str, Array]:
    """Samples: labels with some that are ignored, targets from 0 to 1 for what needs them."""
    draw = np.random.default_rng(11)
    x = draw.standard_normal((PASSES, BATCH, 3)).astype(np.float32)
    if losses()[CASES[name].choice].role(Loss).target == "labels":  # type: ignore[union-attr]
        return {"x": x, "labels": draw.integers(0, CLASSES, (PASSES, BATCH))}
    target = draw.uniform(-0.25, 1.25, (PASSES, BATCH, CLASSES)).clip(0, 1).astype(np.float32)
    return {"x": x, "target": target}


def _report(name: str, folder: Path, optimizer: str = "sgd", rate: float = 0.05, **more: Any) -> CaseReport:
    case = CASES[name]
    path = _model(*filter(None, [case.tail])).save(folder / "model.onnx")
    words = {"data": _data(name), **case.words, **more}
    return build_train_graph(path, case.choice, optimizer, rate, "", folder, **words)


def _outputs(case: Case, weights: Mapping[str, Array], x: Array) -> Array:
    """Return the model's results, in float64."""
    h = np.maximum(x @ weights["w1"].T + weights["b1"], 0) @ weights["w2"].T
    return {"": h, "Softmax": _softmax(h), "LogSoftmax": np.log(_softmax(h))}[case.tail]


@pytest.mark.parametrize("name", CASES)
def test_loss_is_its_formula(name: str, tmp_path: Path) -> None:
    """The float64 loss of each pass from its own weights, and gradients as central differences have them."""
    report = _report(name, tmp_path)
    program, dataset = opened(report.train)
    data = _data(name)
    expected, _ = run_training(program, dataset, np.float64)
    target = data["labels" if "labels" in data else "target"]
    first = {n: w.astype(np.float64) for n, w in dataset.weights.items()}
    due = CASES[name].formula(_outputs(CASES[name], first, data["x"][0].astype(np.float64)), target[0])
    np.testing.assert_allclose(expected[0], due, BOUND["rtol"], BOUND["atol"])
    check_differences(program, dataset)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.torch
def test_training_is_pytorchs(name: str, tmp_path: Path) -> None:
    """Losses of all passes, and gradients of the first, by PyTorch's functions and its autograd in float64."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    case, data = CASES[name], _data(name)
    report = _report(name, tmp_path)
    program, dataset = opened(report.train)
    actual, final = run_training(program, dataset, np.float64)
    weights = {n: torch.nn.Parameter(torch.tensor(w, dtype=torch.float64)) for n, w in dataset.weights.items()}
    words = {k: torch.tensor(v, dtype=torch.float64) if k == "weight" else v for k, v in case.torch_words.items()}
    function, optimizer = (
        getattr(torch.nn.functional, case.torch),
        torch.optim.SGD([*weights.values()], np.float32(0.05)),
    )
    tails = {"": lambda h: h, "Softmax": lambda h: h.softmax(1), "LogSoftmax": lambda h: h.log_softmax(1)}
    target = data["labels" if "labels" in data else "target"]
    kind = torch.int64 if "labels" in data else torch.float64
    computed = gradients(program, dataset)
    for k in range(PASSES):
        h = torch.relu(torch.tensor(data["x"][k], dtype=torch.float64) @ weights["w1"].T + weights["b1"])
        loss = function(tails[case.tail](h @ weights["w2"].T), torch.tensor(target[k], dtype=kind), **words)
        optimizer.zero_grad()
        loss.backward()
        np.testing.assert_allclose(actual[k], loss.item(), BOUND["rtol"], BOUND["atol"], err_msg=f"pass {k}")
        if k == 0:
            for n, w in weights.items():
                np.testing.assert_allclose(computed[n], w.grad.numpy(), BOUND["rtol"], BOUND["atol"], err_msg=n)
        optimizer.step()
    for n, w in weights.items():
        np.testing.assert_allclose(final[n], w.detach().numpy(), BOUND["rtol"], BOUND["atol"], err_msg=n)


QUICK = ("all", "bce_with_logits")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_same_bits_in_any_memory(name: str, tmp_path: Path) -> None:
    """A run is right from each of its states, and the same bits come of small and large memories."""
    train = _report(name, tmp_path, "adam", 0.01).train
    run = ("train", "-t", train)
    whole, tiled = tmp_path / "whole.npz", tmp_path / "tiled.npz"
    assert deployer(*run, "-o", tmp_path / "a", "--dump", whole) == 0
    assert deployer(*run, "-o", tmp_path / "b", "--dump", tiled, "--l1", "900", "--buffering", "double") == 0
    assert bits(whole) == bits(tiled)


OUT_OF_RANGE = {
    "bce_with_logits": ({"target": -0.25}, ["'target' holds -0.25", "from 0 to 1"]),
    "kl_div": ({"target": 1.5}, ["'target' holds 1.5", "from 0 to 1"]),
    "bce": ({"target": 2.0}, ["'target' holds 2.0", "from 0 to 1"]),
    "cross_entropy": ({"labels": CLASSES}, ["'labels' holds label 5", "0 to 4"]),
    "nll": ({"labels": -1}, ["'labels' holds label -1", "0 to 4"]),
    "weights": ({"labels": CLASSES}, ["'labels' holds label 5", "0 to 4"]),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_targets_out_of_range(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that is no probability, or no class, is refused by train-graph, and by train in a case's file."""
    (wrong, said), data = OUT_OF_RANGE[name], _data(name)
    [(key, number)] = wrong.items()
    data[key][1].reshape(-1)[2] = number
    with pytest.raises(DatasetMismatch) as caught:
        _report(name, tmp_path, data=data)
    assert all(word in str(caught.value) for word in (*said, "sample 1")), str(caught.value)
    train = _report(name, tmp_path).train
    arrays = dict(np.load(train / "inputs.npz"))
    arrays["mb2_arr_0001"].reshape(-1)[2] = number
    np.savez(train / "inputs.npz", **arrays)
    assert all(word in refused(capsys, "compile", "-t", train, "-o", tmp_path / "c") for word in said)


def test_drawn_targets_are_in_range(tmp_path: Path) -> None:
    """Targets that train-graph draws itself are probabilities where the loss needs them."""
    train = _report("bce_with_logits", tmp_path, data=None).train
    arrays = np.load(train / "inputs.npz")
    assert 0 <= arrays["arr_0001"].min() < arrays["arr_0001"].max() <= 1
    assert arrays["arr_0000"].min() < 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cross_entropy --delta 1", ["--delta has no effect here", "huber"]),
        ("huber --delta 0", ["--delta 0 is out of range", "(0, inf)"]),
        ("smooth_l1 --beta -1", ["--beta -1 is out of range"]),
        ("cross_entropy --label-smoothing 1", ["--label-smoothing 1 is out of range", "[0, 1)"]),
        ("cross_entropy --ignore-index 0.5", ["whole number"]),
        ("cross_entropy --ignore-index 99999999999", ["out of range"]),
        ("mse --class-weights 1,2", ["--class-weights has no effect here", "cross_entropy, nll"]),
        ("cross_entropy --class-weights 1,2", ["--class-weights needs one weight per class", "5"]),
        ("cross_entropy --class-weights 1,1,1,1,-1", ["--class-weights are not all numbers from 0 on"]),
        ("cross_entropy --class-weights 1,1,1,1,nan", ["not a finite number"]),
        ("model", ["output 'y' is not a loss", "[6,5]"]),
    ],
)
def test_refused(words: str, said: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings out of range or of another loss, weights that are not one for each class, a model without a loss."""
    path = _model().save(tmp_path / "model.onnx")
    message = refused(capsys, "train-graph", path, "-o", tmp_path, "--loss", *words.split())
    assert all(word in message for word in said), message


def test_softmax_before_the_loss(tmp_path: Path) -> None:
    """A loss that applies a softmax itself warns of one before it, and says what to remove; others do not."""
    output, behind = "the model's output", "the input of what reads 't1'"
    for tail, choice, said in (
        (("Softmax",), "cross_entropy", output),
        (("LogSoftmax",), "cross_entropy", output),
        (("Softmax", "Flatten", "Identity"), "cross_entropy", behind),
        (("LogSoftmax",), "nll", None),
        (("Softmax", "Relu"), "cross_entropy", None),
    ):
        folder = tmp_path / "-".join((*tail, choice))
        found: list[DeployerWarning] = []
        build_train_graph(_model(*tail).save(folder / "model.onnx"), choice, "sgd", 0.1, "", folder, warn=found.append)
        assert [w.cause for w in found] == [
            f"node '{tail[0]}_{'t1' if said == behind else 'y'}' ({tail[0]}) is the model's last, "
            f"and loss {choice!r} applies it again"
        ] * (said is not None)
        assert all(w.hint == f"remove the node, so that 't0' is {said}" for w in found)


def _own(*nodes: onnx.NodeProto, constants: Sequence[onnx.TensorProto] = (), **parts: Any) -> Model:
    """The model of this file whose output `y` goes on to a loss of its own."""
    base = _model()
    renamed = [*base.nodes[:2], node("Gemm", ("r", "w2"), ("scores",), transB=1)]
    return Model(
        (*renamed, *nodes), parts.pop("inputs", base.inputs), (value("y", None),), (*base.initializers, *constants)
    )


MEAN = _own(node("Mul", ("scores", "scores"), ("squares",)), node("ReduceMean", ("squares",), ("y",), keepdims=0))
SCALED = _own(
    node("SoftmaxCrossEntropyLoss", ("scores", "ids", "weights"), ("plain",)),
    node("Mul", ("plain", "two"), ("y",)),
    constants=[constant("two", np.array(2, np.float32)), constant("weights", np.array(WEIGHTS, np.float32))],
    inputs=(value("x", (BATCH, 3)), value("ids", (BATCH,), INT64)),
)
DIRECT = _own(
    node("SoftmaxCrossEntropyLoss", ("scores", "ids"), ("y",), ignore_index=-1),
    inputs=(value("x", (BATCH, 3)), value("ids", (BATCH,), INT64)),
)


@pytest.mark.parametrize("name", ["MEAN", "SCALED", "DIRECT"])
def test_own_loss(name: str, tmp_path: Path) -> None:
    """The model's scalar output is the loss: of arithmetic, of a loss among its nodes, of either."""
    model = {"MEAN": MEAN, "SCALED": SCALED, "DIRECT": DIRECT}[name]
    path = model.save(tmp_path / "model.onnx")
    report = build_train_graph(path, "model", "sgd", 0.01, "", tmp_path)
    assert set(report.trained) == {"w1", "b1", "w2"}
    graph = graph_of(report)
    assert graph.output[0].name == "y"
    assert graph.input[0].name == "x"
    assert "labels" not in {i.name for i in graph.input}
    program, dataset = opened(report.train)
    check_differences(program, dataset)
    assert deployer("train", "-t", report.train, "-o", tmp_path / "c") == 0


def test_own_loss_of_a_graph_with_weights(tmp_path: Path) -> None:
    """A loss node with class weights among the model's nodes means what `--class-weights` means."""
    data = _data("weights")
    path = _own(
        node("SoftmaxCrossEntropyLoss", ("scores", "ids", "weights"), ("y",)),
        constants=[constant("weights", np.array(WEIGHTS, np.float32))],
        inputs=(value("x", (BATCH, 3)), value("ids", (BATCH,), INT64)),
    ).save(tmp_path / "model.onnx")
    own = build_train_graph(path, "model", "sgd", 0.05, "", tmp_path, data={"x": data["x"], "ids": data["labels"]})
    other = _report("weights", tmp_path / "other")
    np.testing.assert_array_equal(own.losses, other.losses)


def test_unused_parameters_are_refused(tmp_path: Path) -> None:
    """A parameter that the model's own loss does not read stays frozen, and cannot be asked for."""
    path = _own(node("ReduceMean", ("r",), ("y",), keepdims=0)).save(tmp_path / "model.onnx")
    with pytest.raises(GraphProblem, match="does not depend on the trainable parameter 'w2'"):
        build_train_graph(path, "model", "sgd", 0.01, "w2", tmp_path)
    report = build_train_graph(path, "model", "sgd", 0.01, "", tmp_path)
    assert set(report.trained) == {"w1", "b1"}
    assert report.frozen == ("w2",)


def test_settings_are_attributes(tmp_path: Path) -> None:
    """A loss's options on the command line are in the written graph, and its defaults are not."""
    [made] = [n for n in graph_of(_report("huber_delta", tmp_path)).node if n.op_type == "HuberLoss"]
    assert {a.name: a.f for a in made.attribute} == {"delta": 0.375}


def test_scores_that_do_not_fit(tmp_path: Path) -> None:
    """A loss over labels needs two classes."""
    model = Model(
        (node("Mul", ("x", "w"), ("y",)),),
        (value("x", (3,)),),
        (value("y", None),),
        (constant("w", random(3)),),
    )
    with pytest.raises(ShapeMismatch, match="does not fit"):
        build_train_graph(model.save(tmp_path / "model.onnx"), "nll", "sgd", 0.1, "w", tmp_path)
