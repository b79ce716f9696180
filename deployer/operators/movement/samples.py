"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

import itertools
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from deployer.core.ir import AttrValue
from deployer.core.operator import rng
from deployer.core.samples import Sample, samples_of, sweep_of
from deployer.operators.base.operands import normal, words
from deployer.operators.movement.casting import Assign, Cast
from deployer.operators.movement.layout import DepthToSpace, Expand, SpaceToDepth, Tile, Transpose, Trilu
from deployer.operators.movement.padding import Pad
from deployer.operators.movement.resampling import CUBIC, LINEAR, MODES, PADDINGS, ROUNDINGS, GridSample, Resize
from deployer.operators.movement.shapes import (
    AsFloat,
    Constant,
    ConstantOfShape,
    Flatten,
    Identity,
    Range,
    Reshape,
    Shape,
    Size,
    Squeeze,
    Unsqueeze,
)
from deployer.operators.movement.slicing import SHAPE, Concat, ConcatTraining, Slice, SliceGrad, Split, SplitTraining


@samples_of(Cast)
def cast_samples(op: Cast) -> Iterator[Sample]:
    """Floats and integers as floats, integers as integers, one beyond what floats hold exactly."""
    r = rng(130)
    yield Sample("floats", (normal(r, 3, 4),), {"to": TensorProto.FLOAT})
    numbers = np.array([-3, 0, 7, (1 << 24) + 1, -(1 << 31)], np.int32)
    yield Sample("numbers", (numbers,), {"to": TensorProto.FLOAT})
    yield Sample("integers", (numbers,), {"to": TensorProto.INT64})
    yield Sample("truncated", (normal(r, 3, 4) * np.float32(100),), {"to": TensorProto.INT32})


@sweep_of(Cast)
def cast_sweep(op: Cast) -> Iterator[Sample]:
    """Vectors of integers."""
    for size in (64, 512, 4096):
        yield Sample(f"n{size}", (np.arange(size, dtype=np.int32),), {"to": TensorProto.FLOAT})


@samples_of(Assign)
def assign_samples(op: Assign) -> Iterator[Sample]:
    """Floats and integers."""
    r = rng(231)
    yield Sample("floats", (normal(r, 37), normal(r, 37)), onnx=False)
    yield Sample("matrix", (normal(r, 5, 7), normal(r, 5, 7)), onnx=False)
    yield Sample(
        "integers", (np.arange(5, dtype=np.int32), np.array([7, -1, 2**31 - 1, -(2**31), 0], np.int32)), onnx=False
    )


@samples_of(Transpose)
def transpose_samples(op: Transpose) -> Iterator[Sample]:
    """Default, the layouts of real graphs, a full reversal, axes that merge, and views."""
    r = rng(42)
    yield Sample("default", (normal(r, 5, 7),))
    yield Sample("reverse", (normal(r, 2, 3, 4, 5),))
    for perm in ((0, 2, 3, 1), (0, 2, 1, 3), (0, 3, 1, 2)):
        yield Sample("perm" + "".join(map(str, perm)), (normal(r, 2, 3, 4, 5),), {"perm": perm})
    yield Sample("rank3", (normal(r, 3, 5, 7),), {"perm": (0, 2, 1)})
    yield Sample("merged", (normal(r, 2, 3, 2, 3, 2),), {"perm": (3, 4, 0, 1, 2)})
    yield Sample("view", (normal(r, 1, 5, 1, 7),), {"perm": (1, 0, 3, 2)})
    yield Sample("finer_places", (normal(r, 2, 2, 3, 2, 3, 5),), {"perm": (0, 1, 4, 2, 5, 3)})
    yield Sample("integers", (words(r, 5, 7, 3),), {"perm": (1, 2, 0)})
    yield Sample("all_loops", (normal(r, 2, 3, 1, 2, 3, 2, 2, 3),))


@sweep_of(Transpose)
def transpose_sweep(op: Transpose) -> Iterator[Sample]:
    """Matrices and the layouts of attention heads."""
    r = rng(43)
    for shape in ((16, 32), (64, 64), (10, 100)):
        yield Sample(f"{shape[0]}x{shape[1]}", (normal(r, *shape),))
    yield Sample("heads", (normal(r, 16, 2, 16),), {"perm": (1, 0, 2)})
    yield Sample("keys", (normal(r, 16, 2, 16),), {"perm": (1, 2, 0)})


