"""Candidates of one step: tile lengths, loop order, buffering and residency, each with its footprint and cost.

Pruned to the Pareto front of (bytes, cycles) per residency, so that the solver sees tens of choices and not thousands.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deployer.access import Access, Operand, box_shape, loads, order_dims, tile_count, transfer
from deployer.cost import kernel_cycles
from deployer.operator import operator_of
from deployer.plan import Buffering, Step
from deployer.target import Target

MAX_TRANSFER_LEVELS = 2
"""Strided levels a DMA descriptor has besides the contiguous run."""
GAP_RATIO = 3
"""Neighbouring tile lengths further apart than this get lengths in between."""
FRONT_LIMIT = 10
"""Points of a Pareto front that are kept; the smallest and the fastest always are."""


@dataclass(frozen=True)
class Candidate:
    """One way to run a step. `resident` are storages at home at the inner level; `slots` is per kernel argument."""

    tile: dict[str, int]
    order: tuple[str, ...]
    buffering: Buffering
    resident: frozenset[str]
    slots: dict[str, int]
    bytes: int
    cycles: int


@dataclass(frozen=True)
class Geometry:
    """What tiles of one size and order mean for one operand."""

    operand: Operand
    storage: str
    slot_bytes: int
    loads: int
    cycles_in: int
    cycles_out: int


def tile_sizes(size: int, limit: int) -> list[int]:
    """Lengths to try for a dim, largest first: its divisors, whose tiles are all alike, and 1; at most `limit`.

    Where neighbouring divisors are far apart, equal parts with a shorter last tile fill the gap.
    """
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


def rounded(size: int, alignment: int) -> int:
    """Bytes of a buffer that ends on the alignment."""
    return -(-size // alignment) * alignment


def step_tiles(access: Access) -> Iterator[dict[str, int]]:
    """Tile lengths of all dims. At most one reduction is split, the outermost."""
    reductions = [d for d in access.dims if d.kind == "reduction"]
    outermost = reductions[0].name if reductions else ""
    free = [d for d in access.dims if d.size > 1 and d.splittable and (d.kind == "parallel" or d.name == outermost)]
    limit = {1: 40, 2: 14, 3: 9}.get(len(free), 6)
    choices = []
    for dim in access.dims:
        choices.append(tile_sizes(dim.size, limit) if dim in free else [dim.size])
    for lengths in itertools.product(*choices):
        yield {d.name: n for d, n in zip(access.dims, lengths, strict=True)}


def loop_orders(access: Access, tile: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Orders of the split parallel dims that can differ in how often operands are loaded."""
    split = [d.name for d in access.dims if d.kind == "parallel" and tile[d.name] < d.size]
    if len(split) > 3:
        yield order_dims(access, tuple(split))
        return
    for permutation in itertools.permutations(split):
        yield order_dims(access, permutation)


def enumerate_candidates(
    step: Step,
    storage_of: Mapping[str, str],
    eligible: frozenset[str],
    target: Target,
    capacity: int,
    fresh: bool,
) -> dict[Buffering, list[Candidate]]:
    """All candidates of a step that fit `capacity` bytes on their own, unpruned, by the buffering they were asked for.

    `eligible` storages may be resident; `fresh` says that operands marked `fresh_on_flag` need no ingress.
    """
    everything = frozenset(storage_of[o.tensor] for o in step.access.operands)
    touched = sorted(everything & eligible)
    masks = [frozenset(m) for r in range(len(touched) + 1) for m in itertools.combinations(touched, r)]
    found: dict[Buffering, list[Candidate]] = {"single": [], "double": []}
    for tile in step_tiles(step.access):
        whole = tile == step.access.sizes
        kernels = _kernel_total(step, tile, target)
        for order in loop_orders(step.access, tile):
            parts = _geometries(step, tile, order, storage_of, target, fresh)
            for mask in masks if parts is not None else ():
                if mask == everything and not whole:
                    continue
                moved = [g for g in parts or () if g.storage not in mask]
                if sum(g.slot_bytes for g in moved) > capacity:
                    continue
                for in_place, kept in ((1, found["single"]), (2, found["double"]), (3, found["double"])):
                    if in_place == 3 and not any(g.operand.mode == "inout" and g.loads > 2 for g in moved):
                        continue
                    candidate = _candidate(tile, order, in_place, mask, moved, step, target, kernels)
                    if candidate.bytes <= capacity:
                        kept.append(candidate)
    return found


