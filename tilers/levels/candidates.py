"""Candidates of one step: tile lengths, loop order, buffering and residency, each with its footprint and cost.

Pruned to the Pareto front of (bytes, cycles) per residency, so that the solver sees tens of choices and not thousands.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access
from deployer.core.cost import CallCost, rounded
from deployer.core.level import L_INNER, slowed
from deployer.core.plan import Buffering, Step
from deployer.core.target import Target
from deployer.kernel_variants.costs import CallCosts
from deployer.tilers.levels.grid import Bools, Grid, Ints, boxes, distinct_boxes, grid_of, load_counts, loop_orders

MAX_TRANSFER_LEVELS = 2
"""Strided levels a DMA descriptor has besides the contiguous run."""
FRONT_LIMIT = 10
"""Most points of a Pareto front; thinning keeps the smallest and the fastest."""
RESIDENT_LIMIT = 4
"""Most points of a Pareto front of candidates with a resident storage."""
IN_PLACE: dict[Buffering, tuple[int, ...]] = {"single": (1,), "double": (2, 3)}
"""Slots of an inout operand to try; any other operand has at most two."""
CELLS = 1 << 18
"""Most entries of an array that covers several residencies at once: a few of them fit the cache."""


class Candidate(NamedTuple):
    """One way to run a step, with its bytes and cycles.

    `resident` are the step's storages with homes in the level; `slots` maps a kernel argument to its number of slots.
    """

    tile: dict[str, int]
    order: tuple[str, ...]
    buffering: Buffering
    resident: frozenset[str]
    slots: dict[str, int]
    bytes: int
    cycles: int


@dataclass(frozen=True)
class DmaTraffic:
    """The transfers of one operand: bytes of a slot, number of loads, and cycles of all transfers in and out.

    Each array has an entry per loop order and combination of the grid, [orders * combinations].
    """

    arg: str
    storage: str
    inout: bool
    slot_bytes: Ints
    loads: Ints
    cycles_in: Ints
    cycles_out: Ints
    possible: Bools

    def slots(self, in_place: int) -> Ints:
        """Number of slots: `in_place` for an inout operand and at most two for any other, but no more than boxes."""
        return np.minimum(in_place if self.inout else min(in_place, 2), self.loads)


class LoopOrders:
    """The tile and the loop order of each index into arrays [orders * combinations of a grid]."""

    def __init__(self, access: Access, grid: Grid, orders: list[tuple[str, ...]]) -> None:
        self.access, self.grid, self.orders = access, grid, orders
        self._cache: dict[int, tuple[dict[str, int], tuple[str, ...]]] = {}

    def __getitem__(self, index: int) -> tuple[dict[str, int], tuple[str, ...]]:
        """(tile lengths, loop order) of an index; cached, as few indices are used, but by many candidates."""
        if index not in self._cache:
            order, row = divmod(index, self.grid.size)
            tile = self.grid.tile(row)
            self._cache[index] = tile, canonical_order(self.orders[order], tile, self.access)
        return self._cache[index]


class Front(NamedTuple):
    """The Pareto front of all candidates with the storages `resident`, in ascending order of bytes: their indices into
    arrays [orders * combinations], or into several such, their bytes and cycles, and the slots of each operand."""

    resident: frozenset[str]
    limit: int
    indices: npt.NDArray[np.intp]
    bytes: Ints
    cycles: Ints
    slots: tuple[Ints, ...]


class StepCandidates:
    """The candidates of a step over `access`, the step's own or a part of it.

    `eligible` storages may be resident; `fresh` says that operands marked `overwrite_on_first_pass` need no ingress.
    Operands of the arguments `staged` come from slots of a stage; others that are used at home move nowhere.
    """

    def __init__(
        self,
        step: Step,
        access: Access,
        storage_of: Mapping[str, str],
        eligible: frozenset[str],
        target: Target,
        fresh: bool,
        known: CallCosts,
        staged: Collection[str] = (),
    ) -> None:
        grid, orders = grid_of(access), loop_orders(access)
        context = (access, grid, orders, storage_of, target, fresh)
        self.target, self.loop_order_of = target, LoopOrders(access, grid, orders)
        self.moves = [movement(step, o.arg, *context, L_INNER) for o in access.operands]
        self.kernels = np.tile(kernel_totals(grid, target, known), len(orders))
        self.calls = np.tile(grid.calls, len(orders))
        everything = frozenset(storage_of[o.tensor] for o in access.operands)
        touched = sorted(everything & eligible)
        self.masks = [frozenset(m) for r in range(len(touched) + 1) for m in itertools.combinations(touched, r)]
        still = {o.arg for o in access.operands if o.at_home and o.arg not in staged}
        self.moved = np.array(
            [[m.storage not in mask and m.arg not in still for m in self.moves] for mask in self.masks]
        )
        self.limits = [RESIDENT_LIMIT if mask else FRONT_LIMIT for mask in self.masks]
        # Cutting a step that moves nothing into tiles gains nothing.
        self.cut = np.array([mask != everything for mask in self.masks])
        self._fronts: dict[Buffering, list[Front]] = {}

    def fronts(self, mode: Buffering, capacity: int) -> Iterator[Candidate]:
        """The Pareto fronts of all residencies for a buffering, in `capacity` bytes, each thinned to its limit.

        What fits less room is the beginning of the front without a limit, which is computed once.
        """
        if mode not in self._fronts:
            self._fronts[mode] = list(self._computed(IN_PLACE[mode]))
        count, args = len(self.calls), [m.arg for m in self.moves]
        for front in self._fronts[mode]:
            fitting = int(np.searchsorted(front.bytes, capacity, "right"))
            at = thinned(fitting, front.limit)
            facts = [x[at].tolist() for x in (front.indices, front.bytes, front.cycles, *front.slots)]
            for index, length, time, *numbers in zip(*facts, strict=True):
                chosen = dict(zip(args, numbers, strict=True))
                pipelined: Buffering = "double" if max(numbers) > 1 else "single"
                yield Candidate(*self.loop_order_of[index % count], pipelined, front.resident, chosen, length, time)

    def _computed(self, slot_counts: tuple[int, ...]) -> Iterator[Front]:
        moves, kernels, calls = self.moves, self.kernels, self.calls
        slots = [np.concatenate([m.slots(in_place) for in_place in slot_counts]) for m in moves]
        for rows in batches(len(self.masks), len(calls) * len(slot_counts)):
            moved = self.moved[rows]
            per_slots = [_priced(moves, moved, in_place, kernels, calls, self.target) for in_place in slot_counts]
            size, cycles = (np.concatenate([priced[i] for priced in per_slots], axis=1) for i in (0, 1))
            allowed = np.tile(possible(moves, moved) & ((calls == 1) | self.cut[rows, None]), len(per_slots))
            for row, front in enumerate(fronts(size, cycles, allowed)):
                columns = tuple(n[front] * moving for n, moving in zip(slots, moved[row], strict=True))
                number = rows.start + row
                yield Front(
                    self.masks[number], self.limits[number], front, size[row, front], cycles[row, front], columns
                )


def pareto(candidates: Iterable[Candidate], limit: int = FRONT_LIMIT) -> list[Candidate]:
    """The Pareto front in bytes and cycles of the candidates of each residency, thinned evenly to `limit`."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(sorted(candidate.resident)), []).append(candidate)
    points: list[Candidate] = []
    for key in sorted(groups):
        front: list[Candidate] = []
        for candidate in sorted(groups[key], key=lambda c: (c.bytes, c.cycles, c.buffering != "single")):
            if not front or candidate.cycles < front[-1].cycles:
                front.append(candidate)
        points += [front[i] for i in thinned(len(front), limit)]
    return points


