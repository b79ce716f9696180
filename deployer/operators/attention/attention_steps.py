"""Attention as one step forward and two backward, which keep whole rows of scores and compute them again.

All sums have the order of the products and softmaxes for which they stand. A causal row leaves out the keys behind it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Broadcast, Dim, Operand, Whole
from deployer.core.ir import Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.traits.execution import Execution
from deployer.core.traits.fusion import Fusion
from deployer.operators.attention.attention import Heads, Shape, heads_of, repeated, scores_of
from deployer.operators.attention.attention_region import BLOCK, FROM_FIRST, ROWS_EACH, region
from deployer.operators.base.operands import arrays, floats
from deployer.operators.normalization.softmax import MaskedSoftmax, mean_seen, safe_softmax, softmax

TOKENS_FIRST = (0, 2, 1, 3)
"""The order of axes of heads that are stored with the heads of a token next to each other; it is its own inverse."""
ORDER = "order_"
"""The attributes with an operand's order of axes begin so; its name follows."""
WORKERS = "workers"
"""The attribute, and the kernel's scalar, that says how many cores have rows of their own."""
BY_BLOCKS = "blocks"
"""The class of costs of calls in blocks."""
WHOLE_KEYS, WHOLE_QUERIES = "t", "s"
"""The dim of a step whose tiles have some queries and all keys, and of one for some keys and all queries."""


def by_token(node: Node, arg: str, rank: int) -> bool:
    """Whether an operand is stored with tokens before heads; UnsupportedOperator for another order."""
    name = f"{ORDER}{arg}"
    order = node.attr_ints(name, tuple(range(rank)))
    if order == tuple(range(rank)):
        return False
    if order != TOKENS_FIRST:
        raise unsupported(node, f"{name} is {order}", f"{TOKENS_FIRST} of four axes")
    return True


def rows_each(node: Node) -> int:
    """For how many queries, or keys, at a time a core has rows."""
    return node.attr_int(ROWS_EACH, 1)


def has_blocks(by: str, heads: Heads) -> bool:
    """Whether a step can compute blocks: there are as many columns of each product as a block has."""
    return min(heads.q[-1], heads.v[-1], heads.k[-2] if by == WHOLE_KEYS else heads.q[-2]) >= BLOCK


def split(heads: Heads) -> dict[str, int]:
    """The sizes of the batch, of the heads of K, of a group, and of a head."""
    own = heads.k[-3] if len(heads.k) > 2 else 1
    return {"b": math.prod(heads.q[:-3]), "h": own, "g": heads.groups, "t": heads.q[-2], "s": heads.k[-2]}


def letters(node: Node, arg: str, rank: int) -> str:
    """The axes of an operand but the last: batch, head of keys, head of the group and query, or batch, head and key."""
    if arg in ("k", "v", "dk", "dv"):
        return "bsh" if by_token(node, arg, rank) else "bhs"
    return "bthg" if arg in ("q", "y", "dy", "dq") and by_token(node, arg, rank) else "bhgt"


