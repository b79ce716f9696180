"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.core.operator import Array, registry, rng
from deployer.core.samples import Sample, inherited_samples, inherited_sweep, measured, samples_of, sweep_of
from deployer.core.traits.execution import GROUPED
from deployer.operators.base.operands import arrays, normal
from deployer.operators.loss.class_groups import (
    GroupTotals,
    PickedLogLikelihoodLoss,
    PowerGroups,
    ScoresLossGrad,
)
from deployer.operators.loss.class_rows import SoftmaxCrossEntropyRows
from deployer.operators.loss.cross_entropy import (
    SoftmaxCrossEntropy,
    SoftmaxCrossEntropyLoss,
    SoftmaxCrossEntropyLossGrad,
    SoftmaxCrossEntropyLossInternal,
    SoftmaxCrossEntropyLossInternalGrad,
)
from deployer.operators.loss.label_loss import (
    SMOOTHING,
    LabelLossGrad,
    NegativeLogLikelihoodLoss,
    WeightedNLLLoss,
    log_softmax,
    loss_samples,
    weighted_samples,
)
from deployer.operators.loss.mean_loss import BATCH, KLDivLoss, KLDivLossGrad, MeanLoss, MeanLossGrad, SmoothL1Loss


@samples_of(SoftmaxCrossEntropyLoss)
def softmax_cross_entropy_loss_samples(op: SoftmaxCrossEntropyLoss) -> Iterator[Sample]:
    """Both forms of the outputs."""
    yield from loss_samples(34, outputs=2)
    single = next(loss_samples(35))
    yield Sample("one_output", single.inputs, single.attrs)
    for label, scores, labels, weights, attrs in weighted_samples(38):
        known = weights is not None and SMOOTHING.place not in attrs
        inputs = (scores, labels, *([] if weights is None else [weights]))
        yield Sample(f"weights_{label}", inputs, dict(attrs), outputs=2, onnx=known)


@samples_of(SoftmaxCrossEntropyLossGrad)
def softmax_cross_entropy_loss_grad_samples(op: SoftmaxCrossEntropyLossGrad) -> Iterator[Sample]:
    """The samples of the losses, each without dloss and with a dloss of the loss's shape."""
    r = rng(36)
    for s in loss_samples(37):
        x, labels = arrays(s.inputs, 2)
        log_prob = log_softmax(x, 1)
        yield Sample(s.label, (log_prob, labels), s.attrs, onnx=False)
        dloss = normal(r, *(labels.shape if s.attrs.get("reduction") == "none" else ()))
        yield Sample(f"dloss_{s.label}", (dloss, log_prob, labels), s.attrs, onnx=False)
    weights = np.abs(normal(r, x.shape[1]))
    yield Sample("weights", (dloss.reshape(-1)[0], log_prob, labels, weights), {"reduction": "sum"}, onnx=False)


