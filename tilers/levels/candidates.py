"""Candidates of one step: tile lengths, loop order, buffering and residency, each with its footprint and cost.

Pruned to the Pareto front of (bytes, cycles) per residency, so that the solver sees tens of choices and not thousands.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deployer.core.access import Access
from deployer.core.cost import call_cost, rounded
from deployer.core.level import RESIDENT, slowed
from deployer.core.operator import operator_of
from deployer.core.plan import Buffering, Step
from deployer.core.target import Target
from deployer.tilers.levels.grid import Grid, Ints, boxes, distinct_boxes, grid_of, load_counts, loop_orders

MAX_TRANSFER_LEVELS = 2
"""Strided levels a DMA descriptor has besides the contiguous run."""
FRONT_LIMIT = 10
"""Most points of a Pareto front; thinning keeps the smallest and the fastest."""
RESIDENT_LIMIT = 4
"""Most points of a Pareto front of candidates with a resident storage."""


@dataclass(frozen=True)
class Candidate:
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
class Movement:
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
    possible: npt.NDArray[np.bool_]

    def slots(self, in_place: int) -> Ints:
        """Number of slots: `in_place` for an inout operand and at most two for any other, but no more than boxes."""
        return np.minimum(in_place if self.inout else min(in_place, 2), self.loads)


class Walks:
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


def enumerate_candidates(
    step: Step,
    access: Access,
    storage_of: Mapping[str, str],
    eligible: frozenset[str],
    target: Target,
    capacity: int,
    fresh: bool,
) -> dict[Buffering, list[Candidate]]:
    """The Pareto fronts of a step over `access`, the step's own or a part of it, for each buffering.

    `eligible` storages may be resident; `fresh` says that operands marked `fresh_on_flag` need no ingress. All
    candidates fit `capacity` bytes.
    """
    grid, orders = grid_of(access), loop_orders(access)
    moves = [movement(step, o.arg, access, grid, orders, storage_of, target, fresh, RESIDENT) for o in access.operands]
    kernels = np.tile(kernel_totals(step, grid, target), len(orders))
    everything = frozenset(storage_of[o.tensor] for o in access.operands)
    touched = sorted(everything & eligible)
    calls, walks = np.tile(grid.calls, len(orders)), Walks(access, grid, orders)
    fronts: dict[Buffering, list[Candidate]] = {"single": [], "double": []}
    for mask in (frozenset(m) for r in range(len(touched) + 1) for m in itertools.combinations(touched, r)):
        moved = [m for m in moves if m.storage not in mask]
        allowed = (calls == 1) | (mask != everything)
        for m in moved:
            allowed = allowed & m.possible
        for mode, slot_counts in (("single", (1,)), ("double", (2, 3))):
            parts = [_priced(moved, in_place, kernels, calls, target) for in_place in slot_counts]
            slot_choices = [{m.arg: m.slots(in_place) for m in moved} for in_place in slot_counts]
            size, cycles = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
            fits = np.flatnonzero(np.tile(allowed, len(parts)) & (size <= capacity))
            for index in fits[front(size[fits], cycles[fits], RESIDENT_LIMIT if mask else FRONT_LIMIT)]:
                variant, place = divmod(int(index), kernels.size)
                slots = {m.arg: 0 for m in moves} | {arg: int(n[place]) for arg, n in slot_choices[variant].items()}
                pipelined: Buffering = "double" if any(n > 1 for n in slots.values()) else "single"
                candidate = Candidate(*walks[place], pipelined, mask, slots, int(size[index]), int(cycles[index]))
                fronts["single" if mode == "single" else "double"].append(candidate)
    return fronts


def pareto(candidates: Iterable[Candidate], limit: int = FRONT_LIMIT) -> list[Candidate]:
    """The Pareto front in bytes and cycles of the candidates of each residency, thinned evenly to `limit`."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(sorted(candidate.resident)), []).append(candidate)
    points: list[Candidate] = []
    for key in sorted(groups):
        group = sorted(groups[key], key=lambda c: c.buffering != "single")
        size, cycles = (np.array([getattr(c, field) for c in group]) for field in ("bytes", "cycles"))
        points += [group[i] for i in front(size, cycles, limit)]
    return points


def smallest(step: Step, access: Access, storage_of: Mapping[str, str], target: Target, mode: Buffering) -> Candidate:
    """The candidate with the least bytes and nothing resident, for error messages."""
    candidates = enumerate_candidates(step, access, storage_of, frozenset(), target, 1 << 62, False)
    return min(candidates[mode], key=lambda c: (c.bytes, c.cycles))


