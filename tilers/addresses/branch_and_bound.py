"""Branch and bound for placement: can buffers with fixed lifetimes be packed within a capacity?

A section is a step whose set of live buffers no other step's set contains. Any packing can be pushed down until every
buffer lies at offset 0 or on another buffer, so the search places buffers in ascending order of offset, each on those
placed before. Unplaced buffers lie at the last offset or above, which bounds the height of every section from below.
Once no unplaced buffer spans the border between two sections, the two sides are independent problems.

All that is MiniMalloc's (M. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", ASPLOS 2023), as are the fixed orders of ties, their turns with growing limits, and the pruning of buffers on
which nothing lies. Ours are the orders that are learnt, and the bounding of all sections of a child at once, as arrays.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PLACED = 1 << 60
"""The entry of a placed buffer in arrays of least offsets: larger than any offset, so that minima ignore it."""
BATCH = 8
"""Children that an order that learns bounds before it tries the first of them."""
GRAIN = 8192
"""A node counts once more per this many crossings of a buffer and a section, so that a node limit limits the work."""
FIRST_RUN = 2
"""Nodes per buffer in the first run of an order; a run without backtracking needs one per buffer."""
GROWTH = 4
"""Factor by which turns grow. A short run in some order or a long one in another solves most instances."""
FIXED_ORDERS = (("load", "life", "area"), ("load", "area", "life"), ("life", "area", "load"))
"""Which of two buffers that may start at the same offset comes first: the one with more of the first key, and so on;
after MiniMalloc's orders by total load, width and area."""
LEARNT_ORDERS = (("pressure", "load", "life", "area"), ("blame", "load", "life"))
"""Orders that change from run to run: pressure is how often the worst section of a buffer was overfull, blame is the
buffer's area times how often it was unplaced in an overfull section."""


class Sized(Protocol):
    """A buffer with its bytes, and the steps first..last in which it is live."""

    @property
    def bytes(self) -> int:
        """A multiple of the level's alignment."""
        ...

    @property
    def first(self) -> int:
        """The first step in which it is live."""
        ...

    @property
    def last(self) -> int:
        """The last one, inclusive."""
        ...


class Answer(NamedTuple):
    """Offsets in bytes in the order of the items, or None; whether no packing exists (`proven`); and the nodes used."""

    offsets: list[int] | None
    proven: bool
    nodes: int


class _Spent(Exception):
    """The run has no nodes left."""


@dataclass(frozen=True)
class _Part:
    """Unplaced buffers of neighbouring sections, in the order in which ties are broken.

    `crossing` lists the buffers of each section one section after the other; `starts` is where each begins.
    """

    index: Ints
    size: Ints
    low: Ints
    high: Ints
    section: int
    covers: Bools
    overlaps: Bools
    crossing: Ints
    starts: Ints


@dataclass(frozen=True)
class _Node:
    """A state of a part: least offsets of buffers, unplaced units per section, and unplaced buffers across each border.

    `floor` and `rank` are the offset and the index of the last placed buffer.
    """

    part: _Part
    least: Ints
    load: Ints
    spanning: Ints
    floor: int
    rank: int


class _Child(NamedTuple):
    """The index of the buffer to place next, with least offsets and unplaced units per section after that."""

    buffer: int
    least: Ints
    load: Ints


