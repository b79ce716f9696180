"""SoftmaxCrossEntropyLoss: NegativeLogLikelihoodLoss of LogSoftmax over the class axis."""

from collections.abc import Iterator, Mapping, Sequence

from deployer.core.declarations import Indices, Loss
from deployer.core.files.roles import SoleOutput
from deployer.core.forms import Extra
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, register
from deployer.operators.inputs import arrays
from deployer.operators.loss.classification import (
    SCORES,
    check_loss,
    class_labels,
    label_indices,
    log_softmax,
    loss_samples,
    negative_log_likelihood,
)
from deployer.operators.loss.label_loss_grad import LabelLossGrad
from deployer.operators.loss.weighted_labels import (
    IGNORED,
    SMOOTHING,
    check_weights,
    has_weights,
    label_attrs,
    weighted_loss,
    weighted_samples,
)
from deployer.operators.loss.weighted_nll_loss import WeightedNLLLoss


@register
class SoftmaxCrossEntropyLoss(Operator):
    """Scores [N, C, d1..], labels [N, d1..][, weights [C]] to loss[, log_prob].

    Attributes `reduction`, `ignore_index` and `label_smoothing`.
    """

    name = "SoftmaxCrossEntropyLoss"
    versions = (12, 13)
    extras = (Extra(SMOOTHING.place, (SMOOTHING.kind,), "smoothed labels, which ONNX does not have"),)
    loss = Loss(
        "cross_entropy",
        "labels",
        class_labels,
        SCORES,
        1,
        ("loss", "log_prob"),
        {"reduction": "mean"},
        weights=2,
        contains=("LogSoftmax", "Softmax"),
        settings=(SMOOTHING, IGNORED),
    )

    sole_output = SoleOutput(1, "SoftmaxCrossEntropyLossGrad")

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The labels are classes."""
        return label_indices(node, node.inputs[1], types[node.inputs[0]])

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar or a loss per label; log_prob has the scores' shape."""
        types = check_loss(node, inputs)
        check_weights(node, inputs[2] if len(inputs) > 2 else None, types[1].shape[1], inputs)
        return types[: max(len(node.outputs), 1)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The reduced -log_softmax(scores)[label], and log_softmax(scores)."""
        scores, labels = arrays(inputs, 2)
        log_prob = log_softmax(scores, 1)
        weights = inputs[2] if len(inputs) > 2 else None
        loss = weighted_loss(node, log_prob, labels, weights) if _weighs(node) else None
        loss = negative_log_likelihood(node, log_prob, labels) if loss is None else loss
        return (loss, log_prob)[: max(len(node.outputs), 1)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """SoftmaxCrossEntropyLossGrad of log_prob, recomputed where the node does not give it."""
        if not b.needs_grad(0):
            return
        log_prob = node.outputs[1] if len(node.outputs) > 1 else ""
        if not log_prob:
            log_prob = b.temp("log_prob")
            b.emit("LogSoftmax", (node.inputs[0],), (log_prob,), axis=1)
        if _weighs(node):
            classes = b.type(node.inputs[0]).shape[1]
            operands = (douts[0], node.inputs[1], log_prob, *node.inputs[2:])
            b.emit(LabelLossGrad.name, operands, (b.grad(0),), classes=classes, **label_attrs(node))
            return
        inputs = (*([douts[0]] if douts[0] else []), log_prob, node.inputs[1])
        b.emit("SoftmaxCrossEntropyLossGrad", inputs, (b.grad(0),), **_reduction(node))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LogSoftmax and NegativeLogLikelihoodLoss."""
        log_prob = node.outputs[1] if len(node.outputs) > 1 else ""
        log_prob = log_prob or f"{node.outputs[0]}_log_prob"
        operator, attrs, weights = "NegativeLogLikelihoodLoss", _reduction(node), tuple[str, ...]()
        if _weighs(node):
            operator, attrs, weights = WeightedNLLLoss.name, label_attrs(node), node.inputs[2:]
        operands = (log_prob, node.inputs[1], *weights)
        return [
            Node(f"{node.name}_log_softmax", "LogSoftmax", node.inputs[:1], (log_prob,), {"axis": 1}),
            Node(f"{node.name}_nll", operator, operands, node.outputs[:1], attrs),
        ]

    def samples(self) -> Iterator[Sample]:
        """Both forms of the outputs."""
        yield from loss_samples(34, outputs=2)
        single = next(loss_samples(35))
        yield Sample("one_output", single.inputs, single.attrs)
        for label, scores, labels, weights, attrs in weighted_samples(38):
            known = weights is not None and SMOOTHING.place not in attrs
            inputs = (scores, labels, *([] if weights is None else [weights]))
            yield Sample(f"weights_{label}", inputs, dict(attrs), outputs=2, onnx=known)


def _weighs(node: Node) -> bool:
    """Whether there are class weights or smoothed labels."""
    return has_weights(node) or bool(SMOOTHING.of(node))


def _reduction(node: Node) -> dict[str, AttrValue]:
    return {name: node.attrs[name] for name in ("reduction", "ignore_index") if name in node.attrs}
