"""Softmax cross entropy of several labels whose rows fit a tile: of the log probabilities only those of the labels are
in memory, which the loss is made of.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Operand
from deployer.core.ir import Graph, Node, Program, TensorType
from deployer.core.kernel import ArgValue, Kernel, Stride
from deployer.core.operator import Array, mismatch, register
from deployer.core.traits.fusion import Fusion, Region
from deployer.operators.base.operands import arrays
from deployer.operators.loss.class_groups import PickedLogLikelihoodLoss, is_inner, readers_of, row_shape
from deployer.operators.loss.cross_entropy import OPERANDS, SoftmaxCrossEntropy, SoftmaxCrossEntropyLossGrad
from deployer.operators.loss.label_loss import (
    LABEL_SCALARS,
    NegativeLogLikelihoodLoss,
    extents,
    label_attrs,
    log_softmax,
    per_label,
)
from deployer.operators.normalization.softmax import LogSoftmax


def _region(program: Program, graph: Graph, grad: Node, room: int, cores: int, canonical: bool) -> Region | None:
    """The gradient with the log probabilities of the labels, and the loss of these, in the place of LogSoftmax."""
    *dloss, log_prob, labels = grad.inputs
    softmax = next((n for n in graph.nodes if n.op == LogSoftmax.name and n.outputs == (log_prob,)), None)
    if len(grad.inputs) > len(OPERANDS) or softmax is None or not is_inner(program, log_prob):
        return None
    loss = next((n for n in readers_of(program, log_prob) if n is not grad), None)
    kinds = {name: tensor.type for name, tensor in program.tensors.items()}
    if softmax.attr_int("axis", -1) % len(kinds[log_prob].shape) != 1 or kinds[labels].size == 1:
        return None
    if loss is None or loss.op != NegativeLogLikelihoodLoss.name or readers_of(program, log_prob) != [loss, grad]:
        return None
    attrs = label_attrs(grad)
    if loss.inputs != (log_prob, labels) or label_attrs(loss) != attrs or per_label(grad):
        return None
    operands, result = (softmax.inputs[0], labels, *filter(None, dloss)), program.tensors[grad.outputs[0]]
    later = {program.storage(n) for node in graph.nodes[graph.nodes.index(softmax) :] for n in node.outputs if n}
    if result.storage != result.name or later & {program.storage(name) for name in operands}:
        return None
    picked, classes = f"{grad.name}/picked", kinds[log_prob].shape[1]
    rows = Node(grad.name, SoftmaxCrossEntropyRows.name, operands, (grad.outputs[0], picked), dict(attrs))
    of_labels = Node(
        loss.name, PickedLogLikelihoodLoss.name, (picked, labels), loss.outputs, {**attrs, "classes": classes}
    )
    types = {picked: TensorType("float32", row_shape(kinds[log_prob].shape))}
    return Region((softmax, loss, grad), {softmax.name: (rows, of_labels)}, types)


@register
class SoftmaxCrossEntropyRows(SoftmaxCrossEntropy):
    """The gradient of SoftmaxCrossEntropyLoss for its scores, and the log probability of each label, in one walk.

    Scores [N, C, d1..], labels [N, d1..][, dloss] to dscores and [N, 1, d1..], 0 of a label outside of all classes.
    """

    name = "SoftmaxCrossEntropyRows"
    kernel: ClassVar[Kernel] = Kernel(
        "softmax_ce_rows_f32",
        pointers=(
            *(pointer for pointer in SoftmaxCrossEntropy.kernel.pointers if pointer[0] not in ("loss", "log_prob")),
            ("picked", "float32", True),
        ),
        scalars=(
            *(
                (name, "u32")
                for name in ("n", "classes", "d", "x_n", "x_c", "l_n", "g_n", "g_d", "dx_n", "dx_c", "y_n")
            ),
            *LABEL_SCALARS,
        ),
    )
    execution = None
    fusion = Fusion(region_of=SoftmaxCrossEntropyLossGrad.name, region=_region)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Types of the gradient and of a number for each label."""
        if per_label(node):
            raise mismatch(node, "each label has a loss of its own", inputs)
        (scores, *_) = super().infer(_gradient(node), inputs)
        return scores, TensorType("float32", row_shape(scores.shape))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The gradient, and the log probabilities of the labels."""
        (dx, *_) = super().reference(_gradient(node), inputs)
        x, labels = arrays(inputs[:2], 2)
        inside = (labels >= 0) & (labels < x.shape[1])
        picked = np.take_along_axis(log_softmax(x, 1), np.where(inside, labels, 0)[:, None], axis=1)
        return dx, np.where(inside[:, None], picked, x.dtype.type(0))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n and d; a label's classes are whole in every tile."""
        plain = super().access(_gradient(node), types)
        n, _, d = extents(types[node.inputs[0]].shape)
        picked = Operand("picked", node.outputs[1], "out", (n, d), (At("n"), At("d")))
        return Access(plain.dims, (*plain.operands, picked))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and LABEL_SCALARS."""
        known = super().args(_gradient(node), access) | {"y_n": Stride("picked", 0)}
        return {name: known[name] for name, _ in self.kernel.scalars}


def _gradient(node: Node) -> Node:
    """The node with the gradient alone."""
    return Node(node.name, SoftmaxCrossEntropy.name, node.inputs, node.outputs[:1], node.attrs)
