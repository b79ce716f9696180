"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator

import numpy as np

from deployer.core.ir import AttrValue
from deployer.core.operator import rng
from deployer.core.samples import Sample, inherited_samples, measured, samples_of, sweep_of
from deployer.core.traits.fusion import ACTIVATION
from deployer.operators.base.elementwise import binary_samples
from deployer.operators.base.epilogue import RELU
from deployer.operators.base.operands import arrays, normal
from deployer.operators.base.philox import BITS
from deployer.operators.elementwise.activation import Clip, ClipGrad, Gelu, GeluGrad, Joined, Relu, ReluGrad
from deployer.operators.elementwise.arithmetic import Add, Div, EqualMask, Exp, Log, Pow, Scale, Sum
from deployer.operators.elementwise.bits import DIRECTIONS, BitShift
from deployer.operators.elementwise.broadcast_grad import DivGrad
from deployer.operators.elementwise.integers import SIZES, IntegerWrap
from deployer.operators.elementwise.pointwise import FloorMod, Mod
from deployer.operators.elementwise.quantization import DequantizeLinear
from deployer.operators.elementwise.random import Dropout, DropoutGrad, KeyedDropout, KeyedUniform
from deployer.operators.elementwise.rotation import Rotation
from deployer.operators.elementwise.smooth import QuickGelu, QuickGeluGrad


@samples_of(Joined)
def joined_samples(op: Joined) -> Iterator[Sample]:
    """Rows and batches, with a bias, and without one where that may be."""
    known = op.wide == 1
    for label, shape in (("rows", (5, 7)), ("batch", (2, 3, 4))):
        r = rng(sum(op.name.encode()) + len(shape))
        wide = tuple(normal(r, *shape) for _ in range(op.wide))
        yield Sample(label, (*wide, normal(r, shape[-1])), onnx=known)
        if op.optional:
            yield Sample(f"{label}_alone", wide, onnx=known)


@samples_of(Clip)
def clip_samples(op: Clip) -> Iterator[Sample]:
    """Both bounds as ReLU6 has them, either, none, and bounds that cross."""
    r = rng(97)
    yield Sample("relu6", (normal(r, 37) * np.float32(6),), {"min": 0.0, "max": 6.0})
    yield Sample("min", (normal(r, 5, 7),), {"min": -0.25})
    yield Sample("max", (normal(r, 5, 7),), {"max": 0.5})
    yield Sample("none", (normal(r, 7),))
    yield Sample("crossed", (normal(r, 7),), {"min": 1.0, "max": -1.0})


@samples_of(ClipGrad)
def clip_grad_samples(op: ClipGrad) -> Iterator[Sample]:
    """X on the bounds, inside and outside, NaN, and one bound alone."""
    r = rng(98)
    x = np.clip(normal(r, 37) * np.float32(6), np.float32(0), np.float32(6))
    yield Sample("relu6", (normal(r, 37), x), {"min": 0.0, "max": 6.0}, onnx=False)
    odd = np.array([-np.inf, -1, -0.0, 0.0, 1, 6, 7, np.inf, np.nan], np.float32)
    yield Sample("odd", (normal(r, 9), odd), {"min": 0.0, "max": 6.0}, onnx=False)
    yield Sample("min", (normal(r, 9), odd), {"min": 0.0}, onnx=False)
    yield Sample("max", (normal(r, 5, 7), normal(r, 5, 7)), {"max": 0.5}, onnx=False)


@samples_of(Gelu)
def gelu_samples(op: Gelu) -> Iterator[Sample]:
    """Both signs, a shape that no tile divides, and values far from zero."""
    r = rng(91)
    yield Sample("vector", (normal(r, 37),))
    yield Sample("matrix", (normal(r, 5, 7),))
    yield Sample("wide", (np.linspace(-12, 12, 41, dtype=np.float32),), {"approximate": "none"})
    yield Sample("tanh", (normal(r, 37),), {"approximate": "tanh"})


@samples_of(GeluGrad)
def gelu_grad_samples(op: GeluGrad) -> Iterator[Sample]:
    """Both signs, and values far from zero."""
    r = rng(92)
    yield Sample("vector", (normal(r, 37), normal(r, 37)), onnx=False)
    yield Sample("matrix", (normal(r, 5, 7), normal(r, 5, 7)), onnx=False)
    yield Sample("wide", (normal(r, 41), np.linspace(-20, 20, 41, dtype=np.float32)), onnx=False)


