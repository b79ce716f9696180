"""ONNX's attention and rotary embedding, as the operators of this compiler."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, registry, unsupported
from deployer.core.traits.file import FileSpec
from deployer.operators.attention.attention import MASK, ScaledDotProductAttention, Shape
from deployer.operators.base.operands import Construction, arrays, floats

BY_HEAD = (0, 2, 1, 3)
"""The order of axes in which heads lie before tokens."""


def _is_other(node: Node, elements: Mapping[str, int]) -> bool:
    """Whether attention has a cache, a window, a bound of its scores, results besides, or a mask of integers, which is
    added: ONNX's body has these.
    """
    mask = node.inputs[MASK] if len(node.inputs) > MASK else ""
    if elements.get(mask, TensorProto.FLOAT) not in (TensorProto.FLOAT, TensorProto.BOOL):
        return True
    more = any(node.inputs[MASK + 1 :]) or any(node.outputs[1:])
    precision = node.attr_int("softmax_precision", TensorProto.FLOAT)
    more |= any(node.attr_int(f"{side}_window_size", -1) >= 0 for side in ("left", "right"))
    return more or node.attr_float("softcap", 0.0) != 0 or precision != TensorProto.FLOAT


def _heads(node: Node, shape: Shape, count: int, inputs: Sequence[TensorType | None]) -> Shape:
    """The shape [batch, heads, tokens, width] of an operand that has four axes, or three with heads in the last."""
    if len(shape) == 4 and count in (0, shape[1]):
        return shape
    if len(shape) != 3 or count < 1 or shape[2] % count:
        raise mismatch(node, f"an operand of shape {list(shape)} has no {count or 'known number of'} heads", inputs)
    return (shape[0], count, shape[1], shape[2] // count)


def _split(graph: Construction, name: str, shape: Shape, to: Shape) -> str:
    """The operand with an axis for heads, before tokens."""
    if shape == to:
        return name
    apart = graph.emit("Reshape", (name,), shape=tuple(to[axis] for axis in BY_HEAD))
    return graph.emit("Transpose", (apart,), perm=BY_HEAD)


@register
class OnnxAttention(Operator):
    """softmax(scale Q K^T + mask) V, ONNX's name and form of scaled dot-product attention.

    Q, K, V[, mask] to Y, with an axis for heads or `q_num_heads` and `kv_num_heads` of them in the last axis. A mask of
    bools says which keys a query sees, one of floats is added. Other forms are computed by ONNX's function body.
    """

    name = "Attention"
    file = FileSpec(versions=(23, 24, 25), flags=("is_causal",), by_body=_is_other)
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of Y."""
        if _is_other(node, {}):
            raise unsupported(node, "attention of this form is computed by ONNX's body alone", "ONNX's domain")
        q, k, v = self._shapes(node, inputs)
        mask = inputs[MASK] if len(inputs) > MASK else None
        if mask is not None and (not mask.shape or mask.shape[-1] != k[-2]):
            raise unsupported(
                node, f"the mask {mask} has no number for each of {k[-2]} keys", "a mask with one for each"
            )
        kinds = [TensorType("float32", shape) for shape in (q, k, v)]
        plain = Node(node.name, ScaledDotProductAttention.name, node.inputs[:MASK], node.outputs[:1])
        (y, *_) = registry()[plain.op].infer(plain, kinds)
        whole = len(floats(node, inputs, 1)[0].shape) == 4
        return (y if whole else TensorType("float32", (y.shape[0], y.shape[2], y.shape[1] * y.shape[3])),)

    @staticmethod
    def _shapes(node: Node, inputs: Sequence[TensorType | None]) -> tuple[Shape, Shape, Shape]:
        counts = (node.attr_int("q_num_heads", 0), *(node.attr_int("kv_num_heads", 0),) * 2)
        q, k, v = (_heads(node, x.shape, n, inputs) for x, n in zip(floats(node, inputs, MASK), counts, strict=True))
        return q, k, v

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """That of ScaledDotProductAttention."""
        given = arrays(inputs, MASK)
        shapes = self._shapes(node, [TensorType("float32", x.shape) for x in given])
        operands = list[Array | None]()
        for x, shape in zip(given, shapes, strict=True):
            apart = x if x.ndim == 4 else x.reshape([shape[axis] for axis in BY_HEAD]).transpose(BY_HEAD)
            operands.append(apart)
        mask = inputs[MASK] if len(inputs) > MASK else None
        if mask is not None and mask.dtype.kind != "f":
            mask = np.where(mask, 0, -np.inf).astype(given[0].dtype)
        plain = Node(node.name, ScaledDotProductAttention.name, node.inputs, node.outputs[:1], self._attrs(node))
        y = registry()[plain.op].reference(plain, [*operands, mask])[0]
        return (y if given[0].ndim == 4 else np.asarray(y.transpose(BY_HEAD)).reshape(*given[0].shape[:2], -1),)

    @staticmethod
    def _attrs(node: Node) -> dict[str, AttrValue]:
        return {name: node.attrs[name] for name in ("scale", "is_causal") if name in node.attrs}

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """ScaledDotProductAttention, between Reshape and Transpose where heads have no axis."""
        graph, shapes = Construction(node.name), self._shapes(node, inputs)
        given = floats(node, inputs, MASK)
        operands = [_split(graph, n, x.shape, to) for n, x, to in zip(node.inputs, given, shapes, strict=False)]
        kind = inputs[MASK] if len(inputs) > MASK else None
        if kind is not None:
            mask = node.inputs[MASK]
            if kind.dtype != "float32":
                mask = graph.emit("Where", (mask, graph.number(0.0), graph.number(-math.inf)))
            operands.append(mask)
        attrs = self._attrs(node)
        if len(given[0].shape) == 4:
            graph.emit(ScaledDotProductAttention.name, operands, node.outputs[0], **attrs)
            return graph.nodes
        y = graph.emit(ScaledDotProductAttention.name, operands, "", **attrs)
        y = graph.emit("Transpose", (y,), perm=BY_HEAD)
        graph.emit("Reshape", (y,), node.outputs[0], shape=self.infer(node, inputs)[0].shape)
        return graph.nodes


