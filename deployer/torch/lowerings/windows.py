"""Convolutions, pools and resizing: what slides over one, two or three axes behind batch and channels."""

from collections.abc import Sequence
from typing import Any

from deployer.torch.graph import GraphBuilder, Value, lowers


def _each(numbers: int | Sequence[int], count: int) -> list[int]:
    """A number per axis."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return given * count if len(given) == 1 else given


def _output(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: bool) -> int:
    """Windows along an axis. With `ceil` one that hangs over the end counts, unless it begins in the padding."""
    room = size + sum(pads) - dilation * (kernel - 1) - 1
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + pads[0] else count


@lowers("conv1d", "conv2d", "conv3d")
def conv(
    g: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value:
    """A convolution; "same" pads so that the size stays, more at the end where it is odd."""
    kernel = weight.shape[2:]
    n = len(kernel)
    strides, dilations = _each(stride, n), _each(dilation, n)
    if isinstance(padding, str):
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        pads = [(t // 2, t - t // 2) for t in totals]
    else:
        pads = [(p, p) for p in _each(padding, n)]
    sizes = [
        _output(s, k, t, p, d, False)
        for s, k, t, p, d in zip(x.shape[2:], kernel, strides, pads, dilations, strict=True)
    ]
    return g.emit(
        "Conv", [x, weight] if bias is None else [x, weight, bias], (x.shape[0], weight.shape[0], *sizes),
        strides=strides, pads=[*(p[0] for p in pads), *(p[1] for p in pads)], dilations=dilations, group=groups,
        kernel_shape=list(kernel),
    )  # fmt: skip


@lowers("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(
    g: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Value:
    """The transpose of a convolution."""
    kernel = weight.shape[2:]
    n = len(kernel)
    strides, pads, more, dilations = (_each(v, n) for v in (stride, padding, output_padding, dilation))
    sizes = [
        (s - 1) * t - 2 * p + d * (k - 1) + o + 1
        for s, k, t, p, o, d in zip(x.shape[2:], kernel, strides, pads, more, dilations, strict=True)
    ]
    return g.emit(
        "ConvTranspose", [x, weight] if bias is None else [x, weight, bias],
        (x.shape[0], weight.shape[1] * groups, *sizes), strides=strides, pads=[*pads, *pads], output_padding=more,
        dilations=dilations, group=groups, kernel_shape=list(kernel),
    )  # fmt: skip


def conv_attributes(
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> tuple[str, dict[str, Any]]:
    """ONNX's operator of a convolution, and its attributes."""
    n = weight.rank - 2
    strides, pads, dilations, more = (_each(v, n) for v in (stride, padding, dilation, output_padding))
    attrs: dict[str, Any] = {"strides": strides, "pads": [*pads, *pads], "dilations": dilations, "group": groups}
    attrs["kernel_shape"] = list(weight.shape[2:])
    return ("ConvTranspose", attrs | {"output_padding": more}) if transposed else ("Conv", attrs)


