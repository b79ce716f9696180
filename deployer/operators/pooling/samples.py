"""Samples of the operators of this folder: uses for tests, and calls on which kernels are measured."""

from collections.abc import Iterator

import numpy as np

from deployer.core.ir import AttrValue, Node
from deployer.core.operator import rng
from deployer.core.samples import Sample, measured, samples_of, sweep_of
from deployer.operators.base.epilogue import GATED
from deployer.operators.base.operands import normal
from deployer.operators.pooling.pooling import (
    AveragePool,
    GlobalAveragePool,
    GlobalAveragePoolGrad,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    P,
)
from deployer.operators.pooling.pooling_grad import AveragePoolGrad, MaxPoolGrad
from deployer.operators.pooling.windows import FORMS, Pool, windows


@samples_of(AveragePool)
def average_pool_samples(op: AveragePool) -> Iterator[Sample]:
    """All forms, and padding that counts."""
    r = rng(82)
    for label, (shape, attrs) in FORMS.items():
        yield Sample(label, (normal(r, *shape),), attrs)
    shape, attrs = FORMS["overlap"]
    yield Sample("include_pad", (normal(r, *shape),), {**attrs, "count_include_pad": 1})


@samples_of(MaxPool)
def max_pool_samples(op: MaxPool) -> Iterator[Sample]:
    """All forms."""
    r = rng(81)
    for label, (shape, attrs) in FORMS.items():
        yield Sample(label, (normal(r, *shape),), attrs)


@samples_of(LpPool)
def lp_pool_samples(op: LpPool) -> Iterator[Sample]:
    """All forms, and other norms."""
    r = rng(169)
    for label, (shape, attrs) in FORMS.items():
        if not attrs.get("ceil_mode"):
            yield Sample(label, (normal(r, *shape),), attrs, onnx=False)
    shape, attrs = FORMS["overlap"]
    for p in (1, P + 1):
        yield Sample(f"p{p}", (normal(r, *shape),), {**attrs, "p": p}, onnx=False)


@samples_of(GlobalAveragePool)
def global_average_pool_samples(op: GlobalAveragePool) -> Iterator[Sample]:
    """Images, a signal, and a single element."""
    r = rng(61)
    yield Sample("image", (normal(r, 2, 3, 4, 5),))
    yield Sample("signal", (normal(r, 2, 3, 7),))
    yield Sample("element", (normal(r, 1, 5, 1, 1),))


@samples_of(GlobalAveragePoolGrad)
def global_average_pool_grad_samples(op: GlobalAveragePoolGrad) -> Iterator[Sample]:
    """Both attributes, and a gate."""
    r = rng(62)
    yield Sample("kernel", (normal(r, 2, 3, 1, 1),), {"kernel_shape": (4, 5)}, onnx=False)
    yield Sample("whole", (normal(r, 1, 5, 1),), {"input_shape": (1, 5, 7)}, onnx=False)
    gated = (normal(r, 2, 3, 1, 1), normal(r, 2, 3, 4, 5))
    yield Sample("gated", gated, {"kernel_shape": (4, 5)}, onnx=False)


@sweep_of(GlobalAveragePoolGrad)
def global_average_pool_grad_sweep(op: GlobalAveragePoolGrad) -> Iterator[Sample]:
    """Few and many channels."""
    r = rng(63)
    for channels, side in measured("global_pools"):
        label, dy = f"{channels}x{side}x{side}", normal(r, 1, channels, 1, 1)
        yield Sample(label, (dy,), {"kernel_shape": (side, side)}, onnx=False)
        gated = (dy, normal(r, 1, channels, side, side))
        yield Sample(f"{label} gated", gated, {"kernel_shape": (side, side)}, onnx=False)


@samples_of(GlobalMaxPool)
def global_max_pool_samples(op: GlobalMaxPool) -> Iterator[Sample]:
    """Images, a signal, a volume, and a single element."""
    r = rng(116)
    yield Sample("image", (normal(r, 2, 3, 4, 5),))
    yield Sample("signal", (normal(r, 2, 3, 7),))
    yield Sample("volume", (normal(r, 1, 3, 2, 4, 3),))
    yield Sample("element", (normal(r, 1, 5, 1, 1),))


