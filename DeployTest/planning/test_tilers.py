"""Boxes and transfers of accesses against plain enumeration, and the tiling model against its oracle."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.access import (
    Access,
    Around,
    At,
    Axis,
    Broadcast,
    Dim,
    Mirror,
    Operand,
    Whole,
    Window,
    box_shape,
    full_axes,
    loads,
    order_dims,
    strides,
    tile_count,
    tiles,
    transfer,
)
from deployer.core.cost import rounded
from deployer.core.errors import InternalError
from deployer.core.plan import Lifetime
from deployer.testing.bench import lawful
from deployer.tilers.levels import exhaustive, model
from deployer.tilers.levels.candidates import FRONT_LIMIT, Candidate, pareto
from deployer.tilers.levels.grid import boxes as grid_boxes
from deployer.tilers.levels.grid import distinct_boxes, grid_at, grid_of, load_counts, loop_orders, tile_sizes
from deployer.tilers.levels.model import HomeProblem, HomeSelection, feasible, objective
from deployer.tilers.levels.staging import StageEstimate
from deployer.tilers.strategies.strategy import register
from deployer.tilers.strategies.strategy import registry as strategies

pytestmark = [pytest.mark.host, pytest.mark.training]


# Access


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """A shape, and (first index, length) of a box in it."""
    view = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    return view, tuple((draw(st.integers(0, n - m)), m) for n in view for m in (draw(st.integers(1, n)),))


@given(boxes())
@settings(deadline=None, max_examples=300)
def test_transfer_walks_the_box(case: tuple[tuple[int, ...], tuple[tuple[int, int], ...]]) -> None:
    """Runs and strides from the box's first element address its elements, each once and in row-major order."""
    view, box = case
    array = np.arange(math.prod(view)).reshape(view)
    expected = array[tuple(slice(low, low + n) for low, n in box)].ravel()
    move = transfer(view, tuple(n for _, n in box))
    addresses = np.array([sum(low * s for (low, _), s in zip(box, strides(view), strict=True))])
    for count, stride in move.levels:
        addresses = (addresses[:, None] + np.arange(count) * stride).ravel()
    addresses = (addresses[:, None] + np.arange(move.run)).ravel()
    assert addresses.tolist() == expected.tolist()
    assert move.elements == expected.size
    assert move.lines == expected.size // move.run
    assert all(count > 1 for count, _ in move.levels)


def test_transfer_joins_what_is_contiguous() -> None:
    assert transfer((4, 5, 6), (4, 5, 6)).levels == ()
    assert transfer((4, 5, 6), (2, 5, 6)).run == 60
    assert transfer((4, 5, 6), (2, 5, 3)).levels == ((10, 6),)
    assert transfer((4, 5, 6), (2, 1, 6)).levels == ((2, 30),)


