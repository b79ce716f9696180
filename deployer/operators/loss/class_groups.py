"""Softmax cross entropy over more classes than a row of a tile has: nothing of the size of the scores is in memory
besides them and their gradient.

The exponentials are summed by groups of classes, in the order of sum_f32.h, and the gradient computes them again from
the largest score and the logarithm of the sum of each row. So the bits are those of the steps that these stand for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole, Window
from deployer.core.ir import Graph, Node, Program, TensorType
from deployer.core.kernel import ArgValue, Const, Extent, Kernel, Length, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register
from deployer.core.traits.execution import GROUPED
from deployer.core.traits.fusion import ACTIVATION, Fusion, Region
from deployer.core.traits.numerics import Indices, Numerics
from deployer.operators.base.operands import arrays, operands
from deployer.operators.loss.cross_entropy import OPERANDS, SoftmaxCrossEntropyLossGrad
from deployer.operators.loss.label_loss import (
    LABEL_SCALARS,
    LABELS_READ,
    NegativeLogLikelihoodLoss,
    check_labels,
    extents,
    label_args,
    label_attrs,
    label_count,
    label_indices,
    labels_operand,
    negative_log_likelihood,
    per_label,
)

Shape = tuple[int, ...]
HALF = 0.5
"""The mantissa of a power of two."""


def row_shape(shape: Shape, classes: int = 1) -> Shape:
    """The shape with so many classes."""
    return (shape[0], classes, *shape[2:])


def _scores_indices(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """Labels are classes of the scores."""
    return label_indices(node, node.inputs[LABELS], types[node.inputs[0]])


SCORES, MAX, LABELS = OF_GROUPS = range(3)  # inputs


@register
class PowerGroups(Operator):
    """The sum of exp(x - max) over each group of classes, and x - max of the label in its group, 0 in the others.

    Scores [N, C, d1..], max [N, 1, d1..], labels [N, d1..] to two of [N, G, d1..].
    """

    name = "PowerGroups"
    kernel = Kernel(
        "power_groups_f32",
        pointers=(
            ("x", "float32", False),
            ("max", "float32", False),
            ("labels", "int32", False),
            ("sums", "float32", True),
            ("picks", "float32", True),
        ),
        scalars=tuple(
            (name, "u32")
            for name in ("n", "g", "d", "c", "g_start", "x_n", "x_c", "m_n", "l_n", "s_n", "s_g", "p_n", "p_g")
        ),
    )
    fusion = Fusion(region_of=SoftmaxCrossEntropyLossGrad.name, region=lambda *found: _region(*found))
    no_gradient = "it belongs to a loss, which has one"
    numerics = Numerics(indices=_scores_indices)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A number for each group of each row, twice."""
        x, largest, labels = operands(node, inputs, len(OF_GROUPS))
        check_labels(node, x, labels, inputs)
        if largest != TensorType("float32", row_shape(x.shape)):
            raise mismatch(node, "there is not one largest score for each row", inputs)
        return (TensorType("float32", row_shape(x.shape, -(-x.shape[1] // GROUPED))),) * 2

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Sums of exp(x - max) by groups, and x - max of the labels."""
        x, largest, labels = arrays(inputs, len(OF_GROUPS))
        shifted, starts = x - largest, np.arange(0, x.shape[1], GROUPED)
        own = labels[:, None] == np.arange(x.shape[1]).reshape(1, -1, *[1] * (x.ndim - 2))
        picks = np.where(own, shifted, x.dtype.type(0))
        return np.add.reduceat(np.exp(shifted), starts, axis=1), np.add.reduceat(picks, starts, axis=1)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n, g and d, all parallel; a group is a window of classes."""
        n, c, d = extents(types[node.inputs[SCORES]].shape)
        groups = -(-c // GROUPED)
        each, by_group = (At("n"), At("d")), (At("n"), At("g"), At("d"))
        return Access(
            (Dim("n", n), Dim("g", groups), Dim("d", d)),
            (
                Operand("x", node.inputs[SCORES], "in", (n, c, d), (At("n"), Window("g", GROUPED, GROUPED), At("d"))),
                Operand("max", node.inputs[MAX], "in", (n, d), each),
                Operand("labels", node.inputs[LABELS], "in", (n, d), each),
                Operand("sums", node.outputs[0], "out", (n, groups, d), by_group),
                Operand("picks", node.outputs[1], "out", (n, groups, d), by_group),
            ),
        )

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, the classes and the place of the tile, and strides."""
        strides = {"x_n": ("x", 0), "x_c": ("x", 1), "m_n": ("max", 0), "l_n": ("labels", 0)}
        strides |= {"s_n": ("sums", 0), "s_g": ("sums", 1), "p_n": ("picks", 0), "p_g": ("picks", 1)}
        lengths: dict[str, ArgValue] = {dim: Extent(dim) for dim in ("n", "g", "d")}
        return lengths | {"c": Length("x", 1), "g_start": Start("g")} | {k: Stride(*v) for k, v in strides.items()}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An exponential per class; a group is one core's."""
        groups = math.prod(tile.values())
        return Work(macs=0, elements=groups * GROUPED * model.transcendental_elements, parallel=groups)


@register
class GroupTotals(Operator):
    """The total of the groups of each row, which loses nothing until the end, and the one pick that is not zero.

    Sums and picks [N, G, d1..] to two of [N, 1, d1..].
    """

    name = "GroupTotals"
    kernel = Kernel(
        "group_totals_f32",
        pointers=(
            ("sums", "float32", False),
            ("picks", "float32", False),
            ("total", "float32", True),
            ("pick", "float32", True),
        ),
        scalars=tuple((name, "u32") for name in ("n", "g", "d", "s_n", "s_g", "p_n", "p_g", "t_n", "y_n")),
    )
    no_gradient = "it belongs to a loss, which has one"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A number for each row, twice."""
        sums, picks = operands(node, inputs, 2)
        if sums != picks or len(sums.shape) < 2:
            raise mismatch(node, "sums and picks differ in type, or have no rows", inputs)
        return (TensorType("float32", row_shape(sums.shape)),) * 2

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both sums over the groups."""
        sums, picks = arrays(inputs, 2)
        return sums.sum(1, dtype=sums.dtype, keepdims=True), picks.sum(1, dtype=picks.dtype, keepdims=True)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n and d; a row's groups are whole in every tile."""
        shape = extents(types[node.inputs[0]].shape)
        n, _, d = shape
        rows, each = (At("n"), Whole(), At("d")), (At("n"), At("d"))
        ins = [Operand(a, t, "in", shape, rows) for a, t in zip(("sums", "picks"), node.inputs, strict=True)]
        outs = [Operand(a, t, "out", (n, d), each) for a, t in zip(("total", "pick"), node.outputs, strict=True)]
        return Access((Dim("n", n), Dim("d", d)), (*ins, *outs))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths and strides."""
        strides = {"s_n": ("sums", 0), "s_g": ("sums", 1), "p_n": ("picks", 0), "p_g": ("picks", 1)}
        strides |= {"t_n": ("total", 0), "y_n": ("pick", 0)}
        groups = Const(access.operand("sums").view[1])
        lengths: dict[str, ArgValue] = {"n": Extent("n"), "g": groups, "d": Extent("d")}
        return lengths | {k: Stride(*v) for k, v in strides.items()}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Two operations per group; a row is one core's."""
        rows = tile["n"] * tile["d"]
        return Work(macs=0, elements=2 * rows * access.operand("sums").view[1], parallel=rows)


@register
class PickedLogLikelihoodLoss(NegativeLogLikelihoodLoss):
    """NegativeLogLikelihoodLoss of the log probabilities of the labels alone.

    Log probabilities [N, 1, d1..], labels [N, d1..] to the loss; attribute `classes`, and those of the other.
    """

    name = "PickedLogLikelihoodLoss"
    file = None
    training = None
    no_gradient = "it belongs to a loss, which has one"
    gradient = Operator.gradient
    numerics = Numerics(
        indices=lambda node, types: label_indices(node, node.inputs[1], _scores(node, types[node.inputs[0]])),
        counted=label_count,
        divisors=LABELS_READ,
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, or a loss per label."""
        picked, labels = operands(node, inputs, 2)
        if len(node.inputs) > 2 or len(picked.shape) < 2 or picked.shape[1] != 1 or node.attr_int("classes", 0) < 1:
            raise mismatch(node, "there is not one log probability for each label", inputs)
        return super().infer(node, [_scores(node, picked), labels])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """-log_prob where the label counts, reduced."""
        picked, labels = arrays(inputs, 2)
        scores = np.broadcast_to(picked, row_shape(picked.shape, node.attr_int("classes", 0)))
        return (negative_log_likelihood(node, scores, labels),)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Those of the other; every class of the kernel is the one that there is."""
        classes = Const(node.attr_int("classes", 0))
        return super().args(node, access) | {"c": classes, "classes": classes, "c_start": Const(0), "p_c": Const(0)}


def _scores(node: Node, picked: TensorType) -> TensorType:
    """The type of the scores, of which one in each row was picked."""
    return TensorType("float32", row_shape(picked.shape, node.attr_int("classes", 0)))


GRAD_MAX, GRAD_LOG_SUM, GRAD_LABELS, GRAD_DLOSS = range(1, 5)  # inputs of the gradient behind the scores


@register
class ScoresLossGrad(Operator):
    """dscores = dloss (exp(x - max - log_sum) - onehot(label)) / count: SoftmaxCrossEntropyLossGrad from the scores.

    Scores [N, C, d1..], max and log_sum [N, 1, d1..], labels [N, d1..][, dloss], which is one where absent.
    """

    name = "ScoresLossGrad"
    kernel = Kernel(
        "scores_ce_grad_f32",
        pointers=(
            ("x", "float32", False),
            ("max", "float32", False),
            ("log_sum", "float32", False),
            ("labels", "int32", False),
            ("dloss", "float32", False),
            ("dx", "float32", True),
        ),
        scalars=(
            *((name, "u32") for name in ("n", "c", "d", "c_start", "x_n", "x_c", "m_n", "s_n", "l_n", "g_n", "g_d")),
            *((name, "u32") for name in ("dx_n", "dx_c")),
            *LABEL_SCALARS,
        ),
    )
    no_gradient = "it belongs to a backward pass"
    numerics = Numerics(
        indices=lambda node, types: label_indices(node, node.inputs[GRAD_LABELS], types[node.inputs[0]]),
        divisors=LABELS_READ,
    )

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of the scores."""
        x, largest, log_sum, labels, *dloss = operands(node, inputs, len(inputs))
        check_labels(node, x, labels, inputs)
        if largest != log_sum or largest != TensorType("float32", row_shape(x.shape)):
            raise mismatch(node, "there is not one largest score and one sum for each row", inputs)
        if dloss and not (dloss[0].shape == labels.shape if per_label(node) else dloss[0].size == 1):
            raise mismatch(node, "dloss does not have the shape of the loss", inputs)
        return (x,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of SoftmaxCrossEntropyLossGrad, by the log probabilities."""
        x, largest, log_sum, labels, *dloss = arrays(inputs, len(inputs))
        plain = replace(node, op=SoftmaxCrossEntropyLossGrad.name)
        return SoftmaxCrossEntropyLossGrad().reference(plain, [*dloss, x - largest - log_sum, labels])

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n, c, d."""
        n, c, d = extents(types[node.inputs[SCORES]].shape)
        scores, each = (At("n"), At("c"), At("d")), (At("n"), At("d"))
        listed = [
            *([] if self.inplace else [Operand("x", node.inputs[SCORES], "in", (n, c, d), scores)]),
            Operand("max", node.inputs[GRAD_MAX], "in", (n, d), each),
            Operand("log_sum", node.inputs[GRAD_LOG_SUM], "in", (n, d), each),
            labels_operand(node, node.inputs[GRAD_LABELS], n, d),
        ]
        if len(node.inputs) > GRAD_DLOSS:
            g_axes: tuple[Axis, ...] = each if per_label(node) else (Broadcast(), Broadcast())
            listed.append(
                Operand("dloss", node.inputs[GRAD_DLOSS], "in", (n, d) if per_label(node) else (1, 1), g_axes)
            )
        result = node.inputs[SCORES] if self.inplace else node.outputs[0]
        listed.append(Operand("dx", result, "inout" if self.inplace else "out", (n, c, d), scores))
        return Access((Dim("n", n), Dim("c", c), Dim("d", d)), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, and LABEL_SCALARS."""
        n, _, d = access.operand("dx").view
        there, x = {o.arg for o in access.operands}, "dx" if self.inplace else "x"
        rows = {"x_n": (x, 0), "x_c": (x, 1), "m_n": ("max", 0), "s_n": ("log_sum", 0), "l_n": ("labels", 0)}
        rows |= {"g_n": ("dloss", 0), "g_d": ("dloss", 1), "dx_n": ("dx", 0), "dx_c": ("dx", 1)}
        strides = {k: Stride(arg, axis) if arg in there else Const(0) for k, (arg, axis) in rows.items()}
        lengths = {dim: Extent(dim) for dim in ("n", "c", "d")}
        return {**lengths, "c_start": Start("c"), **strides, **label_args(node, n, d)}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An exponential per element, and a product or a quotient with the number of labels, unless that is 1.

        Each core has some classes of each row.
        """
        count, rows = math.prod(tile.values()), tile["n"] * tile["d"]
        elements, starts = count * (model.transcendental_elements + 2), rows * model.cores_assumed
        return Work(0, elements, count, self._scaling(node, access), inner_loop_starts=starts)

    def _scaling(self, node: Node, access: Access) -> str:
        """The cost class: whether results are divided, which a number of labels that only the run knows may ask for."""
        n, _, d = access.operand("dx").view
        found = label_args(node, n, d)
        match found["counted"], found["count"]:
            case Const(0), Const(number) if number == 1:
                return "" if any(o.arg == "dloss" for o in access.operands) else "unscaled"
            case Const(0), Const(number) if math.frexp(number)[0] == HALF:
                return ""
        return "divided"


@register
class ScoresLossGradOver(ScoresLossGrad):
    """ScoresLossGrad in the memory of the scores, which nothing reads any more."""

    name = "ScoresLossGradOver"
    inplace: ClassVar[dict[int, int]] = {0: SCORES}


# The region: the steps that LogSoftmax over many classes is lowered to, the loss, and its gradient.


@dataclass(frozen=True)
class _Steps:
    """The steps by their place in the formula, and the loss where there is one."""

    largest: Node
    shifted: Node
    powers: Node
    total: Node
    log_sum: Node
    log_prob: Node
    loss: Node | None

    @property
    def gone(self) -> tuple[Node, ...]:
        """The steps that others replace, but the gradient."""
        return (self.shifted, self.powers, self.total, self.log_prob, *filter(None, (self.loss,)))


def _made(program: Program, graph: Graph, name: str, op: str) -> Node | None:
    """The step of that operator which makes a value that only nodes see; None where something else does."""
    if not is_inner(program, name):
        return None
    return next((n for n in graph.nodes if n.op == op and n.outputs[0] == name and ACTIVATION not in n.attrs), None)


def is_inner(program: Program, name: str) -> bool:
    """Whether a value has memory of its own that only nodes see."""
    tensor = program.tensors[name]
    views = [t for t in program.tensors.values() if t.storage == name and t.name != name]
    return tensor.role == "value" and tensor.storage == name and not views and name not in program.outputs


def readers_of(program: Program, name: str) -> list[Node]:
    """The nodes that read a value by this name."""
    return [n for n in program.nodes if name in n.inputs]


def _found(program: Program, graph: Graph, grad: Node) -> _Steps | None:
    """The steps in front of a gradient; None where something else makes or reads a value between them."""
    log_prob, labels = grad.inputs[-2:]
    last = _made(program, graph, log_prob, "Sub")
    if last is None or len(grad.inputs) > len(OPERANDS):
        return None
    shifted, log_sum = _made(program, graph, last.inputs[0], "Sub"), _made(program, graph, last.inputs[1], "Log")
    total = _made(program, graph, log_sum.inputs[0], "ReduceSum") if log_sum else None
    powers = _made(program, graph, total.inputs[0], "Exp") if total else None
    largest = _made(program, graph, shifted.inputs[1], "ReduceMax") if shifted else None
    if not (shifted and log_sum and total and powers and largest and powers.inputs[0] == shifted.outputs[0]):
        return None
    x = program.tensors[shifted.inputs[0]].type
    row, kinds = TensorType("float32", row_shape(x.shape)), (largest.outputs[0], total.outputs[0], log_sum.outputs[0])
    if largest.inputs[0] != shifted.inputs[0] or any(program.tensors[name].type != row for name in kinds):
        return None
    loss = [n for n in readers_of(program, log_prob) if n is not grad]
    if any(n.op != NegativeLogLikelihoodLoss.name or n.inputs != (log_prob, labels) for n in loss) or len(loss) > 1:
        return None
    found = _Steps(largest, shifted, powers, total, log_sum, last, loss[0] if loss else None)
    sole = ((shifted, [powers, last]), (powers, [total]), (total, [log_sum]), (log_sum, [last]))
    return found if all(readers_of(program, n.outputs[0]) == readers for n, readers in sole) else None


def _region(program: Program, graph: Graph, grad: Node, room: int, cores: int, canonical: bool) -> Region | None:
    """The steps by groups of classes, in the place of those over all scores."""
    found = _found(program, graph, grad)
    if found is None or not _lasts(program, graph, found, grad):
        return None
    *dloss, _, labels = grad.inputs
    x, largest, log_sum = found.largest.inputs[0], found.largest.outputs[0], found.log_sum.outputs[0]
    scores = program.tensors[x].type
    row, groups = row_shape(scores.shape), row_shape(scores.shape, -(-scores.shape[1] // GROUPED))
    sums, picks, pick, picked = (f"{grad.name}/{part}" for part in ("sums", "picks", "pick", "picked"))
    types = {sums: TensorType("float32", groups), picks: TensorType("float32", groups)}
    types |= {pick: TensorType("float32", row)}
    added: dict[str, tuple[Node, ...]] = {
        found.total.name: (
            Node(sums, PowerGroups.name, (x, largest, labels), (sums, picks)),
            Node(pick, GroupTotals.name, (sums, picks), (found.total.outputs[0], pick)),
        )
    }
    if found.loss is not None:
        attrs = {**label_attrs(found.loss), "classes": scores.shape[1]}
        types |= {picked: TensorType("float32", row)}
        added[found.loss.name] = (
            Node(picked, "Sub", (pick, log_sum), (picked,)),
            Node(found.loss.name, PickedLogLikelihoodLoss.name, (picked, labels), found.loss.outputs, attrs),
        )
    operands = (x, largest, log_sum, labels, *filter(None, dloss))
    over = _may_lie_over(program, graph, found, grad)
    op = ScoresLossGradOver.name if over else ScoresLossGrad.name
    added[grad.name] = (Node(grad.name, op, operands, grad.outputs, dict(label_attrs(grad))),)
    return Region((*found.gone, grad), added, types, over={grad.outputs[0]: x} if over else {})


def _lasts(program: Program, graph: Graph, found: _Steps, grad: Node) -> bool:
    """Whether scores, labels and what is made of them are in memory all the time: other steps read them than before."""
    own = (found.largest, found.log_sum, *found.gone)
    operands = (found.largest.inputs[0], found.largest.outputs[0], found.log_sum.outputs[0], grad.inputs[-1])
    between = graph.nodes[graph.nodes.index(found.largest) : graph.nodes.index(grad)]
    written = {program.storage(name) for n in between if n not in own for name in n.outputs if name}
    return written.isdisjoint(map(program.storage, operands))


def _may_lie_over(program: Program, graph: Graph, found: _Steps, grad: Node) -> bool:
    """Whether the gradient may take the memory of the scores: both are values, and nothing reads the scores later."""
    root, result = program.storage(found.largest.inputs[0]), program.tensors[grad.outputs[0]]
    shared = {name for name in program.tensors if program.storage(name) == root}
    if program.tensors[root].role != "value" or result.role != "value" or result.storage != result.name:
        return False
    if shared & {*program.outputs, *program.updated}:
        return False
    before = graph.nodes[: graph.nodes.index(grad)]
    users = [n for n in program.nodes if shared & {*n.inputs, *n.outputs}]
    return all(n in before for n in users)
