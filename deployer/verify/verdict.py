"""The verdict on values: how far they are from what is expected, and on trained tensors how far they moved."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from deployer.core.operator import Array
from deployer.verify.tolerances import TOLERANCES

Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Expected:
    """What a run must show.

    `losses` per pass, `arrays` final weights or outputs by name; `initial` holds what those of them had before that an
    optimizer moves, in `updates` updates. `frozen` are weights that nothing moves. `accumulators` holds the content of
    gradient accumulators at the end of the run; empty where it is not known. `reference` says who expects all that.
    """

    reference: str
    losses: tuple[float, ...] = ()
    arrays: Arrays = field(default_factory=dict)
    initial: Arrays = field(default_factory=dict)
    updates: int = 0
    frozen: Arrays = field(default_factory=dict)
    accumulators: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """Largest absolute difference of a tensor from its expected value, and where."""

    name: str
    largest: float
    index: tuple[int, ...]


@dataclass(frozen=True)
class Movement:
    """How far a tensor went, in 2-norms: `moved`, `expected` to, the `error` between both, and what is `allowed` of it.

    `relative_error` is the error as a share of what is expected. Of an accumulator all is counted from zero.
    """

    name: str
    moved: float
    expected: float
    error: float
    allowed: float
    relative_error: float

    @property
    def passed(self) -> bool:
        """Whether the error is allowed; what is not a number is not."""
        return self.error <= self.allowed

    @property
    def severity(self) -> float:
        """The error as a share of what is allowed; infinite where it is not a number."""
        return _share(self.error, self.allowed) if self.error == self.error else math.inf

    def __str__(self) -> str:
        allowed = _percent(_share(self.allowed, self.expected))
        return f"{self.moved:.3g} of {self.expected:.3g}, {_percent(self.relative_error)} off, {allowed} allowed"


def _share(part: float, whole: float) -> float:
    if math.isinf(part):
        return math.inf
    return part / whole if whole else math.inf if part else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 10 else f"{share:.2g} times that"


def distances(found: Array, wanted: Array) -> Array:
    """|found - wanted| per element: 0 between equal infinities, infinite between others, NaN where one of both is."""
    left = _wide(found)
    return np.abs(_minus(left, _wide(wanted).reshape(left.shape)))


def difference(name: str, found: Array, wanted: Array) -> Difference:
    """The largest difference; NaN, which is larger than any, where a value or the expected one is NaN."""
    distance = distances(found, wanted)
    if not distance.size:
        return Difference(name, 0.0, ())
    at = int(np.argmax(distance))  # the first NaN where there is one
    return Difference(name, float(distance[at]), tuple(int(i) for i in np.unravel_index(at, found.shape)))


def movements(found: Arrays, expected: Expected) -> tuple[Movement, ...]:
    """How far each tensor moved that an optimizer moves, in the order of their names."""
    wanted = {n: _minus(_wide(expected.arrays[n]), _wide(expected.initial[n])) for n in sorted(expected.initial)}
    scale = _root_mean_square(list(wanted.values()))
    rows = []
    for name, way in wanted.items():
        before, after = _wide(expected.initial[name]), _wide(expected.arrays[name])
        largest = _finite(np.maximum(np.abs(before), np.abs(after)))
        halves = np.spacing(largest.astype(np.float32)).astype(np.float64) / 2
        rounding = TOLERANCES.roundings * (expected.updates + 1) * _norm(halves)
        rows.append(_movement(name, _minus(_wide(found[name]), before), way, rounding, scale))
    return tuple(rows)


def accumulated(found: Arrays, expected: Expected) -> tuple[Movement, ...]:
    """The same for what the accumulators hold in the end, of those that the program dumped."""
    names = sorted(set(found) & set(expected.accumulators))
    scale = _root_mean_square([_wide(expected.accumulators[n]) for n in names])
    return tuple(_movement(n, _wide(found[n]), _wide(expected.accumulators[n]), 0.0, scale) for n in names)


def _movement(name: str, moved: Array, wanted: Array, rounding: float, scale: float) -> Movement:
    """What is allowed follows from the finite elements; the others have to be the very infinities."""
    share = TOLERANCES.movement * _norm(_finite(wanted))
    allowed = share + rounding + TOLERANCES.cancellation * scale * math.sqrt(wanted.size)
    error = _norm(_minus(moved, wanted))
    return Movement(name, _norm(moved), _norm(wanted), error, allowed, _share(error, _norm(wanted)))


def _minus(left: Array, right: Array) -> Array:
    """The difference per element, zero where both are the same infinity."""
    with np.errstate(invalid="ignore"):
        return np.where(left == right, 0.0, left - right)


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _wide(array: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a signalling NaN, such as the simulator's poison
        return np.asarray(array, np.float64).reshape(-1)


def _norm(values: Array) -> float:
    """The 2-norm of float64 values, without overflow for any that come from float32."""
    return float(np.sqrt(np.square(values).sum()))


def _root_mean_square(parts: list[Array]) -> float:
    """Of the finite elements."""
    finite = [_finite(p) for p in parts]
    count = sum(p.size for p in finite)
    return math.sqrt(sum(float(np.square(p).sum()) for p in finite) / count) if count else 0.0


def wild(arrays: Arrays) -> list[str]:
    """Names of arrays that hold NaN, which nothing is equal to, NaN neither."""
    return [name for name in sorted(arrays) if np.isnan(arrays[name]).any()]


def changed(found: Arrays, frozen: Arrays) -> list[str]:
    """Names of arrays that do not have the very bits they had."""
    return [name for name in sorted(frozen) if _bits(found[name]) != _bits(frozen[name])]


def _bits(array: Array) -> bytes:
    kind = np.float32 if array.dtype.kind == "f" else np.int32
    return np.ascontiguousarray(array, kind).tobytes()