@samples_of(Relu)
def relu_samples(op: Relu) -> Iterator[Sample]:
    """Both signs, and a shape that no tile divides."""
    yield Sample("vector", (rng(2).standard_normal(37).astype(np.float32),))
    yield Sample("matrix", (rng(3).standard_normal((5, 7)).astype(np.float32),))


@samples_of(ReluGrad)
def relu_grad_samples(op: ReluGrad) -> Iterator[Sample]:
    """Y with exact zeros, as Relu makes them."""
    r = rng(12)
    yield Sample("vector", (normal(r, 37), np.maximum(normal(r, 37), np.float32(0))), onnx=False)
    yield Sample("matrix", (normal(r, 5, 7), np.maximum(normal(r, 5, 7), np.float32(0))), onnx=False)


@samples_of(Add)
def add_samples(op: Add) -> Iterator[Sample]:
    """The shapes of `binary_samples`, some with Relu and some with a gate."""
    for number, sample in enumerate(inherited_samples(op, Add)):
        yield sample
        a, b = sample.inputs
        assert a is not None
        assert b is not None
        if number % 3 == 1:
            yield Sample(f"{sample.label}_relu", (a, b), {ACTIVATION: RELU}, onnx=False)
        if number % 3 != 1:
            gate = np.maximum(normal(rng(number), *np.broadcast_shapes(a.shape, b.shape)), np.float32(0))
            yield Sample(f"{sample.label}_gate", (a, b, gate), onnx=False)


@samples_of(Div)
def div_samples(op: Div) -> Iterator[Sample]:
    """Divisors at a distance from zero."""
    for s in binary_samples(17):
        a, b = arrays(s.inputs, 2)
        yield Sample(s.label, (a, np.asarray(b + 2 * np.sign(b), np.float32)))


@samples_of(EqualMask)
def equal_mask_samples(op: EqualMask) -> Iterator[Sample]:
    """Few values, so that some are equal; rows against a column, zeros of both signs, NaN."""
    r = rng(115)
    few = np.round(normal(r, 5, 7))
    yield Sample("same", (few, np.round(normal(r, 5, 7))), onnx=False)
    yield Sample("column", (few, few.max(1, keepdims=True)), onnx=False)
    odd = np.array([0.0, -0.0, np.nan, np.inf], np.float32)
    yield Sample("odd", (odd, odd[[1, 0, 2, 3]]), onnx=False)


@samples_of(Exp)
def exp_samples(op: Exp) -> Iterator[Sample]:
    """Both signs, and a shape that no tile divides."""
    r = rng(101)
    yield Sample("vector", (normal(r, 37),))
    yield Sample("matrix", (normal(r, 5, 7),))


@samples_of(Log)
def log_samples(op: Log) -> Iterator[Sample]:
    """Both sides of one, and a shape that no tile divides."""
    r = rng(102)
    yield Sample("vector", (np.exp(normal(r, 37)),))
    yield Sample("matrix", (np.exp(normal(r, 5, 7)),))


@samples_of(Pow)
def pow_samples(op: Pow) -> Iterator[Sample]:
    """Positive bases with any exponent; small integer and half exponents; negative bases."""
    r = rng(18)
    for s in binary_samples(19):
        a, b = arrays(s.inputs, 2)
        yield Sample(s.label, (np.asarray(np.abs(a) + 0.125, np.float32), b))
    base = np.asarray(r.uniform(0.25, 4, 13), np.float32)
    for exponent in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, -3.0):
        yield Sample(f"exponent_{exponent}", (base, np.array(exponent, np.float32)))
    for exponent in (2.0, 3.0, -2.0, 11.0, 0.3):
        yield Sample(f"negative_{exponent}", (-base, np.array(exponent, np.float32)))


@samples_of(Scale)
def scale_samples(op: Scale) -> Iterator[Sample]:
    """Up and down, scale as a scalar, as a vector of one and as an integer."""
    r = rng(44)
    yield Sample("up", (normal(r, 5, 7), np.array(0.3, np.float32)), onnx=False)
    yield Sample("down", (normal(r, 5, 7), np.array(3, np.float32)), {"scale_down": 1}, onnx=False)
    yield Sample("vector", (normal(r, 7), np.array([3], np.float32)), {"scale_down": 1}, onnx=False)
    yield Sample("integer", (normal(r, 5, 7), np.array(6, np.int32)), {"scale_down": 1}, onnx=False)


@samples_of(Sum)
def sum_samples(op: Sum) -> Iterator[Sample]:
    """One, two and four operands."""
    r = rng(43)
    yield Sample("one", (normal(r, 5, 7),))
    yield Sample("two", (normal(r, 5, 7), normal(r, 7)))
    yield Sample("four", (normal(r, 5, 1), normal(r, 5, 7), normal(r), normal(r, 1, 7)))


