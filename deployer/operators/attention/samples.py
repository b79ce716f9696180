"""Samples of attention: uses for tests."""

from collections.abc import Iterator

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, rng
from deployer.core.samples import Sample, measured, samples_of, sweep_of
from deployer.operators.attention.attention import (
    ScaledDotProductAttention,
    ScaledDotProductAttentionGrad,
    Shape,
    heads_of,
)
from deployer.operators.attention.attention_region import BLOCK
from deployer.operators.attention.attention_steps import (
    TOKENS_FIRST,
    AttentionQueryGrad,
    AttentionRows,
    AttentionStep,
)
from deployer.operators.attention.cache import CacheUpdate
from deployer.operators.attention.onnx_attention import OnnxAttention, RotaryEmbedding
from deployer.operators.base.operands import normal
from deployer.operators.base.sums import LONGEST_ROW
from deployer.operators.normalization.softmax import softmax

SHAPES: dict[str, tuple[Shape, Shape, int]] = {
    "heads": ((2, 3, 5, 4), (2, 3, 5, 4), 4),
    "groups": ((2, 4, 5, 4), (2, 2, 7, 4), 4),
    "one of keys": ((1, 3, 4, 3), (1, 1, 6, 3), 3),
    "values": ((3, 4, 5), (3, 6, 5), 2),
    "matrix": ((6, 3), (4, 3), 5),
    "blocks": ((1, 1, 3, 5), (1, 1, 150, 5), 2),
    "rows": ((1, 2, 100, 3), (1, 1, 34, 3), 3),
}
"""Shapes of Q and K, and the width of V."""


def _operands(r: np.random.Generator, q: Shape, k: Shape, width: int) -> tuple[Array, Array, Array]:
    return normal(r, *q), normal(r, *k), normal(r, *k[:-1], width)


def _hidden(r: np.random.Generator, *shape: int) -> Array:
    """A mask of zeros and minus infinity, with a row that is hidden."""
    mask = np.where(normal(r, *shape) > 0, 0, -np.inf).astype(np.float32)
    mask[..., -1] = 0
    mask[..., 0, :] = -np.inf
    return mask


@samples_of(ScaledDotProductAttention)
def attention_samples(op: ScaledDotProductAttention) -> Iterator[Sample]:
    """Heads and groups of heads, causal and masked in every form, with hidden rows, and rows of several blocks."""
    r = rng(210)
    for label, shapes in SHAPES.items():
        yield Sample(label, _operands(r, *shapes), {}, 2, onnx=False)
    for label in ("heads", "groups", "matrix", "values", "blocks", "rows"):
        yield Sample(f"causal {label}", _operands(r, *SHAPES[label]), {"is_causal": 1, "scale": 0.3}, onnx=False)
    masks = {
        "heads": normal(r, 2, 3, 5, 5),
        "groups": normal(r, 5, 7),
        "one of keys": normal(r, 1, 1, 1, 6),
        "values": normal(r, 3, 1, 6),
        "matrix": normal(r, 6, 1),
    }
    for label, mask in masks.items():
        yield Sample(f"masked {label}", (*_operands(r, *SHAPES[label]), mask), {"scale": 0.3}, 2, onnx=False)
    hidden = {"heads": (2, 1, 5, 5), "groups": (5, 7), "values": (3, 4, 6)}
    for label, shape in hidden.items():
        for causal in (0, 1):
            attrs: dict[str, AttrValue] = {"is_causal": causal}
            values = (*_operands(r, *SHAPES[label]), _hidden(r, *shape))
            yield Sample(f"hidden {label} {causal}", values, attrs, 2, onnx=False)
    long = (1, 3, 2), (1, LONGEST_ROW + 3, 2), 2
    yield Sample("long", _operands(r, *long), {"is_causal": 1}, onnx=False)
    yield Sample("long hidden", (*_operands(r, *long), _hidden(r, 3, LONGEST_ROW + 3)), {}, onnx=False)


