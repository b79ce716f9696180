"""The verdict on values: their distance to the expected ones and, of trained tensors, the distance they moved."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from deployer.core.ir import TensorRecord
from deployer.core.operator import Array
from deployer.verify.tolerances import TOLERANCES

Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Expected:
    """The results that a run must reproduce.

    `losses` has one loss per forward pass, `arrays` the final weights or the outputs by name. `initial` has the values
    before the run of those weights that an optimizer changes, in `updates` updates. `frozen` has the weights that
    nothing may change. `accumulators` has the gradient accumulators after the run, or nothing if there is no
    reference for them. `reference` names the source of these values, and
    `by_reference` says that this is the float64 reference's own run, from which a right float32 run drifts away.
    `notes` are lines for the report, `tensors` says what becomes of the case's float tensors.
    """

    reference: str
    losses: tuple[float, ...] = ()
    arrays: Arrays = field(default_factory=dict)
    initial: Arrays = field(default_factory=dict)
    updates: int = 0
    frozen: Arrays = field(default_factory=dict)
    accumulators: Arrays = field(default_factory=dict)
    by_reference: bool = False
    notes: tuple[str, ...] = ()
    tensors: tuple[TensorRecord, ...] = ()


@dataclass(frozen=True)
class TensorDifference:
    """The largest absolute difference of a tensor from its expected value, and the index of that element."""

    name: str
    largest: float
    index: tuple[int, ...]


@dataclass(frozen=True)
class Movement:
    """The change of a tensor over a run, in 2-norms.

    `moved` is the norm of its change, `expected` that of the expected change, `error` that of their difference, and
    `allowed` the bound of the error. `relative_error` is error / expected. The change of an accumulator is its value.
    """

    name: str
    moved: float
    expected: float
    error: float
    allowed: float
    relative_error: float

    @property
    def passed(self) -> bool:
        """Whether the error is within its bound; NaN is not."""
        return self.error <= self.allowed

    @property
    def severity(self) -> float:
        """The error divided by its bound; infinite if the error is NaN."""
        return share(self.error, self.allowed) if self.error == self.error else math.inf

    def __str__(self) -> str:
        percent = _percent(share(self.allowed, self.expected))
        return f"{self.moved:.3g} of {self.expected:.3g}, {_percent(self.relative_error)} off, {percent} allowed"


def share(amount: float, total: float) -> float:
    """part / total; infinite where a part of nothing is left."""
    if math.isinf(amount):
        return math.inf
    return amount / total if total else math.inf if amount else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 10 else f"{share:.2g} times that"


def distances(actual: Array, expected: Array) -> Array:
    """|actual - expected| per element, in float64 and flat.

    Equal infinities have distance 0, as have two NaN; an infinity and any other number an infinite one; one NaN is NaN.
    """
    values = wide(actual)
    return np.abs(minus(values, wide(expected).reshape(values.shape)))


def difference(name: str, actual: Array, expected: Array) -> TensorDifference:
    """The largest difference of a tensor; NaN, which counts as the largest, where one value alone is NaN."""
    distance = distances(actual, expected)
    if not distance.size:
        return TensorDifference(name, 0.0, ())
    at = int(np.argmax(distance))  # the first NaN where there is one
    return TensorDifference(name, float(distance[at]), tuple(int(i) for i in np.unravel_index(at, actual.shape)))


def movements(actual: Arrays, expected: Expected) -> tuple[Movement, ...]:
    """The movement of each tensor that an optimizer changes, sorted by name; integers do not enter the scale."""
    displacements = {n: minus(wide(expected.arrays[n]), wide(expected.initial[n])) for n in sorted(expected.initial)}
    scale = root_mean_square(
        [displacement for n, displacement in displacements.items() if expected.arrays[n].dtype.kind == "f"]
    )
    rows = []
    for name, displacement in displacements.items():
        before, after = wide(expected.initial[name]), wide(expected.arrays[name])
        rounding = norm(roundings(before, after, expected.updates))
        rows.append(_movement(name, minus(wide(actual[name]), before), displacement, rounding, scale))
    return tuple(rows)


def accumulator_movements(actual: Arrays, expected: Expected) -> tuple[Movement, ...]:
    """The final content of each gradient accumulator that the run returned, as a movement from zero, sorted by name."""
    names = sorted(set(actual) & set(expected.accumulators))
    scale = root_mean_square([wide(expected.accumulators[n]) for n in names])
    return tuple(_movement(n, wide(actual[n]), wide(expected.accumulators[n]), 0.0, scale) for n in names)


def _movement(name: str, displacement: Array, expected: Array, rounding: float, scale: float) -> Movement:
    """The movement of one tensor; its bound follows from the finite elements, and infinities must be equal."""
    relative = TOLERANCES.movement * norm(finite(expected))
    bound = relative + rounding + TOLERANCES.cancellation * scale * math.sqrt(expected.size)
    error = norm(minus(displacement, expected))
    return Movement(name, norm(displacement), norm(expected), error, bound, share(error, norm(expected)))


def roundings(before: Array, after: Array, updates: int) -> Array:
    """Bound the rounding of each element in so many updates and of the expected value; 0 if that is not finite.

    Once for each, by half a unit in the last place of the larger of its values.
    """
    largest = np.maximum(np.abs(before), np.abs(after))
    infinite = ~np.isfinite(largest)
    if infinite.any():
        largest = np.where(infinite, 0, largest)
    return TOLERANCES.roundings * (updates + 1) * np.spacing(largest.astype(np.float32)).astype(np.float64) / 2


def minus(left: Array, right: Array) -> Array:
    """The difference per element; that of equal infinities is 0, and that of two NaN."""
    with np.errstate(invalid="ignore"):
        off: Array = left - right
        if np.isnan(off).any():
            off = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, off)
    return off


def finite(values: Array) -> Array:
    """The finite elements, flat."""
    usable = np.isfinite(values)
    return values.reshape(-1) if usable.all() else values[usable]


def wide(array: Array) -> Array:
    """The elements in float64, flat."""
    if array.dtype == np.float64:
        return array.reshape(-1)
    with np.errstate(invalid="ignore"):  # a signalling NaN, such as the simulator's poison
        return np.asarray(array, np.float64).reshape(-1)


def norm(values: Array) -> float:
    """The 2-norm of float64 values, without overflow for any that come from float32."""
    return float(np.sqrt(np.square(values).sum()))


def root_mean_square(arrays: list[Array]) -> float:
    """The root mean square of the finite elements of all parts; 0 without any."""
    usable = [finite(p) for p in arrays]
    count = sum(p.size for p in usable)
    return math.sqrt(sum(float(np.square(p).sum()) for p in usable) / count) if count else 0.0


def changed_names(actual: Arrays, frozen: Arrays) -> list[str]:
    """Sorted names of the arrays whose bits differ from those in `frozen`."""
    return [name for name in sorted(frozen) if _bits(actual[name]) != _bits(frozen[name])]


def _bits(array: Array) -> bytes:
    kind = np.float32 if array.dtype.kind == "f" else np.int32
    return np.ascontiguousarray(array, kind).tobytes()
