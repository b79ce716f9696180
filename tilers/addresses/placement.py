"""Addresses: buffers with lifetimes packed into a level, by first fit and, where it leaves a gap, branch and bound."""

import bisect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.tilers.addresses.branch_and_bound import pack

NODES = 24_000
"""Node limit of the search for a packing within the capacity, where the program can be tiled for less: some seconds."""
LAST = 10
"""Factor of that limit where nothing else is left: below a minute."""
SHARE = 8
"""Divisor of the node limit for a search in dense steps, and for one at a height above the bound."""
DENSE = (97, 92, 80)
"""Steps are dense if at least this many percent of the bound are live; tried in this order."""
SLACK = (0, 10, 20)
"""Heights to try for the buffers of dense steps alone, in thousandths above the bound."""
GAPS = (5, 10, 20, 40, 80, 160)
"""Heights to try for all buffers at once, in thousandths above the bound."""


@dataclass(frozen=True)
class Item:
    """A buffer: name, bytes (a multiple of the level's alignment) and the steps first..last in which it is live."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Placement:
    """Offsets in bytes, the highest byte used, and the lower bound: the most bytes live at once."""

    offsets: dict[str, int]
    height: int
    bound: int


def lower_bound(items: Sequence[Item]) -> int:
    """Most bytes live at any one step."""
    return max(_live(items).values(), default=0)


def _live(items: Sequence[Item]) -> dict[int, int]:
    """Bytes live at each step with a birth, in ascending order: they stand for all steps up to the next one.

    There may be a million steps, and what is live grows at births alone.
    """
    changes: dict[int, int] = {}
    for x in items:
        changes[x.first] = changes.get(x.first, 0) + x.bytes
        changes[x.last + 1] = changes.get(x.last + 1, 0) - x.bytes
    steps = sorted(changes)
    live = zip(steps, itertools.accumulate(changes[step] for step in steps), strict=True)
    births = {x.first for x in items}
    return {step: size for step, size in live if step in births}


def place(items: Sequence[Item], capacity: int, alignment: int = 4, nodes: int = NODES, last: bool = True) -> Placement:
    """The lowest packing of the items that the methods below find; it may still exceed `capacity` (bytes).

    They are: first fit in several orders; if none reaches the bound, branch and bound for the buffers live in dense
    steps and first fit for the others; then branch and bound for all buffers. That is tried at the bound and within the
    capacity if the best packing exceeds it, and after that at ascending heights above the bound until one succeeds.
    Within the capacity the search is the longest, above all for a `last` attempt, and as turns grow with the limit, a
    packing found with fewer nodes is the one found with more.
    """
    bound = lower_bound(items)
    best = _first_fits(items, bound)
    if best.height > bound:
        best = _dense_first(items, alignment, nodes // SHARE, best)
    if best.height > capacity > bound:
        best = _within(items, bound, alignment, nodes // 2, best)
    if best.height > capacity >= bound:
        best = _within(items, capacity, alignment, nodes * LAST if last else nodes, best)
    least = capacity + 1 if best.height > capacity else bound + 1
    for gap in GAPS:
        limit = bound + bound * gap // 1000
        if limit >= best.height:
            break
        if limit >= least:
            better = _within(items, limit, alignment, nodes // SHARE, best)
            if better is not best:
                return better
    return best


def _filled(
    items: Sequence[Item], placed: Sequence[tuple[Item, int]], bound: int, below: int | None = None
) -> Placement | None:
    """First fit of the items, in their order, beside the placed ones: each at the lowest offset without an overlap.

    `bound` is the lower bound of all of them together. None as soon as the height is not `below` a given one.
    """
    everything = [*(x for x, _ in placed), *items]
    first, last = np.array([x.first for x in everything]), np.array([x.last for x in everything])
    begin = np.array([*(at for _, at in placed), *(0 for _ in items)], np.int64)
    end = begin + [x.bytes for x in everything]
    if below is not None and end[: len(placed)].max(initial=0) >= below:
        return None
    for i, item in enumerate(items, len(placed)):
        near = ((first[:i] <= item.last) & (last[:i] >= item.first)).nonzero()[0]
        near = near[begin[near].argsort()]
        # Below each neighbour, the highest end of those before it, if the gap between the two is large enough.
        ends = np.maximum.accumulate(np.concatenate(([0], end[near])))
        free = (ends[:-1] + item.bytes <= begin[near]).nonzero()[0]
        begin[i] = ends[free[0] if len(free) else -1]
        end[i] = begin[i] + item.bytes
        if below is not None and end[i] >= below:
            return None
    offsets = dict(zip((x.name for x in everything), begin.tolist(), strict=True))
    return Placement(offsets, int(end.max(initial=0)), bound)


def _dense_first(items: Sequence[Item], alignment: int, nodes: int, best: Placement) -> Placement:
    """The lowest packing with branch and bound for buffers live in dense steps and first fit for others; or `best`."""
    live = _live(items)
    for share in DENSE:
        dense = [step for step, size in live.items() if 100 * size >= share * best.bound]
        inside = [bisect.bisect_left(dense, x.first) < bisect.bisect_right(dense, x.last) for x in items]
        groups = [[x for x, here in zip(items, inside, strict=True) if here == wanted] for wanted in (True, False)]
        for slack in SLACK:
            limit = best.bound + best.bound * slack // 1000
            if limit >= best.height:
                break
            answer = pack(groups[0], limit, alignment, nodes)
            if answer.offsets is not None:
                fixed = list(zip(groups[0], answer.offsets, strict=True))
                best = min(best, _first_fits(groups[1], best.bound, fixed), key=lambda p: p.height)
                break
        if best.height == best.bound:
            break
    return best


def _first_fits(items: Sequence[Item], bound: int, placed: Sequence[tuple[Item, int]] = ()) -> Placement:
    """The lowest first fit over all orders, beside the placed items; it stops at an order that reaches the bound."""
    first, *others = _orders(items)
    best = _filled([items[i] for i in first], placed, bound)
    assert best is not None
    for order in others:
        if best.height == bound:
            break
        best = _filled([items[i] for i in order], placed, bound, best.height) or best
    return best


def _orders(items: Sequence[Item]) -> list[list[int]]:
    """Orders worth trying: longest life first, largest first, largest area first, by birth, by death from the last."""
    keys: list[Callable[[Item], tuple[int | str, ...]]] = [
        lambda x: (-(x.last - x.first), -x.bytes, x.name),
        lambda x: (-x.bytes, x.first, x.name),
        lambda x: (-x.bytes * (x.last - x.first + 1), x.first, x.name),
        lambda x: (x.first, -x.last, -x.bytes, x.name),
        lambda x: (-x.last, x.first, -x.bytes, x.name),
    ]
    return [sorted(range(len(items)), key=lambda i, k=key: k(items[i])) for key in keys]  # type: ignore[misc]


def _within(items: Sequence[Item], limit: int, alignment: int, nodes: int, best: Placement) -> Placement:
    """A packing within the limit, or `best` where branch and bound finds none."""
    answer = pack(items, limit, alignment, nodes)
    if answer.offsets is None:
        return best
    height = max((at + x.bytes for x, at in zip(items, answer.offsets, strict=True)), default=0)
    return Placement({x.name: at for x, at in zip(items, answer.offsets, strict=True)}, height, best.bound)
