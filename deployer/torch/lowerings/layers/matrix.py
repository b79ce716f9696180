"""Products of matrices, fully connected layers and attention."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deployer.torch.graph import GraphBuilder, Operand, Value, dtype_of, lowers, one_of_equal


@lowers("linear")
def linear(g: GraphBuilder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x W^T + b over the last axis: one matrix product, with all other axes as rows."""
    rows, (features, inner) = math.prod(x.shape[:-1]), weight.shape
    flat = g.reshape(x, (rows, inner))
    operands = [flat, weight] if bias is None else [flat, weight, bias]
    return g.reshape(g.emit("Gemm", operands, (rows, features), transB=1), (*x.shape[:-1], features))


@lowers("addmm")
def addmm(g: GraphBuilder, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    """beta C + alpha A B."""
    return product(g, a, b, c, alpha, beta)


def product(g: GraphBuilder, a: Value, b: Value, c: Operand | None = None, alpha: float = 1, beta: float = 1) -> Value:
    """alpha A B + beta C of matrices; their transposes are read where they lie."""
    (left, of_a), (right, of_b) = g.untransposed(a), g.untransposed(b)
    operands = [left, right] if c is None else [left, right, c]
    attrs: dict[str, Any] = {"transA": int(of_a), "transB": int(of_b), "alpha": float(alpha), "beta": float(beta)}
    given = {name: value for name, value in attrs.items() if value != (0 if name.startswith("trans") else 1)}
    return g.emit("Gemm", operands, (a.shape[0], b.shape[1]), **given)


@lowers("mm")
def mm(g: GraphBuilder, a: Value, b: Value) -> Value:
    """A B."""
    return product(g, a, b)


@lowers("matmul", "bmm", "mv", "dot")
def matmul(g: GraphBuilder, a: Value, b: Value) -> Value:
    """A B over the last two axes; an operand of one axis is a row or a column."""
    x = g.reshape(a, (1, *a.shape)) if a.rank == 1 else a
    y = g.reshape(b, (*b.shape, 1)) if b.rank == 1 else b
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    product = g.emit("MatMul", [x, y], (*batch, x.shape[-2], y.shape[-1]))
    shape = (*batch, *([x.shape[-2]] if a.rank > 1 else []), *([y.shape[-1]] if b.rank > 1 else []))
    return g.reshape(product, shape)


@lowers("baddbmm")
def baddbmm(g: GraphBuilder, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    """beta C + alpha A B for each matrix of a batch."""
    product = matmul(g, a, b)
    scaled = product if alpha == 1 else g.binary("Mul", product, alpha)
    return scaled if beta == 0 else g.binary("Add", scaled, c if beta == 1 else g.binary("Mul", c, beta))


@lowers("einsum")
def einsum(g: GraphBuilder, equation: str, tensors: Sequence[Value]) -> Value:
    """ONNX's operator of that name."""
    left, _, right = equation.replace(" ", "").partition("->")
    sizes = {
        letter: n
        for word, x in zip(left.split(","), tensors, strict=True)
        for letter, n in zip(word, x.shape, strict=True)
    }
    if "." in equation or not right:
        raise g.refusal(f"the equation is {equation!r}", "an equation with every axis named, and a result")
    return g.emit("Einsum", tensors, [sizes[letter] for letter in right], equation=f"{left}->{right}")


def causal(rows: int, columns: int) -> np.ndarray:
    """0 on and below the diagonal, minus infinity above: added to scores, it hides what comes later."""
    return np.where(np.tri(rows, columns, dtype=bool), np.float32(0), np.float32(-np.inf))


@lowers("scaled_dot_product_attention")
def attention(
    g: GraphBuilder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(scale Q K^T + mask) V over the last two axes."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    groups = query.shape[-3] // key.shape[-3] if enable_gqa else 1
    if attn_mask is not None and dtype_of(attn_mask) == "bool":
        attn_mask = g.choose(attn_mask, 0.0, -math.inf)
    return _written_out(g, (query, key, value), attn_mask, factor, is_causal, groups, dropout_p)


def _written_out(
    g: GraphBuilder,
    operands: tuple[Value, Value, Value],
    mask: Operand | None,
    scale: float,
    is_causal: bool,
    groups: int,
    dropout_p: float = 0.0,
) -> Value:
    """Two products and a softmax; the queries of all heads of a group are rows of one matrix."""
    q, k, v = operands
    rows = g.reshape(q, (*k.shape[:-2], groups * q.shape[-2], q.shape[-1])) if groups > 1 else q
    scores = matmul(g, g.binary("Mul", rows, scale), swapped(g, k))
    stacked = scores.shape
    scores = g.reshape(scores, (*q.shape[:-1], k.shape[-2])) if groups > 1 else scores
    if is_causal:
        scores = g.binary("Add", scores, causal(*scores.shape[-2:]))
    scores = scores if mask is None else g.binary("Add", scores, mask)
    axis = scores.rank - 1
    if _may_hide(g, mask, is_causal):  # a query without keys has no shares
        largest = g.reduce("ReduceMax", scores, [axis], True)
        hidden = g.emit("Equal", [largest, g.constant(-math.inf)], largest.shape, "bool")
        shares = g.choose(hidden, 0.0, g.unary("Softmax", g.choose(hidden, 0.0, scores), axis=axis))
    else:
        shares = g.unary("Softmax", scores, axis=axis)
    shares = g.dropout(shares, dropout_p)
    product = matmul(g, g.reshape(shares, stacked) if groups > 1 else shares, v)
    return g.reshape(product, (*q.shape[:-1], v.shape[-1])) if groups > 1 else product


def _may_hide(g: GraphBuilder, mask: Operand | None, is_causal: bool) -> bool:
    """Whether a mask may leave a query without keys; one that is known may not if each row has a finite number."""
    known = None if mask is None else g.known(mask)
    if mask is None or known is None:
        return mask is not None
    seen = known > -np.inf
    return not bool((seen[..., 0] if is_causal else seen.any(-1)).all())


def _mask_of_all(g: GraphBuilder, mask: Operand | None) -> list[Operand]:
    """The mask, if there is one; samples and heads with equal ones share it."""
    known = None if mask is None else g.known(mask)
    return [] if mask is None else [mask if known is None else one_of_equal(known)]


@lowers("deployer::attention")
def attention_composite(
    g: GraphBuilder, q: Value, k: Value, v: Value, mask: Operand | None, scale: float, is_causal: bool
) -> tuple[Value, Value | None]:
    """The operator of that meaning, and its softmax; for a file, ONNX's operators."""
    y, scores = (*q.shape[:-1], v.shape[-1]), (*q.shape[:-1], k.shape[-2])
    if not g.saves:
        groups = q.shape[-3] // k.shape[-3] if q.rank > 2 else 1
        return _written_out(g, (q, k, v), mask, scale, is_causal, groups), None
    inputs = [q, k, v, *_mask_of_all(g, mask)]
    found = g.emit_several(
        "ScaledDotProductAttention", inputs, [y, scores], scale=float(scale), is_causal=int(is_causal)
    )
    return found[0], found[1]


@lowers("deployer::attention_backward")
def attention_backward(
    g: GraphBuilder,
    dy: Value,
    q: Value,
    k: Value,
    v: Value,
    shares: Value,
    mask: Operand | None,
    scale: float,
    is_causal: bool,
    wanted: Sequence[int],
) -> list[Value | None]:
    """The gradients by the operator's own rule."""
    inputs = [q, k, v, *_mask_of_all(g, mask)]
    attrs: dict[str, Any] = {"scale": float(scale), "is_causal": int(is_causal)}
    return list(g.backward("ScaledDotProductAttention", inputs, [None, shares], [dy, None], wanted, **attrs))


@lowers("linalg_solve_triangular")
def solve_triangular(
    g: GraphBuilder, a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """The X of A X = B, or of X A = B unless A is `left`, row by row; the other triangle of A is not read."""
    if not left:
        transposed = solve_triangular(g, swapped(g, a), swapped(g, b), upper=not upper, unitriangular=unitriangular)
        return swapped(g, transposed)
    size, batch = a.shape[-1], np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    found: list[Value] = []
    for i in reversed(range(size)) if upper else range(size):
        row = g.expand(g.slice(b, b.rank - 2, i, i + 1), (*batch, 1, b.shape[-1]))
        coefficients = g.slice(a, a.rank - 2, i, i + 1)
        coefficients = g.expand(coefficients, (*batch, 1, size))
        if found:
            begin, end = (i + 1, size) if upper else (0, i)
            known = matmul(g, g.slice(coefficients, len(batch) + 1, begin, end), g.concat(found, len(batch)))
            row = g.binary("Sub", row, known)
        if not unitriangular:
            row = g.binary("Div", row, g.slice(coefficients, len(batch) + 1, i, i + 1))
        found.insert(0 if upper else len(found), row)
    return g.concat(found, len(batch)) if found else b


def swapped(g: GraphBuilder, x: Value) -> Value:
    """The transpose of each matrix of a batch."""
    return g.transpose(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


@lowers("addbmm")
def addbmm(g: GraphBuilder, c: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    """beta C + alpha times the sum of all products of a batch, which is one product."""
    batch, rows, inner = a.shape
    left = g.reshape(g.transpose(a, (1, 0, 2)), (rows, batch * inner))
    right = g.reshape(b, (batch * inner, b.shape[2]))
    scaled = product(g, left, right, None, alpha)
    return scaled if beta == 0 else g.binary("Add", scaled, c if beta == 1 else g.binary("Mul", c, beta))


@lowers("_trilinear")
def trilinear(
    g: GraphBuilder,
    a: Value,
    b: Value,
    c: Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Value:
    """The product of three tensors with more axes, summed over some."""
    total: Value | None = None
    for x, more in ((a, expand1), (b, expand2), (c, expand3)):
        shape = list(x.shape)
        for axis in sorted(more):
            shape.insert(axis, 1)
        factor = g.reshape(x, shape)
        total = factor if total is None else g.binary("Mul", total, factor)
    assert total is not None
    return g.reduce("ReduceSum", total, list(sumdim), False) if sumdim else total
