"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import Array, rng
from deployer.core.samples import Sample, samples_of, sweep_of
from deployer.operators.base.operands import normal, words
from deployer.operators.indexing.gather import Gather, GatherGrad, OneHot, RowNumbers
from deployer.operators.indexing.gather_elements import (
    REDUCTIONS,
    GatherElements,
    GatherElementsGrad,
    GatherND,
    GatherNDGrad,
)
from deployer.operators.indexing.scatter import Scatter, ScatterElements, ScatterND, ScatterRows
from deployer.operators.indexing.sequence import MirroredStep, ReverseSequence, SequenceMask


@samples_of(Gather)
def gather_samples(op: Gather) -> Iterator[Sample]:
    """Rows, columns, axes in the middle; numbers of any shape, negative and repeated; constants with a step."""
    r = rng(111)
    cases: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
        "rows": ((6, 6), 0, (4,)),
        "columns": ((4, 9), 1, (6,)),
        "sentence": ((11, 6), 0, (2, 5)),
        "middle": ((2, 5, 3), 1, (2, 2)),
        "last": ((3, 4, 6), -1, (7,)),
        "one": ((6, 4), 0, ()),
        "single": ((5,), 0, (3,)),
    }
    for label, (shape, axis, ids) in cases.items():
        yield Sample(label, (normal(r, *shape), _drawn(r, shape[axis], *ids)), {"axis": axis})
    constants: dict[str, AttrValue] = {"range": (1, 2, 3), "steps": (-6, -4, -2), "all": (0, 1, 2, 3, 4, 5)}
    for label, value in constants.items():
        yield Sample(label, (normal(r, 2, 6, 3),), {"axis": 1, "indices": value})
    yield Sample("integers", (words(r, 2, 5, 3), _drawn(r, 5, 2, 4)), {"axis": 1})
    yield Sample("number", (normal(r, 3, 4, 2),), {"indices": -2}, onnx=False)


@sweep_of(Gather)
def gather_sweep(op: Gather) -> Iterator[Sample]:
    """Tables of several sizes."""
    r = rng(112)
    for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
        yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns), _drawn(r, rows, count)))


def _drawn(r: np.random.Generator, rows: int, *shape: int) -> Array:
    """Numbers of rows, from the front and from the end."""
    return np.asarray(r.integers(-rows, rows, shape), np.int32)


@samples_of(GatherGrad)
def gather_grad_samples(op: GatherGrad) -> Iterator[Sample]:
    """Numbers that repeat, and rows that none names, on each axis."""
    r = rng(113)
    cases: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
        "rows": ((7, 5), 0, (4,)),
        "repeated": ((3, 5), 0, (40,)),
        "sentence": ((11, 6), 0, (2, 5)),
        "middle": ((2, 5, 3), 1, (2, 2)),
        "last": ((3, 4, 6), -1, (7,)),
        "one": ((6, 4), 0, ()),
    }
    for label, (shape, axis, ids) in cases.items():
        yield _sample(r, label, shape, axis, ids)


@sweep_of(GatherGrad)
def gather_grad_sweep(op: GatherGrad) -> Iterator[Sample]:
    """Tables of several sizes."""
    r = rng(114)
    for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
        yield _sample(r, f"{rows}x{columns} {count}", (rows, columns), 0, (count,))


def _sample(r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, ids: tuple[int, ...]) -> Sample:
    at = axis % len(shape)
    numbers = np.asarray(r.integers(-shape[axis], shape[axis], ids), np.int32)
    dy = normal(r, *shape[:at], *ids, *shape[at + 1 :])
    return Sample(label, (None, numbers, dy), {"axis": axis, "shape": shape}, onnx=False)