class AttentionStep(Operator):
    """A step of attention over rows of queries, or of keys.

    Its inputs are `headed`, an optional mask, and `saved`. Attributes are alpha, causal, safe, from_first, rows_each,
    workers, and orders of axes.
    """

    kernel: ClassVar[Kernel]
    headed: ClassVar[tuple[str, ...]]
    """Inputs with heads: q, k, v, and the gradient of the result."""
    saved: ClassVar[tuple[str, ...]] = ()
    """Inputs behind the mask, with numbers for each query."""
    by: ClassVar[str] = WHOLE_KEYS
    buffers: ClassVar[int] = 1
    """Rows of a core for a query, or a key."""
    products: ClassVar[int]
    """Products of a score with a vector."""
    no_gradient = "it stands for several nodes, which have theirs"

    def heads(self, node: Node, inputs: Sequence[TensorType | None]) -> Heads:
        """Check the types of all inputs; returns the shapes in the order of heads, tokens, elements."""
        types = dict(zip(self.headed, floats(node, inputs, len(self.headed)), strict=True))
        used = []
        for name in "qkv":
            shape = types[name].shape
            order = TOKENS_FIRST if by_token(node, name, len(shape)) else range(len(shape))
            used.append(TensorType("float32", tuple(shape[axis] for axis in order)))
        heads, mask = heads_of(node, used), self._mask(inputs)
        if node.attr_int(WORKERS, 1) < 1:
            raise mismatch(node, "no core has rows of its own", inputs)
        if (each := rows_each(node)) != 1 and not (each == BLOCK and has_blocks(self.by, heads)):
            raise mismatch(node, f"a core has rows for {each} at a time, not for 1, or a block of {BLOCK}", inputs)
        if mask is not None and (mask.shape[-1:] != heads.k[-2:-1] or len(mask.shape) > len(heads.q)):
            raise unsupported(node, f"the mask {mask} has no number for each key", "a mask with one for each key")
        return heads

    def _mask(self, inputs: Sequence[TensorType | None]) -> TensorType | None:
        return inputs[len(self.headed)] if len(inputs) > len(self.headed) else None

    def row_length(self, node: Node, heads: Heads) -> int:
        """Floats that each core has for itself."""
        return rows_each(node) * self.buffers * (heads.k[-2] if self.by == WHOLE_KEYS else heads.groups * heads.q[-2])

    def rows_type(self, node: Node, heads: Heads) -> TensorType:
        """The type of the rows of all cores."""
        return TensorType("float32", (node.attr_int(WORKERS, 1), self.row_length(node, heads)))

    def empty_rows(self, node: Node, x: Mapping[str, Array]) -> Array:
        """The rows as the kernel leaves them."""
        return np.zeros(self.rows_type(node, _heads_of(node, x)).shape, x["q"].dtype)

    def used(self, node: Node, inputs: Sequence[Array | None]) -> tuple[dict[str, Array], Array | None]:
        """The inputs by name in the order of heads, tokens, elements, and the mask."""
        count = len(self.headed)
        found = {}
        for name, x in zip(self.headed, arrays(inputs, count), strict=True):
            found[name] = x.transpose(TOKENS_FIRST) if by_token(node, name, x.ndim) else x
        rest = [x for x in inputs[count + 1 :] if x is not None]
        mask = inputs[count] if len(inputs) > count else None
        return found | dict(zip(self.saved, rest, strict=False)), mask

    def operand(self, node: Node, arg: str, tensor: str, heads: Heads, mode: str = "in") -> Operand:
        """An operand with an axis for each of its letters, and one for its elements."""
        sizes = split(heads)
        width = {**dict.fromkeys(("v", "dv", "y", "dy"), heads.v[-1]), "stats": 2, "dot": 1}.get(arg, heads.q[-1])
        axes: list[Axis] = []
        names = letters(node, arg, len(heads.q))
        for letter in names:
            axes.append(At(letter) if letter in ("b", "h", self.by) or (letter, self.by) == ("g", "t") else Whole())
        view = (*(sizes[letter] for letter in names), width)
        return Operand(arg, tensor, "out" if mode == "out" else "in", view, (*axes, Whole()))

    def mask_operand(self, node: Node, name: str, shape: Shape, heads: Heads) -> Operand:
        """The mask, with one element along axes on which it repeats."""
        rank, sizes = len(heads.q), split(heads)
        full = (1,) * (rank - len(shape)) + shape
        lead, wide = math.prod(full[:-3]), full[-3] if rank > 2 else 1
        if any(a not in (1, b) for a, b in zip(full, heads.scores, strict=True)) or lead not in (1, sizes["b"]):
            raise unsupported(node, f"the mask {shape} repeats along some axes of a batch", "a mask for each sample")
        has = {"b": lead > 1, "h": wide > 1, "g": wide > 1, "t": full[-2] > 1}
        tiled = {"b", "h", "g", "t"} if self.by == WHOLE_KEYS else {"b", "h"}
        axes: list[Axis] = [(At(x) if x in tiled else Whole()) if has[x] else Broadcast() for x in "bhgt"]
        view = tuple(sizes[x] if has[x] else 1 for x in "bhgt")
        return Operand("mask", name, "in", (*view, full[-1]), (*axes, At("s") if self.by == "s" else Whole()))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """Parallel dims: batch, head of keys, and head of the group and query, or key."""
        count = len(self.headed)
        heads = self.heads(node, [types[n] if n else None for n in node.inputs])
        listed = [self.operand(node, arg, n, heads) for arg, n in zip(self.headed, node.inputs, strict=False)]
        if len(node.inputs) > count and node.inputs[count]:
            name = node.inputs[count]
            listed.append(self.mask_operand(node, name, types[name].shape, heads))
        for arg, name in zip(self.saved, node.inputs[count + 1 :], strict=False):
            listed.append(self.operand(node, arg, name, heads))
        for arg, name in zip(self._results(), node.outputs, strict=False):
            if arg == "rows":
                view = self.rows_type(node, heads).shape
                listed.append(Operand("rows", name, "out", view, (Whole(), Whole())))
            elif name:
                listed.append(self.operand(node, arg, name, heads, "out"))
        sizes = split(heads)
        return Access(tuple(Dim(x, sizes[x]) for x in ("bhgt" if self.by == WHOLE_KEYS else "bhs")), tuple(listed))

    def _results(self) -> list[str]:
        return [name for name, _, is_output in self.kernel.pointers if is_output]

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """Lengths, strides and numbers; strides of an absent operand are zero."""
        operands = {o.arg: o for o in access.operands}
        rank = 4 if any(name.startswith(ORDER) for name in node.attrs) else 0
        found: dict[str, ArgValue] = {}
        for label in STRIDES[self.kernel.symbol]:
            arg, letter = label.rsplit("_", 1)
            found[label] = Stride(arg, letters(node, arg, rank).index(letter)) if arg in operands else Const(0)
        q, k = operands["q"], operands["k"]
        sizes = dict(zip(letters(node, "q", rank), q.view, strict=False)) | dict(
            zip(letters(node, "k", rank), k.view, strict=False)
        )
        tiled = [d.name for d in access.dims]
        extents: dict[str, ArgValue] = {x: Extent(x) if x in tiled else Const(sizes[x]) for x in "bhgts"}
        numbers = {"keys": Const(sizes["s"]), "depth": Const(k.view[-1]), "width": Const(operands["v"].view[-1])}
        flags = {name: Const(node.attr_int(name, 0)) for name in ("causal", "safe", FROM_FIRST)}
        rest: dict[str, ArgValue] = {WORKERS: Const(node.attr_int(WORKERS, 1)), "start": Start(self.by)}
        rest |= {ROWS_EACH: Const(rows_each(node)), "alpha": Const(node.attr_float("alpha", 1.0))}
        given = {**extents, **numbers, **flags, **rest, **found}
        return {name: given[name] for name, _ in self.kernel.scalars}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Return the work of the products, and of an exponential and some operations for each score."""
        operands = {o.arg: o for o in access.operands}
        rank = 4 if any(name.startswith(ORDER) for name in node.attrs) else 0
        sizes = dict(zip(letters(node, "q", rank), operands["q"].view, strict=False))
        keys = dict(zip(letters(node, "k", rank), operands["k"].view, strict=False))["s"]
        rows, each = math.prod(tile.values()), rows_each(node)
        length = keys if self.by == WHOLE_KEYS else sizes["g"] * sizes["t"]
        if node.attr_int("causal", 0):
            seen = min(mean_seen(sizes["t"], keys) + each // 2, keys)
            length = seen if self.by == WHOLE_KEYS else -(-length * seen // keys)
        wide = (operands["q"].view[-1] + operands["v"].view[-1]) // 2
        elements = rows * (length + 1) * (model.transcendental_elements + 4)
        macs = rows * length * wide * self.products
        if each == 1:
            return Work(macs, elements, rows, inner_loop_starts=rows * self.products)
        heads = rows // tile[self.by]
        blocks, single = divmod(tile[self.by], each)
        pieces = heads * (blocks + single)
        return Work(macs, elements, pieces, BY_BLOCKS, inner_loop_starts=pieces * self.products)


def _heads_of(node: Node, x: Mapping[str, Array]) -> Heads:
    return heads_of(node, [TensorType("float32", x[name].shape) for name in "qkv"])


def _scores(node: Node, x: Mapping[str, Array], mask: Array | None) -> Array:
    """The scaled and masked scores."""
    numbers = (node.attr_float("alpha", 1.0), bool(node.attr_int("causal", 0)))
    return scores_of(x["q"], repeated(x["k"], _heads_of(node, x)), mask, *numbers)


def _stored(node: Node, arg: str, y: Array) -> Array:
    """A result in the order in which it is stored."""
    return np.asarray(y.transpose(TOKENS_FIRST)) if by_token(node, arg, y.ndim) else y


def _powers(scores: Array, stats: Array) -> Array:
    """The shares of scores, by the largest and the sum of powers of each row, which is zero of one that is hidden."""
    largest, total = stats[..., :1], stats[..., 1:]
    hidden = total == 0
    powers = np.exp(scores - np.where(hidden, 0, largest))
    return np.asarray(np.where(hidden, 0, powers / np.where(hidden, 1, total)), scores.dtype)


def _scalars(symbol: str, lengths: Sequence[str]) -> tuple[tuple[str, CType], ...]:
    names = (
        *lengths,
        "keys",
        "depth",
        "width",
        *STRIDES[symbol],
        "start",
        "causal",
        "safe",
        FROM_FIRST,
        WORKERS,
        ROWS_EACH,
    )
    return (*((name, "u32") for name in names), ("alpha", "f32"))


def _each(arg: str, axes: str) -> tuple[str, ...]:
    return tuple(f"{arg}_{axis}" for axis in axes)


FORWARD, BY_QUERY, BY_KEY = "attention_f32", "attention_grad_q_f32", "attention_grad_kv_f32"
_INPUTS = (*_each("q", "bhgt"), *_each("k", "bhs"), *_each("v", "bhs"), *_each("mask", "bhgt"))
STRIDES: dict[str, tuple[str, ...]] = {
    FORWARD: (*_INPUTS, *_each("y", "bhgt"), *_each("stats", "bhgt")),
    BY_QUERY: (*_INPUTS, *_each("dy", "bhgt"), *_each("dq", "bhgt"), *_each("dot", "bhgt")),
    BY_KEY: (
        *(*_INPUTS, *_each("dy", "bhgt"), *_each("stats", "bhgt"), *_each("dot", "bhgt")),
        *(*_each("dk", "bhs"), *_each("dv", "bhs")),
    ),
}
"""Strides that each kernel has, by operand and letter of the axis."""


def _pointers(*names: str, results: Sequence[str]) -> tuple[tuple[str, str, bool], ...]:
    return (*((name, "float32", False) for name in names), *((name, "float32", True) for name in results))


def _orders(*args: str) -> Mapping[int, str]:
    """The attributes of operands by position that may be stored with tokens before heads."""
    return {place: f"{ORDER}{arg}" for place, arg in enumerate(args)}


@register
class AttentionRows(AttentionStep):
    """softmax(alpha Q K^T + mask) V, as a step over queries.

    Q, K, V[, mask] to Y[, largest score and sum of powers of each query], and rows of zeros that cores compute in.
    """

    name = "AttentionRows"
    headed = ("q", "k", "v")
    products = 2
    kernel = Kernel(
        FORWARD, _pointers("q", "k", "v", "mask", results=("y", "stats", "rows")), _scalars(FORWARD, tuple("bhgt"))
    )
    execution = Execution(optional_outputs={"stats": 1}, working=("rows",))
    fusion = Fusion(orders=_orders(*headed), result_orders=_orders("y"), region_of=MaskedSoftmax.name, region=region)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of Y, of the numbers of each query, and of the rows."""
        heads = self.heads(node, inputs)
        stats = TensorType("float32", (*heads.q[:-1], 2))
        y = heads.y if not by_token(node, "y", len(heads.y)) else tuple(heads.y[axis] for axis in TOKENS_FIRST)
        return (TensorType("float32", y), stats, self.rows_type(node, heads))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Scores, their softmax, and the product with V."""
        x, mask = self.used(node, inputs)
        heads, scores = _heads_of(node, x), _scores(node, x, mask)
        largest = scores.max(-1, keepdims=True)
        hidden = np.isneginf(largest) & bool(node.attr_int("safe", 0))
        powers = np.exp(scores - np.where(hidden, 0, largest))
        total = powers.sum(-1, keepdims=True, dtype=scores.dtype)
        stats = np.concatenate([largest, np.where(hidden, 0, total)], -1).astype(scores.dtype)
        y = np.asarray(_powers(scores, stats) @ repeated(x["v"], heads))
        return (_stored(node, "y", y), stats, self.empty_rows(node, x))


def _score_grads(
    node: Node, x: Mapping[str, Array], mask: Array | None, stats: Array | None = None
) -> tuple[Array, Array]:
    """The shares, by numbers of each query if there are some, and the gradient of the shares."""
    scores = _scores(node, x, mask)
    if stats is not None:
        shares = _powers(scores, stats)
    else:
        shares = safe_softmax(scores) if node.attr_int("safe", 0) else softmax(scores, -1)
    return shares, x["dy"] @ np.swapaxes(repeated(x["v"], _heads_of(node, x)), -1, -2)


@register
class AttentionQueryGrad(AttentionStep):
    """dQ of attention, as a step over queries.

    dY, Q, K, V[, mask] to dQ, the product of dP and P of each query, and rows.
    """

    name = "AttentionQueryGrad"
    headed = ("dy", "q", "k", "v")
    execution = Execution(working=("rows",))
    buffers = 2
    products = 3
    kernel = Kernel(
        BY_QUERY,
        _pointers("dy", "q", "k", "v", "mask", results=("dq", "dot", "rows")),
        _scalars(BY_QUERY, tuple("bhgt")),
    )
    fusion = Fusion(orders=_orders(*headed), result_orders=_orders("dq"))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of dQ, of a number for each query, and of the rows."""
        heads = self.heads(node, inputs)
        q = heads.q if not by_token(node, "dq", len(heads.q)) else tuple(heads.q[axis] for axis in TOKENS_FIRST)
        return (TensorType("float32", q), TensorType("float32", (*heads.q[:-1], 1)), self.rows_type(node, heads))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """Alpha P (dP - dot) K."""
        x, mask = self.used(node, inputs)
        shares, dp = _score_grads(node, x, mask)
        dot = (dp * shares).sum(-1, keepdims=True, dtype=dp.dtype)
        ds = shares * (dp - dot) * dp.dtype.type(node.attr_float("alpha", 1.0))
        dq = np.asarray(ds @ repeated(x["k"], _heads_of(node, x)))
        return (_stored(node, "dq", dq), dot, self.empty_rows(node, x))