def pack(items: Sequence[Sized], capacity: int, alignment: int, node_limit: int) -> Answer:
    """Offsets that are multiples of the alignment and fit the capacity in bytes, or none if no packing was found."""
    nonempty = [i for i, x in enumerate(items) if x.bytes]
    offsets = [0] * len(items)
    if not nonempty:
        return Answer(offsets, False, 0)
    search = _Search([items[i] for i in nonempty], capacity // alignment, alignment)
    success, proven = search.solve(node_limit)
    if not success:
        return Answer(None, proven, search.nodes)
    for i, at in zip(nonempty, search.offsets.tolist(), strict=True):
        offsets[i] = at * alignment
    return Answer(offsets, False, search.nodes)


class _Search:
    """The search on one instance: its sections, the statistics of earlier runs, and the offsets so far.

    Sizes, offsets and the capacity are in units of the alignment.
    """

    def __init__(self, items: Sequence[Sized], capacity: int, alignment: int) -> None:
        self.capacity = capacity
        self.size = np.array([-(-x.bytes // alignment) for x in items], np.int64)
        self.life = np.array([x.last - x.first + 1 for x in items], np.int64)
        steps = _sections(items)
        self.low = np.searchsorted(steps, np.array([x.first for x in items]), "left").astype(np.int64)
        self.high = np.searchsorted(steps, np.array([x.last for x in items]), "right").astype(np.int64)
        self.overfull = np.zeros(len(steps), np.int64)
        self.moments = np.ones(len(items), np.int64)
        self.offsets = np.zeros(len(items), np.int64)
        self.nodes = 0
        self.run_limit = 0
        self.order: tuple[str, ...] = FIXED_ORDERS[0]

    def solve(self, node_limit: int) -> tuple[bool, bool]:
        """(whether it found a packing, whether it proved that there is none). Orders take turns with growing limits.

        A fixed order uses its turn for one run. An order that learns uses it for several short ones, each of which
        starts with the statistics of those before.
        """
        unit = FIRST_RUN * len(self.size)
        turn = 1
        while self.nodes < node_limit:
            for orders, runs in ((FIXED_ORDERS, 1), (LEARNT_ORDERS, turn)):
                for self.order in orders:
                    for _ in range(runs):
                        self.run_limit = min(self.nodes + unit * turn // runs, node_limit)
                        try:
                            success = self._run()
                        except _Spent:
                            continue
                        return success, not success
            turn *= GROWTH
        return False, False

    def _run(self) -> bool:
        """One depth-first search; whether it found a packing. Generators replace a recursion as deep as the buffers."""
        everything = np.arange(len(self.size))
        for root in self._split(everything, np.zeros_like(everything), 0, len(self.overfull)):
            stack = [self._complete(root)]
            answer: bool | None = None
            while stack:
                try:
                    node = stack[-1].send(answer)
                    stack.append(self._complete(node))
                    answer = None
                except StopIteration as end:
                    stack.pop()
                    answer = bool(end.value)
            if not answer:
                return False
        return True

    def _complete(self, node: _Node) -> Generator[_Node, bool | None, bool]:
        """Whether the node can be completed: a generator of its child nodes, to which the result of each is sent."""
        part = node.part
        if self.nodes >= self.run_limit:
            raise _Spent
        self.nodes += 1 + len(part.crossing) // GRAIN
        if len(part.starts) == 1:
            return self._stack(node)
        for child in self._children(node):
            buffer = child.buffer
            self.offsets[part.index[buffer]] = node.least[buffer]
            for below in self._after(node, child):
                if not (yield below):
                    break
            else:
                return True
            if not (part.overlaps[buffer] & (child.least != PLACED)).any():
                return False  # nothing lies on it, so that another place for it changes nothing (MiniMalloc)
        return False

    def _stack(self, node: _Node) -> bool:
        """Stack the buffers of a single section, in ascending order of least offset; whether they fit the capacity."""
        part, at = node.part, 0
        for i in np.argsort(node.least, kind="stable").tolist():
            if node.least[i] == PLACED:
                break
            at = max(at, int(node.least[i]))
            self.offsets[part.index[i]] = at
            at += int(part.size[i])
        return at <= self.capacity

    def _children(self, node: _Node) -> Iterator[_Child]:
        """The buffers that can be placed next, in ascending order of offset, except those that overfill a section.

        A buffer that starts where another could have ended already can wait until that one is placed; and in the
        section with the most to place, all of it lies at the child's offset or above.
        """
        part, least = node.part, node.least
        ascending = least > node.floor
        ascending[node.rank :] |= least[node.rank :] == node.floor
        most = min(int((least + part.size).min()) - 1, self.capacity - int(node.load.max()))
        candidates = np.flatnonzero(ascending & (least <= most))
        candidates = candidates[np.argsort(least[candidates], kind="stable")]
        # Most runs need the first child alone; an order that learns does so from all children of a batch.
        count = 1 if self.order in FIXED_ORDERS else BATCH
        for begin in range(0, len(candidates), count):
            bounded = [self._bounded(node, i) for i in candidates[begin : begin + count].tolist()]
            for child, section in bounded:
                if section is not None:
                    self._learn(part, section, child)
            yield from (child for child, section in bounded if section is None)

    def _bounded(self, node: _Node, buffer: int) -> tuple[_Child, int | None]:
        """The child that places the buffer at its least offset, and the first section that it overfills, if any."""
        part, least = node.part, node.least
        at, size = int(least[buffer]), int(part.size[buffer])
        load = node.load - size * part.covers[buffer]
        after = np.where(part.overlaps[buffer], np.maximum(least, at + size), least)
        after[buffer] = PLACED
        floors = np.maximum(np.minimum.reduceat(after.take(part.crossing), part.starts), at)
        overfull = (floors + load > self.capacity) & (load > 0)
        first = int(overfull.argmax())
        return _Child(buffer, after, load), first if overfull[first] else None

    def _learn(self, part: _Part, section: int, child: _Child) -> None:
        """Update the statistics of the orders that learn: the overfull section, and the unplaced buffers in it."""
        if self.order in FIXED_ORDERS:
            return
        self.overfull[part.section + section] += 1
        self.moments[part.index] += part.covers[:, section] & (child.least != PLACED)

    def _after(self, node: _Node, child: _Child) -> Iterator[_Node]:
        """The nodes that remain after a child: none, one of the same part, or one of each part it falls into."""
        part, buffer = node.part, child.buffer
        low, high = int(part.low[buffer]), int(part.high[buffer])
        spanning = node.spanning.copy()
        spanning[low : high - 1] -= 1
        if high - low == 1 or spanning[low : high - 1].all():
            if child.load.any():
                yield _Node(part, child.least, child.load, spanning, int(node.least[buffer]), buffer)
            return
        unplaced = child.least != PLACED
        yield from self._split(
            part.index[unplaced], child.least[unplaced], part.section, part.section + len(part.starts)
        )

    def _split(self, index: Ints, least: Ints, begin: int, end: int) -> Iterator[_Node]:
        """The root nodes of the parts into which the buffers of sections begin..end fall."""
        low, high = self.low[index], self.high[index]
        covers = _covers(low - begin, high - begin, end - begin)
        spanning = _covers(low - begin, high - begin - 1, end - begin - 1).sum(axis=0)
        borders = [0, *(np.flatnonzero(spanning == 0) + 1).tolist(), end - begin]
        load = (covers * self.size[index][:, None]).sum(axis=0)
        for a, b in pairwise(borders):
            inside = np.flatnonzero((low - begin >= a) & (high - begin <= b))
            if len(inside):
                yield self._root(index[inside], least[inside], begin + a, load[a:b])

    def _root(self, index: Ints, least: Ints, section: int, load: Ints) -> _Node:
        """The root node of a part."""
        low, high = self.low[index] - section, self.high[index] - section
        covers = _covers(low, high, len(load))
        keys = {
            "load": np.where(covers, load, 0).max(axis=1),
            "life": self.life[index],
            "area": self.life[index] * self.size[index],
            "blame": self.moments[index] * self.life[index] * self.size[index],
            "pressure": np.where(covers, self.overfull[section : section + len(load)], 0).max(axis=1),
        }
        order = np.lexsort((index, *(-keys[k] for k in reversed(self.order))))
        low, high, covers = low[order], high[order], covers[order]
        overlaps = (low < high[:, None]) & (high > low[:, None])
        np.fill_diagonal(overlaps, False)
        where, crossing = np.nonzero(covers.T)
        part = _Part(
            index[order],
            self.size[index[order]],
            low,
            high,
            section,
            covers,
            overlaps,
            crossing,
            np.searchsorted(where, np.arange(len(load))),
        )
        spanning = _covers(low, high - 1, len(load) - 1).sum(axis=0)
        return _Node(part, least[order], load, spanning, 0, 0)


def _sections(items: Sequence[Sized]) -> Ints:
    """The steps with maximal sets of live buffers: each birth after which a death comes before the next birth."""
    births = sorted({x.first for x in items})
    deaths = sorted({x.last for x in items})
    ends = [*births[1:], deaths[-1] + 1]
    at = np.searchsorted(deaths, births)
    return np.array([b for b, end, i in zip(births, ends, at.tolist(), strict=True) if deaths[i] < end], np.int64)


def _covers(low: Ints, high: Ints, count: int) -> Bools:
    """A boolean array [buffers, sections]: whether low <= section < high."""
    sections = np.arange(count)
    return (low[:, None] <= sections) & (sections < high[:, None])
