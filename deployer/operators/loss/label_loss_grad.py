"""LabelLossGrad: the gradient of losses over labels, with class weights and smoothing, for log probabilities or scores.

With the share q[c] of each class, dlog_prob = -dloss q / divisor; through a softmax with the probabilities p it is
dscores = dloss (p sum(q) - q) / divisor.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand
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
    rng,
)
from deployer.operators.inputs import normal
from deployer.operators.loss.classification import check_labels, extents, log_softmax
from deployer.operators.loss.weighted_labels import (
    KINDS,
    WEIGHTED_SCALARS,
    check_weights,
    divisor,
    shares,
    weighted_args,
    weighted_operands,
    weighted_samples,
)

DLOSS, LABELS, LOG_PROB, WEIGHTS = range(4)
INPUTS = (DLOSS, LABELS, LOG_PROB, WEIGHTS)
"""The inputs: all but the labels may be absent."""


@register
class LabelLossGrad(Operator):
    """Inputs [dloss], labels [N, d1..], [log_prob [N, C, d1..]], [weights [C]]; attribute `classes` is C.

    The gradient is that of scores where log_prob is there, else that of log probabilities.
    """

    name = "LabelLossGrad"
    custom = Form((2, 4), (1, 1), {**KINDS, "classes": "INT"}, frozenset({"classes"}))
    kernel = Kernel(
        "label_loss_grad_f32",
        pointers=(
            ("dloss", "float32", False),
            ("log_prob", "float32", False),
            ("labels", "int32", False),
            ("weights", "float32", False),
            ("dx", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "c", "d", "c_start", "g_n", "g_d", "p_n", "p_c", "l_n", "x_n", "x_c")),
            *WEIGHTED_SCALARS,
        ),
    )
    no_gradient = "it belongs to a backward pass"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The labels' shape with the class axis."""
        dloss, labels, log_prob, weights = (inputs[i] if i < len(inputs) else None for i in range(len(INPUTS)))
        if labels is None or not labels.shape:
            raise mismatch(node, "labels are absent", inputs)
        classes = node.attr_int("classes", 0)
        kind = TensorType("float32", (labels.shape[0], classes, *labels.shape[1:]))
        check_labels(node, kind, labels, inputs)
        check_weights(node, weights, classes, inputs)
        if classes < 1 or (log_prob is not None and log_prob != kind):
            raise mismatch(node, f"log_prob does not have the shape of labels and {classes} classes", inputs)
        if dloss is not None and not (dloss.shape == labels.shape if _per_label(node) else dloss.size == 1):
            raise mismatch(node, "dloss does not have the shape of the loss", inputs)
        return (kind,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dloss (p sum(q) - q) / divisor, without p for log probabilities."""
        dloss, labels, log_prob, weights = (inputs[i] if i < len(inputs) else None for i in range(len(INPUTS)))
        assert labels is not None
        given_floats = [x.dtype for x in (log_prob, dloss, weights) if x is not None]
        dtype = given_floats[0] if given_floats else np.dtype(np.float64)  # of labels alone: shares are not rounded
        given = np.ones(node.attr_int("classes", 0), dtype) if weights is None else weights.astype(dtype)
        q = shares(node, labels, given)
        dx = -q if log_prob is None else np.exp(log_prob) * q.sum(1, keepdims=True, dtype=dtype) - q
        count = divisor(node, labels, given)
        dx = dx / np.where(count == 0, dtype.type(1), count)
        if dloss is not None:
            dx = dx * (dloss[:, None] if _per_label(node) else dloss.reshape(()))
        return (np.asarray(dx, dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n, c, d."""
        shape = extents(types[node.outputs[0]].shape)
        n, c, d = shape
        axes: tuple[Axis, ...] = (At("n"), At("c"), At("d"))
        listed = []
        if _input(node, DLOSS):
            g_axes: tuple[Axis, ...] = (At("n"), At("d")) if _per_label(node) else (Broadcast(), Broadcast())
            listed.append(Operand("dloss", _input(node, DLOSS), "in", (n, d) if _per_label(node) else (1, 1), g_axes))
        if _input(node, LOG_PROB):
            listed.append(Operand("log_prob", _input(node, LOG_PROB), "in", shape, axes))
        listed += weighted_operands(node, _input(node, LABELS), _input(node, WEIGHTS), shape)
        listed.append(Operand("dx", node.outputs[0], "out", shape, axes))
        return Access((Dim("n", n), Dim("c", c), Dim("d", d)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and WEIGHTED_SCALARS."""
        n, c, d = access.operand("dx").view
        there = {o.arg for o in access.operands}
        rows = {"g_n": ("dloss", 0), "g_d": ("dloss", 1), "p_n": ("log_prob", 0), "p_c": ("log_prob", 1)}
        rows |= {"l_n": ("labels", 0), "x_n": ("dx", 0), "x_c": ("dx", 1)}
        strides = {k: Stride(arg, axis) if arg in there else Const(0) for k, (arg, axis) in rows.items()}
        lengths = {dim: Extent(dim) for dim in ("n", "c", "d")}
        weighted = weighted_args(node, _input(node, WEIGHTS), (n, c, d))
        return {**lengths, "c_start": Start("c"), **strides, **weighted}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """An exponential and a division per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * (FACTS.transcendental + 2), parallel=count)

    def samples(self) -> Iterator[Sample]:
        """The samples of the losses, for scores with a dloss and for log probabilities without."""
        r = rng(61)
        for label, scores, labels, weights, attrs in weighted_samples(62):
            shape = labels.shape if attrs.get("reduction") == "none" else ()
            given = {**attrs, "classes": scores.shape[1]}
            yield Sample(
                f"scores_{label}", (normal(r, *shape), labels, log_softmax(scores, 1), weights), given, onnx=False
            )
            yield Sample(f"logarithms_{label}", (None, labels, None, weights), given, onnx=False)


def _input(node: Node, position: int) -> str:
    return node.inputs[position] if position < len(node.inputs) else ""


def _per_label(node: Node) -> bool:
    return node.attr_str("reduction", "mean") == "none"