@st.composite
def loops(draw: st.DrawFn) -> tuple[Operand, Access, dict[str, int], tuple[str, ...]]:
    """An operand, its access, tile lengths and a loop order."""
    dims = tuple(Dim(f"d{i}", draw(st.integers(1, 6))) for i in range(draw(st.integers(1, 3))))
    axes: list[Axis] = []
    view: list[int] = []
    for dim in draw(st.permutations(dims)):
        form = draw(st.sampled_from(("at", "window", "whole", "broadcast", "none")))
        if form == "at":
            axes.append(draw(st.sampled_from((At(dim.name), Mirror(dim.name)))))
            view.append(dim.size)
        elif form == "window":
            kernel, stride, dilation = (draw(st.integers(1, 3)) for _ in range(3))
            pad = draw(st.integers(0, (kernel - 1) * dilation))
            extent = (dim.size - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad
            axes.append(Window(dim.name, kernel, stride, dilation, pad))
            view.append(max(extent, 1))
        elif form != "none":
            axes.append(Whole() if form == "whole" else Broadcast())
            view.append(3 if form == "whole" else 1)
    operand = Operand("x", "x", "in", tuple(view), tuple(axes))
    lengths = {d.name: draw(st.integers(1, d.size)) for d in dims}
    return operand, Access(dims, (operand,)), lengths, tuple(draw(st.permutations([d.name for d in dims])))


@given(loops())
@settings(deadline=None, max_examples=300)
def test_tiles_cut_the_space(case: tuple[Operand, Access, dict[str, int], tuple[str, ...]]) -> None:
    """Every point of the iteration space is in one tile; starts ascend in loop order."""
    _, access, lengths, order = case
    walk = list(tiles(access, lengths, order))
    space = np.zeros([d.size for d in access.dims], int)
    for at in walk:
        space[tuple(slice(at[d.name][0], sum(at[d.name])) for d in access.dims)] += 1
    assert (space == 1).all()
    assert len(walk) == tile_count(access, lengths)
    starts = [tuple(at[name][0] for name in order) for at in walk]
    assert starts == sorted(starts)


@given(loops())
@settings(deadline=None, max_examples=300)
def test_loads_counts_box_changes(case: tuple[Operand, Access, dict[str, int], tuple[str, ...]]) -> None:
    """`loads` counts the changes of the box in the walk; equal boxes of clipped windows may count as changes."""
    operand, access, lengths, order = case
    walk = [operand.box(at) for at in tiles(access, lengths, order)]
    changes = 1 + sum(a != b for a, b in itertools.pairwise(walk))
    counted = loads(operand, access, lengths, order)
    assert counted >= changes
    assert counted == changes or any(isinstance(a, Window) for a in operand.axes)


@given(loops())
@settings(deadline=None, max_examples=300)
def test_box_shape_holds_every_box(case: tuple[Operand, Access, dict[str, int], tuple[str, ...]]) -> None:
    """No box is longer than `box_shape` on any axis, and without windows some box is as long."""
    operand, access, lengths, order = case
    walk = [tuple(n for _, n in operand.box(at)) for at in tiles(access, lengths, order)]
    shape = box_shape(operand, lengths)
    largest = tuple(max(column) for column in zip(*walk, strict=True))
    assert all(a >= b for a, b in zip(shape, largest, strict=True))
    assert shape == largest or any(isinstance(a, Window) for a in operand.axes)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=200)
def test_window_spans_what_it_touches(length: int, kernel: int, stride: int, dilation: int, pad: int) -> None:
    """A window's span reaches from the first to the last index inside the axis that the tile reads."""
    axis = Window("d", kernel, stride, dilation, pad)
    extent = 9
    for start in range(6):
        touched = [i * stride + k * dilation - pad for i in range(start, start + length) for k in range(kernel)]
        low, high = max(min(touched), 0), min(max(touched) + 1, extent)
        span = axis.span({"d": (start, length)}, extent)
        assert span[1] == max(high - low, 0)
        assert span[1] == 0 or span[0] == low


@given(st.integers(1, 5), *(st.integers(1, 4) for _ in range(3)), st.integers(0, 3), st.integers(1, 5))
@settings(deadline=None, max_examples=300)
def test_around_is_all_of_the_windows_that_hold_the_tile(
    length: int, kernel: int, stride: int, dilation: int, pad: int, count: int
) -> None:
    """The span covers all elements of the windows from the first to the last that meets the tile."""
    axis, extent = Around("d", kernel, stride, dilation, pad, count), 11
    for start in range(extent - length + 1):
        firsts = [i * stride - pad for i in range(count)]
        spans = [(f, f + (kernel - 1) * dilation) for f in firsts]
        holders = [s for s in spans if s[0] < start + length and s[1] >= start]
        low, size = axis.span({"d": (start, length)}, extent)
        if not holders:
            assert size == 0
            continue
        first, last = max(holders[0][0], 0), min(holders[-1][1] + 1, extent)
        assert (low, size) == (min(first, extent), max(last - min(first, extent), 0))
        assert axis.longest(length) >= size
        assert axis.offset({"d": (start, length)}, extent) == start - low


def test_order_puts_reductions_innermost() -> None:
    dims = (Dim("k", 3, "reduction"), Dim("m", 4), Dim("r", 2, "reduction"), Dim("n", 5))
    assert order_dims(Access(dims, ()), ("n",)) == ("n", "m", "k", "r")


# Candidates


def test_tile_sizes_are_parts_of_the_dim() -> None:
    for size in range(1, 200):
        lengths = tile_sizes(size, 9)
        assert lengths == sorted(set(lengths), reverse=True)
        assert lengths[0] == size
        assert lengths[-1] == 1
        assert len(lengths) <= 10


