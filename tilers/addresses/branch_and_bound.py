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
from dataclasses import dataclass, field
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
"""A node counts once more per this many pairs of a buffer and a section of it, so that a node limit limits the work."""
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


class Solution(NamedTuple):
    """Offsets in bytes in the order of the items, or None; whether no packing exists (`proven`); and the nodes used."""

    offsets: list[int] | None
    proven: bool
    nodes: int


class NodeLimitReached(Exception):
    """Raised when a run reaches its node limit."""


@dataclass(frozen=True)
class _Subproblem:
    """Unplaced buffers of neighbouring sections, in the order in which ties are broken.

    The sections of a buffer are low..high, without high; `pairs` counts those of all buffers. Of each section
    `witness` is a buffer in it that was found to leave room for the others, where the search looks first.
    """

    index: Ints
    size: Ints
    low: Ints
    high: Ints
    section: int
    pairs: int
    witness: Ints
    _beside: dict[int, Bools] = field(default_factory=dict)
    _members: dict[int, Ints] = field(default_factory=dict)

    @property
    def sections(self) -> int:
        """Number of sections."""
        return len(self.witness)

    def overlaps(self, buffer: int) -> Bools:
        """Return the mask of the buffers that share a section with this one, except itself."""
        others = self._beside.get(buffer)
        if others is None:
            others = (self.low < self.high[buffer]) & (self.high > self.low[buffer])
            others[buffer] = False
            self._beside[buffer] = others
        return others

    def members(self, section: int) -> Ints:
        """Return the buffers of a section, those first that end last."""
        found = self._members.get(section)
        if found is None:
            found = ((self.low <= section) & (section < self.high)).nonzero()[0]
            found = self._members[section] = found[np.argsort(-self.high[found], kind="stable")]
        return found


@dataclass(frozen=True)
class _Node:
    """A state of a subproblem: least offsets of buffers, buffers across each border, and the `room` of each section.

    That is the capacity less the unplaced units, the highest offset at which all of these can begin; PLACED where there
    are none. `floor` and `rank` are the offset and the index of the last placed buffer.
    """

    subproblem: _Subproblem
    least: Ints
    room: Ints
    spanning: Ints
    floor: int
    rank: int


class _Child(NamedTuple):
    """The index of the buffer to place next, with least offsets and the room of each section after that."""

    buffer: int
    least: Ints
    room: Ints