@samples_of(AveragePoolGrad)
def average_pool_grad_samples(op: AveragePoolGrad) -> Iterator[Sample]:
    """All forms, padding that counts, and X's shape not given; with a gate."""
    r = rng(85)
    cases = dict(FORMS)
    cases["include_pad"] = (FORMS["overlap"][0], {**FORMS["overlap"][1], "count_include_pad": 1})
    for label, (shape, attrs) in cases.items():
        node = Node(label, op.name, (), (), attrs)
        dy_shape = shape[:2] + tuple(a.count for a in windows(node, shape))
        dy = normal(r, *dy_shape)
        yield Sample(label, (dy,), {**attrs, "input_shape": shape}, onnx=False)
        if not label.startswith("volume"):
            yield Sample(f"gated_{label}", (dy, normal(r, *shape)), {**attrs, "input_shape": shape}, onnx=False)
    yield Sample("smallest", (normal(r, 1, 2, 3, 4),), FORMS["plain"][1], onnx=False)


@sweep_of(AveragePoolGrad)
def average_pool_grad_sweep(op: AveragePoolGrad) -> Iterator[Sample]:
    """Windows on small images, with and without padding."""
    r = rng(88)
    for channels, side, kernel, pad in measured("pool_grads"):
        shape = (1, channels, side, side)
        attrs: dict[str, AttrValue] = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": (pad,) * 4}
        attrs["input_shape"] = shape
        dy_shape = shape[:2] + tuple(a.count for a in windows(Node("", op.name, (), (), attrs), shape))
        label, dy = f"{channels}x{side}x{side} {kernel}" + " padded" * pad, normal(r, *dy_shape)
        yield Sample(label, (dy,), attrs, onnx=False)
        yield Sample(f"{label} gated", (dy, normal(r, *shape)), attrs, onnx=False)


@samples_of(MaxPoolGrad)
def max_pool_grad_samples(op: MaxPoolGrad) -> Iterator[Sample]:
    """All forms, equal elements, and what a Relu has left."""
    r = rng(84)
    for label, (shape, attrs) in FORMS.items():
        node = Node(label, op.name, (), (), attrs)
        dy_shape = shape[:2] + tuple(a.count for a in windows(node, shape))
        yield Sample(label, (normal(r, *dy_shape), normal(r, *shape)), attrs, onnx=False)
    equal = np.ones((1, 2, 4, 4), np.float32)
    yield Sample("equal", (normal(r, 1, 2, 3, 3), equal), {"kernel_shape": (2, 2)}, onnx=False)
    rectified = np.maximum(normal(r, 2, 3, 8, 8), np.float32(0))
    for name in ("plain", "overlap"):
        gated: dict[str, AttrValue] = {**FORMS[name][1], GATED: 1}
        counts = tuple(a.count for a in windows(Node(name, op.name, (), (), gated), rectified.shape))
        yield Sample(f"gated_{name}", (normal(r, 2, 3, *counts), rectified), gated, onnx=False)


@sweep_of(MaxPoolGrad)
def max_pool_grad_sweep(op: MaxPoolGrad) -> Iterator[Sample]:
    """Windows on small images, with and without padding."""
    r = rng(87)
    for channels, side, kernel, pad in measured("pool_grads"):
        attrs: dict[str, AttrValue] = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": (pad,) * 4}
        shape = (1, channels, side, side)
        dy_shape = shape[:2] + tuple(a.count for a in windows(Node("", op.name, (), (), attrs), shape))
        inputs = (normal(r, *dy_shape), normal(r, *shape))
        label = f"{channels}x{side}x{side} {kernel}" + " padded" * pad
        yield Sample(label, inputs, attrs, onnx=False)
        rectified = np.maximum(inputs[1], np.float32(0))
        yield Sample(f"{label} gated", (inputs[0], rectified), {**attrs, GATED: 1}, onnx=False)


@sweep_of(Pool)
def pool_sweep(op: Pool) -> Iterator[Sample]:
    """Two window sizes on small images."""
    r = rng(83)
    for channels, side, kernel in measured("pools"):
        pads = ((kernel - 1) // 2,) * 4
        attrs: dict[str, AttrValue] = {"kernel_shape": (kernel, kernel), "strides": (2, 2), "pads": pads}
        label = f"{channels}x{side}x{side} {kernel}"
        yield Sample(label, (normal(r, 1, channels, side, side),), attrs, onnx=False)