@samples_of(ScaledDotProductAttentionGrad)
def attention_grad_samples(op: ScaledDotProductAttentionGrad) -> Iterator[Sample]:
    """All gradients, some, and rows too long for a tile."""
    r = rng(211)
    long = (1, 3, 2), (1, LONGEST_ROW + 3, 2), 2
    for label, shapes in {**SHAPES, "long": long}.items():
        q, k, v = _operands(r, *shapes)
        types = [TensorType("float32", x.shape) for x in (q, k, v)]
        heads = heads_of(Node(label, op.name, ("q", "k", "v"), ()), types)
        shares = softmax(normal(r, *heads.scores), -1)
        outputs = {"values": 1, "matrix": 2}.get(label, 3)
        attrs: dict[str, AttrValue] = {} if label == "heads" else {"scale": 0.3}
        yield Sample(label, (normal(r, *heads.y), q, k, v, shares), attrs, outputs, onnx=False)


LONG = ((1, 2, 151, 5), (1, 1, 150, 5), 6)
"""Queries and keys that are several blocks of a sum."""
STEPS: dict[str, tuple[str, dict[str, AttrValue], Shape | None]] = {
    "heads": ("heads", {}, None),
    "groups": ("groups", {"causal": 1}, None),
    "one of keys": ("one of keys", {}, (1, 1, 6)),
    "hidden": ("heads", {"safe": 1}, (2, 1, 5, 5)),
    "hidden causal": ("groups", {"safe": 1, "causal": 1}, (5, 7)),
    "of heads": ("heads", {}, (1, 3, 1, 5)),
    "values": ("values", {"causal": 1, "workers": 1}, (3, 1, 6)),
    "matrix": ("matrix", {"causal": 1}, None),
    "blocks": ("blocks", {}, None),
    "rows": ("rows", {"causal": 1}, None),
    "by token": ("groups", {"causal": 1}, None),
    "in blocks": ("heads", {"rows_each": BLOCK}, None),
    "in blocks, causal": ("long", {"causal": 1, "rows_each": BLOCK}, None),
    "in blocks, hidden": ("groups", {"safe": 1, "causal": 1, "rows_each": BLOCK, "from_first": 1}, (5, 7)),
    "in blocks, by token": ("groups", {"causal": 1, "rows_each": BLOCK}, None),
}
"""Shapes, attributes, and the shape of the mask."""


def _with_numbers(
    r: np.random.Generator, operands: tuple[Array, Array, Array], mask: Array | None, attrs: dict[str, AttrValue]
) -> dict[str, Array | None]:
    """All operands of the steps by name, of which some are numbers that others compute."""
    q, k, v = operands
    forward = Node("rows", AttentionRows.name, (), (), attrs)
    _, stats, _ = AttentionRows().reference(forward, [q, k, v, mask])
    dy = normal(r, *q.shape[:-1], v.shape[-1])
    gradient = Node("gradient", AttentionQueryGrad.name, (), (), attrs)
    _, dot, _ = AttentionQueryGrad().reference(gradient, [dy, q, k, v, mask])
    return {"q": q, "k": k, "v": v, "mask": mask, "dy": dy, "stats": stats, "dot": dot}


def _step_sample(op: AttentionStep, label: str, found: dict[str, Array | None], attrs: dict[str, AttrValue]) -> Sample:
    """The operands that a step has, without those that are absent at the end."""
    values = [found[name] for name in (*op.headed, "mask", *op.saved)]
    while values[-1] is None:
        values.pop()
    outputs = len([name for name, _, is_output in op.kernel.pointers if is_output])
    return Sample(label, tuple(values), attrs, outputs, onnx=False)


@samples_of(AttentionStep)
def attention_step_samples(op: AttentionStep) -> Iterator[Sample]:
    """Heads and groups, causal, masked, hidden, of several blocks, and stored by token."""
    for label, (name, flags, shape) in STEPS.items():
        r = rng(212)
        operands = _operands(r, *{**SHAPES, "long": LONG}[name])
        attrs: dict[str, AttrValue] = {"alpha": 0.3, "workers": 3, **flags}
        mask = None if shape is None else _hidden(r, *shape) if "safe" in flags else normal(r, *shape)
        found = _with_numbers(r, operands, mask, attrs)
        if label.endswith("by token"):
            for arg in (*op.headed, "y", "dq", "dk", "dv"):
                attrs[f"order_{arg}"] = TOKENS_FIRST
                if (x := found.get(arg)) is not None:
                    found[arg] = np.ascontiguousarray(x.transpose(TOKENS_FIRST))
        yield _step_sample(op, label, found, attrs)