@samples_of(Expand)
def expand_samples(op: Expand) -> Iterator[Sample]:
    """From a scalar, along each axis and two, with ones in the shape, a new axis, no repetition."""
    r = rng(41)
    yield Sample("scalar", (normal(r),), {"shape": (3, 4)})
    yield Sample("rows", (normal(r, 1, 7),), {"shape": (5, 7)})
    yield Sample("columns", (normal(r, 5, 1),), {"shape": (5, 7)})
    yield Sample("both", (normal(r, 3, 1, 5, 1),), {"shape": (1, 4, 1, 6)})
    yield Sample("integers", (words(r, 3, 1, 5),), {"shape": (3, 4, 5)})
    yield Sample("new_axis", (normal(r, 3),), {"shape": (2, 1)})
    yield Sample("view", (normal(r, 3, 4),), {"shape": (1, 1, 1)})


@samples_of(Tile)
def tile_samples(op: Tile) -> Iterator[Sample]:
    """One axis, several, a vector, and nothing repeated."""
    r = rng(117)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "vector": ((5,), {"repeats": (3,)}),
        "rows": ((3, 4), {"repeats": (2, 1)}),
        "both": ((3, 4), {"repeats": (2, 3)}),
        "image": ((2, 3, 2, 4), {"repeats": (1, 2, 3, 2)}),
        "none": ((3, 4), {"repeats": (1, 1)}),
    }
    for label, (shape, attrs) in cases.items():
        yield Sample(label, (normal(r, *shape),), attrs)


@samples_of(Trilu)
def trilu_samples(op: Trilu) -> Iterator[Sample]:
    """Both triangles, borders above and below the diagonal, batches."""
    r = rng(131)
    yield Sample("upper", (normal(r, 4, 5),))
    yield Sample("lower", (normal(r, 5, 4),), {"upper": 0})
    yield Sample("above", (normal(r, 2, 4, 4),), {"k": 1})
    yield Sample("below", (normal(r, 2, 3, 3),), {"upper": 0, "k": -1})


@samples_of(DepthToSpace)
def depth_to_space_samples(op: DepthToSpace) -> Iterator[Sample]:
    """Both modes."""
    r = rng(126)
    cases: dict[str, dict[str, AttrValue]] = {
        "default": {"blocksize": 2},
        "columns_first": {"blocksize": 2, "mode": "CRD"},
        "thirds": {"blocksize": 3, "mode": "DCR"},
    }
    for label, attrs in cases.items():
        block = int(np.asarray(attrs["blocksize"]))
        yield Sample(label, (normal(r, 2, 2 * block * block, 2, 3),), attrs)


@samples_of(SpaceToDepth)
def space_to_depth_samples(op: SpaceToDepth) -> Iterator[Sample]:
    """Blocks of two and of three."""
    r = rng(127)
    yield Sample("halves", (normal(r, 2, 3, 4, 6),), {"blocksize": 2})
    yield Sample("columns_first", (normal(r, 1, 2, 4, 2),), {"blocksize": 2, "mode": "CRD"}, onnx=False)
    yield Sample("thirds", (normal(r, 1, 2, 6, 3),), {"blocksize": 3})


@samples_of(Pad)
def pad_samples(op: Pad) -> Iterator[Sample]:
    """One axis, an image, all four axes, given axes, constants, and pads that cut."""
    r = rng(90)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "vector": ((7,), {"pads": (2, 3)}),
        "image": ((2, 3, 5, 4), {"pads": (0, 0, 1, 2, 0, 0, 3, 1)}),
        "channels": ((2, 3, 4), {"pads": (0, 2, 0, 0, 1, 0)}),
        "four_axes": ((2, 3, 2, 3), {"pads": (1, 0, 2, 1, 0, 2, 1, 1)}),
        "axes": ((3, 4, 5), {"pads": (1, 2, 0, 3), "axes": (-1, 0)}),
        "constant": ((3, 4), {"pads": (1, 1, 1, 1), "constant_value": -1.5}),
        "cut": ((6, 7), {"pads": (-2, 1, -1, -3)}),
        "far": ((2, 3), {"pads": (9, 0, 9, 0)}),
        "none": ((3, 4), {"pads": (0, 0, 0, 0)}),
        "edge": ((2, 3, 4), {"pads": (0, 2, 1, 0, 0, 7), "mode": "edge"}),
        "reflect": ((1, 2, 5, 4), {"pads": (0, 0, 4, 1, 0, 0, 2, 3), "mode": "reflect"}),
    }
    for label, (shape, attrs) in cases.items():
        yield Sample(label, (normal(r, *shape),), attrs)
    around: dict[str, AttrValue] = {"pads": (1, -1, 2, 0), "constant_value": -7}
    yield Sample("integers", (words(r, 3, 4),), {"pads": (1, -1, 2, 0)})
    yield Sample("integers_around", (words(r, 3, 4),), around)
    yield Sample("value", (normal(r, 3, 4),), {"pads": (1, 1, 1, 1), "value": 2.0}, onnx=False)


