"""Flipped decisions: units so near a boundary that rounding alone may have put them on its other side.

What a pass is off by is explained where float64 with one to three such decisions flipped agrees with the program. How
near is near enough is estimated by probes: float64 runs in which every step's result is disturbed at random, by some
units of its largest element, where that is little, or else by what rounding does to each element.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, numerics_of
from deployer.core.traits.numerics import DecisionBoundaries
from deployer.verify.reference import Hook, Memory, run_pass
from deployer.verify.rounding import PROBES, SPREAD, rounded_results
from deployer.verify.same_state import Misfit, OnePass, misfit
from deployer.verify.tolerances import TOLERANCES

MOST_UNITS = 32
MOST_FLIPS = 3
MOST_RUNS = 200
"""Passes in float64 that one verdict may search with."""
DISTURBANCE = 16 * 2.0**-24
"""What a probe adds to each element of a step's result at most, as a share of the largest: 16 units of rounding."""
BEAM = 3
"""Units that are flipped together with every other one."""


@dataclass(frozen=True)
class Flip:
    """Flipped decision: an element of a node's operand, its value in float64, and its distance to the boundary.

    `value` is in float64, `flipped` the nearest value on the other side of the boundary, `bound` the error it may have,
    and `nearness` the distance to the boundary as a share of that.
    """

    index: int
    node: str
    tensor: str
    element: tuple[int, ...]
    value: float
    flipped: float
    bound: float
    nearness: float

    def __str__(self) -> str:
        place = f"{self.tensor}{list(self.element)} of {self.node}"
        return f"{place}: {self.value:.3e} in float64, flipped at {self.flipped:.3e}, rounding up to {self.bound:.1e}"


@dataclass
class Budget:
    """The float64 passes that are left to search with."""

    left: int = MOST_RUNS

    def take(self, count: int = 1) -> bool:
        """Use up some; False, and nothing used, where fewer are left."""
        if count > self.left:
            return False
        self.left -= count
        return True


@dataclass(frozen=True, eq=False)
class _Observed:
    """Operands of a float64 pass at nodes with decision boundaries, by the node's place among those."""

    operands: list[Array] = field(default_factory=list)
    decision_boundaries: list[tuple[Node, DecisionBoundaries]] = field(default_factory=list)


def explanation(actual: OnePass, error: Misfit, tolerance: float, budget: Budget) -> tuple[Flip, ...]:
    """One to three decisions that account for what a pass is off by; none where no such are found in the budget.

    Flipped, they must leave the pass within every bound, and at most a share of the distance.
    """
    if not math.isfinite(error.distance) or not budget.take(PROBES + 1):
        return ()
    enough = TOLERANCES.left * error.distance

    def score(flips: Sequence[Flip]) -> float:
        left = misfit(actual, actual.reference(flipping(flips)), tolerance)
        return max(left.distance / enough, left.severity) if enough else math.inf

    return search_flips(near_units(actual), score, budget)


def search_flips(nearest: Sequence[Flip], score: Callable[[Sequence[Flip]], float], budget: Budget) -> tuple[Flip, ...]:
    """Try each unit, the best few with each other one, and the best two with each third.

    `score` is at most 1 where the flipped decisions account for all there is.
    """
    units = nearest[:MOST_UNITS]
    prefixes: list[tuple[int, ...]] = [()]
    for size in range(1, MOST_FLIPS + 1):
        tried: dict[tuple[int, ...], float] = {}
        for prefix in prefixes:
            for last in range(len(units)):
                chosen = tuple(sorted({*prefix, last}))
                if len(chosen) == size and chosen not in tried and budget.take():
                    tried[chosen] = score([units[i] for i in chosen])
        ranked = sorted(tried, key=lambda chosen: (tried[chosen], chosen))
        if ranked and tried[ranked[0]] <= 1:
            return tuple(units[i] for i in ranked[0])
        prefixes = ranked[: BEAM if size == 1 else 1]
    return ()


def near_units(actual: OnePass) -> list[Flip]:
    """The units nearest to their boundaries, of those that rounding may flip, nearest first."""
    base = _observed(actual, None)
    probes = [_observed(actual, np.random.default_rng([probe, actual.index])) for probe in range(PROBES)]
    rounded = [_observed(actual, np.random.default_rng([probe, actual.index]), _of_each) for probe in range(PROBES)]
    rows: list[tuple[float, int, int, Flip]] = []
    for at, (node, boundaries) in enumerate(base.decision_boundaries):
        x = base.operands[at]
        if not x.size or not np.isfinite(x).all():
            continue
        spread = max(float(np.abs(probe.operands[at] - x).max()) for probe in probes)
        least = min(SPREAD * spread, TOLERANCES.near * float(np.abs(x).max()))
        each = SPREAD * np.max([np.abs(probe.operands[at] - x) for probe in rounded], axis=0).reshape(-1)
        bounds = np.maximum(least, each[boundaries.elements]) * (1 if boundaries.competitors is None else 2)
        near = np.flatnonzero((boundaries.margins > 0) & (boundaries.margins <= bounds))
        for place in near[np.argsort(boundaries.margins[near], kind="stable")][:MOST_UNITS]:
            element = int(boundaries.elements[place])
            index = tuple(int(i) for i in np.unravel_index(element, x.shape))
            tensor, flipped = node.inputs[boundaries.operand], float(boundaries.flipped[place])
            bound = float(bounds[place])
            share = float(boundaries.margins[place]) / bound
            flip = Flip(actual.index, node.name, tensor, index, float(x.flat[element]), flipped, bound, share)
            rows.append((share, at, element, flip))
    return [row[-1] for row in sorted(rows, key=lambda row: row[:3])[:MOST_UNITS]]


def _of_largest(value: Array) -> Array | float:
    largest = np.abs(value[np.isfinite(value)]).max(initial=0.0)
    return float(DISTURBANCE * largest)


def _of_each(value: Array) -> Array | float:
    return TOLERANCES.rounded * np.where(np.isfinite(value), np.abs(value), 0.0)


def _observed(
    actual: OnePass, noise: np.random.Generator | None, size: Callable[[Array], Array | float] = _of_largest
) -> _Observed:
    """Run a pass in float64, with noise of that size a disturbed one, and keep what nodes with boundaries read."""
    memory, observed = actual.memory(), _Observed()

    def look(node: Node, memory: Memory) -> None:
        operands = memory.operands(node)
        for boundaries in numerics_of(node).decision_boundaries(node, operands):
            operand = operands[boundaries.operand]
            assert operand is not None
            observed.operands.append(operand.copy())
            observed.decision_boundaries.append((node, boundaries))

    def disturb(node: Node, results: Sequence[Array]) -> None:
        if noise is None:
            return
        for name in rounded_results(node, results):
            if memory[name].dtype == np.float64:
                value = memory[name]
                memory[name] = value + size(value) * noise.uniform(-1, 1, value.shape)

    run_pass(actual.program, actual.dataset, memory, actual.index, disturb, look)
    return observed


def flipping(flips: Sequence[Flip]) -> Hook:
    """Return a hook that flips decisions: it moves each element across its boundary before its node runs."""

    def hook(node: Node, memory: Memory) -> None:
        for flip in flips:
            if flip.node == node.name and flip.tensor in node.inputs:
                value = memory[flip.tensor].copy()
                value[flip.element] = flip.flipped
                memory[flip.tensor] = value

    return hook


def at_pass(flips: Sequence[Flip], index: int) -> tuple[Flip, ...]:
    """The flips that belong to a pass."""
    return tuple(flip for flip in flips if flip.index == index)
