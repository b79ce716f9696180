"""Losses over class labels as nodes: negative log-likelihood and its gradient, with weights and ignored labels."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, First, Kernel, Last, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, execution_of, mismatch, register, rng, unsupported
from deployer.core.samples import Sample
from deployer.core.signatures import Signature
from deployer.core.traits.execution import Execution, Sums
from deployer.core.traits.file import FileSpec
from deployer.core.traits.numerics import Indices, Numerics
from deployer.core.traits.training import Hyperparameter, Loss, Training
from deployer.operators.base.one_sample import OWN_MEANS
from deployer.operators.base.operands import arrays, normal, operands
from deployer.operators.base.sums import CARRY, CARRY_SCALARS, carry_args, carry_operands

# Scores, labels, reductions and ignored labels.

SCORES = "scores [N, C, ...] with at least two classes C"
"""What a loss over labels takes."""


def class_labels(scores: TensorType) -> TensorType | None:
    """The type of the labels of scores, or None where these have no two classes."""
    shape = scores.shape
    return TensorType("int32", (shape[0], *shape[2:])) if len(shape) >= 2 and shape[1] >= 2 else None


def check_labels(node: Node, scores: TensorType, labels: TensorType, inputs: Sequence[TensorType | None]) -> None:
    """Scores [N, C, d1..] and integer labels [N, d1..]; `reduction` is one of the three."""
    if len(scores.shape) < 2:
        raise mismatch(node, "scores need a batch and a class axis", inputs)
    if labels.shape != (scores.shape[0], *scores.shape[2:]):
        raise mismatch(node, "labels do not have the shape of the scores without the class axis", inputs)
    if labels.dtype != "int32":
        raise mismatch(node, "labels are not integers", inputs)
    if node.attr_str("reduction", "mean") not in ("mean", "sum", "none"):
        raise unsupported(node, f"reduction {node.attr_str('reduction', 'mean')!r} does not exist", "mean, sum or none")


def check_loss(node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, TensorType]:
    """Types of (loss, scores) of a loss with inputs scores and labels."""
    scores, labels = operands(node, inputs, 2)
    check_labels(node, scores, labels, inputs)
    shape = labels.shape if node.attr_str("reduction", "mean") == "none" else ()
    return TensorType("float32", shape), scores


def extents(shape: Sequence[int]) -> tuple[int, int, int]:
    """The scores' shape as [N, C, D], where D is the product of all axes behind the class axis."""
    return shape[0], shape[1], math.prod(shape[2:])


def label_mask(node: Node, labels: Array) -> Array:
    """A boolean per label: whether it adds to the loss, which an ignored one does not."""
    return labels != node.attr_int("ignore_index", 0) if "ignore_index" in node.attrs else np.ones(labels.shape, bool)


def counts_labels(node: Node) -> bool:
    """Whether the divisor depends on the labels; every tile then sees all of them."""
    return "ignore_index" in node.attrs and _is_mean(node) and OWN_MEANS not in node.attrs


def label_indices(node: Node, labels: str, scores: TensorType) -> Indices:
    """The labels as numbers of classes, beside the ignored one."""
    ignored = node.attr_int("ignore_index", 0) if "ignore_index" in node.attrs else None
    return Indices(labels, scores.shape[1], ignored=ignored)


def labels_operand(node: Node, tensor: str, n: int, d: int) -> Operand:
    """Labels as [N, D]: the tile's, or all of them where they are counted."""
    axes: tuple[Axis, ...] = (Whole(), Whole()) if counts_labels(node) else (At("n"), At("d"))
    return Operand("labels", tensor, "in", (n, d), axes)


LABELS_READ = ("labels",)
"""The kernel pointer of labels, all of which are read where they are counted."""
LABEL_SCALARS: tuple[tuple[str, CType], ...] = (
    *(("n_start", "u32"), ("d_start", "u32")),
    *(("has_ignore", "u32"), ("ignore", "i32"), ("counted", "u32"), ("count", "f32")),
)
"""Kernel scalars that `label_args` fills: the tile's place in `labels`, the ignored label, how many
labels to count for the divisor (0 = take `count`)."""


def own_divisor(node: Node, size: int) -> float:
    """The labels of one sample, ignored ones included, by which a gradient with OWN_MEANS divides."""
    return size / node.attr_int(OWN_MEANS, 1)


