"""Convolutions over one, two or three axes behind batch and channels."""

from collections.abc import Sequence
from typing import Any

from deployer.torch.graph import GraphBuilder, Value, lowers


def each(numbers: int | Sequence[int], count: int) -> list[int]:
    """A number per axis."""
    given = [numbers] if isinstance(numbers, int) else list(numbers)
    return given * count if len(given) == 1 else given


def window_count(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: bool) -> int:
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
    strides, dilations = each(stride, n), each(dilation, n)
    if isinstance(padding, str):
        totals = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilations, kernel, strict=True)]
        pads = [(t // 2, t - t // 2) for t in totals]
    else:
        pads = [(p, p) for p in each(padding, n)]
    sizes = [
        window_count(s, k, t, p, d, False)
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
    strides, pads, more, dilations = (each(v, n) for v in (stride, padding, output_padding, dilation))
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
    strides, pads, dilations, more = (each(v, n) for v in (stride, padding, dilation, output_padding))
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
