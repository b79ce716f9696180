"""Placement against its lower bound, and branch and bound against the enumeration of all packings."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.tilers.addresses import placement
from deployer.tilers.addresses.branch_and_bound import (
    FIRST_RUN,
    FIXED_ORDERS,
    GROWTH,
    LEARNT_ORDERS,
    NodeLimitReached,
    Solution,
    _Search,
    pack,
)
from deployer.tilers.addresses.placement import Item, Placement, lower_bound, place
from DeployTest.support.graphs.small_graphs import DATA

pytestmark = [pytest.mark.host, pytest.mark.training]

TINY_NODES = 100_000
"""Enough to exhaust an instance of a few buffers."""


@st.composite
def buffers(draw: st.DrawFn, most: int = 12, steps: int = 9) -> list[Item]:
    """Items on an alignment of 8 B."""
    items = []
    for index in range(draw(st.integers(1, most))):
        first = draw(st.integers(0, steps))
        items.append(Item(f"b{index}", 8 * draw(st.integers(0, 9)), first, draw(st.integers(first, steps))))
    return items


def random_buffers(seed: int, count: int, steps: int, life: int) -> list[Item]:
    """Sizes over two orders of magnitude, short lives."""
    r = np.random.default_rng(seed)
    births = r.integers(0, steps, count)
    deaths = np.minimum(births + r.integers(0, life, count), steps - 1)
    sizes = 4 * np.exp2(r.uniform(0, 8, count)).astype(int)
    return [
        Item(f"b{i}", int(n), int(a), int(b)) for i, (n, a, b) in enumerate(zip(sizes, births, deaths, strict=True))
    ]


def cut_rectangle(seed: int, count: int, steps: int, height: int) -> list[Item]:
    """A rectangle of steps and units of 4 B, cut `count - 1` times: buffers that can be packed without a gap."""
    r, boxes = np.random.default_rng(seed), [(0, steps, height)]
    while len(boxes) < count:
        shares = [(last - first) * size * r.random() for first, last, size in boxes]
        first, last, size = boxes.pop(int(np.argmax(shares)))
        if last - first > 1 and (size == 1 or r.random() < 0.5):
            middle = int(r.integers(first + 1, last))
            boxes += [(first, middle, size), (middle, last, size)]
        else:
            part = int(r.integers(1, size))
            boxes += [(first, last, part), (first, last, size - part)]
    boxes = [boxes[i] for i in r.permutation(count)]
    return [Item(f"b{i}", 4 * size, first, last - 1) for i, (first, last, size) in enumerate(boxes)]


def check_placement(items: list[Item], packing: Placement, alignment: int) -> None:
    """Check that offsets are aligned and without overlap, and that height and bound are right."""
    assert set(packing.offsets) == {x.name for x in items}
    assert all(at >= 0 and at % alignment == 0 for at in packing.offsets.values())
    assert packing.height == max((packing.offsets[x.name] + x.bytes for x in items), default=0)
    assert packing.bound == lower_bound(items) <= packing.height
    for i, a in enumerate(items):
        for b in items[:i]:
            disjoint = a.last < b.first or b.last < a.first
            at, bt = packing.offsets[a.name], packing.offsets[b.name]
            assert disjoint or at + a.bytes <= bt or bt + b.bytes <= at or 0 in (a.bytes, b.bytes)


def check_packed(items: list[Item], offsets: Sequence[int], capacity: int, alignment: int) -> None:
    """Check that offsets are a sound placement within the capacity."""
    height = max((at + x.bytes for x, at in zip(items, offsets, strict=True)), default=0)
    assert height <= capacity
    addresses = {x.name: at for x, at in zip(items, offsets, strict=True)}
    check_placement(items, Placement(addresses, height, lower_bound(items)), alignment)


def can_be_packed(items: list[Item], capacity: int, alignment: int) -> bool:
    """Whether a packing exists, by trying every offset of every buffer in the order of birth."""
    ordered = sorted(items, key=lambda x: x.first)
    placed: list[tuple[Item, int]] = []

    def rest_from(index: int) -> bool:
        if index == len(ordered):
            return True
        item = ordered[index]
        for at in range(0, capacity - item.bytes + 1, alignment):
            if all(x.last < item.first or at + item.bytes <= bt or bt + x.bytes <= at for x, bt in placed):
                placed.append((item, at))
                if rest_from(index + 1):
                    return True
                placed.pop()
        return False

    return rest_from(0)


def check_against_every_offset(items: list[Item], capacity: int, alignment: int) -> bool:
    """Check that `pack` finds a packing or proves that none exists; return whether one exists."""
    possible = can_be_packed(items, capacity, alignment)
    answer = pack(items, capacity, alignment, TINY_NODES)
    assert (answer.offsets is not None, answer.proven) == (possible, not possible)
    if answer.offsets is not None:
        check_packed(items, answer.offsets, capacity, alignment)
    return possible


TIGHT = (
    ((5, 0, 0), (11, 0, 1), (1, 1, 2), (4, 1, 3), (4, 2, 3), (8, 3, 5), (7, 4, 7)),
    ((10, 0, 1), (5, 2, 4), (2, 1, 5), (4, 6, 7), (4, 2, 9), (4, 5, 10), (8, 10, 11)),
    (
        *((4, 0, 1), (6, 1, 1), (1, 1, 2), (8, 2, 3), (1, 3, 5), (1, 2, 7)),
        *((1, 2, 7), (1, 0, 9), (3, 7, 9), (6, 4, 11), (5, 10, 11)),
    ),
)
"""Size, birth and death of buffers that cannot be packed at their bound; without any one of them they can."""


@pytest.mark.parametrize("shape", TIGHT, ids=len)
def test_search_is_exact_where_the_bound_is_out_of_reach(shape: tuple[tuple[int, int, int], ...]) -> None:
    """`pack` is exact on tight instances, on each without a buffer, and on variants at their bound and 4 B above."""
    items = [Item(f"b{i}", 4 * size, first, last) for i, (size, first, last) in enumerate(shape)]
    capacity = lower_bound(items)
    assert not check_against_every_offset(items, capacity, 4)
    assert place(items, capacity).height > capacity
    for item in items:
        assert check_against_every_offset([x for x in items if x is not item], capacity, 4)
    answers = []
    for seed in range(40):
        r = np.random.default_rng(seed)
        changed = [Item(x.name, max(4, x.bytes + 4 * int(r.integers(-1, 2))), x.first, x.last) for x in items]
        answers += [check_against_every_offset(changed, lower_bound(changed) + spare, 4) for spare in (0, 4)]
    assert set(answers) == {True, False}


@pytest.mark.parametrize("distance", [8, 1009])
def test_search_is_exact_for_distant_steps(distance: int) -> None:
    """`pack` is exact on the smallest tight instance with many steps between births."""
    items = [
        Item(f"b{i}", 4 * size, distance * first, distance * last) for i, (size, first, last) in enumerate(TIGHT[0])
    ]
    assert not check_against_every_offset(items, lower_bound(items), 4)
    for item in items:
        assert check_against_every_offset([x for x in items if x is not item], lower_bound(items), 4)


@given(buffers(most=6, steps=6), st.integers(-8, 8))
@settings(deadline=None, max_examples=150)
def test_search_finds_what_some_offsets_give(items: list[Item], spare: int) -> None:
    items = [x for x in items if x.bytes]
    check_against_every_offset(items, max(lower_bound(items) + spare, 0), 8)


@given(buffers(most=40, steps=20), st.integers(0, 60))
@settings(deadline=None, max_examples=150)
def test_search_answers_within_the_capacity(items: list[Item], spare: int) -> None:
    """Packings fit the capacity, even one that is no multiple of the alignment, and are the same each time."""
    capacity = lower_bound(items) + spare
    answer = pack(items, capacity, 8, 500)
    if answer.offsets is not None:
        check_packed(items, answer.offsets, capacity, 8)
    assert answer.nodes <= 500
    assert answer == pack(items, capacity, 8, 500)


def test_search_stops_at_its_limit() -> None:
    """With too few nodes the answer is neither a packing nor a proof; this instance needs some hundreds."""
    items = [Item(f"b{i}", 4 * size, first, last) for i, (size, first, last) in enumerate(TIGHT[-1])]
    assert pack(items, lower_bound(items), 4, 50) == (None, False, 50)


@given(buffers())
@settings(deadline=None, max_examples=80)
def test_placement_is_sound(items: list[Item]) -> None:
    packing = place(items, 1 << 16, 8)
    check_placement(items, packing, 8)
    live = [sum(x.bytes for x in items if x.first <= s <= x.last) for s in range(10)]
    assert packing.bound == max(live)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
@settings(deadline=None)
def test_placement_meets_simple_bounds(sizes: list[int]) -> None:
    """Buffers that live all at once, one after the other, or nested are packed at the bound."""
    forms: tuple[Callable[[int], tuple[int, int]], ...] = (
        lambda i: (0, 9),
        lambda i: (i, i),
        lambda i: (i, 20 - i),
    )
    for span in forms:
        items = [Item(f"b{i}", 4 * n, *span(i)) for i, n in enumerate(sizes)]
        packing = place(items, 1 << 12)
        check_placement(items, packing, 4)
        assert packing.height == packing.bound


def test_placement_searches_where_first_fit_leaves_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bad order of first fit alone, the search still packs at the bound."""
    items = [Item("a", 8, 0, 1), Item("d", 4, 0, 3), Item("b", 4, 1, 2), Item("c", 12, 2, 3)]
    monkeypatch.setattr("deployer.tilers.addresses.placement._orders", lambda items: [list(range(len(items)))])
    assert placement._first_fits(items, 20).height == 28
    packing = place(items, 1 << 10)
    check_placement(items, packing, 4)
    assert packing.height == packing.bound == 20