def test_grid_splits_what_may_be_split() -> None:
    dims = (
        Dim("m", 6),
        Dim("c", 5, quantum=5),
        Dim("k", 4, "reduction"),
        Dim("one", 1, "reduction"),
        Dim("r", 3, "reduction"),
        Dim("whole", 2, "reduction", quantum=2),
        Dim("inner", 7, "reduction"),
    )
    access = Access(dims, ())
    grid = grid_of(access)
    tiles_of_grid = [grid.tile(i) for i in range(grid.size)]
    assert access.sizes in tiles_of_grid
    assert {t["m"] for t in tiles_of_grid} > {6}
    assert {t["k"] for t in tiles_of_grid} > {4}
    assert {t["c"] for t in tiles_of_grid} == {5}
    assert {(t["k"], t["r"]) for t in tiles_of_grid} == {(4, 3), (2, 3), (1, 3), (1, 1)}
    assert {(t["whole"], t["inner"]) for t in tiles_of_grid} == {(2, 7)}
    assert len({tuple(t.items()) for t in tiles_of_grid}) == grid.size
    assert all(lawful(access, t) == t for t in tiles_of_grid)
    frozen = grid_of(access, frozenset("k"))
    assert {(t["k"], t["r"]) for t in map(frozen.tile, range(frozen.size))} == {(4, 3)}
    for order in loop_orders(access):
        assert sorted(order) == sorted(access.sizes)
        assert order[-5:] == ("k", "one", "r", "whole", "inner")


@given(loops())
@settings(deadline=None, max_examples=200)
def test_grid_is_the_scalar_geometry(case: tuple[Operand, Access, dict[str, int], tuple[str, ...]]) -> None:
    """Boxes, runs, loads and their number, computed for all tiles at once, are those of each tile on its own."""
    operand, access, _, order = case
    grid = grid_of(access)
    shapes, count, distinct = (
        grid_boxes(operand, grid),
        load_counts(operand, grid, order),
        distinct_boxes(operand, grid),
    )
    for index in range(grid.size):
        tile = grid.tile(index)
        box = box_shape(operand, tile)
        cuts = {n: (size, size, tile[n]) for n, size in access.sizes.items()}
        shape = transfer(operand.view, box, full_axes(operand.axes, operand.view, cuts, False))
        assert shapes.elements[index] == math.prod(box)
        assert count[index] == loads(operand, access, tile, order)
        assert distinct[index] == math.prod(-(-access.dim(n).size // tile[n]) for n in set(operand.dims))
        # A clipped window that is whole in every tile is counted as if it were not: never too few lines.
        if not any(isinstance(axis, Window) for axis in operand.axes):
            assert (shapes.lines[index], shapes.levels[index]) == (shape.lines, len(shape.levels))
        assert shapes.lines[index] >= shape.lines
        assert shapes.levels[index] >= len(shape.levels)


def test_window_over_one_element_breaks_no_run() -> None:
    """For images of height 1, all channels of a tile are one run, however the dim of the height is split."""
    view, axes = (2, 1, 3), (At("c"), Window("h", 3, pad=1), Whole())
    operand = Operand("x", "x", "in", view, axes)
    access = Access((Dim("c", 2), Dim("h", 3)), (operand,))
    grid = grid_at(access, {"c": 2, "h": 1})
    assert grid_boxes(operand, grid).lines.tolist() == [transfer(view, view).lines] == [1]


def test_names_of_strategies_are_unique() -> None:
    """A second strategy with the same name is refused, as it would replace the first."""
    for strategy in strategies().values():
        with pytest.raises(InternalError, match=f"{strategy.name} is registered twice"):
            register(type(strategy))


@given(st.integers(1, 9), st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
@settings(deadline=None)
def test_staged_step_takes_as_long_as_its_parts(tiles: int, busy: int, exposed: int, cycles: int) -> None:
    """Single buffering takes the sum of loop and engine; double takes no more, and no less than the longer of both."""
    costs = StageEstimate(tiles, busy, min(exposed, busy))
    single, double = costs.around(cycles, "single"), costs.around(cycles, "double")
    assert single == tiles * cycles + busy
    assert max(tiles * cycles, busy) <= double <= single


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40))
@settings(deadline=None)
def test_pareto_keeps_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    survivors = pareto([candidate(size, cycles) for size, cycles in points], limit=99)
    pairs = [(c.bytes, c.cycles) for c in survivors]
    front = [p for p in set(points) if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)]
    assert sorted(pairs) == sorted(front)
    thinned = [(c.bytes, c.cycles) for c in pareto(survivors, FRONT_LIMIT)]
    assert len(thinned) <= FRONT_LIMIT
    assert set(thinned) <= set(pairs)
    assert {pairs[0], pairs[-1]} <= set(thinned)


