"""Losses and gradients as one node: which nodes become one, which do not, and that no bit differs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.ir import AttrValue
from deployer.core.operator import Array, registry
from deployer.core.plan import Options
from deployer.core.samples import Sample
from deployer.operators.loss.mean_loss import MeanLoss
from deployer.testing.bench import bits, run_step, step_of
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.fusing import fused
from DeployTest.support.graphs.small_graphs import INT64, Model, infer, node, ops, value

pytestmark = [pytest.mark.host, pytest.mark.kernels]
JOINT = registry()["SoftmaxCrossEntropy"]
CLASSES = 5
FORMS: dict[str, tuple[int, dict[str, object], list[str]]] = {
    "one label": (1, {}, ["dx", "loss", ""]),
    "sum": (1, {"reduction": "sum"}, ["dx", "loss", ""]),
    "ignored": (1, {"ignore_index": 2}, ["dx", "loss", ""]),
    "several labels": (3, {}, ["dx", "", "log_prob"]),
    "a loss each": (3, {"reduction": "none"}, ["dx", "loss", ""]),
}
"""Labels, attributes, and what the joint node gives."""


def cross_entropy(labels: int, attrs: dict[str, object], dloss: bool = False, outputs: Sequence[str] = ()) -> Model:
    """Scores to the loss and to the gradient of the scores."""
    inputs = [*(["dloss"] if dloss else []), "log_prob", "labels"]
    shape = (labels,) if attrs.get("reduction") == "none" else ()
    return Model(
        nodes=(
            node("SoftmaxCrossEntropyLoss", ("x", "labels"), ("loss", "log_prob"), "ce", **attrs),
            node("SoftmaxCrossEntropyLossGrad", inputs, ("dx",), "grad", domain="com.microsoft", **attrs),
        ),
        inputs=(
            value("x", (labels, CLASSES)),
            value("labels", (labels,), INT64),
            *([value("dloss", shape)] if dloss else []),
        ),
        outputs=tuple(value(name, None) for name in outputs or ("loss", "dx")),
    )


@pytest.mark.parametrize("dloss", [False, True], ids=["alone", "dloss"])
@pytest.mark.parametrize("name", FORMS)
def test_cross_entropy_is_one_node(name: str, dloss: bool, tmp_path: Path) -> None:
    """The logarithm, the loss and the gradient are one node, but a loss of several labels, which reads log_prob."""
    labels, attrs, outputs = FORMS[name]
    program = infer(tmp_path, cross_entropy(labels, attrs, dloss))
    fusion = fused(program, Options(disabled_rewrites=("attention",)))
    joint = fusion.nodes[0]
    found = [name for name, there in zip(("dx", "loss", "log_prob"), outputs, strict=True) if there]
    assert list(filter(None, joint.outputs)) == found
    assert ops(fusion) == ["SoftmaxCrossEntropy", *([] if "loss" in found else ["NegativeLogLikelihoodLoss"])]
    assert "log_prob" in found or "log_prob" not in fusion.tensors
    random = np.random.default_rng(5)
    inputs = {n: random.standard_normal(program.tensors[n].type.shape).astype(np.float32) for n in program.data}
    inputs["labels"] = (np.arange(labels) % CLASSES + 2).astype(np.int32)
    before, after = run_inference(program, inputs), run_inference(fusion, inputs)
    assert {n: bits(x) for n, x in before.items()} == {n: bits(x) for n, x in after.items()}
    for options in (Options(allow_rewrites=False), Options(opt_out=(program.nodes[-1].name,))):
        assert fused(program, options) == program


def test_what_others_read_stays(tmp_path: Path) -> None:
    """The logarithms are an output of the node where they are one of the graph."""
    fusion = fused(infer(tmp_path, cross_entropy(1, {}, outputs=("loss", "dx", "log_prob"))))
    assert ops(fusion) == ["SoftmaxCrossEntropy"]
    assert fusion.nodes[0].outputs == ("dx", "loss", "log_prob")


def _with(model: Model, place: int, changed: onnx.NodeProto) -> Model:
    return replace(model, nodes=[changed if i == place else n for i, n in enumerate(model.nodes)])


GRAD = ("SoftmaxCrossEntropyLossGrad", ("log_prob", "labels"), ("dx",), "grad")
PLAIN = cross_entropy(1, {})
APART = {
    "another reduction": _with(PLAIN, 1, node(*GRAD, domain="com.microsoft", reduction="sum")),
    "another ignored label": _with(PLAIN, 1, node(*GRAD, domain="com.microsoft", ignore_index=1)),
}


@pytest.mark.parametrize("name", APART)
def test_another_loss_stays(name: str, tmp_path: Path) -> None:
    """A loss that is not the one the gradient belongs to is a node of its own."""
    assert ops(fused(infer(tmp_path, APART[name]))) == ["SoftmaxCrossEntropy", "NegativeLogLikelihoodLoss"]


def test_late_dloss_keeps_nodes_apart(tmp_path: Path) -> None:
    """A gradient that waits for what is computed from the loss is not in one node with it."""
    model = cross_entropy(1, {})
    twice = node("Add", ("loss", "loss"), ("dloss",))
    late = replace(
        model, nodes=(model.nodes[0], twice, node(GRAD[0], ("dloss", *GRAD[1]), *GRAD[2:], domain="com.microsoft"))
    )
    apart = ["LogSoftmax", "NegativeLogLikelihoodLoss", "Add", "SoftmaxCrossEntropyLossGrad"]
    assert ops(fused(infer(tmp_path, late))) == apart


def test_softmax_over_another_axis(tmp_path: Path) -> None:
    """Logarithms of shares of another axis are none of classes."""
    grad = node(*GRAD, domain="com.microsoft")
    model = replace(
        PLAIN, nodes=(node("LogSoftmax", ("x",), ("log_prob",), axis=0), grad), outputs=(value("dx", None),)
    )
    assert ops(fused(infer(tmp_path, model))) == ["LogSoftmax", "SoftmaxCrossEntropyLossGrad"]


def _kernel(op: str, inputs: Sequence[Array], attrs: dict[str, AttrValue]) -> Array:
    step = step_of(registry()[op], Sample("part", tuple(inputs), attrs))
    return run_step(step, step.access.sizes)[0]


@pytest.mark.parametrize("sample", list(JOINT.samples()), ids=lambda sample: sample.label)
def test_kernels_leave_the_same_bits(sample: Sample) -> None:
    """The kernel leaves the bits that those of the three nodes leave one after the other."""
    x, labels, *dloss = (array for array in sample.inputs if array is not None)
    log_prob = _kernel("LogSoftmax", (x,), {"axis": 1})
    expected = [
        _kernel("SoftmaxCrossEntropyLossGrad", (*dloss, log_prob, labels), sample.attrs),
        _kernel("NegativeLogLikelihoodLoss", (log_prob, labels), sample.attrs),
        log_prob,
    ]
    each = sample.attrs.get("reduction") == "none" or labels.size == 1
    for absent in ([], [1], [2], [1, 2]) if each else ([1], [1, 2]):
        step = step_of(JOINT, replace(sample, outputs=3), absent)
        wanted = [i for i in range(3) if i not in absent]
        found = run_step(step, step.access.sizes)
        assert [bits(y) for y in found] == [bits(expected[i]) for i in wanted], absent


MEANS = {op.name: op for op in registry().values() if isinstance(op, MeanLoss)}


def mean_loss(name: str, attrs: dict[str, object], *order: str, **changed: object) -> Model:
    """A loss, and a gradient of it for operands in that order, by the same attributes but those changed."""
    grad = node(MEANS[name].grad, order or ("x", "t"), ("dx",), "grad", domain="com.microsoft", **{**attrs, **changed})
    return Model(
        nodes=(node(name, ("x", "t"), ("loss",), "loss", domain="com.microsoft", **attrs), grad),
        inputs=(value("x", (3, 30)), value("t", (3, 30))),
        outputs=(value("loss", None), value("dx", None)),
    )


@pytest.mark.parametrize("name", MEANS)
def test_losses_have_their_gradients(name: str, tmp_path: Path) -> None:
    """The loss and its gradient are one node with both results, under both names; what it carries is behind them."""
    program = infer(tmp_path, mean_loss(name, {**MEANS[name].given}))
    fusion = fused(program)
    assert ops(fusion) == [name]
    assert fusion.nodes[0].name == "loss+grad"
    assert fusion.nodes[0].outputs == ("loss", "dx", "loss/carry")
    random = np.random.default_rng(6)
    inputs = {n: random.uniform(0.1, 0.9, (3, 30)).astype(np.float32) for n in ("x", "t")}
    before, after = run_inference(program, inputs), run_inference(fusion, inputs)
    assert {n: bits(x) for n, x in before.items()} == {n: bits(x) for n, x in after.items()}


@pytest.mark.parametrize(
    "model",
    [mean_loss("HuberLoss", {"delta": 0.5}, delta=0.25), mean_loss("MSELoss", {}, "t", "x")],
    ids=["another delta", "of the target"],
)
def test_gradients_of_other_losses_stay(model: Model, tmp_path: Path) -> None:
    """A gradient by other attributes, or of the other operand, is none of this loss."""
    assert len(fused(infer(tmp_path, model)).nodes) == 2


@pytest.mark.parametrize("name", MEANS)
def test_kernels_of_losses_leave_the_same_bits(name: str) -> None:
    """The kernel leaves the bits that those of the loss and of its gradient leave, in any tiles."""
    samples = [sample for sample in MEANS[name].samples() if sample.outputs == 2]
    assert samples
    for sample in samples:
        joint = step_of(MEANS[name], sample)
        inputs = [x for x in sample.inputs if x is not None]
        attrs = {**({"batch": 3} if name == "KLDivLoss" else {}), **sample.attrs}
        loss, slopes = _kernel(name, inputs, attrs), _kernel(MEANS[name].grad, inputs, attrs)
        for length in (joint.access.sizes["n"], 13):
            found = run_step(joint, {"n": length})
            assert [bits(found[0]), bits(found[1])] == [bits(loss), bits(slopes)], (sample.label, length)
