"""Calls of the kernels of 8-bit numbers, with windows drawn by seed, and as parts of larger operands."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue
from deployer.core.operator import Array, registry
from deployer.core.samples import Sample
from deployer.testing.bench import kernel_model, step_of
from DeployTest.support.kernels.kernel_jobs import hard

MODEL = kernel_model()
WINDOWED = ("Int8Conv", "Int8DepthwiseConv", "Int8AveragePool", "Int8MaxPool")
DRAWN = 24
"""Drawn calls of each of these operators."""
GAP = 4
"""Columns, and so numbers of each, that lie between the rows of a part."""
SCALES = (0.02, 1.5, 1e-12, 3e12)
"""Of dividends; the last two are beyond what an inverse serves for."""
LARGE = np.array([3e38, -3e38, 1e20, np.inf, -np.inf, np.nan, 0.0, 2.5, -3.5, 127.5], np.float32)


def int8_jobs() -> Iterator[KernelJob]:
    """Samples of operators with windows whole, drawn ones whole and as parts; products; vectors of all remainders."""
    for name in WINDOWED:
        for sample in registry()[name].samples():
            yield _whole(name, sample)
        r = np.random.default_rng(len(name))
        for number in range(DRAWN):
            job = _whole(name, _drawn(r, name, number))
            yield job if number % 2 else _part(job)
    for sample in registry()["Int8MatMul"].samples():
        yield _whole("Int8MatMul", sample)
    for channels in (*range(1, 10), 16, 24, 32):
        for rows in (1, 4):
            yield _whole("Int8Conv", _pointwise(channels, rows))
    for size in (1, 3, 4, 21, 64, 131):
        for scale in SCALES:
            values = np.resize(np.concatenate([LARGE, hard(0, 17)]), size)
            yield _whole("QuantizeInt8", Sample(f"{size} by {scale}", (values,), {"scale": scale, "zero": 3}))
            images = values.reshape(1, 1, 1, size)
            yield _whole("QuantizeInt8Images", Sample(f"{size} by {scale}", (images,), {"scale": scale, "zero": 3}))
        a, b = (_numbers(np.random.default_rng(size + i), size) for i in range(2))
        attrs: dict[str, AttrValue] = {"a_zero": 3, "b_zero": -11, "a_ratio": 0.73, "b_ratio": 0.41, "zero": 5}
        yield _whole("Int8Add", Sample(f"{size}", (a, b), attrs))
        yield _whole("Int8Add", Sample(f"{size} far", (a, b), {**attrs, "a_ratio": 3e37, "low": -3, "high": 9}))


def _whole(name: str, sample: Sample) -> KernelJob:
    step = step_of(registry()[name], sample)
    tile = {d.name: (0, d.size) for d in step.access.dims}
    return measure.kernel_job(f"{name}-int8 {sample.label}", step.node, step.types, step.values, tile, MODEL)


def _numbers(r: np.random.Generator, *shape: int) -> Array:
    return r.integers(-128, 128, shape).astype(np.int8)


def _pointwise(channels: int, rows: int) -> Sample:
    """A use with one tap over several rows of an odd length."""
    r = np.random.default_rng(channels)
    filters, columns = 4 + channels + channels // 16, 7
    ratios = (r.uniform(0.2, 1.8, filters) * 0.006 / np.sqrt(channels)).astype(np.float32)
    operands = (_numbers(r, 2, rows, columns, channels), _numbers(r, filters, 1, 1, channels))
    bias = r.integers(-20000, 20000, filters).astype(np.int32)
    return Sample(f"pointwise {channels} of {rows} rows", (*operands, bias, ratios), {"x_zero": -9, "zero": -7})


def _drawn(r: np.random.Generator, name: str, number: int) -> Sample:
    """A use with windows of one to three rows and columns, often three by three, in a small image."""
    n, height, width = (int(r.integers(1, most)) for most in (4, 9, 12))
    channels, filters = int(r.choice([1, 3, 4, 8, 11, 16])), int(r.choice([1, 4, 6, 8, 13]))
    kernel = (3, 3) if number % 2 else (int(r.integers(1, 4)), int(r.integers(1, 4)))
    spread = int(r.integers(1, 3)) if number % 4 == 0 else 1
    strides = (int(r.integers(1, 3)), int(r.integers(1, 3)))
    pads = tuple((k - 1) * spread // 2 if number % 3 else (k - 1) * spread for k in kernel) * 2
    height, width = (max(size, (k - 1) * spread + 1) for size, k in zip((height, width), kernel, strict=True))
    attrs: dict[str, AttrValue] = {"strides": strides, "dilations": (spread, spread), "pads": pads}
    x, label = _numbers(r, n, height, width, channels), f"drawn{number}"
    if name == "Int8MaxPool":
        return Sample(label, (x,), {**attrs, "kernel_shape": kernel})
    attrs |= {"x_zero": int(r.integers(-128, 128)), "zero": -7, **({"low": 0, "high": 90} if number % 5 == 0 else {})}
    if name == "Int8AveragePool":
        scales: Mapping[str, AttrValue] = {"x_scale": 0.031, "y_scale": 0.022, "count_include_pad": number % 2}
        return Sample(label, (x,), {**attrs, **scales, "kernel_shape": kernel})
    deep = name == "Int8DepthwiseConv"
    w = _numbers(r, *kernel, channels) if deep else _numbers(r, filters, *kernel, channels)
    m = channels if deep else filters
    ratios = (r.uniform(0.2, 1.8, m) * 0.006 / np.sqrt(w.size / m)).astype(np.float32)
    return Sample(label, (x, w, r.integers(-20000, 20000, m).astype(np.int32), ratios), attrs)


def _part(job: KernelJob) -> KernelJob:
    """The call with columns between the rows of X and Y, which it leaves alone."""
    operands, scalars = dict(job.operands), dict(job.scalars)
    for arg in ("x", "y"):
        n, height, width, channels = operands[arg].shape
        wider = np.full((n, height, width + GAP, channels), 85, np.int8)
        wider[:, :, :width] = operands[arg]
        operands[arg] = wider
        scalars |= {f"{arg}_n": wider[0].size, f"{arg}_h": wider[0, 0].size}
    return replace(job, label=f"{job.label} part", operands=operands, scalars=scalars)
