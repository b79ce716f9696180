"""SoftmaxCrossEntropy: the gradient of SoftmaxCrossEntropyLoss for its scores, with log_prob and the loss, in one walk.

It stands for LogSoftmax, SoftmaxCrossEntropyLossGrad and NegativeLogLikelihoodLoss, and rounds as they do.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS, measured
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Stride,
    Work,
    mismatch,
    register,
    rng,
)
from deployer.operators.inputs import arrays, normal
from deployer.operators.loss.classification import (
    LABEL_SCALARS,
    check_labels,
    extents,
    label_args,
    label_indices,
    labels_operand,
    log_softmax,
    loss_samples,
    negative_log_likelihood,
)
from deployer.operators.loss.negative_log_likelihood_loss import NegativeLogLikelihoodLoss
from deployer.operators.loss.softmax_cross_entropy_loss_grad import SoftmaxCrossEntropyLossGrad
from deployer.operators.loss.weighted_labels import label_attrs
from deployer.operators.softmax.log_softmax import LogSoftmax

SCORES, LABELS, DLOSS = range(3)
DX, LOSS, LOG_PROB = range(3)


@register
class SoftmaxCrossEntropy(Operator):
    """Scores [N, C, d1..], labels [N, d1..][, dloss] to dscores[, loss][, log_prob].

    A loss that is a mean or a sum is there for a single label alone: of several, each core has some.
    """

    name = "SoftmaxCrossEntropy"
    kernel = Kernel(
        "softmax_ce_f32",
        pointers=(
            ("x", "float32", False),
            ("labels", "int32", False),
            ("dloss", "float32", False),
            ("dx", "float32", True),
            ("loss", "float32", True),
            ("log_prob", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "classes", "d", "x_n", "x_c", "l_n", "g_n", "g_d", "dx_n", "dx_c")),
            *((name, "u32") for name in ("y_n", "p_n", "p_c")),
            *LABEL_SCALARS,
        ),
    )
    spared: ClassVar[dict[str, int]] = {"loss": LOSS, "log_prob": LOG_PROB}
    joins = SoftmaxCrossEntropyLossGrad.name
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of the gradient, the loss and log_prob, as far as the node has outputs."""
        scores, labels, dloss = (*inputs, None)[:3]
        if scores is None or labels is None:
            raise mismatch(node, "scores or labels are absent", inputs)
        check_labels(node, scores, labels, inputs)
        if dloss is not None and not (dloss.shape == labels.shape if _per_label(node) else dloss.size == 1):
            raise mismatch(node, "dloss does not have the shape of the loss", inputs)
        if _output(node, LOSS) and not (_per_label(node) or labels.size == 1):
            raise mismatch(node, "the loss of several labels is no output", inputs)
        loss = TensorType("float32", labels.shape if _per_label(node) else ())
        return (scores, loss, scores)[: len(node.outputs)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """What the three nodes compute one after the other."""
        scores, labels = arrays(inputs, 2)
        log_prob = log_softmax(scores, 1)
        dloss = inputs[DLOSS] if len(inputs) > DLOSS else None
        operands = (log_prob, labels) if dloss is None else (dloss, log_prob, labels)
        (dx,) = SoftmaxCrossEntropyLossGrad().reference(node, operands)
        return (dx, negative_log_likelihood(node, log_prob, labels), log_prob)[: len(node.outputs)]

    def joint(
        self, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]
    ) -> tuple[Node, Sequence[Node]] | None:
        """The gradient with the LogSoftmax over classes that it reads, and with the loss where one of its own is."""
        *dloss, log_prob, labels = node.inputs
        shape, rank = types[labels].shape, len(types[log_prob].shape)
        softmax = next((n for n in near if n.outputs == (log_prob,) and n.op == LogSoftmax.name), None)
        if softmax is None or softmax.attr_int("axis", -1) % rank != 1:
            return None
        operands, parts, loss = (softmax.inputs[0], labels, *filter(None, dloss)), [softmax], ""
        attrs = label_attrs(node)
        for other in near:
            same = other.op == NegativeLogLikelihoodLoss.name and other.inputs == (log_prob, labels)
            if same and label_attrs(other) == attrs and (_per_label(node) or math.prod(shape) == 1):
                parts, loss = [softmax, other], other.outputs[0]
        return Node(node.name, self.name, operands, (node.outputs[0], loss, log_prob), attrs), parts

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """The labels are classes."""
        return label_indices(node, node.inputs[LABELS], types[node.inputs[SCORES]])

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n and d; a label's classes are whole in every tile."""
        shape = extents(types[node.inputs[SCORES]].shape)
        n, _, d = shape
        rows, each = (At("n"), Whole(), At("d")), (At("n"), At("d"))
        listed = [
            Operand("x", node.inputs[SCORES], "in", shape, rows),
            labels_operand(node, node.inputs[LABELS], n, d),
        ]
        if len(node.inputs) > DLOSS and node.inputs[DLOSS]:
            g_axes: tuple[Axis, ...] = each if _per_label(node) else (Broadcast(), Broadcast())
            listed.append(Operand("dloss", node.inputs[DLOSS], "in", (n, d) if _per_label(node) else (1, 1), g_axes))
        listed.append(Operand("dx", node.outputs[DX], "out", shape, rows))
        if _output(node, LOSS):
            listed.append(Operand("loss", _output(node, LOSS), "out", (n, d), each))
        if _output(node, LOG_PROB):
            listed.append(Operand("log_prob", _output(node, LOG_PROB), "out", shape, rows))
        return Access((Dim("n", n), Dim("d", d)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and LABEL_SCALARS."""
        n, classes, d = access.operand("x").view
        there = {o.arg for o in access.operands}
        rows = {"x_n": ("x", 0), "x_c": ("x", 1), "l_n": ("labels", 0), "g_n": ("dloss", 0), "g_d": ("dloss", 1)}
        rows |= {"dx_n": ("dx", 0), "dx_c": ("dx", 1), "y_n": ("loss", 0), "p_n": ("log_prob", 0)}
        rows |= {"p_c": ("log_prob", 1)}
        strides = {k: Stride(arg, axis) if arg in there else Const(0) for k, (arg, axis) in rows.items()}
        lengths: dict[str, ArgValue] = {"n": Extent("n"), "d": Extent("d"), "classes": Const(classes)}
        return {**lengths, **strides, **label_args(node, n, d)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """Two exponentials per element, and a logarithm per row; a single row has all that cores share for itself."""
        rows = tile["n"] * tile["d"]
        classes, form = access.operand("x").view[1], "row" if rows == 1 else ""
        return Work(0, rows * (2 * classes + 1) * FACTS.transcendental, rows, form, runs=rows)

    def samples(self) -> Iterator[Sample]:
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

    def sweep(self) -> Iterator[Sample]:
        """One row and several, with the loss where there may be one."""
        r = rng(40)
        for rows, classes in measured("softmax"):
            inputs = (normal(r, rows, classes), np.asarray(r.integers(0, classes, rows), np.int32))
            yield Sample(f"{rows}x{classes}", inputs, {}, 2 if rows == 1 else 1, onnx=False)


def _output(node: Node, position: int) -> str:
    return node.outputs[position] if position < len(node.outputs) else ""


def _per_label(node: Node) -> bool:
    return node.attr_str("reduction", "mean") == "none"