def test_pareto_prefers_one_slot() -> None:
    """Of candidates with equal bytes and cycles the single-buffered one stays, whichever comes first."""
    single = candidate(100, 50)
    double = single._replace(buffering="double")
    assert pareto([double, single]) == pareto([single, double]) == [single]


def candidate(size: int, cycles: int, resident: frozenset[str] = frozenset()) -> Candidate:
    """A candidate of which only residency, bytes and cycles matter."""
    return Candidate({}, (), "single", resident, {}, size, cycles)


# The tiling model


@st.composite
def problems(draw: st.DrawFn) -> HomeProblem:
    """Up to three steps over up to three storages."""
    steps = draw(st.integers(1, 3))
    eligible, touches = [], [set[str]() for _ in range(steps)]
    for name in "abc"[: draw(st.integers(0, 3))]:
        first = draw(st.integers(0, steps - 1))
        last = draw(st.integers(first, steps - 1))
        eligible.append(Lifetime(name, 4 * draw(st.integers(1, 10)), first, last, False, False))
        for step in {first, last}:
            touches[step].add(name)
    candidates = []
    for step in range(steps):
        own = [candidate(draw(st.integers(0, 60)), draw(st.integers(1, 10**5)))]
        for _ in range(draw(st.integers(0, 4))):
            home = frozenset(n for n in sorted(touches[step]) if draw(st.booleans()))
            own.append(candidate(draw(st.integers(0, 60)), draw(st.integers(1, 10**5)), home))
        candidates.append(tuple(own))
    weights = tuple(draw(st.integers(1, 4)) for _ in range(steps))
    return HomeProblem(
        tuple(candidates), tuple(map(frozenset, touches)), tuple(eligible), draw(st.integers(0, 90)), weights
    )


def check_choice(problem: HomeProblem, choice: HomeSelection) -> None:
    """Check that a choice fits the level and that its cycles are right."""
    assert feasible(problem, choice.picks, choice.resident)
    assert choice.cycles == objective(problem, choice.picks)


@given(problems())
@settings(deadline=None, max_examples=120)
def test_model_finds_what_enumeration_finds(problem: HomeProblem) -> None:
    choice, best = model.solve(problem), exhaustive.solve(problem)
    assert (choice is None) == (best is None)
    if choice is None or best is None:
        return
    check_choice(problem, choice)
    check_choice(problem, best)
    assert best.cycles <= choice.cycles <= best.cycles / (1 - model.GAP)
    start = model.greedy(problem)
    if start is not None:
        check_choice(problem, start)
        assert best.cycles <= start.cycles


@given(problems())
@settings(deadline=None, max_examples=60)
def test_model_is_no_worse_than_its_hint(problem: HomeProblem) -> None:
    best = exhaustive.solve(problem)
    if best is not None:
        again = model.solve(problem, best)
        assert again is not None
        assert again.cycles == best.cycles


def test_model_without_time_gives_the_better_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time for the solver, the result is the better of the hint and the greedy choice."""
    monkeypatch.setattr(model, "SOLVER_LIMIT", 0.0)
    life = Lifetime("a", 40, 0, 0, False, False)
    problem = HomeProblem(((candidate(8, 100), candidate(0, 1, frozenset("a"))),), (frozenset("a"),), (life,), 50, (1,))
    bad, good = HomeSelection((0,), frozenset(), 100), HomeSelection((1,), frozenset("a"), 1)
    for hint in (None, bad, good):
        assert model.solve(problem, hint) == good
    monkeypatch.setattr(model, "greedy", lambda problem: bad)
    assert model.solve(problem, good) == good


@given(problems())
@settings(deadline=None, max_examples=40)
def test_model_gives_the_same_choice_twice(problem: HomeProblem) -> None:
    assert model.solve(problem) == model.solve(problem)


def test_model_fits_homes_at_steps_that_do_not_touch_them() -> None:
    """A tensor that is alive across a step takes room there, even where the step does not use it."""
    life = Lifetime("a", 40, 0, 2, False, False)
    touching = (candidate(8, 100), candidate(0, 1, frozenset("a")))
    problem = HomeProblem(
        (touching, (candidate(30, 5), candidate(10, 50)), touching),
        (frozenset("a"), frozenset(), frozenset("a")),
        (life,),
        50,
        (1, 1, 1),
    )
    choice = model.solve(problem)
    assert choice == exhaustive.solve(problem)
    assert choice is not None
    assert (choice.picks, choice.resident) == ((1, 1, 1), {"a"})
    assert model.solve(replace(problem, capacity=9)) is None


def test_rounded() -> None:
    assert [rounded(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
