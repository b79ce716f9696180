"""NegativeLogLikelihoodLoss: minus the log probability of each label, reduced."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Indices, Loss, Sums
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    GradientBuilder,
    Kernel,
    Last,
    Operator,
    Sample,
    Start,
    Stride,
    Work,
    register,
    rng,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.inputs import arrays, normal
from deployer.operators.loss.classification import (
    LABEL_SCALARS,
    SCORES,
    check_loss,
    class_labels,
    counts_labels,
    extents,
    label_args,
    label_indices,
    label_mask,
    labels_operand,
    log_softmax,
    loss_samples,
    negative_log_likelihood,
)
from deployer.operators.loss.label_loss_grad import LabelLossGrad
from deployer.operators.loss.weighted_labels import (
    IGNORED,
    check_weights,
    has_weights,
    label_attrs,
    weighted_loss,
    weighted_samples,
)
from deployer.operators.loss.weighted_nll_loss import WeightedNLLLoss


@register
class NegativeLogLikelihoodLoss(Operator):
    """Log probabilities [N, C, d1..], labels [N, d1..][, weights [C]]; attributes `reduction`, `ignore_index`."""

    name = "NegativeLogLikelihoodLoss"
    versions = (12, 13, 22)
    kernel = Kernel(
        "nll_loss_f32",
        pointers=(("log_prob", "float32", False), ("labels", "int32", False), ("loss", "float32", True), CARRY),
        scalars=(
            *((name, "u32") for name in ("n", "c", "d", "classes", "c_start", "p_n", "p_c", "l_n", "y_n")),
            *(("each", "u32"), ("first", "u32"), ("last", "u32")),
            *CARRY_SCALARS,
            *LABEL_SCALARS,
        ),
    )
    sums = Sums(("n", "d"))
    loss = Loss("nll", "labels", class_labels, f"log probabilities, as {SCORES}", 1, weights=2, settings=(IGNORED,))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, or a loss per label."""
        loss, scores = check_loss(node, inputs)
        check_weights(node, inputs[2] if len(inputs) > 2 else None, scores.shape[1], inputs)
        return (loss,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """-log_prob[n, label] where the label counts, reduced."""
        log_prob, labels = arrays(inputs, 2)
        if has_weights(node):
            return (weighted_loss(node, log_prob, labels, inputs[2]),)
        return (negative_log_likelihood(node, log_prob, labels),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """With class weights, the loss that knows them."""
        if not has_weights(node):
            return None
        return [Node(node.name, WeightedNLLLoss.name, node.inputs, node.outputs, label_attrs(node))]

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """Minus the share of each class, divided."""
        if b.needs_grad(0):
            inputs = (douts[0], node.inputs[1], "", node.inputs[2]) if has_weights(node) else (douts[0], node.inputs[1])
            classes = b.type(node.inputs[0]).shape[1]
            b.emit(LabelLossGrad.name, inputs, (b.grad(0),), classes=classes, **label_attrs(node))

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """Labels are the second input; their scores are the first."""
        return label_indices(node, node.inputs[1], types[node.inputs[0]])

    def counted(self, node: Node, inputs: Sequence[Array | None]) -> float | None:
        """The labels that are not ignored."""
        return float(label_mask(node, inputs[1]).sum()) if counts_labels(node) and inputs[1] is not None else None

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n and d, reduced unless there is a loss per label; of the classes only a label's adds anything."""
        n, classes, d = extents(types[node.inputs[0]].shape)
        per_label = node.attr_str("reduction", "mean") == "none"
        log_prob = Operand("log_prob", node.inputs[0], "in", (n, classes, d), (At("n"), At("c"), At("d")))
        labels = labels_operand(node, node.inputs[1], n, d)
        if per_label:
            loss = Operand("loss", node.outputs[0], "out", (n, d), (At("n"), At("d")))
            return Access((Dim("n", n), Dim("d", d), Dim("c", classes, "reduction")), (log_prob, labels, loss))
        loss = Operand("loss", node.outputs[0], "out", (1,), (Broadcast(),))
        operands = (log_prob, labels, loss, *carry_operands(node, self.kernel, self.sums, loss))
        dims = (("n", n), ("d", d), ("c", classes))
        return Access(tuple(Dim(name, size, "reduction") for name, size in dims), operands)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, whether the tile is first or last in the sum, and LABEL_SCALARS."""
        n, classes, d = access.operand("log_prob").view
        per_label = node.attr_str("reduction", "mean") == "none"
        return {
            "n": Extent("n"),
            "c": Extent("c"),
            "d": Extent("d"),
            "classes": Const(classes),
            "c_start": Start("c"),
            "p_n": Stride("log_prob", 0),
            "p_c": Stride("log_prob", 1),
            "l_n": Stride("labels", 0),
            "y_n": Stride("loss", 0) if per_label else Const(0),
            "each": Const(int(per_label)),
            "first": First(),
            "last": Last(),
            **carry_args(self.sums, access),
            **label_args(node, n, d),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """One operation per label; a reduced loss is summed on one core."""
        labels = tile["n"] * tile["d"]
        return Work(macs=0, elements=labels, parallel=labels if access.dim("n").kind == "parallel" else 1)

    def samples(self) -> Iterator[Sample]:
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
