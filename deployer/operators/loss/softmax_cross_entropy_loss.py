"""SoftmaxCrossEntropyLoss: NegativeLogLikelihoodLoss of LogSoftmax over the class axis."""

from collections.abc import Iterator, Sequence

from deployer.core.declarations import Loss
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, Sample, register
from deployer.operators.inputs import arrays
from deployer.operators.loss.classification import check_loss, log_softmax, loss_samples, negative_log_likelihood

SCORES = "scores [N, C, ...] with at least two classes C"


def _target(scores: TensorType) -> TensorType | None:
    shape = scores.shape
    return TensorType("int32", (shape[0], *shape[2:])) if len(shape) >= 2 and shape[1] >= 2 else None


@register
class SoftmaxCrossEntropyLoss(Operator):
    """Scores [N, C, d1..], labels [N, d1..] to loss[, log_prob]; attributes `reduction`, `ignore_index`."""

    name = "SoftmaxCrossEntropyLoss"
    versions = (12, 13)
    loss = Loss("cross_entropy", "labels", _target, SCORES, 1, ("loss", "log_prob"), {"reduction": "mean"})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar or a loss per label; log_prob has the scores' shape."""
        return check_loss(node, inputs)[: max(len(node.outputs), 1)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The reduced -log_softmax(scores)[label], and log_softmax(scores)."""
        scores, labels = arrays(inputs, 2)
        log_prob = log_softmax(scores, 1)
        return (negative_log_likelihood(node, log_prob, labels), log_prob)[: max(len(node.outputs), 1)]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """SoftmaxCrossEntropyLossGrad of log_prob, recomputed where the node does not give it."""
        if not b.needs_grad(0):
            return
        log_prob = node.outputs[1] if len(node.outputs) > 1 else ""
        if not log_prob:
            log_prob = b.temp("log_prob")
            b.emit("LogSoftmax", (node.inputs[0],), (log_prob,), axis=1)
        inputs = (*([douts[0]] if douts[0] else []), log_prob, node.inputs[1])
        b.emit("SoftmaxCrossEntropyLossGrad", inputs, (b.grad(0),), **_reduction(node))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LogSoftmax and NegativeLogLikelihoodLoss."""
        log_prob = node.outputs[1] if len(node.outputs) > 1 else ""
        log_prob = log_prob or f"{node.outputs[0]}_log_prob"
        loss = (log_prob, node.inputs[1])
        return [
            Node(f"{node.name}_log_softmax", "LogSoftmax", node.inputs[:1], (log_prob,), {"axis": 1}),
            Node(f"{node.name}_nll", "NegativeLogLikelihoodLoss", loss, node.outputs[:1], _reduction(node)),
        ]

    def samples(self) -> Iterator[Sample]:
        """Both forms of the outputs."""
        yield from loss_samples(34, outputs=2)
        single = next(loss_samples(35))
        yield Sample("one_output", single.inputs, single.attrs)


def _reduction(node: Node) -> dict[str, AttrValue]:
    return {name: node.attrs[name] for name in ("reduction", "ignore_index") if name in node.attrs}
