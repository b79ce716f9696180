"""What losses over labels with class weights and smoothed labels share: shares, divisors, kernel numbers, samples."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from deployer.core.access import At, Axis, Operand, Whole
from deployer.core.declarations import Setting
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import ArgValue, Array, Const, CType, Start, mismatch, rng, unsupported
from deployer.operators.inputs import normal
from deployer.operators.loss.classification import label_mask

SMOOTHING = Setting("label-smoothing", "share of each label that all classes have evenly", 0.0, most=1.0)
IGNORED = Setting("ignore-index", "label that does not count", None, least=-(2.0**31), most=2.0**31 - 1, whole=True)
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


def has_weights(node: Node) -> bool:
    """Whether a loss with inputs scores, labels and weights has the last of them."""
    return len(node.inputs) > 2 and bool(node.inputs[2])


def shares(node: Node, labels: Array, weights: Array) -> Array:
    """What the logarithm of each class counts for each label, [N, C, d1..]; nothing where the label is ignored.

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
    return node.attr_str("reduction", "mean") == "mean" and (IGNORED.place in node.attrs or bool(weights))


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
        "count": Const(float(n * d) if mean else 1.0),
    }


def label_attrs(node: Node) -> dict[str, AttrValue]:
    """The attributes of a loss over labels, for the nodes that it is made of."""
    return {name: node.attrs[name] for name in KINDS if name in node.attrs}


def weighted_samples(seed: int) -> Iterator[tuple[str, Array, Array, Array | None, Mapping[str, AttrValue]]]:
    """Name, scores, labels, weights and attributes: all reductions, with and without smoothing and ignored labels."""
    r = rng(seed)
    forms: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
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
    for label, (shape, attrs) in forms.items():
        labels = np.asarray(r.integers(0, shape[1], (shape[0], *shape[2:])), np.int32)
        if attrs.get("ignore_index") == -1:
            labels.reshape(-1)[::3] = -1
        weights = None if label == "unweighted" else np.asarray(r.uniform(0.25, 2, shape[1]), np.float32)
        yield label, normal(r, *shape), labels, weights, attrs