def smallest(step: Step, access: Access, storage_of: Mapping[str, str], target: Target, mode: Buffering) -> Candidate:
    """The candidate with the least bytes and nothing resident, for error messages."""
    candidates = StepCandidates(step, access, storage_of, frozenset(), target, False, CallCosts(step, target))
    return min(candidates.fronts(mode, 1 << 62), key=lambda c: (c.bytes, c.cycles))


def canonical_order(order: tuple[str, ...], tile: Mapping[str, int], access: Access) -> tuple[str, ...]:
    """The order with split parallel dims first, then the others in declaration order, and reductions last."""
    parallel = [d.name for d in access.dims if d.kind == "parallel"]
    split = [n for n in order if n in parallel and tile[n] < access.dim(n).size]
    return (*split, *(n for n in parallel if n not in split), *(n for n in order if n not in parallel))


def fronts(size: Ints, cycles: Ints, allowed: Bools) -> list[npt.NDArray[np.intp]]:
    """Indices of the Pareto front in size and cycles of each row, among its entries that are allowed.

    They are in ascending order of size.
    """
    order = np.lexsort((cycles, np.where(allowed, size, np.iinfo(np.int64).max)))
    best = np.minimum.accumulate(np.take_along_axis(cycles, order, 1), axis=1)
    better = np.pad(best[:, 1:] < best[:, :-1], ((0, 0), (1, 0)), constant_values=True)
    rows, columns = np.nonzero(better & np.take_along_axis(allowed, order, 1))
    chosen = order[rows, columns]
    ends = np.searchsorted(rows, np.arange(len(size) + 1))
    return [chosen[a:b] for a, b in itertools.pairwise(ends)]


def thinned(count: int, limit: int) -> Sequence[int]:
    """Positions in a list of that length: at most `limit`, evenly, with the first and the last."""
    return range(count) if count <= limit else [round(i * (count - 1) / (limit - 1)) for i in range(limit)]