@samples_of(SoftmaxCrossEntropy)
def softmax_cross_entropy_samples(op: SoftmaxCrossEntropy) -> Iterator[Sample]:
    """The samples of the losses, without dloss and with one; with all outputs where there may be a loss."""
    r = rng(38)
    for s in loss_samples(39):
        x, labels = arrays(s.inputs, 2)
        each = s.attrs.get("reduction") == "none"
        outputs = 3 if each or labels.size == 1 else 1
        yield Sample(s.label, (x, labels), s.attrs, outputs, onnx=False)
        dloss = normal(r, *(labels.shape if each else ()))
        yield Sample(f"dloss_{s.label}", (x, labels, dloss), s.attrs, outputs - outputs // 3, onnx=False)
    blocks = (normal(r, 1, 70), np.asarray(r.integers(0, 70, 1), np.int32))
    yield Sample("blocks", blocks, {"ignore_index": 3}, 2, onnx=False)


@sweep_of(SoftmaxCrossEntropy)
def softmax_cross_entropy_sweep(op: SoftmaxCrossEntropy) -> Iterator[Sample]:
    """One row and several, with the loss where there may be one."""
    r = rng(40)
    for rows, classes in measured("softmax"):
        inputs = (normal(r, rows, classes), np.asarray(r.integers(0, classes, rows), np.int32))
        yield Sample(f"{rows}x{classes}", inputs, {}, 2 if rows == 1 else 1, onnx=False)


@samples_of(SoftmaxCrossEntropyRows)
def softmax_cross_entropy_rows_samples(op: SoftmaxCrossEntropyRows) -> Iterator[Sample]:
    """Those of the operator without the log probabilities that have one loss."""
    for s in registry()[SoftmaxCrossEntropy.name].samples():
        if s.attrs.get("reduction") != "none":
            yield replace(s, outputs=2)


@sweep_of(SoftmaxCrossEntropyRows)
def softmax_cross_entropy_rows_sweep(op: SoftmaxCrossEntropyRows) -> Iterator[Sample]:
    """Those of the operator without the log probabilities."""
    yield from (replace(s, outputs=2) for s in registry()[SoftmaxCrossEntropy.name].sweep())


@samples_of(SoftmaxCrossEntropyLossInternal)
def softmax_cross_entropy_loss_internal_samples(op: SoftmaxCrossEntropyLossInternal) -> Iterator[Sample]:
    """Those of the loss that ignore a label by number, or none."""
    for sample in loss_samples(39, outputs=2):
        kept = {name: value for name, value in sample.attrs.items() if np.ndim(value) == 0}
        yield Sample(sample.label, sample.inputs, kept, sample.outputs, onnx=False)


@samples_of(SoftmaxCrossEntropyLossInternalGrad)
def softmax_cross_entropy_loss_internal_grad_samples(op: SoftmaxCrossEntropyLossInternalGrad) -> Iterator[Sample]:
    """Those of the other operator with a gradient of the loss."""
    full = len(("dloss", "log_prob", "labels"))
    yield from (sample for sample in registry()[op.of].samples() if len(sample.inputs) >= full)


@samples_of(WeightedNLLLoss)
def weighted_nll_loss_samples(op: WeightedNLLLoss) -> Iterator[Sample]:
    """Those of all weighted losses, with log probabilities."""
    for label, scores, labels, weights, attrs in weighted_samples(60):
        inputs = (log_softmax(scores, 1), labels, *([] if weights is None else [weights]))
        yield Sample(label, inputs, dict(attrs), onnx=False)


@samples_of(LabelLossGrad)
def label_loss_grad_samples(op: LabelLossGrad) -> Iterator[Sample]:
    """The samples of the losses, for scores with a dloss and for log probabilities without."""
    r = rng(61)
    for label, scores, labels, weights, attrs in weighted_samples(62):
        shape = labels.shape if attrs.get("reduction") == "none" else ()
        given = {**attrs, "classes": scores.shape[1]}
        yield Sample(f"scores_{label}", (normal(r, *shape), labels, log_softmax(scores, 1), weights), given, onnx=False)
        yield Sample(f"logarithms_{label}", (None, labels, None, weights), given, onnx=False)


@samples_of(NegativeLogLikelihoodLoss)
def negative_log_likelihood_loss_samples(op: NegativeLogLikelihoodLoss) -> Iterator[Sample]:
    """The samples of all losses with log probabilities as scores, and labels outside of the classes."""
    for s in loss_samples(33):
        x = arrays(s.inputs, 1)[0]
        yield Sample(s.label, (log_softmax(x, 1), s.inputs[1]), s.attrs)
    for label, scores, labels, weights, attrs in weighted_samples(37):
        if weights is not None and "label_smoothing" not in attrs:
            yield Sample(f"weights_{label}", (log_softmax(scores, 1), labels, weights), dict(attrs))
    wide = log_softmax(normal(rng(35), 11, 3, 9), 1)
    yield Sample("long", (wide, np.asarray(rng(36).integers(0, 3, (11, 9)), np.int32)), {"reduction": "sum"})
    log_prob = log_softmax(normal(rng(34), 4, 3), 1)
    for label, outside in (("above", 3), ("below", -1)):
        for reduction in ("mean", "none"):
            labels = np.array([0, outside, 2, 1], np.int32)
            yield Sample(f"{label}_{reduction}", (log_prob, labels), {"reduction": reduction}, onnx=False)


def _rows(x: Array) -> tuple[Array, Array]:
    """The largest score of each row of scores, and the logarithm of the sum of the powers."""
    largest = x.max(1, keepdims=True)
    return largest, np.log(np.exp(x - largest).sum(1, keepdims=True, dtype=x.dtype))


@samples_of(PowerGroups)
def power_groups_samples(op: PowerGroups) -> Iterator[Sample]:
    """Part of a group, whole groups and several, with labels outside of all classes."""
    r = rng(63)
    for label, shape in (("part", (3, 37)), ("whole", (1, 2 * GROUPED)), ("several", (2, 2 * GROUPED + 67, 3))):
        x = normal(r, *shape)
        labels = np.asarray(r.integers(-1, shape[1] + 1, (shape[0], *shape[2:])), np.int32)
        yield Sample(label, (x, x.max(1, keepdims=True), labels), outputs=2, onnx=False)


@sweep_of(PowerGroups)
def power_groups_sweep(op: PowerGroups) -> Iterator[Sample]:
    """Few groups and many, in rows and in columns."""
    r = rng(64)
    for shape in ((1, 512), (1, 2048), (1, 4096), (3, 1024), (8, 1024), (2, 4096), (1, 1024, 8)):
        x, labels = normal(r, *shape), np.zeros((shape[0], *shape[2:]), np.int32)
        yield Sample("x".join(map(str, shape)), (x, x.max(1, keepdims=True), labels), outputs=2, onnx=False)


@samples_of(GroupTotals)
def group_totals_samples(op: GroupTotals) -> Iterator[Sample]:
    """One group and several; one pick in each row, or none."""
    r = rng(65)
    for label, shape in (("one", (3, 1)), ("several", (2, 9, 3))):
        picks = np.zeros(shape, np.float32)
        picks[0, shape[1] // 2] = -1.25
        yield Sample(label, (np.square(normal(r, *shape)), picks), outputs=2, onnx=False)


@sweep_of(GroupTotals)
def group_totals_sweep(op: GroupTotals) -> Iterator[Sample]:
    """Few rows and many, of few groups and many."""
    r = rng(66)
    for shape in ((1, 4), (1, 64), (8, 8), (32, 4), (32, 64)):
        yield Sample("x".join(map(str, shape)), (normal(r, *shape), normal(r, *shape)), outputs=2, onnx=False)


@samples_of(PickedLogLikelihoodLoss)
def picked_log_likelihood_loss_samples(op: PickedLogLikelihoodLoss) -> Iterator[Sample]:
    """The samples of the loss without class weights, with the log probabilities of the labels."""
    for s in registry()[NegativeLogLikelihoodLoss.name].samples():
        if len(s.inputs) > 2:
            continue
        log_prob, labels = arrays(s.inputs, 2)
        inside = np.where((labels >= 0) & (labels < log_prob.shape[1]), labels, 0)
        picked = np.take_along_axis(log_prob, inside[:, None], axis=1)
        yield replace(s, inputs=(picked, labels), attrs={**s.attrs, "classes": log_prob.shape[1]}, onnx=False)


@samples_of(ScoresLossGrad)
def scores_loss_grad_samples(op: ScoresLossGrad) -> Iterator[Sample]:
    """The samples of the losses, each without dloss and with a dloss of the loss's shape."""
    r = rng(67)
    for s in loss_samples(68):
        x, labels = arrays(s.inputs, 2)
        inputs = (x, *_rows(x), labels)
        yield Sample(s.label, inputs, s.attrs, onnx=False)
        dloss = normal(r, *(labels.shape if s.attrs.get("reduction") == "none" else ()))
        yield Sample(f"dloss_{s.label}", (*inputs, dloss), s.attrs, onnx=False)


@sweep_of(ScoresLossGrad)
def scores_loss_grad_sweep(op: ScoresLossGrad) -> Iterator[Sample]:
    """Few classes and many, in rows and in columns, with a divisor of 1, one that is a power of two and another."""
    r = rng(69)
    rows = (
        (1, 512),
        (1, 1024),
        (1, 4096),
        (8, 1024),
        (2, 4096),
        (16, 256),
        (3, 1024),
        (5, 512),
        (24, 256),
        (3, 96),
        (7, 256),
    )
    for shape in (*rows, (1, 1024, 8), (1, 1024, 3)):
        x, labels = normal(r, *shape), np.zeros((shape[0], *shape[2:]), np.int32)
        yield Sample("x".join(map(str, shape)), (x, *_rows(x), labels), onnx=False)


SHAPES = (("vector", (37,)), ("batch", (3, 1, 13)), ("one", (1,)), ("long", (5, 67)))
"""Shapes of samples, the last of them summed in several blocks."""


@samples_of(MeanLoss)
def mean_loss_samples(op: MeanLoss) -> Iterator[Sample]:
    """A vector, a batch, a single element, a long sum; other attributes than the defaults; with the gradient."""
    r = rng(55)
    for label, shape in SHAPES:
        yield Sample(label, op.drawn(r, *shape), onnx=False)
    if op.given:
        yield Sample("given", op.drawn(r, 3, 13), dict(op.given), onnx=False)
        yield Sample("given_long", op.drawn(r, 5, 67), dict(op.given), onnx=False)
    yield Sample("slopes", op.drawn(r, 3, 13), dict(op.given), 2, onnx=False)
    yield Sample("slopes_long", op.drawn(r, 5, 67), dict(op.given), 2, onnx=False)


@sweep_of(MeanLoss)
def mean_loss_sweep(op: MeanLoss) -> Iterator[Sample]:
    """Vectors, without the gradient and with it."""
    for sample in inherited_sweep(op, MeanLoss):
        yield sample
        yield replace(sample, label=f"{sample.label} slopes", outputs=2)


@samples_of(MeanLossGrad)
def mean_loss_grad_samples(op: MeanLossGrad) -> Iterator[Sample]:
    """Those of the loss without its gradient."""
    yield from (sample for sample in op.of().samples() if sample.outputs == 1)


@sweep_of(KLDivLoss)
def kl_div_loss_sweep(op: KLDivLoss) -> Iterator[Sample]:
    """Those of its samples and of losses in general, with the batch that the kernel takes."""
    for sample in inherited_sweep(op, KLDivLoss):
        yield replace(sample, attrs={BATCH: 2} | sample.attrs)


@samples_of(KLDivLossGrad)
def kl_div_loss_grad_samples(op: KLDivLossGrad) -> Iterator[Sample]:
    """Those of the loss, with a batch."""
    for sample in inherited_samples(op, KLDivLossGrad):
        yield Sample(sample.label, sample.inputs, {BATCH: 3} | sample.attrs, onnx=False)


@samples_of(SmoothL1Loss)
def smooth_l1_loss_samples(op: SmoothL1Loss) -> Iterator[Sample]:
    """Several shapes, and another beta."""
    r = rng(56)
    for label, shape in SHAPES:
        yield Sample(label, (normal(r, *shape), normal(r, *shape)), onnx=False)
    yield Sample("given", (normal(r, 3, 13), normal(r, 3, 13)), {"beta": 0.375}, onnx=False)