def label_args(node: Node, n: int, d: int) -> dict[str, ArgValue]:
    """The kernel arguments LABEL_SCALARS for N = `n` batch elements of D = `d` labels each."""
    counting, mean = counts_labels(node), node.attr_str("reduction", "mean") == "mean"
    return {
        "n_start": Start("n") if counting else Const(0),
        "d_start": Start("d") if counting else Const(0),
        "has_ignore": Const(int("ignore_index" in node.attrs)),
        "ignore": Const(node.attr_int("ignore_index", 0)),
        "counted": Const(n * d if counting else 0),
        "count": Const(float(n * d // node.attr_int(OWN_MEANS, 1)) if mean else 1.0),
    }


def negative_log_likelihood(node: Node, log_prob: Array, labels: Array) -> Array:
    """Minus the log probability of each label that counts, reduced; the mean is over those labels.

    A label outside of all classes that is not ignored gives NaN.
    """
    counts = label_mask(node, labels)
    in_range = (labels >= 0) & (labels < log_prob.shape[1])
    picked = np.take_along_axis(log_prob, np.where(in_range, labels, 0)[:, None], axis=1)[:, 0]
    loss = np.where(counts, np.where(in_range, -picked, log_prob.dtype.type(np.nan)), log_prob.dtype.type(0))
    reduction = node.attr_str("reduction", "mean")
    if reduction == "none":
        return np.asarray(loss)
    total = loss.sum(dtype=log_prob.dtype)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / log_prob.dtype.type(counts.sum()) if reduction == "mean" else total)


def log_softmax(x: Array, axis: int) -> Array:
    """x - max - log(sum(exp(x - max))) along the axis."""
    shifted = x - x.max(axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis, keepdims=True, dtype=x.dtype)))


def loss_samples(seed: int, outputs: int = 1) -> Iterator[Sample]:
    """Scores and labels for every reduction, with ignored labels, spatial axes and scores of +-1e4."""
    r = rng(seed)

    def labels(classes: int, *shape: int) -> Array:
        return np.asarray(r.integers(0, classes, shape), np.int32)

    for reduction in ("mean", "sum", "none"):
        yield Sample(reduction, (normal(r, 7, 5), labels(5, 7)), {"reduction": reduction}, outputs)
        spatial = (normal(r, 3, 4, 2, 5), labels(4, 3, 2, 5))
        yield Sample(f"spatial_{reduction}", spatial, {"reduction": reduction}, outputs)
        ignored = (normal(r, 6, 3, 5), labels(3, 6, 5))
        yield Sample(f"ignore_{reduction}", ignored, {"reduction": reduction, "ignore_index": 1}, outputs)
    outside = labels(5, 7)
    outside[::3] = -100
    yield Sample("ignore_outside", (normal(r, 7, 5), outside), {"ignore_index": -100}, outputs)
    yield Sample("one", (normal(r, 1, 10), labels(10, 1)), {}, outputs)
    huge = np.asarray(r.choice([-1e4, 0.0, 1e4], (7, 5)), np.float32)
    yield Sample("huge", (huge, labels(5, 7)), {}, outputs)


# Class weights and smoothed labels.

SMOOTHING = Hyperparameter(
    "label-smoothing", "label smoothing: share of the target spread evenly over all classes", 0.0, most=1.0
)
IGNORED = Hyperparameter(
    "ignore-index", "label to ignore in the loss and its gradient", None, least=-(2.0**31), most=2.0**31 - 1, whole=True
)
KINDS = {"reduction": "STRING", IGNORED.place: IGNORED.kind, SMOOTHING.place: SMOOTHING.kind}

WEIGHTED_SCALARS: tuple[tuple[str, CType], ...] = (
    *(("classes", "u32"), ("near", "f32"), ("even", "f32"), ("n_start", "u32"), ("d_start", "u32")),
    *(("has_ignore", "u32"), ("ignore", "i32"), ("counted", "u32"), ("count", "f32")),
)
"""Kernel scalars that `weighted_args` fills."""


def check_weights(node: Node, weights: TensorType | None, classes: int, inputs: Sequence[TensorType | None]) -> None:
    """There is a float weight per class, or none, and a share of smoothing from 0 to below 1."""
    if weights is not None and (weights.dtype != "float32" or weights.shape != (classes,)):
        raise mismatch(node, f"there is not one float weight for each of {classes} classes", inputs)
    if not SMOOTHING.fits(SMOOTHING.of(node)):
        name = SMOOTHING.place
        raise unsupported(node, f"{name} is {SMOOTHING.of(node):g}", f"{name} in {SMOOTHING.range}")