@sweep_of(Pad)
def pad_sweep(op: Pad) -> Iterator[Sample]:
    """Images of several sizes."""
    r = rng(91)
    for channels, side in ((1, 8), (4, 16), (16, 16), (8, 32)):
        shape = (1, channels, side, side)
        yield Sample(f"{channels}x{side}x{side}", (normal(r, *shape),), {"pads": (0, 0, 1, 1, 0, 0, 1, 1)})


@samples_of(GridSample)
def grid_sample_samples(op: GridSample) -> Iterator[Sample]:
    """Both modes with all paddings, at places inside and far outside; signals and volumes."""
    r = rng(181)
    for mode, padding, align in itertools.product(MODES, PADDINGS, (0, 1)):
        attrs: dict[str, AttrValue] = {"mode": mode, "padding_mode": padding, "align_corners": align}
        yield Sample(f"{mode}_{padding}{align}", (normal(r, 2, 3, 5, 4), normal(r, 2, 3, 6, 2)), attrs)
    yield Sample("volume", (normal(r, 1, 2, 3, 4, 3), normal(r, 1, 2, 3, 2, 3)), {"padding_mode": "border"})
    yield Sample("signal", (normal(r, 2, 2, 7), normal(r, 2, 5, 1)), {"mode": "nearest"}, onnx=False)
    yield Sample("one_row", (normal(r, 1, 2, 1, 4), normal(r, 1, 3, 2, 2)), {"align_corners": 1})


@samples_of(Resize)
def resize_samples(op: Resize) -> Iterator[Sample]:
    """Images and signals, by scales and by sizes, in all modes and places."""
    r = rng(132)
    kept: dict[str, AttrValue] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield Sample("image", (normal(r, 1, 2, 3, 4),), {"scales": (1.0, 1.0, 2.0, 3.0), **kept})
    yield Sample("default", (normal(r, 1, 2, 3, 2),), {"scales": (1.0, 1.0, 2.0, 2.0)})
    yield Sample("sizes", (normal(r, 2, 1, 2, 3),), {"sizes": (2, 1, 6, 3), **kept})
    yield Sample("signal", (normal(r, 2, 3, 5),), {"scales": (1.0, 1.0, 4.0), **kept})
    yield Sample("same", (normal(r, 1, 2, 3),), {"scales": (1.0, 1.0, 1.0)})
    for rounding in ROUNDINGS:
        attrs: dict[str, AttrValue] = {"scales": (1.0, 1.0, 1.75, 0.5), "nearest_mode": rounding}
        yield Sample(rounding, (normal(r, 1, 2, 4, 6),), attrs)
    for mode in (LINEAR, CUBIC):
        for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
            attrs = {"mode": mode, "coordinate_transformation_mode": place}
            yield Sample(f"{mode}_{place}_up", (normal(r, 1, 2, 4, 6),), {**attrs, "scales": (1.0, 1.0, 2.0, 2.5)})
            yield Sample(f"{mode}_{place}_down", (normal(r, 1, 2, 7, 6),), {**attrs, "sizes": (1, 2, 3, 5)})
        down: dict[str, AttrValue] = {"mode": mode, "antialias": 1, "sizes": (1, 2, 3, 4)}
        yield Sample(f"{mode}_antialias", (normal(r, 1, 2, 7, 9),), down)
    attrs = {"axes": (3, 2), "sizes": (5, 2), "mode": LINEAR, "keep_aspect_ratio_policy": "not_larger"}
    yield Sample("axes", (normal(r, 1, 2, 4, 6),), attrs)
    yield Sample("linear_signal", (normal(r, 2, 3, 5),), {"mode": LINEAR, "scales": (1.0, 1.0, 2.0)})
    yield Sample("linear_volume", (normal(r, 1, 2, 2, 3, 3),), {"mode": LINEAR, "sizes": (1, 2, 4, 5, 4)})
    attrs = {"mode": CUBIC, "exclude_outside": 1, "cubic_coeff_a": -0.5, "sizes": (1, 1, 7, 3)}
    yield Sample("cubic_inside", (normal(r, 1, 1, 4, 5),), attrs)


