"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import rng
from deployer.core.samples import Sample, inherited_samples, measured, samples_of, sweep_of
from deployer.operators.base.elementwise import LOOPS
from deployer.operators.base.operands import arrays, normal
from deployer.operators.reduction.cumulative import Cumulative
from deployer.operators.reduction.order import ArgEqual, ArgExtreme, Hardmax, TopK
from deployer.operators.reduction.reduction import (
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceProd,
    ReduceProdGrad,
    Reducing,
    Reduction,
)


@samples_of(Cumulative)
def cumulative_samples(op: Cumulative) -> Iterator[Sample]:
    """Each axis, from both ends, with and without the element."""
    r = rng(160)
    cases: dict[str, tuple[tuple[int, ...], int]] = {
        "vector": ((37,), 0),
        "rows": ((5, 7), 1),
        "columns": ((9, 4), 0),
        "middle": ((3, 6, 5), -2),
    }
    for label, (shape, axis) in cases.items():
        yield Sample(label, (normal(r, *shape),), {"axis": axis})
    for exclusive in (0, 1):
        attrs: dict[str, AttrValue] = {"axis": 1, "exclusive": exclusive, "reverse": 1 - exclusive}
        yield Sample(f"one_flag{exclusive}", (normal(r, 4, 7),), attrs)
    yield Sample("both", (normal(r, 4, 7),), {"axis": 1, "exclusive": 1, "reverse": 1})


@sweep_of(Cumulative)
def cumulative_sweep(op: Cumulative) -> Iterator[Sample]:
    """Few and many of short and long lines."""
    r = rng(161)
    for rows, columns, axis in ((16, 16, 1), (8, 128, 1), (64, 32, 0), (4, 512, 1)):
        yield Sample(f"{rows}x{columns} {axis}", (normal(r, rows, columns),), {"axis": axis}, onnx=False)


@samples_of(ArgEqual)
def arg_equal_samples(op: ArgEqual) -> Iterator[Sample]:
    """Each axis, several equal elements, none, NaN; the first and the last."""
    r = rng(140)
    for label, shape, axis in (("rows", (5, 13), 1), ("columns", (11, 4), 0), ("middle", (3, 7, 5), 1)):
        x = np.round(normal(r, *shape))
        yield Sample(label, (x, x.max(axis, keepdims=True)), {"axis": axis}, onnx=False)
        attrs: dict[str, AttrValue] = {"axis": axis, "last": 1, "keepdims": 0}
        yield Sample(f"{label}_last", (x, x.max(axis, keepdims=True)), attrs, onnx=False)
    odd = np.array([[1, np.nan, 2, np.nan], [1, 2, 3, 4]], np.float32)
    yield Sample("odd", (odd, np.array([[np.nan], [5]], np.float32)), {"axis": 1}, onnx=False)


@sweep_of(ArgEqual)
def arg_equal_sweep(op: ArgEqual) -> Iterator[Sample]:
    """Rows and columns."""
    r = rng(141)
    for shape, axis in (((16, 16), 1), ((8, 128), 1), ((64, 32), 0), ((128, 8), 0)):
        x = normal(r, *shape)
        yield Sample(f"{shape} {axis}", (x, x.max(axis, keepdims=True)), {"axis": axis}, onnx=False)


@samples_of(ArgExtreme)
def arg_extreme_samples(op: ArgExtreme) -> Iterator[Sample]:
    """Each axis with all attributes, of numbers some of which are equal."""
    r = rng(142)
    x = np.round(normal(r, 3, 7, 5))
    for axis in (0, 1, -1):
        for keep in (0, 1):
            yield Sample(f"axis{axis}_{keep}", (x,), {"axis": axis, "keepdims": keep})
        yield Sample(f"last{axis}", (x,), {"axis": axis, "select_last_index": 1})
    yield Sample("vector", (normal(r, 37),))


@samples_of(Hardmax)
def hardmax_samples(op: Hardmax) -> Iterator[Sample]:
    """Each axis, with equal elements."""
    x = np.round(normal(rng(143), 3, 7, 5))
    for axis in (0, 1, -1):
        yield Sample(f"axis{axis}", (x,), {"axis": axis})


@samples_of(TopK)
def top_k_samples(op: TopK) -> Iterator[Sample]:
    """Each axis, largest and smallest, one and all."""
    r = rng(144)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "rows": ((5, 11), {"k": 3}),
        "smallest": ((5, 11), {"k": 4, "largest": 0}),
        "columns": ((9, 4), {"k": 2, "axis": 0}),
        "middle": ((3, 7, 5), {"k": 3, "axis": 1}),
        "all": ((4, 6), {"k": 6}),
    }
    for label, (shape, attrs) in cases.items():
        yield Sample(label, (normal(r, *shape),), attrs, outputs=2)
    yield Sample("one", (normal(r, 37),), {"k": 1}, outputs=2)