def pack(items: Sequence[Sized], capacity: int, alignment: int, node_limit: int) -> Solution:
    """Offsets that are multiples of the alignment and fit the capacity in bytes, or none if no packing was found."""
    nonempty = [i for i, x in enumerate(items) if x.bytes]
    offsets = [0] * len(items)
    if not nonempty:
        return Solution(offsets, False, 0)
    search = _Search([items[i] for i in nonempty], capacity // alignment, alignment)
    success, proven = search.solve(node_limit)
    if not success:
        return Solution(None, proven, search.nodes)
    for i, at in zip(nonempty, search.offsets.tolist(), strict=True):
        offsets[i] = at * alignment
    return Solution(offsets, False, search.nodes)


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
        restart = 1
        while self.nodes < node_limit:
            for orders, runs in ((FIXED_ORDERS, 1), (LEARNT_ORDERS, restart)):
                for self.order in orders:
                    for _ in range(runs):
                        self.run_limit = min(self.nodes + unit * restart // runs, node_limit)
                        try:
                            success = self._run()
                        except NodeLimitReached:
                            continue
                        return success, not success
            restart *= GROWTH
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
        subproblem = node.subproblem
        if self.nodes >= self.run_limit:
            raise NodeLimitReached
        self.nodes += 1 + subproblem.pairs // GRAIN
        if subproblem.sections == 1:
            return self._stack(node)
        for child in self._children(node):
            buffer = child.buffer
            self.offsets[subproblem.index[buffer]] = node.least[buffer]
            for below in self._after(node, child):
                if not (yield below):
                    break
            else:
                return True
            if not (subproblem.overlaps(buffer) & (child.least != PLACED)).any():
                return False  # nothing lies on it, so that another place for it changes nothing (MiniMalloc)
        return False

    def _stack(self, node: _Node) -> bool:
        """Stack the buffers of a single section, in ascending order of least offset; whether they fit the capacity."""
        subproblem, at = node.subproblem, 0
        for i in np.argsort(node.least, kind="stable").tolist():
            if node.least[i] == PLACED:
                break
            at = max(at, int(node.least[i]))
            self.offsets[subproblem.index[i]] = at
            at += int(subproblem.size[i])
        return at <= self.capacity

    def _children(self, node: _Node) -> Iterator[_Child]:
        """The buffers that can be placed next, in ascending order of offset, except those that overfill a section.

        A buffer that starts where another could have ended already can wait until that one is placed; and in the
        section with the most to place, all of it lies at the child's offset or above.
        """
        subproblem, least = node.subproblem, node.least
        ascending = least > node.floor
        ascending[node.rank :] |= least[node.rank :] == node.floor
        most = min(int((least + subproblem.size).min()) - 1, int(node.room.min()))
        candidates = (ascending & (least <= most)).nonzero()[0]
        candidates = candidates[np.argsort(least[candidates], kind="stable")]
        # Most runs need the first child alone; an order that learns does so from all children of a batch.
        count = 1 if self.order in FIXED_ORDERS else BATCH
        for begin in range(0, len(candidates), count):
            bounded = [self._bounded(node, i) for i in candidates[begin : begin + count].tolist()]
            for child, section in bounded:
                if section is not None:
                    self._learn(subproblem, section, child)
            yield from (child for child, section in bounded if section is None)

    def _bounded(self, node: _Node, buffer: int) -> tuple[_Child, int | None]:
        """The child that places the buffer at its least offset, and the first section that it overfills, if any."""
        subproblem, least = node.subproblem, node.least
        at, size = int(least[buffer]), int(subproblem.size[buffer])
        room, after = node.room.copy(), least.copy()
        own = room[subproblem.low[buffer] : subproblem.high[buffer]]
        own += size
        own[own == self.capacity] = PLACED
        np.maximum(least, at + size, out=after, where=subproblem.overlaps(buffer))
        after[buffer] = PLACED
        return _Child(buffer, after, room), self._overfull(subproblem, after, room)

    def _overfull(self, subproblem: _Subproblem, least: Ints, room: Ints) -> int | None:
        """The first section in which all unplaced buffers begin too high for what is to place in it, if any.

        A section with one that does not is not overfull; that one often is the same as for the node before, and for
        sections next to each other.
        """
        open_sections = (least.take(subproblem.witness) > room).nonzero()[0]
        while len(open_sections):
            section = int(open_sections[0])
            members = subproblem.members(section)
            low_enough = least.take(members) <= room[section]
            first = low_enough.argmax()
            if not low_enough[first]:
                return section
            witness = members[first]
            found = (open_sections < subproblem.high[witness]) & (least[witness] <= room[open_sections])
            subproblem.witness[open_sections[found]] = witness
            open_sections = open_sections[~found]
        return None

    def _learn(self, subproblem: _Subproblem, section: int, child: _Child) -> None:
        """Update the statistics of the orders that learn: the overfull section, and the unplaced buffers in it."""
        if self.order in FIXED_ORDERS:
            return
        self.overfull[subproblem.section + section] += 1
        members = subproblem.members(section)
        self.moments[subproblem.index[members[child.least[members] != PLACED]]] += 1

    def _after(self, node: _Node, child: _Child) -> Iterator[_Node]:
        """The nodes that remain after a child: none, one of the same subproblem, or one of each part it falls into."""
        subproblem, buffer = node.subproblem, child.buffer
        low, high = int(subproblem.low[buffer]), int(subproblem.high[buffer])
        spanning = node.spanning.copy()
        spanning[low : high - 1] -= 1
        if high - low == 1 or spanning[low : high - 1].all():
            if child.room.min() != PLACED:
                yield _Node(subproblem, child.least, child.room, spanning, int(node.least[buffer]), buffer)
            return
        unplaced = child.least != PLACED
        yield from self._split(
            subproblem.index[unplaced],
            child.least[unplaced],
            subproblem.section,
            subproblem.section + subproblem.sections,
        )

    def _split(self, index: Ints, least: Ints, begin: int, end: int) -> Iterator[_Node]:
        """The root nodes of the parts into which the buffers of sections begin..end fall."""
        low, high = self.low[index], self.high[index]
        spanning = _sums(low - begin, high - begin - 1, np.ones_like(low), end - begin - 1)
        ends = [0, *(np.flatnonzero(spanning == 0) + 1).tolist(), end - begin]
        load = _sums(low - begin, high - begin, self.size[index], end - begin)
        for a, b in pairwise(ends):
            inside = np.flatnonzero((low - begin >= a) & (high - begin <= b))
            if len(inside):
                yield self._root(index[inside], least[inside], begin + a, load[a:b])

    def _root(self, index: Ints, least: Ints, section: int, load: Ints) -> _Node:
        """The root node of a subproblem."""
        low, high = self.low[index] - section, self.high[index] - section
        keys = {
            "load": _greatest(low, high, load),
            "life": self.life[index],
            "area": self.life[index] * self.size[index],
            "blame": self.moments[index] * self.life[index] * self.size[index],
            "pressure": _greatest(low, high, self.overfull[section : section + len(load)]),
        }
        order = np.lexsort((index, *(-keys[k] for k in reversed(self.order))))
        low, high = low[order], high[order]
        index, witness = index[order], _furthest(low, high, len(load))
        subproblem = _Subproblem(index, self.size[index], low, high, section, int((high - low).sum()), witness)
        spanning = _sums(low, high - 1, np.ones_like(low), len(load) - 1)
        room = np.where(load > 0, self.capacity - load, PLACED)
        return _Node(subproblem, least[order], room, spanning, 0, 0)


def _sections(items: Sequence[Sized]) -> Ints:
    """The steps with maximal sets of live buffers: each birth after which a death comes before the next birth."""
    births = sorted({x.first for x in items})
    deaths = sorted({x.last for x in items})
    ends = [*births[1:], deaths[-1] + 1]
    at = np.searchsorted(deaths, births)
    return np.array([b for b, end, i in zip(births, ends, at.tolist(), strict=True) if deaths[i] < end], np.int64)


def _sums(low: Ints, high: Ints, values: Ints, count: int) -> Ints:
    """For each of `count` sections, the sum of the values of the buffers in it: low <= section < high."""
    changes = np.zeros(count + 1, np.int64)
    np.add.at(changes, low, values)
    np.subtract.at(changes, high, values)
    sums: Ints = np.cumsum(changes[:-1])
    return sums


def _greatest(low: Ints, high: Ints, values: Ints) -> Ints:
    """For each buffer, the greatest of the values of its sections low..high, without high: of two overlapping runs."""
    level = _power(high - low)
    rows = [values]
    for number in range(int(level.max(initial=0))):
        half = 1 << number
        rows.append(np.maximum(rows[-1], np.append(rows[-1][half:], np.zeros(half, np.int64))))
    table = np.stack(rows)
    greatest: Ints = np.maximum(table[level, low], table[level, high - (1 << level)])
    return greatest


def _furthest(low: Ints, high: Ints, count: int) -> Ints:
    """For each of `count` sections, a buffer in it whose last section is the furthest; each section has one."""
    ends = np.zeros(count, np.int64)
    np.maximum.at(ends, low, high * len(low) + np.arange(len(low)))
    furthest: Ints = np.maximum.accumulate(ends) % len(low)
    return furthest


def _power(length: Ints) -> Ints:
    """The exponents of the largest powers of two up to these lengths."""
    return np.frexp(length)[1].astype(np.int64) - 1