@samples_of(AsFloat)
def as_float_samples(op: AsFloat) -> Iterator[Sample]:
    """A scalar and a vector, one beyond what floats hold exactly."""
    yield Sample("scalar", (np.array(6, np.int32),), onnx=False)
    yield Sample("vector", (np.array([-3, 0, (1 << 24) + 1], np.int32),), onnx=False)


@samples_of(Constant)
def constant_samples(op: Constant) -> Iterator[Sample]:
    """Scalars and vectors of both dtypes."""
    yield Sample("int", (), {"value_int": 7})
    yield Sample("ints", (), {"value_ints": (3, -1)})
    yield Sample("float", (), {"value_float": 0.5})
    yield Sample("floats", (), {"value_floats": (0.5, -2.0)})


@samples_of(ConstantOfShape)
def constant_of_shape_samples(op: ConstantOfShape) -> Iterator[Sample]:
    """Default, a float, an integer."""
    yield Sample("default", (), {"shape": (2, 3)}, onnx=False)
    yield Sample("float", (), {"shape": (4,), "value": 1.5}, onnx=False)
    yield Sample("int", (), {"shape": (2,), "value": (7,)}, onnx=False)


@samples_of(Flatten)
def flatten_samples(op: Flatten) -> Iterator[Sample]:
    """Default, negative, both ends."""
    r = rng(22)
    yield Sample("default", (normal(r, 2, 3, 4),))
    for label, axis in (("front", 0), ("end", 3), ("negative", -1)):
        yield Sample(label, (normal(r, 2, 3, 4),), {"axis": axis})


@samples_of(Identity)
def identity_samples(op: Identity) -> Iterator[Sample]:
    """A matrix and a scalar."""
    r = rng(20)
    yield Sample("matrix", (normal(r, 3, 4),))
    yield Sample("scalar", (normal(r),))


@samples_of(Range)
def range_samples(op: Range) -> Iterator[Sample]:
    """Integers, backward, a limit of shape [1], floats."""
    yield Sample("integers", (), {"start": 2, "limit": 9, "delta": 3}, onnx=False)
    yield Sample("backward", (), {"start": 5, "limit": -1, "delta": -2}, onnx=False)
    yield Sample("vector", (), {"start": 0, "limit": (4,), "delta": 1}, onnx=False)
    yield Sample("floats", (), {"start": 0.5, "limit": 2.25, "delta": 0.25}, onnx=False)


@samples_of(Reshape)
def reshape_samples(op: Reshape) -> Iterator[Sample]:
    """Plain, with -1, with 0, to and from a scalar."""
    r = rng(21)
    yield Sample("plain", (normal(r, 3, 4),), {"shape": (2, 6)})
    yield Sample("infer", (normal(r, 3, 4),), {"shape": (-1, 2)})
    yield Sample("copy", (normal(r, 3, 4, 2),), {"shape": (0, -1)})
    yield Sample("allowzero", (normal(r, 3, 4),), {"shape": (12,), "allowzero": 1})
    yield Sample("to_scalar", (normal(r, 1, 1),), {"shape": ()})
    yield Sample("from_scalar", (normal(r),), {"shape": (1, 1)})


@samples_of(Shape)
def shape_samples(op: Shape) -> Iterator[Sample]:
    """Whole, from `start`, a negative range, a scalar's."""
    r = rng(25)
    yield Sample("whole", (normal(r, 2, 3, 4),))
    yield Sample("start", (normal(r, 2, 3, 4),), {"start": 1})
    yield Sample("range", (normal(r, 2, 3, 4),), {"start": -3, "end": -1})
    yield Sample("scalar", (normal(r),))


@samples_of(Size)
def size_samples(op: Size) -> Iterator[Sample]:
    """A tensor and a scalar."""
    r = rng(26)
    yield Sample("tensor", (normal(r, 2, 3, 4),))
    yield Sample("scalar", (normal(r),))


