"""The tile lengths to try for a step, and the geometry of `deployer.core.access` for all of them at once, in arrays."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access, At, Dim, Operand, Windowed, order_dims

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

GAP_RATIO = 3
"""Neighbouring tile lengths with a larger ratio than this get lengths in between."""
LENGTHS = {1: 40, 2: 14, 3: 9, 4: 6}
"""Lengths tried per dim, by the number of dims that may be split; more dims get `LENGTHS_MANY`."""
LENGTHS_MANY = 4
INNER_LENGTHS = 4
"""Lengths tried for a reduction inside another one, whose tiles then have length 1."""
PERMUTED = 3
"""Up to this many dims every loop order is tried; with more, each dim is once the outermost."""


@dataclass(frozen=True)
class Grid:
    """Tile lengths of all dims, an entry per combination."""

    access: Access
    lengths: dict[str, Ints]
    counts: dict[str, Ints]

    @property
    def size(self) -> int:
        """Number of combinations."""
        return next(iter(self.lengths.values())).size if self.lengths else 1

    @property
    def calls(self) -> Ints:
        """Tiles of each combination."""
        return math.prod(self.counts.values(), start=np.ones(self.size, np.int64))

    def tile(self, index: int) -> dict[str, int]:
        """One combination."""
        return {name: int(lengths[index]) for name, lengths in self.lengths.items()}


def tile_sizes(size: int, limit: int, quantum: int = 1) -> list[int]:
    """Lengths to try for a dim, largest first and at most `limit`: its divisors, which give tiles of equal length.

    Gaps between neighbouring divisors are filled with lengths whose last tile is shorter. In a dim with a quantum the
    divisors are those of the number of quanta.
    """
    if quantum > 1:
        return [min(n * quantum, size) for n in tile_sizes(-(-size // quantum), limit)]
    divisors = [n for n in range(size, 0, -1) if size % n == 0]
    lengths = {*divisors}
    for large, small in itertools.pairwise(divisors):
        while large > GAP_RATIO * small and large > 4:
            large = -(-size // (-(-size // large) * 2))
            if large > small:
                lengths.add(large)
    ordered = sorted(lengths, reverse=True)
    if len(ordered) > limit:
        ordered = [ordered[round(i * (len(ordered) - 1) / (limit - 1))] for i in range(limit)]
    return ordered


def grid_of(access: Access, frozen: frozenset[str] = frozenset(), limit: int = 0) -> Grid:
    """All combinations of tile lengths; dims in `frozen` are not split.

    A dim has at most `limit` lengths, by default fewer for more dims; all reductions together count as one dim.
    """
    reductions = [d for d in access.dims if d.kind == "reduction"]
    parallel = [d for d in access.dims if d.kind == "parallel"]
    free = {d.name for d in access.dims if d.size > 1 and d.splittable and d.name not in frozen}
    first = next((d.name in free for d in reductions if d.size > 1), False)
    most = limit or LENGTHS.get(sum(d.name in free for d in parallel) + first, LENGTHS_MANY)
    sums = np.array(_sum_lengths(reductions, free, most), np.int64)
    choices = [tile_sizes(d.size, most, d.quantum) if d.name in free else [d.size] for d in parallel]
    mesh = np.meshgrid(*(np.array(c, np.int64) for c in choices), np.arange(len(sums)), indexing="ij")
    columns = {d.name: axis.ravel() for d, axis in zip(parallel, mesh, strict=False)}
    columns |= {d.name: sums[mesh[-1].ravel(), i] for i, d in enumerate(reductions)}
    lengths = {d.name: columns[d.name] for d in access.dims}
    counts = {d.name: -(-d.size // lengths[d.name]) for d in access.dims}
    return Grid(access, lengths, counts)


def grid_at(access: Access, *tiles: Mapping[str, int]) -> Grid:
    """The grid of these combinations alone."""
    lengths = {d.name: np.array([tile[d.name] for tile in tiles], np.int64) for d in access.dims}
    return Grid(access, lengths, {d.name: -(-d.size // lengths[d.name]) for d in access.dims})


def _sum_lengths(reductions: list[Dim], free: set[str], most: int) -> list[list[int]]:
    """Tile lengths of all reductions: first none is split, then one, with tiles of length 1 of all before it."""
    sizes = [d.size for d in reductions]
    rows, limit = [sizes], most
    for i, d in enumerate(reductions):
        if d.size == 1:
            continue
        if d.name not in free:
            break
        rows += [[1] * i + [length] + sizes[i + 1 :] for length in tile_sizes(d.size, limit, d.quantum)[1:]]
        if d.quantum > 1:
            break
        limit = INNER_LENGTHS
    return rows


def loop_orders(access: Access) -> list[tuple[str, ...]]:
    """The loop orders to try: of the parallel dims longer than 1, with all others behind and reductions innermost."""
    names = [d.name for d in access.dims if d.kind == "parallel" and d.size > 1]
    if len(names) <= PERMUTED:
        return [order_dims(access, p) for p in itertools.permutations(names)]
    return [order_dims(access)] + [order_dims(access, (name,)) for name in names[1:]]


@dataclass(frozen=True)
class Boxes:
    """The largest box of an operand for every combination: elements, contiguous runs and strided levels."""

    elements: Ints
    lines: Ints
    levels: Ints


def boxes(operand: Operand, grid: Grid) -> Boxes:
    """`box_shape` and `transfer` of deployer.core.access for the whole grid."""
    one = np.ones(grid.size, np.int64)
    run, elements, levels, top = one, one, one * 0, one * 0
    contiguous = one > 0
    stride = 1
    for axis, extent in reversed(list(zip(operand.axes, operand.view, strict=True))):
        if isinstance(axis, Windowed):
            length = np.minimum(axis.longest(grid.lengths[axis.dim]), extent)  # type: ignore[arg-type]
        elif isinstance(axis, At):
            length = np.minimum(grid.lengths[axis.dim], extent)
        else:
            length = one * axis.span({}, extent)[1]
        elements = elements * length
        run = np.where(contiguous, run * length, run)
        strided = ~contiguous & (length > 1)
        joined = strided & (levels > 0) & (top == stride)
        levels = levels + (strided & ~joined)
        top = np.where(joined, top * length, np.where(strided, length * stride, top))
        # A window clipped to the whole axis may be shorter in another tile, and code is one for all tiles.
        uniform = grid.counts[axis.dim] == 1 if isinstance(axis, Windowed) and extent > 1 else True
        contiguous &= (length == extent) & uniform
        stride *= extent
    return Boxes(elements, elements // np.maximum(run, 1), levels)


def load_counts(operand: Operand, grid: Grid, order: tuple[str, ...]) -> Ints:
    """`loads` of deployer.core.access for the whole grid."""
    dims = set(operand.dims)
    rounds = np.ones(grid.size, np.int64)
    counts = rounds
    for name in order:
        rounds = rounds * grid.counts[name]
        if name in dims:
            counts = np.where(grid.counts[name] > 1, rounds, counts)
    return counts


def distinct_boxes(operand: Operand, grid: Grid) -> Ints:
    """Number of different boxes of the operand, for each combination."""
    counts = [grid.counts[name] for name in sorted(set(operand.dims))]
    return math.prod(counts, start=np.ones(grid.size, np.int64))
