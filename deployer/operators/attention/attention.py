"""Scaled dot-product attention and its gradient: two products with a softmax between them, on stacks of heads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.errors import NotDifferentiable, UnsupportedOperator
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, register, registry
from deployer.core.signatures import Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Fresh, Training
from deployer.operators.base.operands import Construction, arrays, floats
from deployer.operators.base.sums import LONGEST_ROW
from deployer.operators.normalization.softmax import MaskedSoftmax, SoftmaxGrad, lower_triangle, safe_softmax, softmax

MASK = 3
"""The optional input that is added to the scores."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Heads:
    """Shapes of Q and K, and the width of V; each head of K and V serves `groups` heads of Q, which are neighbours."""

    q: Shape
    k: Shape
    v: Shape
    groups: int

    @property
    def scores(self) -> Shape:
        """The shape of the scores, and of their softmax."""
        return (*self.q[:-1], self.k[-2])

    @property
    def y(self) -> Shape:
        """The shape of the result."""
        return (*self.q[:-1], self.v[-1])

    def stacked(self, shape: Shape) -> Shape:
        """The shape of Q, of the scores or of the result in which the queries of all heads of a group are rows."""
        if self.groups == 1:
            return shape
        return (*shape[:-3], shape[-3] // self.groups, self.groups * shape[-2], shape[-1])


def heads_of(node: Node, inputs: Sequence[TensorType | None]) -> Heads:
    """The shapes of Q, K and V; ShapeMismatch where they do not belong together."""
    q, k, v = (kind.shape for kind in floats(node, inputs, 3))
    if not len(q) == len(k) == len(v) >= 2:
        raise mismatch(node, "Q, K and V do not have one rank, of at least 2", inputs)
    if k[:-1] != v[:-1] or q[-1] != k[-1]:
        raise mismatch(node, "K and V differ but for their last axis, or Q and K in it", inputs)
    if not q[-1] or not k[-2]:
        raise mismatch(node, "there is no key, or keys have no elements", inputs)
    if q[:-3] != k[:-3] or (len(q) > 2 and (not k[-3] or q[-3] % k[-3])):
        raise mismatch(node, "heads of Q are no multiple of those of K and V, or batches differ", inputs)
    return Heads(q, k, v, q[-3] // k[-3] if len(q) > 2 else 1)


def scale_of(node: Node, heads: Heads) -> float:
    """The factor of the scores, by default 1 / sqrt(D)."""
    return node.attr_float("scale", 1 / math.sqrt(heads.q[-1]))


def _saving(node: Node, fresh: Fresh) -> Node:
    """With the softmax of the scores as an output."""
    if len(node.outputs) > 1 and node.outputs[1]:
        return node
    return replace(node, outputs=(node.outputs[0], fresh(f"{node.name}_shares")))


@register
class ScaledDotProductAttention(Operator):
    """softmax(scale Q K^T + mask) V over the last two axes, as PyTorch has it.

    Q [.., H, T, D], K [.., G, S, D], V [.., G, S, E][, mask] to Y [.., H, T, E][, softmax [.., H, T, S]].

    H is a multiple of G: neighbouring heads of Q share one of K and V. The mask is added and broadcasts to the softmax.
    Where `is_causal` is set, query i sees keys up to i. A query for which all scores are minus infinity yields zeros.
    """

    name = "ScaledDotProductAttention"
    file = FileSpec(custom=Signature((3, 4), (1, 2), {"scale": "FLOAT", "is_causal": "INT"}), flags=("is_causal",))
    training = Training(training_form=_saving)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of Y and of the softmax."""
        heads = heads_of(node, inputs)
        mask = inputs[MASK] if len(inputs) > MASK else None
        if mask is not None and (mask.dtype != "float32" or not _broadcasts(mask.shape, heads.scores)):
            raise mismatch(node, f"the mask {mask} does not broadcast to scores {list(heads.scores)}", inputs)
        return (TensorType("float32", heads.y), TensorType("float32", heads.scores))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both products, each head of K and V repeated for its heads of Q."""
        q, k, v = arrays(inputs, 3)
        heads = heads_of(node, [TensorType("float32", x.shape) for x in (q, k, v)])
        mask = inputs[MASK] if len(inputs) > MASK else None
        causal = bool(node.attr_int("is_causal", 0))
        scores = scores_of(q, repeated(k, heads), mask, scale_of(node, heads), causal)
        shares = softmax(scores, -1) if mask is None else safe_softmax(scores)
        return (np.asarray(shares @ repeated(v, heads)), shares)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """ScaledDotProductAttentionGrad of what reads Y."""
        if any(douts[1:]) or not douts[0]:
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only Y has a gradient")
        if len(node.inputs) > MASK and node.inputs[MASK] and b.needs_grad(MASK):
            hint = "MatMul, Add and Softmax as nodes of their own"
            raise NotDifferentiable(f"node {node.name!r} ({node.op}) has no gradient of its mask: write it as {hint}")
        shares = node.outputs[1] if len(node.outputs) > 1 else ""
        if not shares:
            shares = b.temp("shares")
            b.emit(self.name, node.inputs, ("", shares), **node.attrs)
        outputs = tuple(b.grad(i) if b.needs_grad(i) else "" for i in range(MASK))
        if any(outputs):
            # A default stays one: a file would round it, and the scores have it unrounded.
            attrs = {name: node.attrs[name] for name in ("scale",) if name in node.attrs}
            b.emit(ScaledDotProductAttentionGrad.name, (douts[0], *node.inputs[:MASK], shares), outputs, **attrs)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A product, MaskedSoftmax and a product; the heads of Q in a group are rows of one matrix."""
        heads, graph = heads_of(node, inputs), Construction(node.name)
        q, k, v, mask = (*node.inputs, "")[: MASK + 1]
        y, shares = (*node.outputs, "")[:2]
        rows = _reshaped(graph, q, heads.q, heads.stacked(heads.q))
        stacked = heads.stacked(heads.scores)
        scores = graph.emit("Gemm", (rows, k), transB=1)
        scores = _reshaped(graph, scores, stacked, heads.scores)
        shares = self._shares(graph, node, heads, scores, (mask, inputs[MASK] if mask else None), shares)
        weights = _reshaped(graph, shares, heads.scores, stacked)
        if y and heads.groups == 1:
            graph.emit("Gemm", (weights, v), y)
        elif y:
            graph.emit("Reshape", (graph.emit("Gemm", (weights, v)),), y, shape=heads.y)
        return graph.nodes

    @staticmethod
    def _shares(
        graph: Construction, node: Node, heads: Heads, scores: str, mask: tuple[str, TensorType | None], output: str
    ) -> str:
        """Append the softmax of scaled and masked scores, with steps for what its kernel cannot do."""
        alpha, causal = scale_of(node, heads), node.attr_int("is_causal", 0)
        name, kind = mask
        attrs: dict[str, AttrValue] = {"alpha": alpha, "causal": causal}
        if heads.k[-2] > LONGEST_ROW:
            return _long_shares(graph, heads, scores, (alpha, name, bool(causal)), output)
        if kind is None:
            return graph.emit(MaskedSoftmax.name, (scores,), output, **_given(attrs))
        if not _is_one_step(heads, kind, attrs):
            scores = graph.emit("Add", (graph.emit("Mul", (scores, graph.number(alpha))), name))
            return graph.emit(MaskedSoftmax.name, (scores,), output, **_given({"causal": causal, "safe": 1}))
        return graph.emit(MaskedSoftmax.name, (scores, name), output, **_given({**attrs, "safe": 1}))


def _given(attrs: dict[str, AttrValue]) -> dict[str, AttrValue]:
    """The attributes without flags that are not set."""
    return {name: value for name, value in attrs.items() if value or name == "alpha"}


def _is_one_step(heads: Heads, mask: TensorType, attrs: dict[str, AttrValue]) -> bool:
    """Whether the kernel of MaskedSoftmax can read the mask where it is."""
    node = Node("scores", MaskedSoftmax.name, ("x", "mask"), ("y",), dict(attrs))
    scores = TensorType("float32", heads.scores)
    try:
        registry()[MaskedSoftmax.name].access(node, {"x": scores, "mask": mask, "y": scores})
    except UnsupportedOperator:
        return False
    return True


def _long_shares(graph: Construction, heads: Heads, scores: str, what: tuple[float, str, bool], output: str) -> str:
    """Append the softmax of rows that are too long for one tile, in steps; `what` has factor, mask, whether causal."""
    alpha, mask, causal = what
    scores = graph.emit("Mul", (scores, graph.number(alpha)))
    if mask:
        scores = graph.emit("Add", (scores, mask))
    if causal:
        hidden = graph.emit("Expand", (graph.number(-math.inf),), shape=heads.scores[-2:])
        scores = graph.emit("Add", (scores, graph.emit("Trilu", (hidden,), upper=1, k=1)))
    if not mask:
        return graph.emit("Softmax", (scores,), output, axis=-1)
    largest = graph.emit("ReduceMax", (scores,), axes=(-1,), keepdims=1)
    hidden = graph.emit("Equal", (largest, graph.number(-math.inf)))
    zero = graph.number(0.0)
    shares = graph.emit("Softmax", (graph.emit("Where", (hidden, zero, scores)),), axis=-1)
    return graph.emit("Where", (hidden, zero, shares), output)


def _reshaped(graph: Construction, name: str, shape: Shape, to: Shape) -> str:
    """The value in another shape, or itself."""
    return name if shape == to else graph.emit("Reshape", (name,), shape=to)


def _broadcasts(mask: Shape, shape: Shape) -> bool:
    try:
        return np.broadcast_shapes(mask, shape) == shape
    except ValueError:
        return False


def repeated(x: Array, heads: Heads) -> Array:
    """K or V with a head for each of Q."""
    return x if heads.groups == 1 else np.repeat(x, heads.groups, axis=-3)


def scores_of(q: Array, k: Array, mask: Array | None, scale: float, causal: bool) -> Array:
    """The scaled and masked scores; K has a head for each of Q."""
    scores = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(scale)
    scores = scores if mask is None else scores + mask
    return np.asarray(np.where(lower_triangle(scores.shape), scores, q.dtype.type(-np.inf)) if causal else scores)


@register
class ScaledDotProductAttentionGrad(Operator):
    """dQ, dK and dV of attention, from the softmax of its scores.

    dY, Q, K, V, softmax to dQ, dK, dV; an output may be absent. `scale` is the factor of the scores.
    """

    name = "ScaledDotProductAttentionGrad"
    file = FileSpec(custom=Signature((5, 5), (1, 3), {"scale": "FLOAT"}))
    no_gradient = "it is itself a gradient"

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of Q, K and V."""
        dy, q, k, v, shares = floats(node, inputs, 5)
        heads = heads_of(node, (q, k, v))
        if dy.shape != heads.y or shares.shape != heads.scores:
            raise mismatch(node, "dY or the softmax do not belong to Q, K and V", inputs)
        return (q, k, v)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """dV = P^T dY, dS = scale P (dP - sum(dP P)) of dP = dY V^T, dQ = dS K, dK = dS^T Q."""
        dy, q, k, v, shares = arrays(inputs, 5)
        heads = heads_of(node, [TensorType("float32", x.shape) for x in (q, k, v)])
        dy, q, shares = (x.reshape(heads.stacked(x.shape)) for x in (dy, q, shares))
        dp = dy @ np.swapaxes(v, -1, -2)
        dot = (dp * shares).sum(-1, keepdims=True, dtype=q.dtype)
        ds = shares * (dp - dot) * q.dtype.type(scale_of(node, heads))
        transposed = np.swapaxes(ds, -1, -2), np.swapaxes(shares, -1, -2)
        return ((ds @ k).reshape(heads.q), np.asarray(transposed[0] @ q), np.asarray(transposed[1] @ dy))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Four products, of which each transposes by strides, and SoftmaxGrad."""
        heads, graph = heads_of(node, inputs[1:]), Construction(node.name)
        dy, q, k, v, shares = node.inputs
        dq, dk, dv = (*node.outputs, "", "")[:3]
        stacked = heads.stacked(heads.scores)
        dy = _reshaped(graph, dy, heads.y, heads.stacked(heads.y))
        shares = _reshaped(graph, shares, heads.scores, stacked)
        if dv:
            graph.emit("Gemm", (shares, dy), dv, transA=1)
        if not (dq or dk):
            return graph.nodes
        dp = graph.emit("Gemm", (dy, v), transB=1)
        ds = self._score_grad(graph, (dp, shares), scale_of(node, heads), heads.k[-2])
        if dq and heads.groups == 1:
            graph.emit("Gemm", (ds, k), dq)
        elif dq:
            graph.emit("Reshape", (graph.emit("Gemm", (ds, k)),), dq, shape=heads.q)
        if dk:
            rows = _reshaped(graph, q, heads.q, heads.stacked(heads.q))
            graph.emit("Gemm", (ds, rows), dk, transA=1)
        return graph.nodes

    @staticmethod
    def _score_grad(graph: Construction, operands: tuple[str, str], alpha: float, keys: int) -> str:
        """Append the gradient of the scores; rows that are too long for SoftmaxGrad are scaled by a step."""
        if keys > LONGEST_ROW:
            return graph.emit("Mul", (graph.emit(SoftmaxGrad.name, operands, axis=-1), graph.number(alpha)))
        return graph.emit(SoftmaxGrad.name, operands, axis=-1, alpha=alpha)