@sweep_of(TopK)
def top_k_sweep(op: TopK) -> Iterator[Sample]:
    """Few and many of short and long lines."""
    r = rng(145)
    for rows, columns, count in ((16, 16, 1), (16, 64, 4), (4, 256, 8), (64, 8, 8)):
        yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns),), {"k": count}, outputs=2)


@samples_of(ReduceProdGrad)
def reduce_prod_grad_samples(op: ReduceProdGrad) -> Iterator[Sample]:
    """Rows with no zero, one and several; rows of one element."""
    r = rng(162)
    x = np.asarray(1 + normal(r, 7, 9) / 4, np.float32)
    x[1, 3] = x[2, 0] = x[2, 8] = x[3, 8] = 0
    yield Sample("zeros", (normal(r, 7), x), onnx=False)
    yield Sample("single", (normal(r, 5), normal(r, 5, 1)), onnx=False)


@sweep_of(ReduceProdGrad)
def reduce_prod_grad_sweep(op: ReduceProdGrad) -> Iterator[Sample]:
    """Few and many of short and long rows."""
    r = rng(163)
    for rows, n in ((16, 16), (64, 8), (8, 128), (1, 512)):
        yield Sample(f"{rows}x{n}", (normal(r, rows), np.asarray(1 + normal(r, rows, n) / 64, np.float32)), onnx=False)


@samples_of(Reducing)
def reducing_samples(op: Reducing) -> Iterator[Sample]:
    """All axes, single, several, unsorted and negative ones, with and without keepdims, and the views."""
    r = rng(31)
    yield Sample("all", (normal(r, 5, 7),))
    yield Sample("all_scalar", (normal(r, 5, 7),), {"keepdims": 0})
    yield Sample("rows", (normal(r, 5, 7),), {"axes": (0,), "keepdims": 0})
    yield Sample("columns", (normal(r, 5, 7),), {"axes": 1, "keepdims": 1})
    yield Sample("unsorted", (normal(r, 3, 5, 2, 7),), {"axes": (-1, 0), "keepdims": 0})
    yield Sample("middle", (normal(r, 2, 3, 5),), {"axes": (1,)})
    yield Sample("channels", (normal(r, 3, 4, 5, 6),), {"axes": (0, 2, 3), "keepdims": 0})
    yield Sample("six_loops", (normal(r, 2, 3, 2, 3, 2, 3),), {"axes": (1, 3, 5)})
    yield Sample("long", (normal(r, 3, 7, 2, 71),), {"axes": (1, 3)})
    yield Sample("long_rows", (normal(r, 133, 5),), {"axes": (0,), "keepdims": 0})
    yield Sample("noop", (normal(r, 3, 4),), {"noop_with_empty_axes": 1})
    yield Sample("ones", (normal(r, 3, 1, 4),), {"axes": (1,), "keepdims": 0})


@sweep_of(Reduction)
def reduction_sweep(op: Reduction) -> Iterator[Sample]:
    """Sums over rows, over columns and over everything."""
    r = rng(32)
    for rows, columns in measured("sums"):
        for axes in ((0,), (1,), (0, 1)):
            label = f"{rows}x{columns} {axes}"
            yield Sample(label, (normal(r, rows, columns),), {"axes": axes, "keepdims": 0})


@samples_of(ReduceLogSum)
def reduce_log_sum_samples(op: ReduceLogSum) -> Iterator[Sample]:
    """Sums above zero."""
    for sample in inherited_samples(op, ReduceLogSum):
        [x] = arrays(sample.inputs, 1)
        yield replace(sample, inputs=(np.abs(x) + np.float32(0.125),))


@samples_of(ReduceLogSumExp)
def reduce_log_sum_exp_samples(op: ReduceLogSumExp) -> Iterator[Sample]:
    """Those whose axes broadcast in few loops, and values of +-1e4."""
    yield from (s for s in inherited_samples(op, ReduceLogSumExp) if arrays(s.inputs, 1)[0].ndim <= LOOPS)
    huge = np.asarray(rng(118).choice([-1e4, 0.0, 1e4], (7, 5)), np.float32)
    yield Sample("huge", (huge,), {"axes": (1,)})


@samples_of(ReduceProd)
def reduce_prod_samples(op: ReduceProd) -> Iterator[Sample]:
    """Numbers around one, and zeros: one in a row, several in another."""
    for sample in inherited_samples(op, ReduceProd):
        [x] = arrays(sample.inputs, 1)
        yield replace(sample, inputs=(np.float32(1) + x / np.float32(4),))
    zeros = np.array([[2, 0, 3, 0.5], [0, -1, 0, 4], [0.5, 2, -3, 1]], np.float32)
    yield Sample("zeros", (zeros,), {"axes": (1,)})
