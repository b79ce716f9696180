"""Cross entropy over more classes than a tile has: no softmax in memory, a gradient over the scores, the same bits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deployer import pipeline
from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.frontend.prepare import Axes
from deployer.operators.base.sums import LONGEST_ROW
from deployer.planning import fuse
from deployer.training.train_graph import build_train_graph
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference
from DeployTest.support.building.command_line import bits, deployer
from DeployTest.support.graphs.small_graphs import INT64, Model, infer, node, ops, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.training]
ROWS = 3
STEPS = {"ReduceMax", "PowerGroups", "GroupTotals", "Log", "Sub", "PickedLogLikelihoodLoss", "ScoresLossGradOver"}
PHASES = {"Exp", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLossGrad"}


def case(
    folder: Path, classes: int, tokens: int = 0, scale: float = 1.0, settings: dict[str, float] | None = None
) -> Path:
    """A training case of one layer from two features to classes: rows of scores, or columns for each of some tokens."""
    random = np.random.default_rng(classes)
    shape, weight = (("n", 2), (2, classes)) if not tokens else (("n", 2, tokens), (classes, 2))
    w = helper.make_tensor("w", TensorProto.FLOAT, weight, (scale * random.standard_normal(weight)).ravel())
    result = ("n", classes, tokens) if tokens else ("n", classes)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ("w", "x") if tokens else ("x", "w"), ("scores",))],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, result)],
        [w],
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "classifier.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    count = 2 * ROWS
    labels = random.integers(0, classes, (count, tokens) if tokens else count)
    labels.reshape(-1)[::4] = classes - 1
    data = {"x": random.standard_normal((count, *shape[1:])).astype(np.float32), "labels": labels}
    axes, given = Axes(batch=ROWS), settings or {}
    report = build_train_graph(path, "cross_entropy", "sgd", 0.5, "", folder, data=data, axes=axes, settings=given)
    return report.train


def program_of(train: Path, options: Options) -> Program:
    """The program of a case after fusion, verified."""
    program = fuse.fuse_program(pipeline.load_training(train).program, options)
    verify_program(program)
    return program


def large(program: Program, size: int) -> list[str]:
    """The memory of values with so many elements, each once, but for weights."""
    roots = {program.storage(name) for graph in program.graphs for n in graph.nodes for name in n.outputs if name}
    return sorted(n for n in roots if program.tensors[n].type.size >= size and program.tensors[n].role == "value")


CASES: dict[str, tuple[int, int, float, dict[str, float]]] = {
    "one more": (LONGEST_ROW + 1, 0, 1.0, {}),
    "whole groups": (3 * 512, 0, 1.0, {}),
    "columns": (LONGEST_ROW + 70, 4, 1.0, {}),
    "ignored": (LONGEST_ROW + 3, 0, 1.0, {"ignore-index": LONGEST_ROW + 2}),
    "far apart": (LONGEST_ROW + 3, 0, 1e4, {}),
}
"""Classes, tokens in a column, the scale of the scores, and settings of the loss."""


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", CASES)
def test_same_bits(name: str, tmp_path: Path) -> None:
    """The steps by groups have the bits of those over all scores, for any order of cores and transfers."""
    classes, tokens, scale, settings = CASES[name]
    train = case(tmp_path, classes, tokens, scale, settings)
    program = program_of(train, Options("host", "auto"))
    ops = {node.op for node in program.graphs[0].nodes}
    assert ops >= STEPS
    assert not ops & PHASES
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    words = ("train", "-t", train, "--l1", "6000")
    assert deployer(*words, "-o", tmp_path / "a", "--dump", first, "--no-fusion", "attention") == 0
    orders = ("--dma-order", "late", "--core-order", "random", "--cores", "3")
    assert deployer(*words, "-o", tmp_path / "b", "--dump", second, *orders) == 0
    assert bits(first) == bits(second)


def test_nothing_has_the_size_of_the_scores(tmp_path: Path) -> None:
    """Besides the scores, whose memory the gradient takes, no value has an element for each class of each row."""
    classes = 3 * LONGEST_ROW
    train = case(tmp_path, classes)
    program = program_of(train, Options("siracusa", "auto"))
    grad = next(n for n in program.graphs[0].nodes if n.op == "ScoresLossGradOver")
    assert large(program, ROWS * classes) == [program.storage(grad.inputs[0])] == [program.storage(grad.outputs[0])]
    before = program_of(train, Options("siracusa", "auto", disabled_rewrites=("attention",)))
    assert len(large(before, ROWS * classes)) > 3, "without the rule more values are as large"


def test_a_row_larger_than_l1(tmp_path: Path) -> None:
    """Tiles cut the classes where a row has no room in L1, and the run agrees with the reference."""
    classes, l1 = 12000, 16000
    train = case(tmp_path, classes)
    options = Options("host", "auto", budgets={"L1": l1})
    tiling, _ = pipeline.plan_case(pipeline.load_training(train), options)
    by_op = {step.node.op: step for step in tiling.lifetimes.schedule.steps}
    assert 4 * classes > l1
    assert by_op["ScoresLossGradOver"].access.dim("c").size == classes
    assert deployer("train", "-t", train, "--l1", l1, "-o", tmp_path / "run", "--dma-order", "late") == 0


@pytest.mark.parametrize("reader", ["output", "later"])
def test_scores_that_are_read_later_keep_their_memory(reader: str, tmp_path: Path) -> None:
    """The gradient has memory of its own where the scores are an output, or a later step reads them."""
    program = pipeline.load_training(case(tmp_path, LONGEST_ROW + 1)).program
    (scores,) = (n.inputs[0] for n in program.graphs[0].nodes if n.op == "ReduceMax")
    if reader == "output":
        program = replace(program, outputs=(*program.outputs, scores))
    else:
        last = program.graphs[0].nodes[-1]
        use = replace(last, op="Relu", name="use", inputs=(scores,), outputs=("used",), attrs={})
        tensors = program.tensors | {"used": replace(program.tensors[scores], name="used", storage="used")}
        graph = replace(program.graphs[0], nodes=(*program.graphs[0].nodes, use))
        program = replace(program, tensors=tensors, graphs=(graph, *program.graphs[1:]))
    fusion = fuse.rules()["attention"](program, Options("host", "auto"))
    grad = next(n for n in fusion.graphs[0].nodes if n.op == "ScoresLossGrad")
    assert fusion.storage(grad.outputs[0]) != fusion.storage(scores)


def test_a_log_probability_that_is_read_stays(tmp_path: Path) -> None:
    """Log probabilities that something else reads are computed as before."""
    program = pipeline.load_training(case(tmp_path, LONGEST_ROW + 1)).program
    grad = next(n for n in program.graphs[0].nodes if n.op == "SoftmaxCrossEntropyLossGrad")
    shown = replace(program, outputs=(*program.outputs, grad.inputs[-2]))
    assert fuse.rules()["attention"](shown, Options("host", "auto")) == shown


@pytest.mark.parametrize(("classes", "tokens"), [(37, 0), (LONGEST_ROW, 0), (33, 4)], ids=["short", "long", "columns"])
def test_rows_that_fit(classes: int, tokens: int, tmp_path: Path) -> None:
    """Of rows that fit a tile only the log probabilities of the labels are in memory, and the bits are the same."""
    train = case(tmp_path, classes, tokens, settings={"ignore-index": classes - 1})
    program = program_of(train, Options("siracusa", "auto"))
    rows = next(n for n in program.graphs[0].nodes if n.op == "SoftmaxCrossEntropyRows")
    size = ROWS * classes * max(tokens, 1)
    scores, gradient = (program.tensors[program.storage(n)] for n in (rows.inputs[0], rows.outputs[0]))
    assert {scores.name, gradient.name} == {
        n for n in large(program, size) if program.tensors[n].type.shape[1] == classes
    }
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    words = ("train", "-t", train, "--l1", "20000")
    assert deployer(*words, "-o", tmp_path / "a", "--dump", first, "--no-fusion", "attention") == 0
    assert deployer(*words, "-o", tmp_path / "b", "--dump", second, "--core-order", "random", "--cores", "3") == 0
    assert bits(first) == bits(second)


def test_two_losses_of_the_same_scores(tmp_path: Path) -> None:
    """The gradient of one may lie over the scores; then the other one keeps its steps, which read them before."""
    nodes = [node("Mul", ("x", "x"), ("s",))]
    for i, labels in enumerate("ab"):
        nodes.append(node("SoftmaxCrossEntropyLoss", ("s", labels), (f"loss{i}", f"log{i}")))
    for i, labels in enumerate("ab"):
        nodes.append(node("SoftmaxCrossEntropyLossGrad", (f"log{i}", labels), (f"d{i}",), domain="com.microsoft"))
    nodes += [node("Add", ("d0", "d1"), ("d",)), node("Add", ("loss0", "loss1"), ("loss",))]
    inputs = (value("x", (ROWS, 2 * LONGEST_ROW + 1)), value("a", (ROWS,), INT64), value("b", (ROWS,), INT64))
    model = Model(tuple(nodes), inputs, (value("loss", None), value("d", None)))
    before = infer(tmp_path, model)
    after = fuse.rules()["attention"](before, Options())
    verify_program(after)
    assert "ScoresLossGradOver" in ops(after)
    random = np.random.default_rng(0)
    given = {"x": random.standard_normal(before.tensors["x"].type.shape).astype(np.float32)}
    given |= {"a": np.arange(ROWS, dtype=np.int32), "b": np.arange(ROWS, 0, -1, dtype=np.int32)}
    expected = run_inference(before, given)
    for name, array in run_inference(after, given).items():
        assert_close("SoftmaxCrossEntropyLoss", array, expected[name])
