"""Systematic errors, which add up over elements and passes, unlike rounding: the actual change by the expected one.

Of each tensor that a pass changes the error d is compared with a direction u: its due change, and what it changes by
per relative change of all gradients, as an optimizer may hide one that is scaled. Over all elements and passes

    slope = sum(d u) / sum(u u)

is zero but for rounding, which has no side: its standard deviation is sqrt(sum(u^2 sigma^2)) / sum(u u), and becomes
small with many elements. Within a pass the 2-norm of d stands besides, as a wrong factor within a network changes
gradients in other directions too. Elements that rounding decides are left out: those whose due change is below
a unit of their storage, or of the size of what rounding in gradients makes of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from deployer.core.operator import Array
from deployer.verify import verdict
from deployer.verify.rounding import PROBES
from deployer.verify.same_state import OnePass, size_of
from deployer.verify.tolerances import TOLERANCES

LOSS = "the loss"
CHANGE, GRADIENT = "its change", "the gradient in it"


Key = tuple[str, str]
"""A tensor and a direction."""
NOTHING: Mapping[Key, float] = {}


def _dot(left: Array, right: Array) -> float:
    """The sum of products, in one order on every machine and on one core."""
    return float((left * right).sum())


@dataclass(frozen=True, eq=False)
class ErrorDirection:
    """Direction u of a tensor's change in a pass of the reference, at the elements that rounding does not decide.

    `decided` is None where all elements are, `narrow` is how far the optimizer's own reference in float32 is off, None
    where it is not, and `sigma` the deviation of each element.
    """

    name: str
    along: str
    due: Array
    sigma: Array
    narrow: Array | None
    decided: Array | None

    @cached_property
    def norms(self) -> tuple[float, float]:
        """The 2-norms of the direction and of the deviations."""
        return verdict.norm(self.due), verdict.norm(self.sigma)

    @cached_property
    def variance(self) -> float:
        """The sum of u^2 sigma^2."""
        return float(np.square(self.due * self.sigma).sum())

    def where(self, at: Array) -> "ErrorDirection":
        """The direction at some of its elements."""
        narrow = None if self.narrow is None else self.narrow[at]
        return ErrorDirection(self.name, self.along, self.due[at], self.sigma[at], narrow, None)


@dataclass(frozen=True, eq=False)
class Row:
    """One tensor in one pass along one direction, and its error d."""

    direction: ErrorDirection
    error: Array

    @property
    def key(self) -> Key:
        """The tensor and the direction."""
        return self.direction.name, self.direction.along

    @property
    def due(self) -> Array:
        """The direction."""
        return self.direction.due

    @cached_property
    def norm(self) -> float:
        """The 2-norm of the error."""
        return verdict.norm(self.error)

    @cached_property
    def off(self) -> float:
        """The sum of d u."""
        return _dot(self.error, self.due)


@dataclass(frozen=True)
class SlopeSums:
    """Sums over the elements of the passes seen so far, of one tensor along one direction.

    `off` is that of d u, `squares` of u^2, `variance` of u^2 sigma^2; `narrow` is `off` of the optimizer's own
    reference in float32, `probes` that of each disturbed pass, and `probed` the `squares` of each of those.
    """

    off: float = 0.0
    squares: float = 0.0
    variance: float = 0.0
    narrow: float = 0.0
    probes: tuple[float, ...] = (0.0,) * PROBES
    probed: tuple[float, ...] = (0.0,) * PROBES

    def plus(self, row: Row) -> "SlopeSums":
        """With a row."""
        direction = row.direction
        return SlopeSums(
            self.off + row.off,
            self.squares + direction.norms[0] ** 2,
            self.variance + direction.variance,
            self.narrow + (_dot(direction.narrow, row.due) if direction.narrow is not None else 0.0),
            self.probes,
            self.probed,
        )

    def probing(self, probes: Sequence[Row]) -> "SlopeSums":
        """With the rows of disturbed passes."""
        off, squares = list(self.probes), list(self.probed)
        for place, row in enumerate(probes):
            off[place] += row.off
            squares[place] += row.direction.norms[0] ** 2
        return replace(self, probes=tuple(off), probed=tuple(squares))

    @property
    def slope(self) -> float:
        """The error along the direction, as a share of what was due."""
        return self.off / self.squares if self.squares else 0.0

    @property
    def allowed(self) -> float:
        """The bound of the slope's magnitude."""
        rounding = TOLERANCES.deviations * math.sqrt(self.variance) + TOLERANCES.seen * abs(self.narrow)
        seen = 0.0
        if any(self.probes):
            seen = TOLERANCES.seen * max(map(verdict.share, map(abs, self.probes), self.probed))
        return TOLERANCES.slope + seen + (rounding / self.squares if self.squares else 0.0)


