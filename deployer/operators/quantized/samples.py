"""Samples of operators over 8-bit integers, from fixed seeds: every form once, and the ends of the range."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from deployer.core.ir import AttrValue
from deployer.core.operator import rng
from deployer.core.samples import Sample, inherited_sweep, measured, measured_layers, samples_of, sweep_of
from deployer.operators.base.operands import normal
from deployer.operators.quantized.conversion import (
    DequantizeInt8,
    DequantizeInt8Images,
    Int8Images,
    Int8Lookup,
    QuantizeInt8,
    QuantizeInt8Images,
    UInt8Images,
    UInt8Numbers,
)
from deployer.operators.quantized.convolution_int8 import Int8Conv, Int8DepthwiseConv
from deployer.operators.quantized.joining import Int8Add, Int8Concat
from deployer.operators.quantized.pooling_int8 import Int8AveragePool, Int8GlobalAveragePool, Int8MaxPool
from deployer.operators.quantized.products_int8 import Int8MatMul
from deployer.operators.quantized.requantization import LEAST, MOST

Array = npt.NDArray[Any]


def numbers(generator: np.random.Generator, *shape: int) -> Array:
    """Numbers of 8 bits, all equally often."""
    return np.asarray(generator.integers(LEAST, MOST + 1, shape), np.int8)


@samples_of(QuantizeInt8)
def quantize_samples(op: QuantizeInt8) -> Iterator[Sample]:
    """Values beyond the range, ties in both directions, infinities and what is no number, and a Relu."""
    r = rng(901)
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -128.5, 1e30, -1e30, np.inf, -np.inf], np.float32)
    yield Sample("plain", (normal(r, 3, 5, 7) * np.float32(2),), {"scale": 0.02, "zero": 3}, onnx=False)
    yield Sample("ties", (ties,), {"scale": 1.0, "zero": 0}, onnx=False)
    yield Sample("moved", (ties,), {"scale": 1.0, "zero": -128}, onnx=False)
    yield Sample("relu", (normal(r, 257),), {"scale": 0.013, "zero": -5, "low": -5, "high": 90}, onnx=False)


@samples_of(DequantizeInt8)
def dequantize_samples(op: DequantizeInt8) -> Iterator[Sample]:
    """All numbers, with zeros at both ends."""
    every = np.arange(LEAST, MOST + 1, dtype=np.int8)
    for label, zero in (("plain", 3), ("least", LEAST), ("most", MOST)):
        yield Sample(label, (every,), {"scale": 0.0173, "zero": zero}, onnx=False)


@samples_of(QuantizeInt8Images)
def quantize_images_samples(op: QuantizeInt8Images) -> Iterator[Sample]:
    """Images of several channels, and signals."""
    r = rng(910)
    for label, shape in (("images", (2, 3, 5, 7)), ("signals", (2, 6, 9)), ("one", (1, 1, 4, 4))):
        yield Sample(label, (normal(r, *shape) * np.float32(2),), {"scale": 0.02, "zero": 3}, onnx=False)


@samples_of(DequantizeInt8Images)
def dequantize_images_samples(op: DequantizeInt8Images) -> Iterator[Sample]:
    """Images, and signals."""
    r = rng(911)
    yield Sample("images", (numbers(r, 2, 5, 7, 3),), {"scale": 0.0173, "zero": -4}, onnx=False)
    yield Sample("signals", (numbers(r, 2, 1, 7, 5),), {"scale": 0.0173, "zero": 4, "axes": 1}, onnx=False)


IMAGES = ((1, 3, 8, 8), (1, 3, 32, 32), (1, 1, 28, 28), (1, 3, 16, 24), (1, 8, 12, 12), (2, 4, 6, 9))
"""Images with the channels in front, for measuring."""


@sweep_of(QuantizeInt8Images)
def quantize_images_sweep(op: QuantizeInt8Images) -> Iterator[Sample]:
    """Images of several sizes."""
    r = rng(916)
    for shape in IMAGES:
        yield Sample(f"{shape}", (normal(r, *shape),), {"scale": 0.02, "zero": 3}, onnx=False)


@sweep_of(DequantizeInt8Images)
def dequantize_images_sweep(op: DequantizeInt8Images) -> Iterator[Sample]:
    """Images of several sizes."""
    r = rng(917)
    for n, channels, *sides in IMAGES:
        x = numbers(r, n, *sides, channels)
        yield Sample(f"{x.shape}", (x,), {"scale": 0.0173, "zero": -4}, onnx=False)


def unsigned(generator: np.random.Generator, *shape: int) -> Array:
    """Unsigned numbers of 8 bits, all equally often."""
    return np.asarray(numbers(generator, *shape).view(np.uint8))


@samples_of(Int8Images)
def images_samples(op: Int8Images) -> Iterator[Sample]:
    """Images of several channels, and signals."""
    r = rng(918)
    for label, shape in (("images", (2, 3, 5, 7)), ("signals", (2, 6, 9)), ("one", (1, 1, 4, 4))):
        yield Sample(label, (numbers(r, *shape),), onnx=False)


@sweep_of(Int8Images)
def images_sweep(op: Int8Images) -> Iterator[Sample]:
    """Images of several sizes."""
    r = rng(919)
    for shape in IMAGES:
        yield Sample(f"{shape}", (numbers(r, *shape),), onnx=False)


@samples_of(UInt8Images)
def unsigned_images_samples(op: UInt8Images) -> Iterator[Sample]:
    """Images of several channels, and signals."""
    r = rng(920)
    for label, shape in (("images", (2, 3, 5, 7)), ("signals", (2, 6, 9)), ("one", (1, 1, 4, 4))):
        yield Sample(label, (unsigned(r, *shape),), onnx=False)


@sweep_of(UInt8Images)
def unsigned_images_sweep(op: UInt8Images) -> Iterator[Sample]:
    """Images of several sizes."""
    r = rng(921)
    for shape in IMAGES:
        yield Sample(f"{shape}", (unsigned(r, *shape),), onnx=False)


@samples_of(UInt8Numbers)
def unsigned_numbers_samples(op: UInt8Numbers) -> Iterator[Sample]:
    """All numbers, and some in a matrix."""
    r = rng(922)
    yield Sample("every", (np.arange(256, dtype=np.uint8),), onnx=False)
    yield Sample("matrix", (unsigned(r, 3, 7),), onnx=False)


@sweep_of(UInt8Numbers)
def unsigned_numbers_sweep(op: UInt8Numbers) -> Iterator[Sample]:
    """Vectors of all measured lengths."""
    r = rng(923)
    for (size,) in measured("vectors"):
        yield Sample(f"n{size}", (unsigned(r, size),), onnx=False)


@samples_of(Int8Lookup)
def lookup_samples(op: Int8Lookup) -> Iterator[Sample]:
    """A table without order, at all its numbers."""
    r = rng(902)
    yield Sample("shuffled", (np.arange(LEAST, MOST + 1, dtype=np.int8), numbers(r, 256)), onnx=False)
    yield Sample("images", (numbers(r, 2, 3, 5, 7), numbers(r, 256)), onnx=False)


@sweep_of(Int8Lookup)
def lookup_sweep(op: Int8Lookup) -> Iterator[Sample]:
    """Vectors of all measured lengths, by one table."""
    r = rng(915)
    for (size,) in measured("vectors"):
        yield Sample(f"n{size}", (numbers(r, size), numbers(r, 256)), onnx=False)


FORMS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, AttrValue]], ...] = (
    ("same", (1, 6, 7, 4), (5, 3, 3, 4), {"pads": (1, 1, 1, 1), "x_zero": -7}),
    ("pointwise", (2, 4, 5, 16), (9, 1, 1, 16), {}),
    ("strided", (1, 8, 7, 3), (4, 3, 3, 3), {"strides": (2, 2), "pads": (0, 1, 1, 1), "x_zero": 5}),
    ("uneven", (1, 9, 8, 2), (3, 3, 2, 2), {"strides": (2, 3), "pads": (0, 2, 1, 0), "x_zero": -128}),
    ("dilated", (1, 9, 8, 2), (2, 3, 2, 2), {"dilations": (2, 3), "pads": (2, 1, 2, 1), "x_zero": 127}),
    ("groups", (1, 5, 4, 6), (10, 3, 3, 3), {"group": 2, "pads": (1, 1, 1, 1), "x_zero": 9}),
    ("moved", (1, 5, 6, 5), (6, 3, 3, 5), {"pads": (1, 0, 1, 2), "x_zero": 11, "w_zero": -13}),
    ("far", (1, 4, 5, 2), (3, 2, 3, 2), {"pads": (4, 1, 3, 5), "strides": (1, 2), "x_zero": 3}),
    ("matrix", (3, 21), (5, 1, 1, 21), {"w_zero": 4}),
    ("fours", (2, 5, 7, 8), (8, 3, 3, 8), {"pads": (1, 1, 1, 1), "x_zero": -9}),
    (
        "apart",
        (1, 9, 8, 4),
        (6, 3, 2, 4),
        {"dilations": (2, 3), "strides": (2, 1), "pads": (2, 1, 2, 1), "x_zero": 127},
    ),
    ("lines", (3, 3, 3, 12), (9, 1, 1, 12), {}),
    ("many", (1, 3, 3, 70), (23, 3, 3, 70), {"pads": (1, 1, 1, 1), "x_zero": -3}),
)
"""Shapes of X and W, and attributes."""


def _frame(r: np.random.Generator, filters: int, taps: int) -> tuple[Array, Array]:
    """Biases, and ratios with which most results are within range."""
    bias = np.asarray(r.integers(-20000, 20000, filters), np.int32)
    return bias, np.asarray(r.uniform(0.2, 1.8, filters) * 0.006 / np.sqrt(taps), np.float32)


@samples_of(Int8Conv)
def conv_samples(op: Int8Conv) -> Iterator[Sample]:
    """Every form; with and without a Relu, and the largest sums."""
    r = rng(903)
    result: Mapping[str, AttrValue] = {"zero": 4}
    for label, x, w, attrs in FORMS:
        bias, ratio = _frame(r, w[0], int(np.prod(w[1:])))
        yield Sample(label, (numbers(r, *x), numbers(r, *w), bias, ratio), {**attrs, **result}, onnx=False)
    bias, ratio = _frame(r, 6, 36)
    relu: dict[str, AttrValue] = {"pads": (1, 1, 1, 1), "zero": -128, "low": -128, "high": 40}
    yield Sample("relu", (numbers(r, 1, 5, 5, 4), numbers(r, 6, 3, 3, 4), bias, ratio), relu, onnx=False)
    full = np.full((1, 3, 3, 64), LEAST, np.int8), np.full((2, 3, 3, 64), LEAST, np.int8)
    one = np.zeros(2, np.int32), np.array([1e-5, 1.0], np.float32)
    yield Sample("largest", (*full, *one), {"pads": (1, 1, 1, 1), "x_zero": LEAST, "zero": 1}, onnx=False)


POINTWISE = ((24, 144, 12), (24, 96, 6), (24, 8, 12), (32, 192, 6), (32, 32, 12), (32, 64, 6), (32, 16, 3))
"""Channels and filters of measured pointwise layers, and sides of their images, besides the measured layers."""


@sweep_of(Int8Conv)
def conv_sweep(op: Int8Conv) -> Iterator[Sample]:
    """The measured layers with all channels joined, pointwise ones, and the samples: filters with a zero, groups."""
    r = rng(910)
    for layer in measured_layers():
        m, c, *kernel = layer.w
        if layer.attrs.get("group", 1) == 1:
            bias, ratio = _frame(r, m, int(np.prod(layer.w[1:])))
            x = numbers(r, layer.x[0], *layer.x[2:], c)
            attrs = {name: value for name, value in layer.attrs.items() if name != "group"}
            yield Sample(layer.label, (x, numbers(r, m, *kernel, c), bias, ratio), attrs, onnx=False)
    for c, m, side in POINTWISE:
        operands = (numbers(r, 1, side, side, c), numbers(r, m, 1, 1, c), *_frame(r, m, c))
        yield Sample(f"pointwise {c} to {m} of {side}", operands, onnx=False)
    yield from op.samples()


@samples_of(Int8DepthwiseConv)
def depthwise_samples(op: Int8DepthwiseConv) -> Iterator[Sample]:
    """Strides, dilations, padding, and more channels than a kernel takes at once."""
    r = rng(904)
    forms: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, AttrValue]], ...] = (
        ("same", (1, 6, 7, 4), (3, 3, 4), {"pads": (1, 1, 1, 1), "x_zero": -7}),
        ("strided", (2, 7, 6, 19), (3, 3, 19), {"pads": (1, 1, 1, 1), "strides": (2, 2), "x_zero": 30}),
        ("dilated", (1, 9, 9, 3), (3, 2, 3), {"dilations": (2, 3), "pads": (2, 0, 2, 3), "x_zero": -128}),
        ("moved", (1, 5, 4, 5), (3, 3, 5), {"pads": (1, 1, 1, 1), "x_zero": 17, "w_zero": 21}),
        ("far", (1, 5, 6, 9), (3, 3, 9), {"dilations": (2, 1), "strides": (1, 3), "pads": (4, 3, 3, 4), "x_zero": 4}),
        ("wide", (1, 3, 75, 5), (3, 3, 5), {"pads": (1, 1, 1, 1), "x_zero": -1}),
    )
    for label, x, w, attrs in forms:
        bias, ratio = _frame(r, w[2], w[0] * w[1])
        yield Sample(label, (numbers(r, *x), numbers(r, *w), bias, ratio), {**attrs, "zero": -4}, onnx=False)


@sweep_of(Int8DepthwiseConv)
def depthwise_sweep(op: Int8DepthwiseConv) -> Iterator[Sample]:
    """The measured layers with a filter for each channel, and the samples."""
    r = rng(911)
    for layer in measured_layers():
        m, c, *kernel = layer.w
        if c == 1 and layer.attrs.get("group", 1) == m:
            bias, ratio = _frame(r, m, int(np.prod(kernel)))
            x = numbers(r, layer.x[0], *layer.x[2:], m)
            attrs = {name: value for name, value in layer.attrs.items() if name != "group"}
            yield Sample(layer.label, (x, numbers(r, *kernel, m), bias, ratio), attrs, onnx=False)
    yield from op.samples()


PRODUCTS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, AttrValue]], ...] = (
    ("plain", (3, 5), (5, 7), {}),
    ("heads", (2, 3, 6, 8), (2, 3, 8, 5), {"a_zero": -7, "b_zero": 12}),
    ("rows", (2, 4, 9), (9, 6), {"a_zero": 128 - 1, "b_zero": -128}),
    ("shared", (1, 4, 3), (5, 3, 4), {"b_zero": 1}),
    ("column", (4, 6), (6, 1), {"a_zero": 3, "low": -20, "high": 90}),
)
"""Shapes of A and B, and attributes."""


@samples_of(Int8MatMul)
def matmul_samples(op: Int8MatMul) -> Iterator[Sample]:
    """Matrices in batches, with a ratio for all columns or for each."""
    r = rng(924)
    for label, a, b, attrs in PRODUCTS:
        for name, count in (("", 1), (" by columns", b[-1])):
            ratio = np.asarray(r.uniform(0.2, 1.8, count) * 0.006 / np.sqrt(a[-1]), np.float32)
            yield Sample(label + name, (numbers(r, *a), numbers(r, *b), ratio), {"zero": 5, **attrs}, onnx=False)


@sweep_of(Int8MatMul)
def matmul_sweep(op: Int8MatMul) -> Iterator[Sample]:
    """Scores and sums of attention with one head or several, and the samples."""
    r = rng(925)
    ratio = np.full(1, 0.0007, np.float32)
    for heads, queries, width in ((1, 16, 32), (4, 16, 16), (4, 32, 16), (2, 64, 24), (1, 7, 50)):
        for inner, columns in ((width, queries), (queries, width)):
            operands = numbers(r, heads, queries, inner), numbers(r, heads, inner, columns), ratio
            yield Sample(f"{heads}x{queries}x{inner}x{columns}", operands, onnx=False)
    yield from op.samples()


POOLS: tuple[tuple[str, tuple[int, ...], dict[str, AttrValue]], ...] = (
    ("plain", (2, 6, 8, 3), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    ("overlap", (1, 7, 6, 5), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ("dilated", (1, 8, 7, 2), {"kernel_shape": (2, 3), "dilations": (2, 2), "pads": (1, 1, 1, 1)}),
    ("whole", (2, 5, 4, 9), {"kernel_shape": (5, 4)}),
)


def _measured_pools(op: Int8AveragePool | Int8MaxPool, seed: int, frame: dict[str, AttrValue]) -> Iterator[Sample]:
    """The measured pools, one over each whole image, few channels, and the samples."""
    r = rng(seed)
    for channels, side, kernel in measured("pools"):
        pads = ((kernel - 1) // 2,) * 4
        attrs: dict[str, AttrValue] = {**frame, "kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": pads}
        x = (numbers(r, 1, side, side, channels),)
        yield Sample(f"{channels}x{side}x{side} {kernel}", x, attrs, onnx=False)
        yield Sample(f"{channels}x{side}x{side} whole", x, {**frame, "kernel_shape": (side, side)}, onnx=False)
        yield Sample(f"3x{side}x{side} {kernel}", (numbers(r, 1, side, side, 3),), attrs, onnx=False)
    yield from op.samples()


@sweep_of(Int8AveragePool)
def average_pool_sweep(op: Int8AveragePool) -> Iterator[Sample]:
    """The measured pools."""
    return _measured_pools(op, 912, {"x_zero": 6, "x_scale": 0.031, "y_scale": 0.022, "zero": -9})


@sweep_of(Int8MaxPool)
def max_pool_sweep(op: Int8MaxPool) -> Iterator[Sample]:
    """The measured pools."""
    return _measured_pools(op, 913, {})


@samples_of(Int8AveragePool)
def average_pool_samples(op: Int8AveragePool) -> Iterator[Sample]:
    """All forms, and padding that counts."""
    r = rng(905)
    frame: dict[str, AttrValue] = {"x_zero": 6, "x_scale": 0.031, "y_scale": 0.022, "zero": -9}
    for label, shape, attrs in POOLS:
        yield Sample(label, (numbers(r, *shape),), {**attrs, **frame}, onnx=False)
    counted = {**POOLS[1][2], **frame, "count_include_pad": 1}
    yield Sample("counted", (numbers(r, *POOLS[1][1]),), counted, onnx=False)


@samples_of(Int8GlobalAveragePool)
def global_average_pool_samples(op: Int8GlobalAveragePool) -> Iterator[Sample]:
    """Images, and a single place."""
    r = rng(909)
    frame: dict[str, AttrValue] = {"x_zero": 6, "x_scale": 0.031, "y_scale": 0.012, "zero": -9}
    for label, shape in (("images", (2, 5, 4, 9)), ("place", (1, 1, 1, 3))):
        yield Sample(label, (numbers(r, *shape),), frame, onnx=False)


@samples_of(Int8MaxPool)
def max_pool_samples(op: Int8MaxPool) -> Iterator[Sample]:
    """All forms."""
    r = rng(906)
    for label, shape, attrs in POOLS:
        yield Sample(label, (numbers(r, *shape),), attrs, onnx=False)


@samples_of(Int8Add)
def add_samples(op: Int8Add) -> Iterator[Sample]:
    """Two scales, a Relu, and sums beyond the range."""
    r = rng(907)
    attrs: dict[str, AttrValue] = {"a_zero": 3, "b_zero": -11, "a_ratio": 0.73, "b_ratio": 0.41, "zero": 5}
    yield Sample("plain", (numbers(r, 2, 5, 7), numbers(r, 2, 5, 7)), attrs, onnx=False)
    yield Sample("relu", (numbers(r, 333), numbers(r, 333)), {**attrs, "low": 5}, onnx=False)
    halves: dict[str, AttrValue] = {"a_ratio": 0.5, "b_ratio": 0.5, "zero": 0}
    yield Sample("ties", (numbers(r, 256), numbers(r, 256)), halves, onnx=False)


@samples_of(Int8Concat)
def concat_samples(op: Int8Concat) -> Iterator[Sample]:
    """Two and more, along the innermost and another axis."""
    r = rng(908)
    yield Sample("channels", (numbers(r, 2, 3, 4, 5), numbers(r, 2, 3, 4, 7)), {"axis": 3}, onnx=False)
    yield Sample("rows", (numbers(r, 2, 3, 5), numbers(r, 2, 4, 5)), {"axis": 1}, onnx=False)
    three = tuple(numbers(r, 3, size) for size in (1, 5, 2))
    yield Sample("three", three, {"axis": 1}, onnx=False)


@sweep_of(Int8Concat)
def concat_sweep(op: Int8Concat) -> Iterator[Sample]:
    """The uses of Concat, of 8 bits."""
    r = rng(914)
    for sample in inherited_sweep(op, Int8Concat):
        yield replace(sample, inputs=tuple(None if x is None else numbers(r, *x.shape) for x in sample.inputs))