def _is_mean(node: Node) -> bool:
    return node.attr_str("reduction", "mean") == "mean"


def has_weights(node: Node) -> bool:
    """Whether a loss with inputs scores, labels and weights has the last of them."""
    return len(node.inputs) > 2 and bool(node.inputs[2])


def shares(node: Node, labels: Array, weights: Array) -> Array:
    """Return the weight of each class's log-probability for each label, [N, C, d1..]; 0 if the label is ignored.

    PyTorch's formula: the label's class counts 1 - smoothing of its weight, and every class smoothing / C of its own.
    """
    classes, smoothing = weights.size, weights.dtype.type(SMOOTHING.of(node))
    column = weights.reshape(1, classes, *[1] * (labels.ndim - 1))
    own = labels[:, None] == np.arange(classes).reshape(column.shape)
    counted = np.asarray((1 - smoothing) * own * column + smoothing / weights.dtype.type(classes) * column)
    return np.where(label_mask(node, labels)[:, None], counted, weights.dtype.type(0))


def divisor(node: Node, labels: Array, weights: Array) -> Array:
    """The weights of all labels that count, 1 for one outside of all classes; or 1 unless the loss is a mean."""
    if node.attr_str("reduction", "mean") != "mean":
        return np.asarray(1, weights.dtype)
    counted = labels[label_mask(node, labels)]
    inside = (counted >= 0) & (counted < weights.size)
    return np.asarray(np.where(inside, weights[np.where(inside, counted, 0)], 1).sum(dtype=weights.dtype))


def weighted_loss(node: Node, log_prob: Array, labels: Array, weights: Array | None) -> Array:
    """The reduced loss; a label outside of all classes that is not ignored gives NaN."""
    given = np.ones(log_prob.shape[1], log_prob.dtype) if weights is None else weights.astype(log_prob.dtype)
    outside = label_mask(node, labels) & ((labels < 0) | (labels >= given.size))
    each = -(shares(node, labels, given) * log_prob).sum(1, dtype=log_prob.dtype)
    loss = np.where(outside, log_prob.dtype.type(np.nan), each)
    if node.attr_str("reduction", "mean") == "none":
        return np.asarray(loss)
    with np.errstate(invalid="ignore"):
        return np.asarray(loss.sum(dtype=log_prob.dtype) / divisor(node, labels, given))


def all_labels(node: Node, weights: str) -> bool:
    """Whether the divisor depends on the labels; every tile then sees all of them."""
    return _is_mean(node) and (bool(weights) or (IGNORED.place in node.attrs and OWN_MEANS not in node.attrs))


def weighted_operands(node: Node, labels: str, weights: str, shape: tuple[int, int, int]) -> tuple[Operand, ...]:
    """The labels of scores [N, C, D], the tile's or all of them, and the weights, where there are some."""
    n, classes, d = shape
    axes: tuple[Axis, ...] = (Whole(), Whole()) if all_labels(node, weights) else (At("n"), At("d"))
    own = (Operand("weights", weights, "in", (classes,), (Whole(),)),) if weights else ()
    return (Operand("labels", labels, "in", (n, d), axes), *own)


