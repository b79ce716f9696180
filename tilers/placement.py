"""Addresses: buffers with lifetimes packed into a level, by first fit and, where it leaves a gap, branch and bound."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deployer.tilers.branch_and_bound import pack

NODES = 24_000
"""Nodes of branch and bound, for a packing within the capacity where first fit has none: one or two seconds."""
SHARE = 8
"""A packing that is only to be lower gets one part in as many, one at the bound itself half of all."""
SMALL = (1000, 500, 250)
"""A buffer below one of these parts of the bound may wait until the large ones lie."""
GAPS = (5, 10, 20, 40, 80, 160)
"""Heights that are asked for, in thousandths above the bound."""


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
    births: dict[int, int] = {}
    for x in items:
        births[x.first] = births.get(x.first, 0) + x.bytes
        births[x.last + 1] = births.get(x.last + 1, 0) - x.bytes
    live = most = 0
    for step in sorted(births):
        live += births[step]
        most = max(most, live)
    return most


def place(items: Sequence[Item], capacity: int, alignment: int = 4, nodes: int = NODES) -> Placement:
    """Pack the items. The height may exceed `capacity` where nothing better was found; the caller decides what then.

    First fit in several orders; where none reaches the bound, branch and bound is asked for a packing that does; then,
    where none fits the capacity, for one that does; then for large buffers alone, with small ones in what they leave;
    and last for heights from the bound upwards, until one is found.
    """
    bound = lower_bound(items)
    best = _first_fits(items, bound)
    if best.height > bound:
        best = _within(items, bound, alignment, nodes // 2, best)
    if best.height > capacity >= bound:
        best = _within(items, capacity, alignment, nodes, best)
    if best.height > bound:
        best = _large_first(items, alignment, nodes // SHARE, best)
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


def first_fit(items: Sequence[Item], order: Sequence[int]) -> Placement:
    """Place the items in the given order, each at the lowest offset where it overlaps no live one."""
    return _filled(items, [items[i] for i in order], [])


def _filled(items: Sequence[Item], order: Sequence[Item], placed: list[tuple[Item, int]]) -> Placement:
    """First fit in that order beside what is placed."""
    for item in order:
        busy = sorted((at, at + x.bytes) for x, at in placed if x.first <= item.last and item.first <= x.last)
        offset = 0
        for begin, end in busy:
            if offset + item.bytes <= begin:
                break
            offset = max(offset, end)
        placed.append((item, offset))
    height = max((at + x.bytes for x, at in placed), default=0)
    return Placement({x.name: at for x, at in placed}, height, lower_bound(items))


def _large_first(items: Sequence[Item], alignment: int, nodes: int, best: Placement) -> Placement:
    """The lowest packing whose large buffers branch and bound has placed and first fit the small ones, or `best`."""
    for small in (best.bound // part for part in SMALL):
        large, rest = ([x for x in items if (x.bytes < small) == is_small] for is_small in (False, True))
        least = lower_bound(large)
        for quarter in range(3):
            answer = pack(large, least + (best.bound - least) * quarter // 4, alignment, nodes)
            if answer.offsets is not None:
                rest.sort(key=lambda x: (-x.bytes * (x.last - x.first + 1), x.first, x.name))
                found = _filled(items, rest, list(zip(large, answer.offsets, strict=True)))
                best = min(best, found, key=lambda p: p.height)
                break
    return best


def _first_fits(items: Sequence[Item], bound: int) -> Placement:
    """The lowest of all orders; orders after one that reaches the bound are left out."""
    orders = _orders(items)
    best = first_fit(items, orders[0])
    for order in orders[1:]:
        if best.height == bound:
            break
        best = min(best, first_fit(items, order), key=lambda p: p.height)
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