def test_placement_does_not_search_where_first_fit_is_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("deployer.tilers.addresses.placement.pack")
    items = [Item("home", 400, 0, 99)] + [Item(f"slot {i}", 40 + 4 * (i % 7), i, i) for i in range(100)]
    packing = place(items, 500)
    check_placement(items, packing, 4)
    assert packing.height == packing.bound


def test_placement_does_not_search_twice_below_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    """After failing to pack within the capacity, the search tries only heights above it."""
    limits: list[int] = []

    def fails(items: object, limit: int, *more: object) -> Solution:
        limits.append(limit)
        return Solution(None, False, 0)

    monkeypatch.setattr("deployer.tilers.addresses.placement.pack", fails)
    monkeypatch.setattr("deployer.tilers.addresses.placement._orders", lambda items: [list(range(len(items)))])
    items = [Item("a", 800, 0, 1), Item("d", 400, 0, 3), Item("b", 400, 1, 2), Item("c", 1200, 2, 3)]
    place(items, 2100)
    after = limits[limits.index(2100) + 1 :]
    assert after
    assert min(after) > 2100


@pytest.mark.parametrize("shape", [(48, 12, 8, 5), (40, 12, 8, 5), (54, 12, 8, 5), (0, 12, 8, 5), (27, 20, 10, 6)])
def test_each_order_is_worth_a_try(shape: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On each instance a different order of first fit is the only one that reaches the bound, without a search."""
    monkeypatch.delattr("deployer.tilers.addresses.placement.pack")
    items = random_buffers(*shape)
    packing = place(items, 1 << 20)
    check_placement(items, packing, 4)
    assert packing.height == packing.bound


@pytest.mark.parametrize("shape", [(0, 60, 30, 10), (5, 120, 30, 25), (1, 100, 60, 30)])
def test_dense_steps_first_reaches_the_bound(shape: tuple[int, int, int, int]) -> None:
    """A search in dense steps packs instances at the bound that first fit and a search of all buffers do not."""
    items = random_buffers(*shape)
    packing = place(items, 1 << 20)
    check_placement(items, packing, 4)
    assert packing.height == packing.bound


def test_heights_in_thousandths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches run at the declared heights above the bound, and never above a height already reached."""
    tight = [Item(f"b{i}", 4000 * size, first, last) for i, (size, first, last) in enumerate(TIGHT[1])]
    bound, packed = lower_bound(tight), dict[frozenset[str], int]()
    capacities = set()

    def spy(items: Sequence[Item], capacity: int, alignment: int, nodes: int) -> Solution:
        names = frozenset(x.name for x in items)
        assert capacity <= packed.get(names, capacity)
        capacities.add(capacity)
        answer = pack(items, capacity, alignment, nodes)
        packed.update({names: capacity} if answer.offsets is not None else {})
        return answer

    monkeypatch.setattr(placement, "pack", spy)
    place(tight, 1 << 30)
    assert capacities == {
        bound * (1000 + thousandths) // 1000 for thousandths in (0, *placement.SLACK, *placement.GAPS)
    }


def test_orders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order gets the same number of nodes in a turn; one that learns gets them in runs as long as the first."""
    limits: dict[tuple[str, ...], list[int]] = {}

    def run(search: _Search) -> bool:
        limits.setdefault(search.order, []).append(search.run_limit - search.nodes)
        search.nodes = search.run_limit
        raise NodeLimitReached

    monkeypatch.setattr(_Search, "_run", run)
    unit, turns = FIRST_RUN * 5, (1, GROWTH, GROWTH**2)
    limit = unit * sum(turns) * len((*FIXED_ORDERS, *LEARNT_ORDERS))
    answer = pack([Item(f"b{i}", 8, 0, 0) for i in range(5)], 100, 4, limit)
    assert (answer.offsets, answer.proven, answer.nodes) == (None, False, limit)
    assert all(limits[order] == [unit * turn for turn in turns] for order in FIXED_ORDERS)
    assert all(limits[order] == [unit] * sum(turns) for order in LEARNT_ORDERS)


@pytest.mark.parametrize("seed", range(6))
def test_placement_of_many_short_lives_is_within_two_percent(seed: int) -> None:
    items = random_buffers(seed, 120, 30, 25)
    packing = place(items, 1 << 20)
    check_placement(items, packing, 4)
    assert packing.height * 100 <= packing.bound * 102


def test_placement_of_nothing_and_of_too_much() -> None:
    assert place([], 64).height == 0
    packing = place([Item("a", 100, 0, 0), Item("b", 100, 0, 0)], 64)
    assert packing.height == packing.bound == 200


def test_placement_is_the_same_twice() -> None:
    items = random_buffers(5, 80, 30, 20)
    assert place(items, 1 << 14) == place(items, 1 << 14)


def test_a_last_attempt_packs_what_another_does_not() -> None:
    """With as many nodes as suffice, or with any more, the packing is the same."""
    items = cut_rectangle(2, 80, 40, 400)
    few, enough = (place(items, 1600, nodes=800, last=last) for last in (False, True))
    assert few.height > few.bound == 1600
    check_placement(items, enough, 4)
    assert enough.height == 1600
    assert pack(items, 1600, 4, 800).offsets is None
    for nodes in (5000, 50_000):
        assert pack(items, 1600, 4, nodes).offsets == [enough.offsets[x.name] for x in items]


def test_search_runs_once_where_the_bound_is_the_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    items, asked = cut_rectangle(2, 80, 40, 400), list[int]()

    def fails(parts: Sequence[Item], limit: int, alignment: int, nodes: int) -> Solution:
        asked.extend([nodes] * (len(parts) == 80 and limit == 1600))
        return Solution(None, False, 0)

    monkeypatch.setattr(placement, "pack", fails)
    monkeypatch.setattr(placement, "DENSE", ())
    place(items, 1600, nodes=800)
    assert asked == [800 * placement.LAST]
    place(items, 1604, nodes=800)
    assert asked[1:] == [800 // 2]


INSTANCES = sorted((DATA / "allocation").glob("*.csv"))


@pytest.mark.slow
@pytest.mark.skipif(not INSTANCES, reason=f"no allocation instances in {DATA / 'allocation'}")
@pytest.mark.parametrize("path", INSTANCES, ids=lambda p: p.stem)
def test_allocation_instances_fit(path: Path) -> None:
    """The instances of MiniMalloc, lifetimes half-open; the capacity is in the file's name."""
    capacity = int(path.name.split(".")[1])
    with path.open() as file:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)]
    items = [Item(str(r["id"]), r["size"], r["lower"], r["upper"] - 1) for r in rows]
    packing = place(items, capacity)
    check_placement(items, packing, 4)
    assert packing.height <= capacity, f"packed into {packing.height} B of {capacity} B, bound {packing.bound} B"