def weighted_args(node: Node, weights: str, shape: tuple[int, int, int]) -> dict[str, ArgValue]:
    """The kernel arguments WEIGHTED_SCALARS for scores [N, C, D]."""
    n, classes, d = shape
    counting, mean = all_labels(node, weights), node.attr_str("reduction", "mean") == "mean"
    smoothing = SMOOTHING.of(node)
    return {
        "classes": Const(classes),
        "near": Const(1 - smoothing),
        "even": Const(smoothing / classes),
        "n_start": Start("n") if counting else Const(0),
        "d_start": Start("d") if counting else Const(0),
        "has_ignore": Const(int(IGNORED.place in node.attrs)),
        "ignore": Const(node.attr_int(IGNORED.place, 0)),
        "counted": Const(n * d if counting else 0),
        "count": Const(float(n * d // node.attr_int(OWN_MEANS, 1)) if mean else 1.0),
    }


def label_attrs(node: Node) -> dict[str, AttrValue]:
    """The attributes of a loss over labels, for the nodes that it is made of."""
    return {name: node.attrs[name] for name in (*KINDS, OWN_MEANS) if name in node.attrs}


def weighted_samples(seed: int) -> Iterator[tuple[str, Array, Array, Array | None, Mapping[str, AttrValue]]]:
    """Name, scores, labels, weights and attributes: all reductions, with and without smoothing and ignored labels."""
    r = rng(seed)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "mean": ((7, 5), {}),
        "sum": ((7, 5), {"reduction": "sum"}),
        "none": ((3, 4, 2, 5), {"reduction": "none"}),
        "spatial": ((3, 4, 2, 5), {"reduction": "mean"}),
        "ignored": ((6, 3, 5), {"ignore_index": 1}),
        "ignored_none": ((6, 3, 5), {"ignore_index": 1, "reduction": "none"}),
        "smooth": ((7, 5), {"label_smoothing": 0.25}),
        "smooth_ignored": ((6, 3, 5), {"label_smoothing": 0.125, "ignore_index": -1}),
        "smooth_none": ((5, 70), {"label_smoothing": 0.25, "reduction": "none"}),
        "unweighted": ((11, 3, 9), {"label_smoothing": 0.25}),
    }
    for label, (shape, attrs) in cases.items():
        labels = np.asarray(r.integers(0, shape[1], (shape[0], *shape[2:])), np.int32)
        if attrs.get("ignore_index") == -1:
            labels.reshape(-1)[::3] = -1
        weights = None if label == "unweighted" else np.asarray(r.uniform(0.25, 2, shape[1]), np.float32)
        yield label, normal(r, *shape), labels, weights, attrs


def _second_labels(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """Labels are the second input; their scores are the first."""
    return label_indices(node, node.inputs[1], types[node.inputs[0]])


def _weight_total(node: Node, inputs: Sequence[Array | None]) -> float | None:
    """The weights of the labels that are not ignored; without weights they are 1."""
    labels, weights = inputs[1], inputs[2] if _weights(node) else None
    if labels is None or not all_labels(node, _weights(node)):
        return None
    one = np.ones(1) if weights is None else weights.astype(np.float64)
    return float(divisor(node, labels, one))


@register
class WeightedNLLLoss(Operator):
    """minus the log probability of each label, or of a smoothed label, by class weights, reduced.

    Log probabilities [N, C, d1..], labels [N, d1..] and, where there are some, class weights [C].
    """

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
    execution = Execution(sums=Sums(("n", "d")))
    no_gradient = "the losses that are made of it have one"
    numerics = Numerics(indices=_second_labels, counted=_weight_total, divisors=LABELS_READ)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, or a loss per label."""
        log_prob, labels = operands(node, inputs, 2)
        check_labels(node, log_prob, labels, inputs)
        check_weights(node, inputs[2] if len(inputs) > 2 else None, log_prob.shape[1], inputs)
        return (TensorType("float32", labels.shape if per_label(node) else ()),)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """-sum(share log_prob) for each label that counts, reduced."""
        log_prob, labels, *weights = inputs
        assert log_prob is not None
        assert labels is not None
        return (weighted_loss(node, log_prob, labels, weights[0] if weights else None),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Dims n and d, reduced unless there is a loss per label; a label's classes are whole in every tile."""
        shape = extents(types[node.inputs[0]].shape)
        log_prob = Operand("log_prob", node.inputs[0], "in", shape, (At("n"), Whole(), At("d")))
        listed = (log_prob, *weighted_operands(node, node.inputs[1], _weights(node), shape))
        n, _, d = shape
        if per_label(node):
            loss = Operand("loss", node.outputs[0], "out", (n, d), (At("n"), At("d")))
            return Access((Dim("n", n), Dim("d", d)), (*listed, loss))
        loss = Operand("loss", node.outputs[0], "out", (1,), (Broadcast(),))
        dims = (Dim("n", n, "reduction"), Dim("d", d, "reduction"))
        return Access(dims, (*listed, loss, *carry_operands(node, self.kernel, execution_of(self).sums, loss)))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Loop lengths, strides, whether the tile is first or last in the sum, and WEIGHTED_SCALARS."""
        n, classes, d = access.operand("log_prob").view
        return {
            "n": Extent("n"),
            "d": Extent("d"),
            "p_n": Stride("log_prob", 0),
            "p_c": Stride("log_prob", 1),
            "l_n": Stride("labels", 0),
            "y_n": Stride("loss", 0) if per_label(node) else Const(0),
            "each": Const(int(per_label(node))),
            "first": First(),
            "last": Last(),
            **carry_args(execution_of(self).sums, access),
            **weighted_args(node, _weights(node), (n, classes, d)),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An operation per class; a reduced loss is summed on one core."""
        labels = tile["n"] * tile["d"]
        classes = access.operand("log_prob").view[1]
        return Work(macs=0, elements=labels * classes, parallel=labels if per_label(node) else 1)


def per_label(node: Node) -> bool:
    """Whether each label has a loss of its own."""
    return node.attr_str("reduction", "mean") == "none"


def _weights(node: Node) -> str:
    return node.inputs[2] if len(node.inputs) > 2 else ""


DLOSS, LABELS, LOG_PROB, WEIGHTS = range(4)
INPUTS = (DLOSS, LABELS, LOG_PROB, WEIGHTS)
"""The inputs: all but the labels may be absent."""


def _graded_labels(node: Node, types: Mapping[str, TensorType]) -> Indices:
    """Labels are classes of the gradient."""
    return label_indices(node, _input(node, LABELS), types[node.outputs[0]])


@register
class LabelLossGrad(Operator):
    """The gradient of losses over labels, with class weights and smoothing, for log probabilities or scores.

    With the share q[c] of each class, dlog_prob = -dloss q / divisor; through a softmax with the probabilities p it is
    dscores = dloss (p sum(q) - q) / divisor.

    Inputs [dloss], labels [N, d1..], [log_prob [N, C, d1..]], [weights [C]]; attribute `classes` is C.

    The gradient is that of scores where log_prob is there, else that of log probabilities.
    """

    name = "LabelLossGrad"
    file = FileSpec(custom=Signature((2, 4), (1, 1), {**KINDS, "classes": "INT"}, frozenset({"classes"})))
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
    numerics = Numerics(indices=_graded_labels, divisors=LABELS_READ)
    training = Training(sample_mean=OWN_MEANS)

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
        if dloss is not None and not (dloss.shape == labels.shape if per_label(node) else dloss.size == 1):
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
        count = np.asarray(own_divisor(node, labels.size), dtype) if OWN_MEANS in node.attrs else count
        dx = dx / np.where(count == 0, dtype.type(1), count)
        if dloss is not None:
            dx = dx * (dloss[:, None] if per_label(node) else dloss.reshape(()))
        return (np.asarray(dx, dtype),)

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims n, c, d."""
        shape = extents(types[node.outputs[0]].shape)
        n, c, d = shape
        axes: tuple[Axis, ...] = (At("n"), At("c"), At("d"))
        listed = []
        if _input(node, DLOSS):
            g_axes: tuple[Axis, ...] = (At("n"), At("d")) if per_label(node) else (Broadcast(), Broadcast())
            listed.append(Operand("dloss", _input(node, DLOSS), "in", (n, d) if per_label(node) else (1, 1), g_axes))
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

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """An exponential and a division per element."""
        count = math.prod(tile.values())
        return Work(macs=0, elements=count * (model.transcendental_elements + 2), parallel=count)


def _input(node: Node, position: int) -> str:
    return node.inputs[position] if position < len(node.inputs) else ""


def label_count(node: Node, inputs: Sequence[Array | None]) -> float | None:
    """The labels that are not ignored."""
    return float(label_mask(node, inputs[1]).sum()) if counts_labels(node) and inputs[1] is not None else None


@register
class NegativeLogLikelihoodLoss(Operator):
    """minus the log probability of each label, reduced.

    Log probabilities [N, C, d1..], labels [N, d1..][, weights [C]]; attributes `reduction`, `ignore_index`.
    """

    name = "NegativeLogLikelihoodLoss"
    file: ClassVar[FileSpec | None] = FileSpec(versions=(12, 13, 22))
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
    execution = Execution(sums=Sums(("n", "d")))
    training: ClassVar[Training | None] = Loss(
        "nll",
        "labels",
        class_labels,
        f"log probabilities, as {SCORES}",
        1,
        weights=2,
        settings=(IGNORED,),
        spoken=("negative_log_likelihood",),
    )
    numerics = Numerics(indices=_second_labels, counted=label_count, divisors=LABELS_READ)

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
        operands = (log_prob, labels, loss, *carry_operands(node, self.kernel, execution_of(self).sums, loss))
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
            **carry_args(execution_of(self).sums, access),
            **label_args(node, n, d),
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """One operation per label; a reduced loss is summed on one core."""
        labels = tile["n"] * tile["d"]
        return Work(macs=0, elements=labels, parallel=labels if access.dim("n").kind == "parallel" else 1)