@samples_of(RowNumbers)
def row_numbers_samples(op: RowNumbers) -> Iterator[Sample]:
    """One and several axes, several tables, places that are outside."""
    r = rng(164)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], int]] = {
        "one": ((7,), (9,), 9),
        "three": ((4, 3, 5), (2, 6), 12),
        "tables": ((4, 3), (3, 5), 5),
    }
    for label, (sizes, places, each) in cases.items():
        ids = np.stack([r.integers(-size - 1, size + 1, places) for size in sizes], -1).astype(np.int32)
        attrs: dict[str, AttrValue] = {"sizes": sizes, "each": each}
        yield Sample(label, (ids,), attrs, onnx=False)


@sweep_of(RowNumbers)
def row_numbers_sweep(op: RowNumbers) -> Iterator[Sample]:
    """Few and many places."""
    r = rng(165)
    for count in (16, 128, 1024):
        ids = np.asarray(r.integers(0, 8, (count, 2)), np.int32)
        yield Sample(f"n{count}", (ids,), {"sizes": (8, 8)}, onnx=False)


@samples_of(OneHot)
def one_hot_samples(op: OneHot) -> Iterator[Sample]:
    """A new axis at the end, in front and between; negative numbers, and such that are outside; as floats."""
    r = rng(155)
    for axis in (-1, 0, 1):
        numbers = np.asarray(r.integers(-4, 4, (3, 5)), np.int32)
        yield Sample(
            f"integers{axis}",
            (numbers, None, np.array([0.5, -2], np.float32)),
            {"depth": 4.0, "axis": axis},
            onnx=False,
        )
    cases: dict[str, tuple[tuple[int, ...], int, int]] = {
        "vector": ((7,), 5, -1),
        "matrix": ((3, 5), 6, -1),
        "front": ((3, 5), 4, 0),
        "between": ((3, 5), 7, 1),
        "one": ((), 5, -1),
    }
    for label, (shape, depth, axis) in cases.items():
        numbers = np.asarray(r.integers(-depth, depth, shape), np.float32)
        attrs: dict[str, AttrValue] = {"depth": depth, "axis": axis}
        yield Sample(label, (numbers, None, normal(r, 2)), attrs, onnx=False)
    numbers = np.asarray(r.integers(-6, 6, (3, 5)), np.int32)
    yield Sample("integer_values", (numbers, None, words(r, 2)), {"depth": 6, "axis": 1}, onnx=False)
    outside = np.array([-9, 2, 5, 4, -5, -6], np.int32)
    yield Sample("outside", (outside, None, normal(r, 2)), {"depth": 5}, onnx=False)


@sweep_of(OneHot)
def one_hot_sweep(op: OneHot) -> Iterator[Sample]:
    """Few and many numbers."""
    r = rng(156)
    for count, depth, axis in ((8, 16, -1), (64, 32, -1), (64, 32, 0), (256, 4, -1)):
        numbers = np.asarray(r.integers(0, depth, count), np.float32)
        yield Sample(
            f"{count} {depth} {axis}", (numbers, None, normal(r, 2)), {"depth": depth, "axis": axis}, onnx=False
        )


@samples_of(GatherND)
def gather_nd_samples(op: GatherND) -> Iterator[Sample]:
    """Elements and parts, one axis and several, with and without batch dims."""
    r = rng(167)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
        "elements": ((4, 5), (7,), 2, 0),
        "parts": ((4, 5, 3), (2, 3), 1, 0),
        "batch": ((2, 5, 3), (2, 4), 1, 1),
    }
    for label, (shape, places, count, batch) in cases.items():
        axes = shape[batch : batch + count]
        ids = np.stack([r.integers(-n, n, places) for n in axes], -1).astype(np.int64)
        yield Sample(
            label, (normal(r, *shape), ids.astype(np.int32)), {"batch_dims": batch} if batch else {}, onnx=False
        )


@samples_of(GatherNDGrad)
def gather_nd_grad_samples(op: GatherNDGrad) -> Iterator[Sample]:
    """Elements, parts and batches, with places that repeat."""
    r = rng(143)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
        "elements": ((4, 5), (40,), 2, 0),
        "parts": ((4, 5, 3), (2, 3), 1, 0),
        "batch": ((2, 5, 3), (2, 4), 1, 1),
    }
    for label, (shape, places, count, batch) in cases.items():
        ids = np.stack([r.integers(-n, n, places) for n in shape[batch : batch + count]], -1).astype(np.int32)
        dy = normal(r, *places, *shape[batch + count :])
        attrs: dict[str, AttrValue] = {"shape": shape, "batch_dims": batch}
        yield Sample(label, (None, ids, dy), attrs, onnx=False)


