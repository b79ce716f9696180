"""SoftmaxCrossEntropyLossGrad: dscores = dloss (exp(log_prob) - onehot(label)) / count."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
from deployer.core.declarations import Indices
from deployer.core.forms import Form
from deployer.core.ir import Node, TensorType
from deployer.core.kernel_facts import FACTS
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    Extent,
    Kernel,
    Operator,
    Sample,
    Start,
    Stride,
    Work,
    mismatch,
    register,
    registry,
    rng,
)
from deployer.operators.inputs import arrays, normal, operands
from deployer.operators.loss.classification import (
    LABEL_SCALARS,
    check_labels,
    extents,
    label_args,
    label_indices,
    label_mask,
    labels_operand,
    log_softmax,
    loss_samples,
)
from deployer.operators.loss.label_loss_grad import LabelLossGrad
from deployer.operators.loss.weighted_labels import check_weights

OPERANDS = ("dloss", "log_prob", "labels")
ORDER = (0, 2, 1, 3)
"""Where LabelLossGrad's inputs are among those of a node with class weights."""


@register
class SoftmaxCrossEntropyLossGrad(Operator):
    """Inputs [dloss,] log_prob [N, C, d1..], labels [N, d1..]; dloss is one where absent.

    ONNX Runtime has class weights behind them, under which it is another operator here.
    """

    name = "SoftmaxCrossEntropyLossGrad"
    custom = Form((2, 4), (1, 1), {"reduction": "STRING", "ignore_index": "INT"})
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

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of log_prob."""
        dloss, log_prob, labels, *weights = (None, *inputs) if len(inputs) == 2 else inputs
        if log_prob is None or labels is None:
            raise mismatch(node, "log_prob or labels are absent", inputs)
        check_labels(node, log_prob, labels, inputs)
        check_weights(node, weights[0] if weights else None, log_prob.shape[1], inputs)
        if dloss is not None and not (dloss.shape == labels.shape if _per_label(node) else dloss.size == 1):
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
            dx = dx / log_prob.dtype.type(max(counts.sum(), 1))
        if dloss is not None:
            dx = dx * (dloss[:, None] if _per_label(node) else dloss.reshape(()))
        return (np.where(counts[:, None], dx, log_prob.dtype.type(0)),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """LabelLossGrad, where there are class weights."""
        if len(node.inputs) <= len(OPERANDS):
            return None
        (log_prob,) = operands(node, inputs[1:], 1)
        return [_weighted(node, log_prob.shape[1])]

    def indices(self, node: Node, types: Mapping[str, TensorType]) -> Indices:
        """Labels follow their log probabilities, which follow what is left out where there are two inputs."""
        scores = 0 if len(node.inputs) == 2 else 1
        return label_indices(node, node.inputs[scores + 1], types[node.inputs[scores]])

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
            g_axes: tuple[Axis, ...] = (At("n"), At("d")) if _per_label(node) else (Broadcast(), Broadcast())
            view = (n, d) if _per_label(node) else (1, 1)
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An exponential and a division per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * (FACTS.transcendental + 2), parallel=count)

    def samples(self) -> Iterator[Sample]:
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


def _weighted(node: Node, classes: int) -> Node:
    """The node with class weights, by the operator that has them."""
    names = tuple(node.inputs[i] for i in ORDER)
    return Node(node.name, LabelLossGrad.name, names, node.outputs, {**node.attrs, "classes": classes})


def _per_label(node: Node) -> bool:
    return node.attr_str("reduction", "mean") == "none"
