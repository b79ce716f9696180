"""Where the elements of a resampled axis lie among the old ones, and what share of these they have: ONNX's Resize.

Every axis by itself: a table of shares with a row for each new element and a column for each old one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"
TANGENT = -0.75
"""ONNX's default of `cubic_coeff_a`."""


@dataclass(frozen=True)
class Axis:
    """An axis of `size` elements that becomes `result` long, by the factor `scale`; `crop` is its part of `roi`."""

    size: int
    result: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)

    @property
    def is_same(self) -> bool:
        """Whether nothing changes."""
        return self.size == self.result and self.scale == 1


@dataclass(frozen=True)
class Manner:
    """How new elements are made of old ones: ONNX's attributes of these names."""

    mode: str
    place: str
    rounding: str
    tangent: float = TANGENT
    antialias: bool = False
    exclude_outside: bool = False


def _half_pixel(axis: Axis, new: Array) -> Array:
    return np.asarray((new + 0.5) / axis.scale - 0.5)


def _symmetric(axis: Axis, new: Array) -> Array:
    """Half pixels, so that what a length was rounded off by is left out on both sides."""
    adjusted = axis.result / (axis.scale * axis.size)
    return np.asarray(axis.size / 2 * (1 - adjusted) + _half_pixel(axis, new))


def _align_corners(axis: Axis, new: Array) -> Array:
    return np.asarray(new * ((axis.size - 1) / (axis.result - 1)) if axis.result > 1 else new * 0)


def _cropped(axis: Axis, new: Array) -> Array:
    first, last = (side * (axis.size - 1) for side in axis.crop)
    if axis.result == 1:
        return np.asarray(new * 0 + (first + last) / 2)
    return np.asarray(first + new * ((last - first) / (axis.result - 1)))


PLACES: dict[str, Callable[[Axis, Array], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, new: _half_pixel(axis, new) if axis.result > 1 else np.asarray(new * 0),
    "align_corners": _align_corners,
    "asymmetric": lambda axis, new: np.asarray(new / axis.scale),
    "tf_half_pixel_for_nn": lambda axis, new: np.asarray((new + 0.5) / axis.scale),
    "tf_crop_and_resize": _cropped,
}
"""The place among the old elements of each new one, by `coordinate_transformation_mode`."""
OUTSIDE = "tf_crop_and_resize"
"""The one in which places beyond the old elements have a value of their own."""
ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda at: np.asarray(np.ceil(at - 0.5)),
    "round_prefer_ceil": lambda at: np.asarray(np.floor(at + 0.5)),
}
"""The element nearest to a place, by `nearest_mode`."""


def _triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - distance, 0))


def _keys(a: float) -> Callable[[Array], Array]:
    """Keys' cubic kernel: pieces of third degree that meet with the slope `a` at distance 1."""

    def share(distance: Array) -> Array:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))

    return share


def places(axis: Axis, manner: Manner) -> Array:
    """The place of each new element among the old ones."""
    return PLACES[manner.place](axis, np.arange(axis.result, dtype=np.float64))


def nearest(axis: Axis, manner: Manner) -> Array:
    """The old element that each new one is."""
    at = ROUNDINGS[manner.rounding](places(axis, manner))
    return np.asarray(np.clip(at, 0, axis.size - 1).astype(np.int64))


def shares(axis: Axis, manner: Manner) -> Array:
    """The table of shares, [result, size] in float32; rows add up to 1, or are 0 for places outside of a crop.

    Places beyond the ends are the first or last element, or, with `exclude_outside`, none. With `antialias` an axis
    that becomes shorter is made of as many times more elements.
    """
    at = places(axis, manner)
    table = np.zeros((axis.result, axis.size))
    if manner.mode == NEAREST:
        table[np.arange(axis.result), nearest(axis, manner)] = 1
    else:
        reach, share = (1, _triangle) if manner.mode == LINEAR else (2, _keys(manner.tangent))
        narrow = min(axis.scale, 1.0) if manner.antialias else 1.0
        first = int(np.floor(-reach / narrow)) + 1
        low = np.floor(at)
        for tap in range(first, 2 - first):
            index = low + tap
            part = share(np.abs(index - at) * narrow)
            if manner.exclude_outside:
                part = np.where((index >= 0) & (index < axis.size), part, 0.0)
            places_of = np.clip(index, 0, axis.size - 1).astype(np.int64)
            np.add.at(table, (np.arange(axis.result), places_of), part)
        table /= table.sum(1, keepdims=True)
    if manner.place == OUTSIDE:
        table[(at < 0) | (at > axis.size - 1)] = 0
    return np.asarray(table, np.float32)
