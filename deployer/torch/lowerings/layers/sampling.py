"""Elements of images and volumes at the positions of a grid, and the gradients of both."""

from collections.abc import Sequence
from typing import Any

from deployer.torch.graph import GraphBuilder, Value, lowers

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