@lowers("convolution")
def convolution(
    g: GraphBuilder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """A convolution or its transpose."""
    if transposed:
        return conv_transpose(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(g, x, weight, bias, stride, padding, dilation, groups)


def _pool(
    g: GraphBuilder, op: str, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, **attrs: Any
) -> Value:
    n = int(g.operator[-2]) if g.operator.endswith("d") else x.rank - 2
    batched = x if x.rank == n + 2 else g.reshape(x, (1, *x.shape))
    kernels = _each(kernel, n)
    strides, pads, dilations = _each(stride or kernels, n), _each(padding, n), _each(dilation, n)
    sizes = [
        _output(s, k, t, (p, p), d, ceil)
        for s, k, t, p, d in zip(batched.shape[2:], kernels, strides, pads, dilations, strict=True)
    ]
    shape = (*batched.shape[:2], *sizes)
    if n == 3 and (kernels[2], strides[2], pads[2]) == (
        1,
        1,
        0,
    ):  # windows of one place along an axis: it joins another
        batched = g.reshape(batched, (*batched.shape[:3], batched.shape[3] * batched.shape[4]))
        if (kernels[1], strides[1], pads[1]) != (1, 1, 0):
            raise g.refusal(f"windows of {kernels} in three axes", "windows over two axes")
        kernels, strides, pads, dilations, sizes = (
            [*part[:1], one]
            for part, one in ((kernels, 1), (strides, 1), (pads, 0), (dilations, 1), (sizes, batched.shape[3]))
        )
    y = g.emit(
        op, [batched], (*batched.shape[:2], *sizes), kernel_shape=kernels, strides=strides, pads=[*pads, *pads],
        dilations=None if set(dilations) == {1} else dilations, ceil_mode=int(ceil), **attrs,
    )  # fmt: skip
    return g.reshape(y, shape if x.rank == n + 2 else shape[1:])


@lowers("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    g: GraphBuilder, x: Value, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Value:
    """The maximum of each window."""
    return _pool(g, "MaxPool", x, kernel, stride, padding, dilation, ceil)


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    g: GraphBuilder,
    x: Value,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """The mean of each window."""
    if divisor_override is not None:
        raise g.refusal(f"divisor_override is {divisor_override}", "the windows' own size as divisor")
    return _pool(g, "AveragePool", x, kernel, stride, padding, 1, ceil, count_include_pad=int(count_include_pad))


def _adaptive(g: GraphBuilder, x: Value, size: Any, whole: str, op: str) -> Value:
    n = int(g.operator[-2])
    given = _each(size, n)
    sizes = [s if o is None else o for s, o in zip(x.shape[-n:], given, strict=True)]
    if tuple(sizes) == x.shape[-n:]:
        return x
    batched = x if x.rank == n + 2 else g.reshape(x, (1, *x.shape))
    if set(sizes) == {1}:
        y = g.emit(whole, [batched], (*batched.shape[:2], *sizes))
    else:
        if any(s % o for s, o in zip(x.shape[-n:], sizes, strict=True)):
            raise g.refusal(f"{x.shape[-n:]} places become {tuple(sizes)}", "a size that divides the input's")
        kernel = [s // o for s, o in zip(x.shape[-n:], sizes, strict=True)]
        y = g.emit(op, [batched], (*batched.shape[:2], *sizes), kernel_shape=kernel, strides=kernel)
    return y if x.rank == n + 2 else g.reshape(y, y.shape[1:])


@lowers("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d")
def adaptive_avg_pool(g: GraphBuilder, x: Value, size: Any) -> Value:
    """The mean of so many equal parts along each axis."""
    return _adaptive(g, x, size, "GlobalAveragePool", "AveragePool")


@lowers("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(g: GraphBuilder, x: Value, size: Any) -> tuple[Value, None]:
    """The maximum of so many equal parts along each axis; where it was is not computed."""
    return _adaptive(g, x, size, "GlobalMaxPool", "MaxPool"), None


@lowers("max_pool2d_with_indices")
def max_pool_with_indices(g: GraphBuilder, x: Value, *args: Any) -> tuple[Value, None]:
    """The maximum of each window; where it was is not computed."""
    g.operator = "aten.max_pool2d"
    return max_pool(g, x, *args), None


def _factors(factors: Any, count: int) -> list[float]:
    """A factor per axis."""
    return [factors] * count if isinstance(factors, float) else list(_each(factors, count))


def _resize(g: GraphBuilder, x: Value, size: Any, factors: Any, mode: str, coordinates: str) -> Value:
    """The places of an image, or of a signal or a volume, by sizes or by factors."""
    n = x.rank - 2
    if size is None and coordinates == "align_corners":  # which sizes alone decide
        size = [int(s * f) for s, f in zip(x.shape[2:], _factors(factors, n), strict=True)]
    names: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    names["nearest_mode"] = "floor" if mode == "nearest" else None
    if size is not None:
        sizes = _each(size, n)
        lengths = g.ints((*x.shape[:2], *sizes))
        return g.emit("Resize", [x, None, None, lengths], (*x.shape[:2], *sizes), **names)
    scales = _factors(factors, n)
    sizes = [int(s * f) for s, f in zip(x.shape[2:], scales, strict=True)]
    return g.emit("Resize", [x, None, g.constant([1.0, 1.0, *scales])], (*x.shape[:2], *sizes), **names)


@lowers("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest(g: GraphBuilder, x: Value, size: Any, factors: Any = None, *more: Any) -> Value:
    """Each place repeated."""
    return _resize(g, x, size, factors, "nearest", "asymmetric")


@lowers("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(g: GraphBuilder, x: Value, size: Any, align_corners: bool, factors: Any = None, *more: Any) -> Value:
    """Between places in proportion to the distance."""
    return _resize(g, x, size, factors, "linear", "align_corners" if align_corners else "half_pixel")


@lowers("upsample_bicubic2d")
def cubic(g: GraphBuilder, x: Value, size: Any, align_corners: bool, factors: Any = None, *more: Any) -> Value:
    """By Keys' cubic convolution of four places along each axis."""
    return _resize(g, x, size, factors, "cubic", "align_corners" if align_corners else "half_pixel")
