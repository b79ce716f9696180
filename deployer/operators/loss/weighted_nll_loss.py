"""WeightedNLLLoss: minus the log probability of each label, or of a smoothed label, by class weights, reduced."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand, Whole
from deployer.core.declarations import Indices, Sums
from deployer.core.ir import Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    First,
    Kernel,
    Last,
    Operator,
    Sample,
    Stride,
    Work,
    register,
)
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.inputs import operands
from deployer.operators.loss.classification import check_labels, extents, label_indices, log_softmax
from deployer.operators.loss.weighted_labels import (
    WEIGHTED_SCALARS,
    all_labels,
    check_weights,
    divisor,
    weighted_args,
    weighted_loss,
    weighted_operands,
    weighted_samples,
)


@register
class WeightedNLLLoss(Operator):
    """Log probabilities [N, C, d1..], labels [N, d1..] and, where there are some, class weights [C]."""

    name = "WeightedNLLLoss"
    kernel = Kernel(
        "weighted_nll_loss_f32",
        pointers=(
            ("log_prob", "float32", False),
            ("labels", "int32", False),
            ("weights", "float32", False),
            ("loss", "float32", True),
            CARRY,
        ),
        scalars=(
            *((name, "u32") for name in ("n", "d", "p_n", "p_c", "l_n", "y_n", "each", "first", "last")),
            *CARRY_SCALARS,
            *WEIGHTED_SCALARS,
        ),
    )
    sums = Sums(("n", "d"))
    no_gradient = "the losses that are made of it have one"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, or a loss per label."""
        log_prob, labels = operands(node, inputs, 2)
        check_labels(node, log_prob, labels, inputs)
        check_weights(node, inputs[2] if len(inputs) > 2 else None, log_prob.shape[1], inputs)
        return (TensorType("float32", labels.shape if _per_label(node) else ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """-sum(share log_prob) for each label that counts, reduced."""
        log_prob, labels, *weights = inputs
        assert log_prob is not None
        assert labels is not None
        return (weighted_loss(node, log_prob, labels, weights[0] if weights else None),)

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """Labels are the second input; their scores are the first."""
        return label_indices(node, node.inputs[1], types[node.inputs[0]])

    def counted(self, node: Node, inputs: Sequence[Array | None]) -> float | None:
        """The weights of the labels that are not ignored; without weights they are 1."""
        labels, weights = inputs[1], inputs[2] if _weights(node) else None
        if labels is None or not all_labels(node, _weights(node)):
            return None
        one = np.ones(1) if weights is None else weights.astype(np.float64)
        return float(divisor(node, labels, one))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n and d, reduced unless there is a loss per label; a label's classes are whole in every tile."""
        shape = extents(types[node.inputs[0]].shape)
        log_prob = Operand("log_prob", node.inputs[0], "in", shape, (At("n"), Whole(), At("d")))
        listed = (log_prob, *weighted_operands(node, node.inputs[1], _weights(node), shape))
        n, _, d = shape
        if _per_label(node):
            loss = Operand("loss", node.outputs[0], "out", (n, d), (At("n"), At("d")))
            return Access((Dim("n", n), Dim("d", d)), (*listed, loss))
        loss = Operand("loss", node.outputs[0], "out", (1,), (Broadcast(),))
        dims = (Dim("n", n, "reduction"), Dim("d", d, "reduction"))
        return Access(dims, (*listed, loss, *carry_operands(node, self.kernel, self.sums, loss)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, whether the tile is first or last in the sum, and WEIGHTED_SCALARS."""
        n, classes, d = access.operand("log_prob").view
        return {
            "n": Extent("n"),
            "d": Extent("d"),
            "p_n": Stride("log_prob", 0),
            "p_c": Stride("log_prob", 1),
            "l_n": Stride("labels", 0),
            "y_n": Stride("loss", 0) if _per_label(node) else Const(0),
            "each": Const(int(_per_label(node))),
            "first": First(),
            "last": Last(),
            **carry_args(self.sums, access),
            **weighted_args(node, _weights(node), (n, classes, d)),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An operation per class; a reduced loss is summed on one core."""
        labels = tile["n"] * tile["d"]
        classes = access.operand("log_prob").view[1]
        return Work(macs=0, elements=labels * classes, parallel=labels if _per_label(node) else 1)

    def samples(self) -> Iterator[Sample]:
        """Those of all weighted losses, with log probabilities."""
        for label, scores, labels, weights, attrs in weighted_samples(60):
            inputs = (log_softmax(scores, 1), labels, *([] if weights is None else [weights]))
            yield Sample(label, inputs, dict(attrs), onnx=False)


def _per_label(node: Node) -> bool:
    return node.attr_str("reduction", "mean") == "none"


def _weights(node: Node) -> str:
    return node.inputs[2] if len(node.inputs) > 2 else ""
