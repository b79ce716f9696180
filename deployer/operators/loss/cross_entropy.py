"""Softmax cross entropy and its gradient, in the forms of ONNX and of ONNX Runtime."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry, unsupported
from deployer.core.signatures import Extra, Signature
from deployer.core.traits.execution import Execution
from deployer.core.traits.file import FileSpec, SoleOutput
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import Indices, Numerics
from deployer.core.traits.training import Loss, Training
from deployer.operators.base.one_sample import OWN_MEANS
from deployer.operators.base.operands import arrays, operands
from deployer.operators.loss.label_loss import (
    IGNORED,
    LABEL_SCALARS,
    LABELS_READ,
    SCORES,
    SMOOTHING,
    LabelLossGrad,
    NegativeLogLikelihoodLoss,
    WeightedNLLLoss,
    check_labels,
    check_loss,
    check_weights,
    class_labels,
    extents,
    has_weights,
    label_args,
    label_attrs,
    label_indices,
    label_mask,
    labels_operand,
    log_softmax,
    negative_log_likelihood,
    own_divisor,
    per_label,
    weighted_loss,
)
from deployer.operators.normalization.softmax import LogSoftmax


def _loss_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The labels are classes."""
    return label_indices(node, node.inputs[1], types[node.inputs[0]])


@register
class SoftmaxCrossEntropyLoss(Operator):
    """NegativeLogLikelihoodLoss of LogSoftmax over the class axis.

    Scores [N, C, d1..], labels [N, d1..][, weights [C]] to loss[, log_prob].

    Attributes `reduction`, `ignore_index` and `label_smoothing`.
    """

    name = "SoftmaxCrossEntropyLoss"
    training = Loss(
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
        spoken=("ce",),
    )

    file = FileSpec(
        versions=(12, 13),
        extras=(Extra(SMOOTHING.place, (SMOOTHING.kind,), "smoothed labels, which ONNX does not have"),),
        sole_output=SoleOutput(1, "SoftmaxCrossEntropyLossGrad"),
    )
    numerics = Numerics(indices=_loss_indices, divisors=LABELS_READ)

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


def _weighs(node: Node) -> bool:
    """Whether there are class weights or smoothed labels."""
    return has_weights(node) or bool(SMOOTHING.of(node))


def _reduction(node: Node) -> dict[str, AttrValue]:
    return {name: node.attrs[name] for name in ("reduction", "ignore_index") if name in node.attrs}


OPERANDS = ("dloss", "log_prob", "labels")
ORDER = (0, 2, 1, 3)
"""Where LabelLossGrad's inputs are among those of a node with class weights."""


def _grad_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """Labels follow their log probabilities, which follow what is left out where there are two inputs."""
    scores = 0 if len(node.inputs) == 2 else 1
    return label_indices(node, node.inputs[scores + 1], types[node.inputs[scores]])