@register
class RotaryEmbedding(Operator):
    """Pairs of each head's features turned by angles of their tokens' positions, as ONNX has it.

    X, cos, sin[, positions] to Y. X is [batch, heads, tokens, width], or [batch, tokens, heads width] with `num_heads`.
    Pairs are both halves of the first `rotary_embedding_dim` features, or with `interleaved` neighbours.
    """

    name = "RotaryEmbedding"
    file = FileSpec(versions=(23,), flags=("interleaved",))
    composite = True

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of X; the tables have an angle for each pair."""
        x, cos, sin = floats(node, inputs, 3)
        shape, turned = self._shape(node, x.shape, inputs), self._turned(node, x.shape, inputs)
        positions = inputs[3] if len(inputs) > 3 else None
        rows = (shape[0], shape[2])
        if positions is not None and (positions.dtype != "int32" or positions.shape != rows):
            raise mismatch(node, f"positions are not one for each of {rows[0]} x {rows[1]} tokens", inputs)
        expected = (*(cos.shape[:1] if positions else rows), turned // 2)
        if cos != sin or cos.shape != expected or turned % 2 or not 0 < turned <= shape[3]:
            raise mismatch(node, f"the tables are not of shape {list(expected)}", inputs)
        return (x,)

    @staticmethod
    def _shape(node: Node, shape: Shape, inputs: Sequence[TensorType | None]) -> Shape:
        return _heads(node, shape, node.attr_int("num_heads", 0), inputs)

    def _turned(self, node: Node, shape: Shape, inputs: Sequence[TensorType | None]) -> int:
        """The features that are turned, by default all."""
        return node.attr_int("rotary_embedding_dim", 0) or self._shape(node, shape, inputs)[3]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Both of each pair, and what is kept."""
        x, cos, sin = arrays(inputs, 3)
        positions = inputs[3] if len(inputs) > 3 else None
        kinds = [TensorType("float32", x.shape)]
        shape, turned = self._shape(node, x.shape, kinds), self._turned(node, x.shape, kinds)
        if positions is not None:
            cos, sin = cos[positions], sin[positions]
        heads = x if x.ndim == 4 else x.reshape([shape[axis] for axis in BY_HEAD])
        cos, sin = (np.expand_dims(table, 1 if x.ndim == 4 else 2) for table in (cos, sin))
        parts = heads[..., :turned]
        neighbours = node.attr_int("interleaved", 0)
        first, second = (parts[..., ::2], parts[..., 1::2]) if neighbours else np.split(parts, 2, -1)
        pair = (first * cos - second * sin, first * sin + second * cos)
        rotated = np.stack(pair, -1).reshape(parts.shape) if neighbours else np.concatenate(pair, -1)
        return (np.concatenate((rotated, heads[..., turned:]), -1).reshape(x.shape),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """Slices, products, sums and Concat, which one step replaces where angles are constant."""
        graph, kind = Construction(node.name), floats(node, inputs, 1)[0]
        shape, turned = self._shape(node, kind.shape, inputs), self._turned(node, kind.shape, inputs)
        (x, cos, sin), by_head = node.inputs[:3], len(kind.shape) == 4
        stored = shape if by_head else tuple(shape[axis] for axis in BY_HEAD)
        if len(inputs) > 3 and inputs[3] is not None:
            cos, sin = (graph.emit("Gather", (table, node.inputs[3]), axis=0) for table in (cos, sin))
        cos, sin = (graph.emit("Unsqueeze", (table,), axes=(1 if by_head else 2,)) for table in (cos, sin))
        x = x if by_head else graph.emit("Reshape", (x,), shape=stored)
        neighbours = node.attr_int("interleaved", 0)
        spans = ((0, turned, 2), (1, turned, 2)) if neighbours else ((0, turned // 2, 1), (turned // 2, turned, 1))
        first, second = (_part(graph, x, *span) for span in spans)
        real = graph.emit("Sub", (graph.emit("Mul", (first, cos)), graph.emit("Mul", (second, sin))))
        other = graph.emit("Add", (graph.emit("Mul", (first, sin)), graph.emit("Mul", (second, cos))))
        pair = [real, other]
        if neighbours:
            pair = [graph.emit("Unsqueeze", (each,), axes=(-1,)) for each in pair]
            pair = [graph.emit("Reshape", (graph.emit("Concat", pair, axis=-1),), shape=(*stored[:3], turned))]
        kept = [_part(graph, x, turned, shape[3], 1)] if turned < shape[3] else []
        if by_head and len(pair) + len(kept) > 1:
            graph.emit("Concat", (*pair, *kept), node.outputs[0], axis=-1)
        else:
            joint = graph.emit("Concat", (*pair, *kept), axis=-1) if len(pair) + len(kept) > 1 else pair[0]
            graph.emit("Reshape", (joint,), node.outputs[0], shape=kind.shape)
        return graph.nodes


def _part(graph: Construction, x: str, first: int, end: int, step: int) -> str:
    """Some elements of the last axis."""
    return graph.emit("Slice", (x,), starts=(first,), ends=(end,), axes=(-1,), steps=(step,))