@samples_of(GatherElements)
def gather_elements_samples(op: GatherElements) -> Iterator[Sample]:
    """Each axis, more and fewer numbers than rows, negative and repeated ones; other axes that are left out."""
    r = rng(150)
    cases: dict[str, tuple[tuple[int, ...], int, tuple[int, ...]]] = {
        "rows": ((6, 6), 0, (4, 6)),
        "columns": ((4, 7), 1, (4, 9)),
        "middle": ((3, 5, 4), 1, (3, 6, 4)),
        "last": ((2, 3, 7), -1, (2, 3, 5)),
        "vector": ((11,), 0, (13,)),
        "part": ((5, 6, 4), 1, (3, 4, 2)),
    }
    for label, (shape, axis, ids) in cases.items():
        numbers = np.asarray(r.integers(-shape[axis], shape[axis], ids), np.int32)
        yield Sample(label, (normal(r, *shape), numbers), {"axis": axis})
    numbers = np.asarray(r.integers(-5, 5, (3, 6, 4)), np.int32)
    yield Sample("integers", (words(r, 3, 5, 4), numbers), {"axis": 1})


@sweep_of(GatherElements)
def gather_elements_sweep(op: GatherElements) -> Iterator[Sample]:
    """Tables of several sizes."""
    r = rng(151)
    for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
        numbers = np.asarray(r.integers(0, rows, (count, columns)), np.int32)
        yield Sample(f"{rows}x{columns} {count}", (normal(r, rows, columns), numbers))


@samples_of(GatherElementsGrad)
def gather_elements_grad_samples(op: GatherElementsGrad) -> Iterator[Sample]:
    """Numbers that repeat, and rows that none names, on each axis."""
    r = rng(152)
    cases: dict[str, tuple[tuple[int, ...], int, int]] = {
        "rows": ((6, 5), 0, 4),
        "columns": ((4, 3), 1, 19),
        "middle": ((3, 5, 4), 1, 6),
        "last": ((2, 3, 7), -1, 5),
    }
    for label, (shape, axis, count) in cases.items():
        yield _gather_elements_sample(r, label, shape, axis, count)


@sweep_of(GatherElementsGrad)
def gather_elements_grad_sweep(op: GatherElementsGrad) -> Iterator[Sample]:
    """Tables of several sizes."""
    r = rng(153)
    for rows, columns, count in ((16, 16, 8), (64, 32, 16), (128, 16, 64), (32, 128, 4)):
        yield _gather_elements_sample(r, f"{rows}x{columns} {count}", (rows, columns), 0, count)


def _gather_elements_sample(
    r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, count: int
) -> Sample:
    at = axis % len(shape)
    size = (*shape[:at], count, *shape[at + 1 :])
    numbers = np.asarray(r.integers(-shape[at], shape[at], size), np.int32)
    return Sample(label, (normal(r, *size), None, numbers), {"axis": axis, "shape": shape}, onnx=False)


@samples_of(ScatterElements)
def scatter_elements_samples(op: ScatterElements) -> Iterator[Sample]:
    """Each axis and reduction; numbers that repeat where terms are added."""
    r = rng(154)
    cases: dict[str, tuple[tuple[int, ...], int, int]] = {
        "rows": ((6, 6), 0, 4),
        "middle": ((3, 5, 4), 1, 3),
        "last": ((2, 3, 7), -1, 5),
    }
    for label, (shape, axis, count) in cases.items():
        yield _scatter_sample(r, label, shape, axis, count)
    for reduction in REDUCTIONS[1:]:
        yield _scatter_sample(r, reduction, (4, 7), 1, 5, reduction)