@sweep_of(AttentionStep)
def attention_step_sweep(op: AttentionStep) -> Iterator[Sample]:
    """Few and many heads and keys, causal and not, by rows and by blocks."""
    r = rng(213)
    for heads, shared, length, width, causal in measured("attention"):
        operands = _operands(r, (1, heads, length, width), (1, shared, length, width), width)
        plain: dict[str, AttrValue] = {"alpha": 0.3, "workers": 8, "causal": causal}
        found = _with_numbers(r, operands, None, plain)
        label = f"{heads}/{shared}x{length}x{width}{' causal' * causal}"
        yield _step_sample(op, label, found, plain)
        yield _step_sample(op, f"{label} in blocks", found, {**plain, "rows_each": BLOCK})


@samples_of(OnnxAttention)
def onnx_attention_samples(op: OnnxAttention) -> Iterator[Sample]:
    """Heads in an axis of their own and in the last one, groups of them, masks of floats, causal."""
    r = rng(217)
    heads = ((2, 4, 5, 3), (2, 2, 6, 3), (2, 2, 6, 4))
    tokens: dict[str, AttrValue] = {"q_num_heads": 4, "kv_num_heads": 2}
    flat = ((2, 5, 12), (2, 6, 6), (2, 6, 8))
    yield Sample("heads", tuple(normal(r, *s) for s in heads), {}, onnx=False)
    yield Sample("causal", tuple(normal(r, *s) for s in heads), {"is_causal": 1, "scale": 0.3}, onnx=False)
    yield Sample("tokens", tuple(normal(r, *s) for s in flat), tokens, onnx=False)
    yield Sample("masked", (*(normal(r, *s) for s in flat), normal(r, 5, 6)), tokens, onnx=False)


@samples_of(RotaryEmbedding)
def rotary_embedding_samples(op: RotaryEmbedding) -> Iterator[Sample]:
    """Halves and neighbours, of all features or of some, with tables for each sample or for positions."""
    r = rng(218)
    positions = np.array([[0, 2, 4], [1, 0, 3]], np.int32)
    own, shared = normal(r, 2, 2, 3, 3), normal(r, 2, 5, 3)
    for label, attrs in (("halves", {}), ("neighbours", {"interleaved": 1})):
        yield Sample(label, (normal(r, 2, 4, 3, 6), *own), {**attrs}, onnx=False)
        inputs = (normal(r, 2, 3, 16), *shared, positions)
        yield Sample(f"{label}, part", inputs, {**attrs, "num_heads": 2, "rotary_embedding_dim": 6}, onnx=False)


@samples_of(CacheUpdate)
def cache_samples(op: CacheUpdate) -> Iterator[Sample]:
    """One sequence and several, from the first row on, in the middle, and with rows for which there is no room."""
    r = rng(214)
    for label, cache, count, begin in (
        ("first", (1, 2, 5, 3), 2, [0]),
        ("sequences", (3, 2, 7, 4), 3, [0, 4, 2]),
        ("last", (2, 9, 4), 1, [8, 3]),
        ("behind", (2, 1, 6, 2), 4, [4, 6]),
        ("all", (1, 3, 4, 5), 4, [0]),
    ):
        rows = normal(r, *cache[:-2], count, cache[-1])
        yield Sample(label, (normal(r, *cache), rows, np.array(begin, np.int32)), {}, onnx=False)


@sweep_of(CacheUpdate)
def cache_sweep(op: CacheUpdate) -> Iterator[Sample]:
    """A token and several of one sequence and of more, in heads of several widths."""
    r = rng(219)
    for sequences, heads, rows, width, count in (
        *((1, 2, 64, 16, 1), (1, 4, 64, 32, 1), (1, 8, 64, 64, 1), (1, 4, 128, 16, 8), (1, 2, 128, 64, 8)),
        *((1, 8, 64, 32, 8), (1, 1, 128, 64, 32), (4, 2, 32, 16, 1), (4, 4, 32, 32, 2), (1, 3, 64, 24, 5)),
    ):
        shape = (sequences, heads)
        inputs = (normal(r, *shape, rows, width), normal(r, *shape, count, width), np.full(sequences, 3, np.int32))
        yield Sample("x".join(map(str, (*shape, rows, width, count))), inputs, {}, onnx=False)
