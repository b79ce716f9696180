"""Lowerings of resampling layers."""

from collections.abc import Sequence
from typing import Any

from deployer.torch.graph import GraphBuilder, Operand, Value, lowers
from deployer.torch.lowerings.layers.pools import placeholder
from deployer.torch.lowerings.layers.windows import each

# Images, signals and volumes of other sizes.


def _resizing(
    g: GraphBuilder, shape: Sequence[int], size: Any, scales: Sequence[Any], mode: str, coordinates: str, rule: str = ""
) -> tuple[tuple[int, ...], list[Operand | None], dict[str, Any]]:
    """The result's shape, and ONNX's inputs besides the tensor, and attributes."""
    n = len(shape) - 2
    if len(scales) == 1 and isinstance(scales[0], list | tuple):
        scales = scales[0]
    known = [float(s) for s in scales if s is not None]
    factors = known * n if len(known) == 1 else known
    by_factors = [int(s * f) for s, f in zip(shape[2:], factors, strict=False)]
    sizes = by_factors if size is None else each(size, n)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rule or None}
    result = (*shape[:2], *sizes)
    by_scale = len(factors) == n and coordinates != "align_corners"
    if by_scale and by_factors == list(sizes):
        return result, [None, g.constant([1.0, 1.0, *factors])], attrs
    return result, [None, None, g.ints(result)], attrs


def _registers(names: Sequence[str], mode: str, coordinates: str, rule: str = "") -> None:
    """Register resizing by the nearest places, and its gradient."""

    @lowers(*names)
    def forward(g: GraphBuilder, x: Value, size: Any, *scales: Any) -> Value:
        shape, inputs, attrs = _resizing(g, x.shape, size, scales, mode, coordinates, rule)
        return g.emit("Resize", [x, *inputs], shape, **attrs)

    @lowers(*(f"{name}_backward" for name in names))
    def backward(g: GraphBuilder, dy: Value, size: Any, source: Sequence[int], *scales: Any) -> Value | None:
        _, inputs, attrs = _resizing(g, source, size, scales, mode, coordinates, rule)
        return g.backward("Resize", [placeholder(g, source), *inputs], [None], [dy], [0], **attrs)[0]


_registers([f"upsample_nearest{n}d" for n in (1, 2, 3)], "nearest", "asymmetric", "floor")
_registers([f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)], "nearest", "half_pixel", "round_prefer_ceil")


def _registers_smooth(names: Sequence[str], mode: str) -> None:
    """Register resizing between places, and its gradient."""

    @lowers(*names)
    def forward(g: GraphBuilder, x: Value, size: Any, align_corners: bool, *scales: Any) -> Value:
        coordinates = "align_corners" if align_corners else "half_pixel"
        shape, inputs, attrs = _resizing(g, x.shape, size, scales, mode, coordinates)
        return g.emit("Resize", [x, *inputs], shape, **attrs)

    @lowers(*(f"{name}_backward" for name in names))
    def backward(
        g: GraphBuilder, dy: Value, size: Any, source: Sequence[int], align_corners: bool, *scales: Any
    ) -> Value | None:
        coordinates = "align_corners" if align_corners else "half_pixel"
        _, inputs, attrs = _resizing(g, source, size, scales, mode, coordinates)
        return g.backward("Resize", [placeholder(g, source), *inputs], [None], [dy], [0], **attrs)[0]


_registers_smooth(["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"], "linear")
_registers_smooth(["upsample_bicubic2d"], "cubic")


# Elements of images and volumes at the positions of a grid, and the gradients of both.

MODES, PADDINGS = ("linear", "nearest"), ("zeros", "border", "reflection")
"""ONNX's words for PyTorch's numbers."""


def _attributes(g: GraphBuilder, mode: int, padding: int, align_corners: bool) -> dict[str, Any]:
    if mode >= len(MODES):
        raise g.refusal("its mode is 'bicubic'", "'bilinear' or 'nearest'")
    return {"mode": MODES[mode], "padding_mode": PADDINGS[padding], "align_corners": int(align_corners)}


@lowers("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(g: GraphBuilder, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    """Elements, or means of neighbours."""
    attrs = _attributes(g, mode, padding, align_corners)
    return g.emit("GridSample", [x, grid], (*x.shape[:2], *grid.shape[1:-1]), **attrs)


@lowers("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(
    g: GraphBuilder,
    dy: Value,
    x: Value,
    grid: Value,
    mode: int,
    padding: int,
    align_corners: bool,
    wanted: Sequence[bool] = (True, True),
) -> tuple[Value | None, ...]:
    """Those of X and of the grid."""
    attrs = _attributes(g, mode, padding, align_corners)
    places = [i for i, is_wanted in enumerate(wanted) if is_wanted]
    found = dict(zip(places, g.backward("GridSample", [x, grid], [None], [dy], places, **attrs), strict=True))
    if wanted[1] and found.get(1) is None:  # the nearest element does not change with the place
        found[1] = g.binary("Mul", grid, 0.0)
    return tuple(found.get(i) for i in range(2))