def _scatter_sample(
    r: np.random.Generator, label: str, shape: tuple[int, ...], axis: int, count: int, reduction: str = ""
) -> Sample:
    """Numbers that differ in each line, or any where a reduction says what to do with equal ones."""
    at = axis % len(shape)
    size = (*shape[:at], count, *shape[at + 1 :])
    order = np.argsort(normal(r, *shape), at).take(np.arange(count), at)
    numbers = r.integers(-shape[at], shape[at], size) if reduction else order - shape[at] * (normal(r, *size) < 0)
    attrs: dict[str, AttrValue] = {"axis": axis, **({"reduction": reduction} if reduction else {})}
    return Sample(label, (normal(r, *shape), np.asarray(numbers, np.int32), normal(r, *size)), attrs)


@samples_of(Scatter)
def scatter_samples(op: Scatter) -> Iterator[Sample]:
    """Along either axis."""
    r = rng(171)
    ids = np.array([[1, 2, 0], [0, 1, 2], [2, 0, 1]], np.int32)
    yield Sample("columns", (normal(r, 3, 3), ids, normal(r, 3, 3)), {"axis": 1}, onnx=False)


@samples_of(ScatterND)
def scatter_nd_samples(op: ScatterND) -> Iterator[Sample]:
    """Elements and parts; each reduction with places that repeat."""
    r = rng(168)
    corner = np.array([[0, 1], [-1, 3], [2, -5]], np.int32)
    yield Sample("elements", (normal(r, 4, 5), corner, normal(r, 3)), onnx=False)
    yield Sample("parts", (normal(r, 4, 5), np.array([[3], [-3]], np.int32), normal(r, 2, 5)), onnx=False)
    for reduction in REDUCTIONS[1:]:
        ids = np.asarray(r.integers(-4, 4, (3, 2, 1)), np.int32)
        yield Sample(reduction, (normal(r, 4, 3), ids, normal(r, 3, 2, 3)), {"reduction": reduction}, onnx=False)


@samples_of(ScatterRows)
def scatter_rows_samples(op: ScatterRows) -> Iterator[Sample]:
    """Rows replaced, and each reduction with rows that repeat."""
    r = rng(166)
    numbers = np.array([5, -6, 2, -1], np.int32)
    yield Sample("rows", (normal(r, 7, 5), numbers, normal(r, 4, 5)), onnx=False)
    for reduction in REDUCTIONS[1:]:
        repeated = np.asarray(r.integers(-6, 6, 9), np.int32)
        attrs: dict[str, AttrValue] = {"reduction": reduction}
        yield Sample(reduction, (normal(r, 6, 3), repeated, normal(r, 9, 3)), attrs, onnx=False)


@samples_of(ReverseSequence)
def reverse_sequence_samples(op: ReverseSequence) -> Iterator[Sample]:
    """Either axis first, one, some and all steps, with and without features."""
    r = rng(168)
    lengths = np.array([1, 4, 2], np.int32)
    yield Sample("time_first", (normal(r, 4, 3, 2), lengths), {"time_axis": 0, "batch_axis": 1})
    yield Sample("batch_first", (normal(r, 3, 4, 2, 2), lengths), {"time_axis": 1, "batch_axis": 0})
    yield Sample("plain", (normal(r, 4, 3), lengths), onnx=False)


@samples_of(SequenceMask)
def sequence_mask_samples(op: SequenceMask) -> Iterator[Sample]:
    """Steps of several sequences, one of which is empty and one whole."""
    steps = np.arange(5, dtype=np.int32).reshape(5, 1, 1)
    yield Sample("lengths", (steps, np.array([[0], [2], [5]], np.int32)), onnx=False)


@samples_of(MirroredStep)
def mirrored_step_samples(op: MirroredStep) -> Iterator[Sample]:
    """Steps of several sequences, one of which is empty and one whole."""
    steps = np.arange(5, dtype=np.int32).reshape(5, 1)
    yield Sample("lengths", (steps, np.array([0, 2, 5], np.int32)), onnx=False)
