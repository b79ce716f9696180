"""Kernel calls by hand at the borders of functions: Gelu, rows of softmax and of norms, windows of equal elements,
planes with infinite borders.
"""

from collections.abc import Iterator

import numpy as np

from deployer.calibration.measure import KernelJob
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array
from deployer.operators.pooling.windows import windows
from DeployTest.support.kernels.kernel_jobs import hard, normal, whole_job

WINDOWS: tuple[tuple[tuple[int, ...], dict[str, AttrValue]], ...] = (
    ((1, 5, 8, 8), {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    ((2, 3, 7, 9), {"kernel_shape": (3, 3), "pads": (2, 2, 2, 2)}),
    ((1, 4, 9, 10), {"kernel_shape": (3, 3), "strides": (3, 3), "pads": (0, 1, 1, 0)}),
    ((1, 3, 9, 8), {"kernel_shape": (3, 3), "dilations": (2, 1), "pads": (2, 1, 2, 1)}),
    ((1, 3, 9, 8), {"kernel_shape": (3, 3), "dilations": (1, 2), "pads": (1, 2, 1, 2)}),
    ((1, 3, 2, 2), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}),
    ((1, 2, 4, 3), {"kernel_shape": (3, 3), "strides": (1, 2), "pads": (1, 1, 1, 1)}),
    ((2, 4, 6, 8), {"kernel_shape": (2, 2), "strides": (2, 2)}),
    ((1, 3, 5, 7), {"kernel_shape": (2, 2), "pads": (1, 1, 1, 1)}),
    ((1, 3, 6, 5), {"kernel_shape": (2, 2), "strides": (3, 3), "dilations": (3, 1), "pads": (1, 1, 2, 0)}),
    ((1, 3, 6, 7), {"kernel_shape": (2, 3), "strides": (2, 1)}),
    ((1, 2, 9, 9), {"kernel_shape": (5, 5), "strides": (2, 2), "pads": (2, 2, 2, 2)}),
)
"""X of pooling, and its windows: squares of 2 and 3, inside, at borders and wider than X; others."""


def _special(size: int, turn: int) -> Array:
    """Normal numbers three times as wide; every fourth is where a function has a border, from the `turn`-th on."""
    edges = [0.0, -0.0, 1e-40, -1e-40, 1e-30, -0.5, 2**0.5, -(2**0.5), 32**0.5, -5.7, -13.19, 13.2, 14.4, -90.0, -103.9]
    edges += [88.7, -110.0, 1e30, -3e38, np.inf, -np.inf, np.nan]
    values = 3 * normal(turn, size)
    values[::4] = np.roll(np.resize(np.array(edges, np.float32), len(values[::4])), -turn)
    return values


def smooth_jobs() -> Iterator[KernelJob]:
    """Gelu and its gradient on both sides of each border of erf and of the exponential, in shares of any length."""
    for size in (1, 8, 21, 131):
        for turn in (0, 9):
            x, dy = _special(size, turn), normal(5, size)
            yield whole_job("Gelu", f"edges{size}-{turn}", (x,), {})
            yield whole_job("GeluGrad", f"edges{size}-{turn}", (dy, x), {})
            for exponent in (2.0, 1.0, 0.5, -1.0):
                yield whole_job("Pow", f"edges{size}-{turn}-{exponent}", (x, np.array(exponent, np.float32)), {})


def row_jobs() -> Iterator[KernelJob]:
    """Softmax on rows of one block and of several: powers that are normal, subnormal or 0, infinities, NaN in any
    place; and layer normalization on rows and columns of every remainder.
    """
    masked = np.array([-103.0, 0.0, -0.0, -87.0, -87.5, -104.5, -np.inf, -1e9], np.float32)
    for rows, columns in ((3, 1), (5, 7), (9, 33), (12, 150)):
        x = 4 * normal(rows, rows * columns).reshape(rows, columns)
        x[0] = [0.0, -0.1, *np.linspace(-86.99, -86.7, columns - 2)] if columns > 2 else 0.0  # subnormal quotients
        x[1, ::2] = np.resize(masked, x[1, ::2].size)
        x[2, 0] = np.nan
        if rows > 3:
            x[3, columns // 2], x[4] = np.inf, -np.inf
        if rows > 5:
            x[5, columns - 1], x[6, :] = np.nan, -0.0
        for axis in (0, 1):
            values = np.ascontiguousarray(x if axis else x.T)
            yield whole_job("Softmax", f"rows{rows}x{columns}-{axis}", (values,), {"axis": axis})
            mask = np.roll(values, 1)
            yield whole_job("MaskedSoftmax", f"rows{rows}x{columns}-{axis}", (values, mask), {})
            yield whole_job("MaskedSoftmax", f"rows{rows}x{columns}-{axis}-scaled", (values, mask[0]), {"alpha": -0.3})
            yield whole_job("MaskedSoftmax", f"rows{rows}x{columns}-{axis}-factor", (values,), {"alpha": 0.7})
            yield whole_job("LogSoftmax", f"rows{rows}x{columns}-{axis}", (values,), {"axis": axis})
            dy = normal(1, x.size).reshape(values.shape)
            yield whole_job("SoftmaxGrad", f"rows{rows}x{columns}-{axis}", (dy, values), {"axis": axis})
        yield from _label_jobs(x)
    for rows, columns in ((3, 1), (5, 6), (9, 33), (17, 7), (2, 40), (70, 36), (9, 150)):
        dy, x = (normal(seed, rows * columns).reshape(rows, columns) for seed in (2, 3))
        mean, inv_std, total, dot, rest = (normal(seed, rows) for seed in (4, 5, 6, 7, 10))
        scale, bias = normal(8, columns), normal(9, columns)
        label, sums = f"rows{rows}x{columns}", (dy, x, scale, mean, inv_std)
        yield whole_job("LayerNormalize", label, (x, mean, inv_std, scale, bias), {})
        yield whole_job("LayerNormalize", f"{label}-unbiased", (x, mean, inv_std, scale), {})
        yield whole_job("LayerNormalizeGrad", label, (*sums, total, dot), {})
        yield whole_job("LayerNormalize", f"{label}-rest", (x, mean, inv_std, scale, bias, rest), {})
        yield whole_job("LayerNormalizeGrad", f"{label}-rest", (*sums, total, dot, rest), {})
        yield whole_job("LayerSums", f"{label}-rest", (*sums, rest), {}, 2)
        yield whole_job("LayerInputGrad", f"{label}-rest", (*sums, rest), {})
        yield whole_job("LayerScaleGrad", f"{label}-rest", (dy, x, mean, inv_std, rest), {}, 1)
        yield whole_job("LayerScaleGrad", f"{label}-bias-rest", (dy, x, mean, inv_std, rest), {}, 2)
        yield whole_job("LayerSums", label, sums, {}, 2)
        yield whole_job("LayerInputGrad", label, sums, {})
        yield whole_job("LayerInputGrad", f"{label}-gate", sums, {"gated": 1})
        yield whole_job("LayerNormalizeGrad", f"{label}-gate", (*sums, total, dot), {"gated": 1})
        yield whole_job("LayerNormalize", f"{label}-relu", (x, mean, inv_std, scale, bias), {"activation": "Relu"})
        yield whole_job("LayerNormalizeRows", label, (x, scale, bias), {}, 4)
        yield whole_job("LayerNormalizeRows", f"{label}-unbiased", (x, scale), {}, 1)
        yield whole_job("RmsRows", label, (x, scale), {}, 2)
        yield whole_job("RmsRows", f"{label}-alone", (x, scale), {}, 1)
        yield whole_job("RmsInputGrad", label, (dy, x, scale, inv_std), {})
        yield whole_job("RmsScaleGrad", label, (dy, x, inv_std), {})
        yield whole_job("LayerScaleGrad", label, (dy, x, mean, inv_std), {}, 1)
        yield whole_job("LayerScaleGrad", f"{label}-bias", (dy, x, mean, inv_std), {}, 2)


def _label_jobs(x: Array) -> Iterator[KernelJob]:
    """The losses of these rows of scores, one by one and all together, with labels outside of all classes."""
    rows, columns = x.shape
    labels = (np.arange(rows) * 5 % (columns + 1)).astype(np.int32)
    label = f"rows{rows}x{columns}"
    for row in range(rows):
        single = (x[row : row + 1], labels[row : row + 1])
        yield whole_job("SoftmaxCrossEntropy", f"{label}-{row}", single, {}, 2)
        yield whole_job("SoftmaxCrossEntropy", f"{label}-{row}-kept", single, {"ignore_index": 5}, 3)
    yield whole_job("SoftmaxCrossEntropy", label, (x, labels), {"ignore_index": 0})
    each: dict[str, AttrValue] = {"reduction": "none"}
    yield whole_job("SoftmaxCrossEntropy", f"{label}-each", (x, labels, normal(2, rows)), each, 3)


def window_jobs() -> Iterator[KernelJob]:
    """Maxima of numbers that are often equal: zeros of both signs, and windows of NaN and -inf alone; their gradients,
    with a gate and without; means.
    """
    for number, (shape, attrs) in enumerate(WINDOWS):
        drawn = np.random.default_rng(number)
        for kind, choice in (
            ("zeros", [-0.0, 0.0, -1.0, np.nan]),
            ("signs", [-np.inf, np.nan, -2.0, -0.0, 0.0, 3.0, np.inf]),
        ):
            x = np.asarray(drawn.choice(choice, shape), np.float32)
            x[:, 1, :4, :4] = np.nan
            yield whole_job("MaxPool", f"windows{number}-{kind}", (x,), attrs)
            counts = tuple(a.count for a in windows(Node("", "MaxPool", (), (), attrs), shape))
            dy = hard(number % 3, int(np.prod((*shape[:2], *counts)))).reshape(*shape[:2], *counts)
            for gated in (0, 1):
                label, attributes = f"windows{number}-{kind}-{gated}", {**attrs, "gated": gated}
                yield whole_job("MaxPoolGrad", label, (dy, x), attributes)
            reached = {**attrs, "input_shape": shape}
            yield whole_job("AveragePool", f"windows{number}-{kind}", (x,), attrs)
            yield whole_job("AveragePoolGrad", f"windows{number}-{kind}", (dy,), reached)
            yield whole_job("AveragePoolGrad", f"windows{number}-{kind}-gate", (dy, x), reached)
        yield whole_job("MaxPool", f"windows{number}", (normal(number, x.size).reshape(shape),), attrs)


def plane_jobs() -> Iterator[KernelJob]:
    """Depthwise planes whose numbers at the border, and some weights, are infinite, NaN or -0: what lies outside of an
    operand takes part in no sum.
    """
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 1.0], np.float32)
    for number, (height, width) in enumerate(((8, 4), (5, 7), (2, 9), (13, 5))):
        x, w = (normal(seed, size) for seed, size in ((number, 16 * height * width), (9, 144)))
        w[number::7] = np.resize(special, w[number::7].size)
        planes = x.reshape(1, 16, height, width)
        planes[:, ::2, 0] = np.resize(special, width)
        planes[:, 1::2, -1] = np.resize(special, width)
        taps, attrs = w.reshape(16, 1, 3, 3), {"group": 16, "pads": (1, 1, 1, 1)}
        label, even = f"planes{height}x{width}", normal(8, planes.size).reshape(planes.shape)
        yield whole_job("Conv", label, (planes, taps), {**attrs})
        yield whole_job("ConvGradX", label, (planes, taps), {**attrs, "input_shape": (height, width)})
        yield whole_job("ConvGradW", label, (planes, even), {**attrs, "kernel_shape": (3, 3)})
        yield whole_job("ConvGradW", f"{label}-x", (even, planes), {**attrs, "kernel_shape": (3, 3)})


def all_jobs() -> Iterator[KernelJob]:
    """All of them."""
    yield from smooth_jobs()
    yield from row_jobs()
    yield from window_jobs()
    yield from plane_jobs()