@samples_of(Squeeze)
def squeeze_samples(op: Squeeze) -> Iterator[Sample]:
    """All axes, none, one as an integer, several in any order, negative."""
    r = rng(23)
    yield Sample("all", (normal(r, 1, 3, 1),))
    yield Sample("empty", (normal(r, 2, 3),), {"axes": ()})
    yield Sample("integer", (normal(r, 3, 1, 4),), {"axes": 1})
    yield Sample("unsorted", (normal(r, 1, 3, 1, 4, 1),), {"axes": (4, 0)})
    yield Sample("negative", (normal(r, 1, 3, 1),), {"axes": (-1,)})


@samples_of(Unsqueeze)
def unsqueeze_samples(op: Unsqueeze) -> Iterator[Sample]:
    """One as an integer, several in any order, negative, on a scalar."""
    r = rng(24)
    yield Sample("integer", (normal(r, 3, 4),), {"axes": 1})
    yield Sample("unsorted", (normal(r, 3, 4),), {"axes": (3, 0)})
    yield Sample("negative", (normal(r, 3, 4),), {"axes": (-1, 1)})
    yield Sample("scalar", (normal(r),), {"axes": (0, 1)})


@samples_of(Slice)
def slice_samples(op: Slice) -> Iterator[Sample]:
    """Every axis, inner and outer ones, negative indices, ends far outside, steps, and nothing left out."""
    r = rng(92)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "vector": ((11,), {"starts": (3,), "ends": (9,)}),
        "rows": ((5, 7), {"starts": (1,), "ends": (4,), "axes": (0,)}),
        "columns": ((5, 7), {"starts": (2,), "ends": (6,), "axes": (1,)}),
        "negative": ((5, 7), {"starts": (-4, -3), "ends": (-1, 7), "axes": (-2, -1)}),
        "far": ((5, 7), {"starts": (-99, 2), "ends": (3, 2**31 - 1)}),
        "steps": ((9, 11), {"starts": (1, 0), "ends": (9, 11), "axes": (0, 1), "steps": (3, 2)}),
        "four_axes": ((4, 5, 6, 7), {"starts": (1, 0, 2, 3), "ends": (3, 4, 5, 7), "axes": (0, 1, 2, 3)}),
        "channels": ((2, 6, 3, 3), {"starts": (2,), "ends": (5,), "axes": (1,)}),
        "image": ((2, 2, 7, 8), {"starts": (1, 1), "ends": (7, 8), "axes": (2, 3), "steps": (2, 3)}),
        "single": ((4, 6), {"starts": (2,), "ends": (3,), "axes": (1,), "steps": (5,)}),
        "all": ((3, 4), {"starts": (0, 0), "ends": (3, 4)}),
        "backward": ((5, 7), {"starts": (-1, 5), "ends": (-99, 0), "axes": (0, 1), "steps": (-1, -2)}),
    }
    for label, (shape, attrs) in cases.items():
        yield Sample(label, (normal(r, *shape),), attrs)
    for label in ("steps", "channels", "backward"):
        shape, attrs = cases[label]
        yield Sample(f"{label}_integers", (words(r, *shape),), attrs)


@sweep_of(Slice)
def slice_sweep(op: Slice) -> Iterator[Sample]:
    """Rows of several lengths, side by side and with a step."""
    r = rng(93)
    for rows, columns, step in ((8, 16, 1), (32, 64, 1), (16, 32, 2), (4, 640, 1)):
        attrs: dict[str, AttrValue] = {"starts": (1,), "ends": (columns,), "axes": (1,), "steps": (step,)}
        yield Sample(f"{rows}x{columns} {step}", (normal(r, rows, columns),), attrs)


@samples_of(SliceGrad)
def slice_grad_samples(op: SliceGrad) -> Iterator[Sample]:
    """A vector, both axes of a matrix, an image, four axes, and a single element."""
    r = rng(94)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
        "vector": ((4,), (13,), (2,), (3,)),
        "matrix": ((3, 5), (9, 11), (1, 0), (3, 2)),
        "image": ((2, 2, 3, 3), (2, 2, 7, 8), (0, 0, 1, 1), (1, 1, 2, 3)),
        "four_axes": ((1, 2, 2, 3), (4, 4, 5, 6), (3, 1, 0, 1), (2, 2, 3, 2)),
        "single": ((4, 1), (4, 6), (0, 2), (1, 5)),
    }
    for label, (sliced, shape, starts, steps) in cases.items():
        attrs: dict[str, AttrValue] = {"input_shape": shape, "starts": starts, "steps": steps}
        yield Sample(label, (normal(r, *sliced),), attrs, onnx=False)
    given: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "padded": ((3, 5), {SHAPE: (6, 5), "starts": (-4,), "ends": (-1,), "axes": (0,)}),
        "stepped": ((2, 3), {SHAPE: (5, 7), "starts": (1, 0), "ends": (99, 6), "axes": (0, 1), "steps": (2, 2)}),
        "reversed": ((4, 3), {SHAPE: (4, 7), "starts": (3, 6), "ends": (-9, 0), "axes": (0, 1), "steps": (-1, -2)}),
    }
    for label, (sliced, attrs) in given.items():
        yield Sample(label, (normal(r, *sliced),), attrs, onnx=False)


