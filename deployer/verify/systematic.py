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

import numpy as np

from deployer.core.operator import Array
from deployer.verify import verdict
from deployer.verify.rounding import PROBES
from deployer.verify.same_state import OnePass, groups, size_of
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
class Row:
    """One tensor in one pass along one direction: its error d, the direction u, and what rounding may do to d.

    `narrow` is how far the optimizer's own reference in float32 is off.
    """

    name: str
    along: str
    error: Array
    due: Array
    sigma: Array
    narrow: Array

    @property
    def key(self) -> Key:
        """The tensor and the direction."""
        return self.name, self.along


@dataclass(frozen=True)
class SlopeSums:
    """Sums over the elements of the passes seen so far, of one tensor along one direction.

    `off` is that of d u, `squares` of u^2, `variance` of u^2 sigma^2; `narrow` is `off` of the optimizer's own
    reference in float32, `probes` that of disturbed passes, and `probed` the `squares` of those passes.
    """

    off: float = 0.0
    squares: float = 0.0
    variance: float = 0.0
    narrow: float = 0.0
    probes: Array = field(default_factory=lambda: np.zeros(PROBES))
    probed: float = 0.0

    def plus(self, row: Row) -> "SlopeSums":
        """With a row."""
        return SlopeSums(
            self.off + _dot(row.error, row.due),
            self.squares + _dot(row.due, row.due),
            self.variance + float(np.square(row.due * row.sigma).sum()),
            self.narrow + _dot(row.narrow, row.due),
            self.probes,
            self.probed,
        )

    @property
    def slope(self) -> float:
        """The error along the direction, as a share of what was due."""
        return self.off / self.squares if self.squares else 0.0

    @property
    def allowed(self) -> float:
        """The bound of the slope's magnitude."""
        rounding = TOLERANCES.deviations * math.sqrt(self.variance) + TOLERANCES.seen * abs(self.narrow)
        seen = TOLERANCES.seen * verdict.share(float(np.abs(self.probes).max()), self.probed)
        return TOLERANCES.slope + seen + (rounding / self.squares if self.squares else 0.0)


@dataclass(frozen=True)
class Found:
    """The worst systematic error, as a share of its bound, and its message."""

    name: str = ""
    severity: float = 0.0
    said: str = ""


def rows_of(actual: OnePass, reference: OnePass, tolerance: float) -> Iterator[Row]:
    """The loss and each tensor that the pass changes, along its directions, without what rounding decides."""
    loss, due = np.array([actual.loss]), np.array([reference.loss])
    if np.isfinite(loss).all() and np.isfinite(due).all() and due.any():
        sigma = tolerance * TOLERANCES.of_loss * np.maximum(1.0, np.abs(due))
        yield Row(LOSS, CHANGE, loss - due, due, sigma, np.zeros(1))
    for group in groups(actual.program, tuple(actual.after)):
        names = [n for n in group if actual.program.tensors[n].type.dtype == "float32"]
        scale = size_of([reference.change(n, content=False) for n in names])
        for name in names:
            yield from _tensor(actual, reference, name, scale)


def _tensor(actual: OnePass, reference: OnePass, name: str, scale: float) -> Iterator[Row]:
    change = reference.change(name, content=False)
    due, unit = change.by, change.unit
    error = verdict.minus(verdict.wide(actual.after[name]), verdict.wide(reference.after[name]))
    spread = reference.spread.get(name, np.full(due.size, TOLERANCES.cancellation * scale))
    narrow = reference.narrow.get(name, np.zeros(due.size))
    sigma = unit + spread * (TOLERANCES.grain / TOLERANCES.cancellation)
    finite = np.isfinite(error) & np.isfinite(due)
    for along, direction in ((CHANGE, due), (GRADIENT, reference.along.get(name))):
        if direction is None:
            continue
        decided = np.abs(direction) > np.maximum(TOLERANCES.units * unit, TOLERANCES.spreads * spread)
        at = finite & np.isfinite(direction) & decided
        if at.any():
            yield Row(name, along, error[at], direction[at], sigma[at], narrow[at])


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
        found = [Found()]
        for row in rows:
            sums, norm, due = self._of(row), verdict.norm(row.error), verdict.norm(row.due)
            text = f"{row.along} is {1 + sums.slope:.7f} times what is due in {self.passes} passes"
            text += f", {sums.allowed:.1e} off is allowed"
            found.append(Found(row.name, abs(sums.slope) / sums.allowed, text))
            if row.name != LOSS:
                more = max(self.seen.get(row.key, 0.0), allowed.get(row.key, 0.0))
                bound = (TOLERANCES.norm + more) * due + TOLERANCES.sigmas * verdict.norm(row.sigma)
                text = f"{row.along} is {norm / due:.1e} of it off, {bound / due:.1e} is allowed"
                found.append(Found(row.name, norm / bound, text))
        return max(found, key=lambda each: each.severity)

    def allowing(self, rows: Sequence[Row], probes: Sequence[Sequence[Row]]) -> tuple["Systematic", dict[Key, float]]:
        """With what disturbed passes are off by along the same directions, and what this pass may be off by for it.

        Later passes may be off by what is usual in them: a decision that flipped in one probe is not.
        """
        sums, seen, allowed = dict(self.sums), dict(self.seen), dict[Key, float]()
        for row in rows:
            errors = [p.error for probe in probes for p in probe if p.key == row.key and p.error.size == row.error.size]
            if len(errors) < len(probes):
                continue
            known, size = sums[row.key], _dot(row.due, row.due)
            off = known.probes + np.array([_dot(e, row.due) for e in errors])
            sums[row.key] = replace(known, probes=off, probed=known.probed + size)
            shares = [TOLERANCES.seen * verdict.norm(e) / verdict.norm(row.due) for e in errors]
            allowed[row.key] = max(shares)
            seen[row.key] = max(seen.get(row.key, 0.0), float(np.median(shares)))
        return replace(self, sums=sums, seen=seen), allowed