@samples_of(BitShift)
def bit_shift_samples(op: BitShift) -> Iterator[Sample]:
    """Both directions, equal shapes and a row."""
    r = rng(174)
    x = r.integers(0, 99, (3, 5)).astype(np.int32)
    for direction in DIRECTIONS:
        for label, shape in (("equal", (3, 5)), ("row", (5,))):
            bits = r.integers(0, 9, shape).astype(np.int32)
            yield Sample(f"{label}_{direction.lower()}", (x, bits), {"direction": direction}, onnx=False)


@samples_of(DivGrad)
def div_grad_samples(op: DivGrad) -> Iterator[Sample]:
    """Equal shapes, each side broadcast, and one output."""
    r = rng(137)
    shapes = {"equal": ((5, 7), (5, 7)), "divisor": ((2, 3, 4), (3, 1)), "dividend": ((4,), (2, 3, 4))}
    shapes["both"] = ((3, 1), (1, 4))
    for label, (of_a, of_b) in shapes.items():
        b = normal(r, *of_b)
        b = np.asarray(b + 2 * np.sign(b), np.float32)
        dy = normal(r, *np.broadcast_shapes(of_a, of_b))
        yield Sample(label, (dy, normal(r, *of_a), b), {}, 2, onnx=False)
    yield Sample("one", (normal(r, 3), normal(r, 3), np.full(3, 2, np.float32)), onnx=False)


@samples_of(IntegerWrap)
def integer_wrap_samples(op: IntegerWrap) -> Iterator[Sample]:
    """Both sizes, with a sign and without, and numbers on both sides of the borders."""
    x = np.array([0, 1, 127, 128, 255, 256, 257, 32767, 32768, 65535, 65536, 1 << 30], np.int32)
    for bits in SIZES:
        for signed in (0, 1):
            attrs = {"bits": bits, "signed": signed}
            yield Sample(f"{bits}_{signed}", (np.concatenate([x, -x - 1]),), dict(attrs), onnx=False)


@sweep_of(IntegerWrap)
def integer_wrap_sweep(op: IntegerWrap) -> Iterator[Sample]:
    """Vectors."""
    for (size,) in measured("vectors"):
        x = np.asarray(rng(173).integers(-999, 999, size), np.int32)
        yield Sample(f"n{size}", (x,), {"bits": 8, "signed": 1}, onnx=False)


@samples_of(Mod)
def mod_samples(op: Mod) -> Iterator[Sample]:
    """Those of all attributes, and floats without `fmod`, which ONNX Runtime does not have."""
    yield from inherited_samples(op, Mod)
    yield Sample("floor", next(FloorMod().samples()).inputs, onnx=False)


@samples_of(DequantizeLinear)
def dequantize_linear_samples(op: DequantizeLinear) -> Iterator[Sample]:
    """One scale, and one for each channel, with and without zero points."""
    r = rng(172)
    x = np.asarray(r.integers(-128, 128, (2, 3, 4)), np.int32)
    points = np.array([3, -7, 100], np.int32)
    yield Sample("one", (x, np.array(0.25, np.float32), np.array(5, np.int32)), onnx=False)
    yield Sample("plain", (x, np.array(0.25, np.float32)), onnx=False)
    yield Sample("channels", (x, np.abs(normal(r, 3)), points), {"axis": -2}, onnx=False)


@samples_of(KeyedDropout)
def keyed_dropout_samples(op: KeyedDropout) -> Iterator[Sample]:
    """Lengths that end within a block, a seed of two words, later passes, and a ratio that keeps nearly none."""
    r = rng(121)
    given: tuple[tuple[str, tuple[int, ...], int, dict[str, AttrValue]], ...] = (
        ("half", (37,), 1, {"ratio": 0.5}),
        ("matrix", (5, 26), 1000, {"ratio": 0.25, "seed": (7 << BITS) + 3, "stream": 2}),
        ("most", (3, 5, 7), -5, {"ratio": 0.875, "stream": 1}),
    )
    for label, shape, passes, attrs in given:
        yield Sample(label, (normal(r, *shape), np.array([passes], np.int32)), attrs, onnx=False)