def pareto(candidates: list[Candidate], limit: int = FRONT_LIMIT) -> list[Candidate]:
    """Per residency the candidates no other beats in both bytes and cycles, thinned evenly to `limit`."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(tuple(sorted(candidate.resident)), []).append(candidate)
    kept: list[Candidate] = []
    for key in sorted(groups):
        front: list[Candidate] = []
        for candidate in sorted(groups[key], key=lambda c: (c.bytes, c.cycles, c.buffering != "single")):
            if not front or candidate.cycles < front[-1].cycles:
                front.append(candidate)
        if len(front) > limit:
            front = [front[round(i * (len(front) - 1) / (limit - 1))] for i in range(limit)]
        kept += front
    return kept


def smallest(step: Step, storage_of: Mapping[str, str], target: Target, mode: Buffering) -> Candidate:
    """The candidate with the least bytes and nothing resident, for error messages."""
    candidates = enumerate_candidates(step, storage_of, frozenset(), target, 1 << 62, False)
    return min(candidates[mode], key=lambda c: (c.bytes, c.cycles))


def _geometries(
    step: Step,
    tile: Mapping[str, int],
    order: tuple[str, ...],
    storage_of: Mapping[str, str],
    target: Target,
    fresh: bool,
) -> list[Geometry] | None:
    """Footprint and transfer cost of each operand, or None where the DMA cannot describe a box."""
    hop, parts = target.hops[0], []
    for operand in step.access.operands:
        box = box_shape(operand, step.access, tile)
        shape = transfer(operand.view, box)
        if len(shape.levels) > MAX_TRANSFER_LEVELS:
            return None
        count = loads(operand, step.access, tile, order)
        # Border tiles are smaller: the bytes of all loads together are those of the tensor, once per repetition.
        distinct = math.prod(-(-step.access.dim(d).size // tile[d]) for d in set(operand.dims))
        share = math.prod(operand.view) * (count / distinct) / (count * math.prod(box))
        size, lines = math.prod(box) * 4 * min(share, 1.0), shape.lines * min(share, 1.0)
        reads = operand.reads and not (operand.fresh_on_flag and fresh)
        cycles_in = count * hop.inward.cycles(round(size), round(lines)) if reads else 0
        cycles_out = count * hop.outward.cycles(round(size), round(lines)) if operand.writes else 0
        slot = rounded(math.prod(box) * 4, target.alignment)
        parts.append(Geometry(operand, storage_of[operand.tensor], slot, count, cycles_in, cycles_out))
    return parts


def _kernel_total(step: Step, tile: Mapping[str, int], target: Target) -> int:
    """Cycles of all kernel calls: each dim has tiles of one length and perhaps one shorter tile at the border."""
    operator = operator_of(step.node)
    lengths = []
    for dim in step.access.dims:
        whole, rest = divmod(dim.size, tile[dim.name])
        lengths.append([(tile[dim.name], whole)] * (whole > 0) + [(rest, 1)] * (rest > 0))
    total = target.tile * (tile_count(step.access, tile) - 1)
    for combination in itertools.product(*lengths):
        sizes = {d.name: n for d, (n, _) in zip(step.access.dims, combination, strict=True)}
        times = math.prod(count for _, count in combination)
        total += times * kernel_cycles(target, step.kernel.symbol, operator.work(step.node, step.access, sizes))
    return total


def _candidate(
    tile: Mapping[str, int],
    order: tuple[str, ...],
    in_place: int,
    mask: frozenset[str],
    moved: list[Geometry],
    step: Step,
    target: Target,
    kernels: int,
) -> Candidate:
    """A candidate with one slot per moved operand, or two where `in_place` is 2 or 3: so many an inout operand has.

    With two slots the box after next waits for the egress of a box just finished; the third hides it under a kernel.
    """
    slots = {o.arg: 0 for o in step.access.operands}
    for g in moved:
        most = in_place if g.operand.mode == "inout" else min(in_place, 2)
        slots[g.operand.arg] = min(most, g.loads)
    hop = target.hops[0]
    starts = sum(g.loads * ((g.cycles_in > 0) + (g.cycles_out > 0)) for g in moved)
    fixed = target.step + starts * hop.wait
    total_in, total_out = sum(g.cycles_in for g in moved), sum(g.cycles_out for g in moved)
    pipelined = any(n > 1 for n in slots.values())
    if pipelined:
        total_in, total_out = (t * (1000 + target.contention) // 1000 for t in (total_in, total_out))
        first = sum(g.cycles_in // g.loads for g in moved)
        last = sum(g.cycles_out // g.loads for g in moved)
        busy = kernels + starts * hop.issue
        busy += sum(g.cycles_out for g in moved if g.operand.mode == "inout" and slots[g.operand.arg] == 2)
        cycles = first + max(busy, total_in - first, total_out - last) + last + fixed
    else:
        cycles = kernels + total_in + total_out + hop.issue * max((2 * g.loads for g in moved), default=0) + fixed
    size = sum(g.slot_bytes * slots[g.operand.arg] for g in moved)
    buffering: Buffering = "double" if pipelined else "single"
    return Candidate(dict(tile), order, buffering, mask, slots, size, cycles)