@sweep_of(SliceGrad)
def slice_grad_sweep(op: SliceGrad) -> Iterator[Sample]:
    """The samples that the kernel runs."""
    yield from (sample for sample in op.samples() if SHAPE not in sample.attrs)


@samples_of(Concat)
def concat_samples(op: Concat) -> Iterator[Sample]:
    """Each axis, negative ones, uneven lengths, one, three and five inputs."""
    r = rng(95)
    yield Sample("vectors", (normal(r, 5), normal(r, 8)), {"axis": 0})
    yield Sample("rows", (normal(r, 2, 5), normal(r, 3, 5)), {"axis": 0})
    yield Sample("columns", (normal(r, 4, 3), normal(r, 4, 6)), {"axis": -1})
    yield Sample("channels", (normal(r, 2, 3, 2, 2), normal(r, 2, 1, 2, 2)), {"axis": 1})
    yield Sample("integers", (words(r, 4, 3), words(r, 4, 6)), {"axis": 1})
    yield Sample("one", (normal(r, 2, 3),), {"axis": 0})
    yield Sample("three", tuple(normal(r, 2, n) for n in (1, 4, 2)), {"axis": 1})
    yield Sample("five", tuple(normal(r, n, 3) for n in (1, 2, 3, 2, 1)), {"axis": -2})


@sweep_of(Concat)
def concat_sweep(op: Concat) -> Iterator[Sample]:
    """Pairs of several sizes."""
    r = rng(96)
    for rows, a, b in ((1, 64, 64), (8, 16, 16), (32, 32, 8), (4, 512, 256)):
        yield Sample(f"{rows}x{a}+{b}", (normal(r, rows, a), normal(r, rows, b)), {"axis": 1})


@samples_of(Split)
def split_samples(op: Split) -> Iterator[Sample]:
    """Halves, thirds and lengths of all sorts, on each axis, with and without a number of parts."""
    r = rng(110)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue], int]] = {
        "halves": ((6, 5), {"num_outputs": 2}, 2),
        "lengths": ((2, 9, 3), {"axis": 1, "split": (2, 4, 3)}, 3),
        "last": ((4, 7), {"axis": -1, "split": (1, 6)}, 2),
        "counted": ((7, 3), {"num_outputs": 3}, 3),
        "one": ((3, 4), {"split": (3,)}, 1),
    }
    for label, (shape, attrs, outputs) in cases.items():
        yield Sample(label, (normal(r, *shape),), attrs, outputs)


@samples_of(ConcatTraining)
def concat_training_samples(op: ConcatTraining) -> Iterator[Sample]:
    """Two inputs and three, with lengths and without."""
    r = rng(135)
    yield Sample("rows", (normal(r, 2, 5), normal(r, 3, 5)), {"axis": 0}, 2, onnx=False)
    yield Sample("columns", tuple(normal(r, 2, n, 3) for n in (1, 4, 2)), {"axis": -2}, 2, onnx=False)
    yield Sample("alone", (normal(r, 2, 5), normal(r, 2, 3)), {"axis": 1}, 1, onnx=False)


@samples_of(SplitTraining)
def split_training_samples(op: SplitTraining) -> Iterator[Sample]:
    """Two parts and three."""
    r = rng(136)
    cases: dict[str, tuple[tuple[int, ...], dict[str, AttrValue]]] = {
        "rows": ((5, 4), {"axis": 0, "split": (2, 3)}),
        "columns": ((2, 7, 3), {"axis": 1, "split": (1, 4, 2)}),
    }
    for label, (shape, attrs) in cases.items():
        outputs = np.size(attrs["split"])
        yield Sample(label, (normal(r, *shape),), attrs, outputs, onnx=False)