@samples_of(Dropout)
def dropout_samples(op: Dropout) -> Iterator[Sample]:
    """At inference, with the mask, and in training."""
    yield Sample("matrix", (normal(rng(86), 3, 4),))
    yield Sample("mask", (normal(rng(86), 3, 4),), {}, 2)
    trained = (normal(rng(122), 3, 5), None, None, np.array([3], np.int32))
    yield Sample("trained", trained, {"training_mode": 1, "ratio": 0.375, "seed": 5}, onnx=False)


@samples_of(DropoutGrad)
def dropout_grad_samples(op: DropoutGrad) -> Iterator[Sample]:
    """At inference, and in training."""
    yield Sample("idle", (normal(rng(123), 3, 5), np.ones((3, 5), np.int32)), onnx=False)
    inputs = (normal(rng(123), 3, 5), np.array([3], np.int32))
    yield Sample("trained", inputs, {"training_mode": 1, "ratio": 0.375, "seed": 5, "stream": 1}, onnx=False)


@samples_of(KeyedUniform)
def keyed_uniform_samples(op: KeyedUniform) -> Iterator[Sample]:
    """Lengths that end within a block, a seed of two words, and later passes."""
    given: tuple[tuple[str, tuple[int, ...], int, dict[str, AttrValue]], ...] = (
        ("vector", (37,), 1, {}),
        ("matrix", (5, 26), 1000, {"seed": (7 << BITS) + 3, "stream": 2}),
        ("later", (3, 5, 7), -5, {"stream": 1}),
    )
    for label, shape, passes, attrs in given:
        inputs = (None, np.array([passes], np.int32))
        yield Sample(label, inputs, {"shape": shape, **attrs}, onnx=False)


@samples_of(QuickGelu)
def quick_gelu_samples(op: QuickGelu) -> Iterator[Sample]:
    """By default, and with alpha 1."""
    yield Sample("vector", (normal(rng(132), 37),))
    yield Sample("one", (normal(rng(133), 5, 7),), {"alpha": 1.0})


@samples_of(QuickGeluGrad)
def quick_gelu_grad_samples(op: QuickGeluGrad) -> Iterator[Sample]:
    """By default, and with alpha 1."""
    r = rng(134)
    yield Sample("vector", (normal(r, 37), normal(r, 37)), onnx=False)
    yield Sample("one", (normal(r, 5, 7), normal(r, 5, 7)), {"alpha": 1.0}, onnx=False)


@samples_of(Rotation)
def rotation_samples(op: Rotation) -> Iterator[Sample]:
    """Halves and neighbours, heads in front of places and behind them, forwards and backwards, one pair."""
    r = rng(151)
    cases: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, AttrValue]]] = {
        "halves": ((2, 3, 5, 8), (5, 4), {"outer": 6}),
        "inner": ((2, 5, 3, 8), (5, 4), {"outer": 2, "inner": 3, "inverse": 1}),
        "neighbours": ((2, 3, 5, 8), (5, 4), {"outer": 6, "neighbours": 1}),
        "inner_neighbours": ((1, 7, 3, 6), (7, 3), {"inner": 3, "neighbours": 1, "inverse": 1, "adds_zero": 1}),
        "pair": ((2,), (1, 1), {}),
        "wide": ((3, 5, 8), (5, 8), {"outer": 3}),
        "steps": ((3, 5, 8), (5, 8), {"outer": 3, "neighbours": 1, "step": 2}),
        "kept": ((2, 3, 5, 11), (5, 4), {"outer": 6, "behind": 3}),
        "kept_before": ((2, 5, 3, 9), (5, 3), {"outer": 2, "inner": 3, "before": 2, "behind": 1, "inverse": 1}),
        "kept_zeros": ((3, 5, 7), (5, 4), {"outer": 3, "neighbours": 1, "step": 2, "before": 3, "kept_adds_zero": 1}),
    }
    for label, (shape, table, attrs) in cases.items():
        angles = normal(r, *table)
        yield Sample(label, (normal(r, *shape), np.cos(angles), np.sin(angles)), attrs, onnx=False)


@sweep_of(Rotation)
def rotation_sweep(op: Rotation) -> Iterator[Sample]:
    """Queries of a few heads."""
    r = rng(152)
    for heads, places, half in ((4, 32, 8), (1, 16, 4), (8, 64, 16), (2, 7, 5), (4, 100, 2), (2, 24, 32)):
        table = normal(r, places, half)
        inputs = (normal(r, heads, places, 2 * half), table, table)
        yield Sample(f"{heads}x{places}x{half}", inputs, {"outer": heads}, onnx=False)
        yield Sample(f"{heads}x{places}x{half} neighbours", inputs, {"outer": heads, "neighbours": 1}, onnx=False)
