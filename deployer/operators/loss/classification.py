"""What the classification losses share: their geometry, reductions and ignored labels."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from deployer.core.access import At, Axis, Operand, Whole
from deployer.core.declarations import Indices
from deployer.core.ir import Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, CType, Sample, Start, mismatch, rng, unsupported
from deployer.operators.inputs import normal, operands

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
    return "ignore_index" in node.attrs and node.attr_str("reduction", "mean") == "mean"


def label_indices(node: Node, labels: str, scores: TensorType) -> Indices:
    """The labels as numbers of classes, beside the ignored one."""
    ignored = node.attr_int("ignore_index", 0) if "ignore_index" in node.attrs else None
    return Indices(labels, scores.shape[1], ignored=ignored)


def labels_operand(node: Node, tensor: str, n: int, d: int) -> Operand:
    """Labels as [N, D]: the tile's, or all of them where they are counted."""
    axes: tuple[Axis, ...] = (Whole(), Whole()) if counts_labels(node) else (At("n"), At("d"))
    return Operand("labels", tensor, "in", (n, d), axes)


LABEL_SCALARS: tuple[tuple[str, CType], ...] = (
    *(("n_start", "u32"), ("d_start", "u32")),
    *(("has_ignore", "u32"), ("ignore", "i32"), ("counted", "u32"), ("count", "f32")),
)
"""Kernel scalars that `label_args` fills: the tile's place in `labels`, the ignored label, how many
labels to count for the divisor (0 = take `count`)."""


def label_args(node: Node, n: int, d: int) -> dict[str, ArgValue]:
    """The kernel arguments LABEL_SCALARS for N = `n` batch elements of D = `d` labels each."""
    counting, mean = counts_labels(node), node.attr_str("reduction", "mean") == "mean"
    return {
        "n_start": Start("n") if counting else Const(0),
        "d_start": Start("d") if counting else Const(0),
        "has_ignore": Const(int("ignore_index" in node.attrs)),
        "ignore": Const(node.attr_int("ignore_index", 0)),
        "counted": Const(n * d if counting else 0),
        "count": Const(float(n * d) if mean else 1.0),
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