@register
class AttentionKeyGrad(AttentionStep):
    """dK and dV of attention, as a step over keys that adds up queries in order.

    dY, Q, K, V, mask or nothing, the numbers of each query, and its product of dP and P, to dK, dV and rows.
    """

    name = "AttentionKeyGrad"
    headed = ("dy", "q", "k", "v")
    saved = ("stats", "dot")
    by = WHOLE_QUERIES
    execution = Execution(working=("rows",))
    buffers = 2
    products = 4
    kernel = Kernel(
        BY_KEY,
        _pointers("dy", "q", "k", "v", "mask", "stats", "dot", results=("dk", "dv", "rows")),
        _scalars(BY_KEY, tuple("bhgts")),
    )
    fusion = Fusion(orders=_orders(*headed), result_orders=_orders("dk", "dv"))

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The types of dK, dV and the rows."""
        heads = self.heads(node, inputs)
        found = []
        for arg, shape in (("dk", heads.k), ("dv", heads.v)):
            stored = tuple(shape[axis] for axis in TOKENS_FIRST) if by_token(node, arg, len(shape)) else shape
            found.append(TensorType("float32", stored))
        return (*found, self.rows_type(node, heads))

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """DS^T Q and P^T dY, summed over the heads of a group."""
        x, mask = self.used(node, inputs)
        heads = _heads_of(node, x)
        shares, dp = _score_grads(node, x, mask, x["stats"])
        ds = shares * (dp - x["dot"]) * dp.dtype.type(node.attr_float("alpha", 1.0))
        q, dy, ds, shares = (y.reshape(heads.stacked(y.shape)) for y in (x["q"], x["dy"], ds, shares))
        dk, dv = np.asarray(np.swapaxes(ds, -1, -2) @ q), np.asarray(np.swapaxes(shares, -1, -2) @ dy)
        return (_stored(node, "dk", dk), _stored(node, "dv", dv), self.empty_rows(node, x))