def batches(rows: int, columns: int) -> Iterator[slice]:
    """The rows of a table in parts of at most CELLS cells, or of one row."""
    count = max(CELLS // columns, 1)
    return (slice(at, min(at + count, rows)) for at in range(0, rows, count))


def totals(moved: Bools, amounts: Sequence[Ints]) -> Ints:
    """For each row of `moved`, the sum of the parts of the operands that move."""
    sums: Ints = np.matmul(moved.astype(np.int64), np.array(amounts))
    return sums


def possible(moves: Sequence[DmaTraffic], moved: Bools) -> Bools:
    """For each row of `moved`, whether the DMA engine can transfer the boxes of all operands that move."""
    every: Bools = totals(moved, [(~m.possible).astype(np.int64) for m in moves]) == 0
    return every


def movement(
    step: Step,
    arg: str,
    access: Access,
    grid: Grid,
    orders: list[tuple[str, ...]],
    storage_of: Mapping[str, str],
    target: Target,
    fresh: bool,
    level: int,
) -> DmaTraffic:
    """Footprint and transfer cost of an operand into slots of that level, for every tile and order."""
    operand, hop, element = access.operand(arg), target.hops[level], step.kernel.element_bytes(arg)
    box = boxes(operand, grid)
    # Border tiles are smaller: the bytes of all loads together are those of the tensor, once per repetition.
    share = np.minimum(math.prod(operand.view) / (distinct_boxes(operand, grid) * box.elements), 1.0)
    size, lines = (np.rint(count * share).astype(np.int64) for count in (box.elements * element, box.lines))
    inward, outward = (channel.cycles(size, lines) for channel in (hop.inward, hop.outward))
    count = np.concatenate([load_counts(operand, grid, order) for order in orders])
    reads = operand.reads and not (operand.overwrite_on_first_pass and fresh)
    slot = rounded(box.elements * element, target.alignment)
    return DmaTraffic(
        arg,
        storage_of[operand.tensor],
        operand.mode == "inout",
        np.tile(slot, len(orders)),
        count,
        count * np.tile(inward, len(orders)) * int(reads),
        count * np.tile(outward, len(orders)) * int(operand.writes),
        np.tile(box.levels <= MAX_TRANSFER_LEVELS, len(orders)),
    )


def kernel_totals(grid: Grid, target: Target, known: CallCosts) -> Ints:
    """Cycles of all kernel calls of each combination, as if a border tile cost a proportional share of a full one."""
    columns = [column.tolist() for column in grid.lengths.values()]
    costs = [known[lengths] for lengths in (zip(*columns, strict=True) if columns else [()])]
    cost = CallCost(*np.array(costs, np.int64).T)
    shares = (grid.access.sizes[name] / length for name, length in grid.lengths.items())
    share = math.prod(shares, start=np.ones(grid.size))
    busiest: Ints = np.ceil(cost.scaled(share) / 1000).astype(np.int64)
    return grid.calls * cost.call + target.tile * (grid.calls - 1) + busiest


def _priced(
    moves: Sequence[DmaTraffic], moved: Bools, in_place: int, kernels: Ints, calls: Ints, target: Target
) -> tuple[Ints, Ints]:
    """Bytes and cycles of all candidates with one slot per moved operand, or two if `in_place` is 2 or 3.

    Each array has a row for each row of `moved`, which says for each operand whether it moves.

    With two, transfers run under the kernels except for the first ingress and the last egress. Where the transfers take
    longer, one kernel call is visible instead.

    With two slots an inout operand's ingress waits for the egress of an earlier box; a third hides it under a kernel.
    """
    hop = target.hops[L_INNER]
    slots = [m.slots(in_place) for m in moves]
    size = totals(moved, [m.slot_bytes * n for m, n in zip(moves, slots, strict=True)])
    total_in = totals(moved, [m.cycles_in for m in moves])
    total_out = totals(moved, [m.cycles_out for m in moves])
    most = np.max([np.where(moving[:, None], m.loads, 0) for m, moving in zip(moves, moved.T, strict=True)], axis=0)
    directions = [(m.cycles_in > 0).astype(np.int64) + (m.cycles_out > 0) for m in moves]
    starts = totals(moved, [m.loads * direction for m, direction in zip(moves, directions, strict=True)])
    looped = totals(moved, [(m.loads - 1) * direction for m, direction in zip(moves, directions, strict=True)])
    fixed = target.step + starts * hop.wait
    kernels = kernels + target.dma_issue * looped
    single = kernels + total_in + total_out + hop.issue * 2 * most + fixed
    if in_place == 1:
        return size, single
    first = totals(moved, [m.cycles_in // m.loads for m in moves])
    last = totals(moved, [m.cycles_out // m.loads for m in moves])
    waits = totals(moved, [m.cycles_out * (n == 2) * m.inout for m, n in zip(moves, slots, strict=True)])
    slow_in, slow_out = (slowed(total, target.contention) for total in (total_in, total_out))
    busy, one = kernels + starts * hop.issue + waits, kernels // calls
    double = fixed + np.maximum.reduce([first + busy + last, slow_in + one + last, first + one + slow_out])
    return size, np.where(most > 1, double, single)