@register
class SoftmaxCrossEntropyLossGrad(Operator):
    """dscores = dloss (exp(log_prob) - onehot(label)) / count.

    Inputs [dloss,] log_prob [N, C, d1..], labels [N, d1..]; dloss is one where absent.

    ONNX Runtime has class weights behind them, under which it is another operator here.
    """

    name = "SoftmaxCrossEntropyLossGrad"
    file = FileSpec(custom=Signature((2, 4), (1, 1), {"reduction": "STRING", "ignore_index": "INT"}))
    kernel = Kernel(
        "softmax_ce_grad_f32",
        pointers=(
            ("dloss", "float32", False),
            ("log_prob", "float32", False),
            ("labels", "int32", False),
            ("dx", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "c", "d", "c_start", "g_n", "g_d", "p_n", "p_c", "l_n", "x_n", "x_c")),
            *LABEL_SCALARS,
        ),
    )
    no_gradient = "it belongs to a backward pass"
    numerics = Numerics(indices=_grad_indices, divisors=LABELS_READ)
    training = Training(sample_mean=OWN_MEANS)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of log_prob."""
        dloss, log_prob, labels, *weights = (None, *inputs) if len(inputs) == 2 else inputs
        if log_prob is None or labels is None:
            raise mismatch(node, "log_prob or labels are absent", inputs)
        check_labels(node, log_prob, labels, inputs)
        check_weights(node, weights[0] if weights else None, log_prob.shape[1], inputs)
        if dloss is not None and not (dloss.shape == labels.shape if per_label(node) else dloss.size == 1):
            raise mismatch(node, "dloss does not have the shape of the loss", inputs)
        return (log_prob,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dloss (exp(log_prob) - onehot(label)) / count, zero where the label is ignored."""
        if len(inputs) > len(OPERANDS):
            plain = _weighted(node, arrays(inputs[1:], 1)[0].shape[1])
            return registry()[plain.op].reference(plain, [inputs[i] for i in ORDER])
        dloss, log_prob, labels = (None, *inputs) if len(inputs) == 2 else inputs
        assert log_prob is not None
        assert labels is not None
        classes = np.arange(log_prob.shape[1]).reshape(1, -1, *[1] * (log_prob.ndim - 2))
        counts = label_mask(node, labels)
        dx = np.exp(log_prob) - (labels[:, None] == classes).astype(log_prob.dtype)
        if node.attr_str("reduction", "mean") == "mean":
            count = own_divisor(node, labels.size) if OWN_MEANS in node.attrs else max(counts.sum(), 1)
            dx = dx / log_prob.dtype.type(count)
        if dloss is not None:
            dx = dx * (dloss[:, None] if per_label(node) else dloss.reshape(()))
        return (np.where(counts[:, None], dx, log_prob.dtype.type(0)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LabelLossGrad, where there are class weights."""
        if len(node.inputs) <= len(OPERANDS):
            return None
        (log_prob,) = operands(node, inputs[1:], 1)
        return [_weighted(node, log_prob.shape[1])]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n, c, d."""
        names = node.inputs[-2:]
        n, c, d = extents(types[names[0]].shape)
        axes = (At("n"), At("c"), At("d"))
        operands = [
            Operand("log_prob", names[0], "in", (n, c, d), axes),
            labels_operand(node, names[1], n, d),
            Operand("dx", node.outputs[0], "out", (n, c, d), axes),
        ]
        if len(node.inputs) == 3 and node.inputs[0]:
            g_axes: tuple[Axis, ...] = (At("n"), At("d")) if per_label(node) else (Broadcast(), Broadcast())
            view = (n, d) if per_label(node) else (1, 1)
            operands.insert(0, Operand("dloss", node.inputs[0], "in", view, g_axes))
        return Access((Dim("n", n), Dim("c", c), Dim("d", d)), tuple(operands))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and LABEL_SCALARS."""
        n, _, d = access.operand("log_prob").view
        has_dloss = any(o.arg == "dloss" for o in access.operands)
        return {
            "n": Extent("n"),
            "c": Extent("c"),
            "d": Extent("d"),
            "c_start": Start("c"),
            "g_n": Stride("dloss", 0) if has_dloss else Const(0),
            "g_d": Stride("dloss", 1) if has_dloss else Const(0),
            "p_n": Stride("log_prob", 0),
            "p_c": Stride("log_prob", 1),
            "l_n": Stride("labels", 0),
            "x_n": Stride("dx", 0),
            "x_c": Stride("dx", 1),
            **label_args(node, n, d),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An exponential and a division per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * (model.transcendental_elements + 2), parallel=count)


def _weighted(node: Node, classes: int) -> Node:
    """The node with class weights, by the operator that has them."""
    names = tuple(node.inputs[i] for i in ORDER)
    return Node(node.name, LabelLossGrad.name, names, node.outputs, {**node.attrs, "classes": classes})


SCORES_INPUT, LABELS, DLOSS = range(3)
DX, LOSS, LOG_PROB = range(3)


def _joint(
    node: Node, near: Sequence[Node], types: Mapping[str, TensorType], model: KernelModel
) -> tuple[Node, Sequence[Node]] | None:
    """The gradient with the LogSoftmax over classes that it reads, and with the loss where one of its own is."""
    *dloss, log_prob, labels = node.inputs
    shape, rank = types[labels].shape, len(types[log_prob].shape)
    softmax = next((n for n in near if n.outputs == (log_prob,) and n.op == LogSoftmax.name), None)
    if softmax is None or softmax.attr_int("axis", -1) % rank != 1:
        return None
    operands, members, loss = (softmax.inputs[0], labels, *filter(None, dloss)), [softmax], ""
    attrs = label_attrs(node)
    for other in near:
        same = other.op == NegativeLogLikelihoodLoss.name and other.inputs == (log_prob, labels)
        if same and label_attrs(other) == attrs and (per_label(node) or math.prod(shape) == 1):
            members, loss = [softmax, other], other.outputs[0]
    return Node(node.name, SoftmaxCrossEntropy.name, operands, (node.outputs[0], loss, log_prob), attrs), members


def _both_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """The labels are classes."""
    return label_indices(node, node.inputs[LABELS], types[node.inputs[SCORES_INPUT]])


@register
class SoftmaxCrossEntropy(Operator):
    """The gradient of SoftmaxCrossEntropyLoss for its scores, with log_prob and the loss, in one walk.

    It stands for LogSoftmax, SoftmaxCrossEntropyLossGrad and NegativeLogLikelihoodLoss, and rounds as they do.

    Scores [N, C, d1..], labels [N, d1..][, dloss] to dscores[, loss][, log_prob].

    A loss that is a mean or a sum is there for a single label alone: of several, each core has some.
    """

    name = "SoftmaxCrossEntropy"
    kernel: ClassVar[Kernel] = Kernel(
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
    execution: ClassVar[Execution | None] = Execution(optional_outputs={"loss": LOSS, "log_prob": LOG_PROB})
    fusion = Fusion(multi_output_of=SoftmaxCrossEntropyLossGrad.name, joint=_joint)
    no_gradient = "it belongs to a backward pass"
    numerics = Numerics(indices=_both_indices, divisors=LABELS_READ)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of the gradient, the loss and log_prob, as far as the node has outputs."""
        scores, labels, dloss = (*inputs, None)[:3]
        if scores is None or labels is None:
            raise mismatch(node, "scores or labels are absent", inputs)
        check_labels(node, scores, labels, inputs)
        if dloss is not None and not (dloss.shape == labels.shape if per_label(node) else dloss.size == 1):
            raise mismatch(node, "dloss does not have the shape of the loss", inputs)
        if _output(node, LOSS) and not (per_label(node) or labels.size == 1):
            raise mismatch(node, "the loss of several labels is not an output", inputs)
        loss = TensorType("float32", labels.shape if per_label(node) else ())
        return (scores, loss, scores)[: len(node.outputs)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Compute the three fused nodes one after the other."""
        scores, labels = arrays(inputs, 2)
        log_prob = log_softmax(scores, 1)
        dloss = inputs[DLOSS] if len(inputs) > DLOSS else None
        operands = (log_prob, labels) if dloss is None else (dloss, log_prob, labels)
        (dx,) = SoftmaxCrossEntropyLossGrad().reference(node, operands)
        return (dx, negative_log_likelihood(node, log_prob, labels), log_prob)[: len(node.outputs)]

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n and d; a label's classes are whole in every tile."""
        shape = extents(types[node.inputs[SCORES_INPUT]].shape)
        n, _, d = shape
        rows, each = (At("n"), Whole(), At("d")), (At("n"), At("d"))
        listed = [
            Operand("x", node.inputs[SCORES_INPUT], "in", shape, rows),
            labels_operand(node, node.inputs[LABELS], n, d),
        ]
        if len(node.inputs) > DLOSS and node.inputs[DLOSS]:
            g_axes: tuple[Axis, ...] = each if per_label(node) else (Broadcast(), Broadcast())
            listed.append(Operand("dloss", node.inputs[DLOSS], "in", (n, d) if per_label(node) else (1, 1), g_axes))
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Two exponentials per element, and a logarithm per row; a single row has all that cores share for itself."""
        rows = tile["n"] * tile["d"]
        classes, cost_class = access.operand("x").view[1], "row" if rows == 1 else ""
        return Work(
            0, rows * (2 * classes + 1) * model.transcendental_elements, rows, cost_class, inner_loop_starts=rows
        )


def _output(node: Node, position: int) -> str:
    return node.outputs[position] if position < len(node.outputs) else ""


FLOAT = 1
"""ONNX's number of float32, which `output_type` names."""


class Internal(Operator):
    """An operator that is `of` with the ignored label as the input at `ignored`."""

    composite = True
    of: ClassVar[str]
    ignored: ClassVar[int]

    def plain(self, node: Node) -> Node:
        """The node of the other operator."""
        if node.attr_int("output_type", FLOAT) != FLOAT:
            raise unsupported(node, f"output_type is {node.attrs['output_type']}, not float32", f"output_type {FLOAT}")
        attrs = {name: value for name, value in node.attrs.items() if name != "output_type"}
        label = attrs.get("ignore_index")
        if isinstance(label, tuple):  # as the input has it
            if len(label) != 1:
                raise unsupported(node, f"ignore_index has {len(label)} elements", "one, or leave it out")
            attrs["ignore_index"] = int(label[0])
        names = list(node.inputs[: self.ignored])
        while names and not names[-1]:
            names.pop()
        return replace(node, op=self.of, inputs=tuple(names), attrs=attrs)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Those of the other operator."""
        plain = self.plain(node)
        return registry()[self.of].infer(plain, inputs[: len(plain.inputs)])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Those of the other operator."""
        plain = self.plain(node)
        return registry()[self.of].reference(plain, inputs[: len(plain.inputs)])

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """The other operator."""
        return [self.plain(node)]


@register
class SoftmaxCrossEntropyLossInternal(Internal):
    """SoftmaxCrossEntropyLoss whose ignored label is an input, as ONNX Runtime has it.

    Scores, labels[, weights, ignored label] to loss[, log_prob].
    """

    name = "SoftmaxCrossEntropyLossInternal"
    of = "SoftmaxCrossEntropyLoss"
    ignored = 3
    file = FileSpec(
        custom=Signature((2, 4), (1, 2), {"reduction": "STRING", "output_type": "INT", "ignore_index": "INT"}),
        static_inputs={3: "ignore_index"},
        sole_output=SoleOutput(1, "SoftmaxCrossEntropyLossInternalGrad"),
    )


@register
class SoftmaxCrossEntropyLossInternalGrad(Internal):
    """The gradient of the scores under SoftmaxCrossEntropyLossInternal.

    dloss, log_prob, labels[, weights, ignored label] to dscores.
    """

    name = "SoftmaxCrossEntropyLossInternalGrad"
    file = FileSpec(
        custom=Signature((3, 5), (1, 1), {"reduction": "STRING", "output_type": "INT", "ignore_index": "INT"}),
        static_inputs={4: "ignore_index"},
    )
    no_gradient = "it belongs to a backward pass"
    of = "SoftmaxCrossEntropyLossGrad"
    ignored = 4