@dataclass(frozen=True)
class Found:
    """The worst systematic error, as a share of its bound, and its message."""

    name: str = ""
    severity: float = 0.0
    said: str = ""


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions of all that a pass of the reference changes, without the elements that rounding decides."""

    reference: OnePass
    tolerance: float

    @cached_property
    def of_loss(self) -> ErrorDirection | None:
        """That of the loss; None where it is no number, or zero."""
        due = np.array([self.reference.loss])
        if not np.isfinite(due).all() or not due.any():
            return None
        sigma = self.tolerance * TOLERANCES.of_loss * np.maximum(1.0, np.abs(due))
        return ErrorDirection(LOSS, CHANGE, due, sigma, None, None)

    @cached_property
    def of_tensors(self) -> Mapping[str, Sequence[ErrorDirection]]:
        """Those of each tensor."""
        found = dict[str, list[ErrorDirection]]()
        for group in self.reference.groups:
            names = [n for n in group if self.reference.program.tensors[n].type.dtype == "float32"]
            scale = size_of([self.reference.change(n, content=False) for n in names])
            found.update({name: list(self._of(name, scale)) for name in names})
        return found

    def _of(self, name: str, scale: float) -> Iterator[ErrorDirection]:
        """The directions of a tensor."""
        reference = self.reference
        change = reference.change(name, content=False)
        spread = reference.spread.get(name, TOLERANCES.cancellation * scale)
        sigma = change.unit + spread * (TOLERANCES.grain / TOLERANCES.cancellation)
        least = np.maximum(TOLERANCES.units * change.unit, TOLERANCES.spreads * spread)
        for along, direction in ((CHANGE, change.by), (GRADIENT, reference.along.get(name))):
            if direction is None:
                continue
            decided = np.abs(direction) > least
            if change.finite.size < decided.size:
                decided &= np.isfinite(change.by)
            if direction is not change.by:
                decided &= np.isfinite(direction)
            if decided.all():
                yield ErrorDirection(name, along, direction, sigma, reference.narrow.get(name), None)
            elif decided.any():
                whole = ErrorDirection(name, along, direction, sigma, reference.narrow.get(name), None)
                yield replace(whole.where(decided), decided=decided)

    def rows(self, actual: OnePass) -> Iterator[Row]:
        """Errors of a pass along each direction."""
        if self.of_loss is not None and math.isfinite(actual.loss):
            yield Row(self.of_loss, actual.loss - self.of_loss.due)
        for name, directions in self.of_tensors.items():
            if not directions:
                continue
            whole = verdict.minus(actual.end_of(name), self.reference.end_of(name))
            for direction in directions:
                error = whole if direction.decided is None else whole[direction.decided]
                known = np.isfinite(error)
                if known.all():
                    yield Row(direction, error)
                elif known.any():
                    yield Row(direction.where(known), error[known])


@dataclass(frozen=True)
class Systematic:
    """Sums of a run by tensor and direction, and errors of perturbed passes as shares of the expected change."""

    sums: Mapping[Key, SlopeSums] = field(default_factory=dict)
    seen: Mapping[Key, float] = field(default_factory=dict)
    passes: int = 0

    def after(self, rows: Sequence[Row]) -> "Systematic":
        """With one more pass, of which these are the rows."""
        return replace(self, sums={**self.sums, **{r.key: self._of(r).plus(r) for r in rows}}, passes=self.passes + 1)

    def _of(self, row: Row) -> SlopeSums:
        return self.sums.get(row.key, SlopeSums())

    def found(self, rows: Sequence[Row], allowed: Mapping[Key, float] = NOTHING) -> Found:
        """The worst error after a pass with these rows; `allowed` is what the pass may be off by besides."""
        worst = Found()
        for row in rows:
            sums, name, along = self._of(row), row.direction.name, row.direction.along
            bound = sums.allowed
            if (severity := abs(sums.slope) / bound) > worst.severity:
                text = f"{along} is {1 + sums.slope:.7f} times what is due in {self.passes} passes"
                worst = Found(name, severity, f"{text}, {bound:.1e} off is allowed")
            if name != LOSS:
                due, sigma = row.direction.norms
                more = max(self.seen.get(row.key, 0.0), allowed.get(row.key, 0.0))
                bound = (TOLERANCES.norm + more) * due + TOLERANCES.sigmas * sigma
                if (severity := row.norm / bound) > worst.severity:
                    text = f"{along} is {row.norm / due:.1e} of it off, {bound / due:.1e} is allowed"
                    worst = Found(name, severity, text)
        return worst

    def allowing(self, rows: Sequence[Row], probes: Sequence[Sequence[Row]]) -> tuple["Systematic", dict[Key, float]]:
        """With what disturbed passes are off by along the same directions, and what this pass may be off by for it.

        Later passes may be off by what is usual in them: a decision that flipped in one probe is not.
        """
        sums, seen, allowed = dict(self.sums), dict(self.seen), dict[Key, float]()
        by_key = [{each.key: each for each in probe} for probe in probes]
        for row in rows:
            same = [probe[row.key] for probe in by_key if row.key in probe]
            if len(same) < len(probes) or any(each.error.size != row.error.size for each in same):
                continue
            sums[row.key] = sums[row.key].probing(same)
            shares = sorted(TOLERANCES.seen * each.norm / row.direction.norms[0] for each in same)
            allowed[row.key] = shares[-1]
            seen[row.key] = max(seen.get(row.key, 0.0), shares[(len(shares) - 1) // 2])
        return replace(self, sums=sums, seen=seen), allowed