def canonical_order(order: tuple[str, ...], tile: Mapping[str, int], access: Access) -> tuple[str, ...]:
    """The order with split parallel dims first, then the others in declaration order, and reductions last."""
    parallel = [d.name for d in access.dims if d.kind == "parallel"]
    split = [n for n in order if n in parallel and tile[n] < access.dim(n).size]
    return (*split, *(n for n in parallel if n not in split), *(n for n in order if n not in parallel))


def front(size: Ints, cycles: Ints, limit: int) -> npt.NDArray[np.intp]:
    """Indices of the Pareto front in size and cycles, in ascending order of size, thinned evenly to `limit`."""
    order = np.lexsort((cycles, size))
    if not order.size:
        return order
    best = np.minimum.accumulate(cycles[order])
    front = order[np.concatenate(([True], best[1:] < best[:-1]))]
    if front.size > limit:
        front = front[[round(i * (front.size - 1) / (limit - 1)) for i in range(limit)]]
    return front


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
) -> Movement:
    """Footprint and transfer cost of an operand into slots of that level, for every tile and order."""
    operand, hop, element = access.operand(arg), target.hops[level], step.kernel.element_bytes(arg)
    box = boxes(operand, grid)
    # Border tiles are smaller: the bytes of all loads together are those of the tensor, once per repetition.
    share = np.minimum(math.prod(operand.view) / (distinct_boxes(operand, grid) * box.elements), 1.0)
    size, lines = (np.rint(count * share).astype(np.int64) for count in (box.elements * element, box.lines))
    inward, outward = (channel.cycles(size, lines) for channel in (hop.inward, hop.outward))
    count = np.concatenate([load_counts(operand, grid, order) for order in orders])
    reads = operand.reads and not (operand.fresh_on_flag and fresh)
    slot = rounded(box.elements * element, target.alignment)
    return Movement(
        arg,
        storage_of[operand.tensor],
        operand.mode == "inout",
        np.tile(slot, len(orders)),
        count,
        count * np.tile(inward, len(orders)) * int(reads),
        count * np.tile(outward, len(orders)) * int(operand.writes),
        np.tile(box.levels <= MAX_TRANSFER_LEVELS, len(orders)),
    )


def kernel_totals(step: Step, grid: Grid, target: Target) -> Ints:
    """Cycles of all kernel calls of each combination, as if a border tile cost a proportional share of a full one."""
    operator = operator_of(step.node)
    symbol, sizes = step.kernel.symbol, grid.access.sizes
    totals, all_calls = np.empty(grid.size, np.int64), grid.calls
    for row in range(grid.size):
        tile = grid.tile(row)
        work = operator.work(step.node, step.access, tile)
        cost, calls = call_cost(target, symbol, work), int(all_calls[row])
        share = math.prod(sizes[name] / length for name, length in tile.items())
        totals[row] = calls * cost.call + target.tile * (calls - 1) + math.ceil(cost.part(share) / 1000)
    return totals


def _priced(moved: list[Movement], in_place: int, kernels: Ints, calls: Ints, target: Target) -> tuple[Ints, Ints]:
    """Bytes and cycles of all candidates with one slot per moved operand, or two if `in_place` is 2 or 3.

    With two, transfers run under the kernels except for the first ingress and the last egress. Where the transfers take
    longer, one kernel call is visible instead.

    With two slots an inout operand's ingress waits for the egress of an earlier box; a third hides it under a kernel.
    """
    hop, none = target.hops[RESIDENT], np.zeros_like(kernels)
    size, starts, total_in, total_out, waits, first, last, most = (none.copy() for _ in range(8))
    for m in moved:
        slots = m.slots(in_place)
        size += m.slot_bytes * slots
        starts += m.loads * ((m.cycles_in > 0).astype(np.int64) + (m.cycles_out > 0))
        total_in += m.cycles_in
        total_out += m.cycles_out
        first += m.cycles_in // m.loads
        last += m.cycles_out // m.loads
        waits += np.where(slots == 2, m.cycles_out, 0) if m.inout else 0
        most = np.maximum(most, m.loads)
    fixed = target.step + starts * hop.wait
    single = kernels + total_in + total_out + hop.issue * 2 * most + fixed
    if in_place == 1:
        return size, single
    slow_in, slow_out = (slowed(total, target.contention) for total in (total_in, total_out))
    busy, one = kernels + starts * hop.issue + waits, kernels // calls
    double = fixed + np.maximum.reduce([first + busy + last, slow_in + one + last, first + one + slow_out])
    return size, np.where(most > 1, double, single)
