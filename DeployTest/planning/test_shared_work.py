"""Array and shared computations of planning equal those one by one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model

from deployer import pipeline
from deployer.core.plan import Options, Step, target_for
from deployer.planning.lifetimes import find_lifetimes
from deployer.planning.schedule import make_schedule
from deployer.planning.timeline import StepRuns, simulate
from deployer.tilers.addresses.branch_and_bound import PLACED, _furthest, _greatest, _Search, _Subproblem, _sums
from deployer.tilers.addresses.placement import Item, _filled
from deployer.tilers.levels import inner
from deployer.tilers.levels.candidates import FRONT_LIMIT, Candidate, fronts, smallest, thinned
from deployer.tilers.levels.inner import InnerLevel
from deployer.tilers.levels.model import HomeProblem, HomeSelection, _fill, _Numbers, greedy
from DeployTest.planning.test_placement import buffers
from DeployTest.planning.test_tilers import problems
from DeployTest.support.building.cases import load_case

pytestmark = [pytest.mark.host, pytest.mark.training]
POINTS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), st.booleans()), min_size=40, max_size=40)


@pytest.mark.slow
@given(st.lists(POINTS, min_size=1, max_size=4))
@settings(deadline=None)
def test_each_row_has_its_own_front(rows: list[list[tuple[int, int, bool]]]) -> None:
    """Of points that are allowed, those that nothing beats, and the first of equal ones; a limit keeps the ends.

    The front in less room is the beginning of the front.
    """
    size, cycles, fits = (np.array([[point[i] for point in row] for row in rows]) for i in range(3))
    whole = fronts(size, cycles, fits)
    for row, front in zip(rows, whole, strict=True):
        fitting = [(s, c, i) for i, (s, c, fit) in enumerate(row) if fit]
        best = [p for p in fitting if not any(q[:2] != p[:2] and q[0] <= p[0] and q[1] <= p[1] for q in fitting)]
        first = {p[:2]: p[2] for p in reversed(best)}
        assert front.tolist() == [first[key] for key in sorted(first)]
    for room in (5, 12):
        for sizes, front, part in zip(size, whole, fronts(size, cycles, fits & (size <= room)), strict=True):
            assert part.tolist() == [i for i in front.tolist() if sizes[i] <= room]
    for front in whole:
        few = front[thinned(len(front), 3)]
        assert len(few) == min(len(front), 3) <= FRONT_LIMIT
        assert [*few[:1], *few[-1:]] == [*front[:1], *front[-1:]]


SPANS = st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30), st.integers(0, 99)), max_size=30)


@given(SPANS)
@settings(deadline=None)
def test_sections_are_bounded_by_runs(spans: list[tuple[int, int, int]]) -> None:
    """Greatest and sum over the sections that buffers cross, against each pair by itself."""
    count = 30
    spans = [(0, count, 50), *((a, min(a + n, count), value) for a, n, value in spans)]
    low, high, values = (np.array(column) for column in zip(*spans, strict=True))
    inside = [[i for i, (a, b, _) in enumerate(spans) if a <= section < b] for section in range(count)]
    sums = _sums(low, high, values, count)
    assert sums.tolist() == [sum(values[i] for i in buffers) for buffers in inside]
    assert _greatest(low, high, sums).tolist() == [max(sums[a:b]) for a, b, _ in spans]


@given(SPANS, st.lists(st.integers(0, 40), min_size=30, max_size=30), st.integers(40, 60), st.integers(0, 1 << 30))
@settings(deadline=None)
def test_overfull_sections(spans: list[tuple[int, int, int]], loads: list[int], capacity: int, seed: int) -> None:
    """The first section whose load does not fit above the lowest of its buffers, wherever the search looks first."""
    count, draw = 30, np.random.default_rng(seed)
    ranges = [(a, min(a + n, count), value) for a, n, value in spans]
    low, high, least = (np.array(x) for x in zip((0, count, 0), *ranges, strict=True))
    search = _Search([Item("b", 4, 0, 0)], capacity, 1)
    inside = [[i for i in range(len(low)) if low[i] <= section < high[i]] for section in range(count)]
    assert all(buffer in buffers for buffer, buffers in zip(_furthest(low, high, count), inside, strict=True))
    witness = np.array([draw.choice(buffers) for buffers in inside])
    part = _Subproblem(np.arange(len(low)), low, low, high, 0, 0, witness)
    room = np.array([capacity - load if load else PLACED for load in loads])
    for placed in (False, True):
        least = np.where((draw.random(len(low)) < 0.3) & placed, PLACED, least)
        over = [s for s in range(count) if loads[s] and min(least[inside[s]]) + loads[s] > capacity]
        assert search._overfull(part, least, room) == (over[0] if over else None)


def by_expressions(problem: HomeProblem, start: HomeSelection | None) -> cp_model.CpModel:
    """The model of a problem by the solver's expressions, a term at a time."""
    model = cp_model.CpModel()
    picked = [[model.new_bool_var("") for _ in candidates] for candidates in problem.candidates]
    home = {life.storage: model.new_bool_var("") for life in problem.eligible}
    objective = []
    for step, (candidates, variables) in enumerate(zip(problem.candidates, picked, strict=True)):
        chosen = list(zip(candidates, variables, strict=True))
        model.add_exactly_one(variables)
        for storage in sorted(problem.touches[step]):
            model.add(sum(v for c, v in chosen if storage in c.resident) == home[storage])
        alive = sum(x.bytes * home[x.storage] for x in problem.eligible if x.first <= step <= x.last)
        model.add(alive + sum(c.bytes * v for c, v in chosen) <= problem.capacity)
        objective += [problem.weights[step] * c.cycles * v for c, v in chosen]
        for i, v in enumerate(variables):
            if start is not None:
                model.add_hint(v, i == start.picks[step])
    model.minimize(sum(objective))
    for storage, variable in home.items():
        if start is not None:
            model.add_hint(variable, storage in start.resident)
    return model


@given(problems())
@settings(deadline=None, max_examples=60)
def test_the_model_in_arrays_is_that_of_expressions(problem: HomeProblem) -> None:
    """The messages for the solver are the same, so its choices are."""
    start, model = greedy(problem), cp_model.CpModel()
    _fill(model.Proto(), problem, _Numbers.of(problem), start)
    assert str(model.Proto()) == str(by_expressions(problem, start).Proto())


@given(buffers(), buffers(most=4))
@settings(deadline=None, max_examples=80)
def test_first_fit_takes_the_lowest_place(items: list[Item], fixed: list[Item]) -> None:
    """Each buffer lies at 0 or on one placed before it, and at no lower such place is it free of overlaps."""
    fixed, at = [replace(x, name=f"fixed {x.name}") for x in fixed], 0
    placed: list[tuple[Item, int]] = []
    for x in fixed:
        placed.append((x, at))
        at += x.bytes
    given = list(placed)
    packing = _filled(items, given, 0)
    assert packing is not None
    for x in items:
        near = [(b, b + y.bytes) for y, b in placed if y.first <= x.last and x.first <= y.last]
        starts = sorted({0, *(end for _, end in near)})
        free = [b for b in starts if all(b + x.bytes <= begin or end <= b for begin, end in near)]
        placed.append((x, free[0]))
    assert packing.offsets == {x.name: at for x, at in placed}
    assert _filled(items, given, 0, packing.height) is None
    assert _filled(items, given, 0, packing.height + 1) == packing


@pytest.mark.slow
def test_steps_of_equal_geometry_share_their_run(models_root: Path) -> None:
    """A shared run is that of each of its steps alone, and some are shared."""
    tiling = pipeline.plan_case(load_case("transformer", models_root), Options("siracusa", "auto", {"L1": 8000}))[0]
    schedule = tiling.lifetimes.schedule
    target = target_for(schedule)
    runs, found = StepRuns(schedule, target), []
    for step, choice in zip(schedule.steps, tiling.steps, strict=True):
        found.append(runs.of(step, choice))
        assert found[-1] == simulate(step, choice, target, schedule.options.updates_every_pass)
    assert len({id(run) for run in found}) < len(found)


def test_equal_steps_share_their_smallest_tile(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no step fits, the error needs the smallest tile of all, computed once for each geometry."""
    program, calls = load_case("autoencoder", models_root).program, list[str]()
    alive = find_lifetimes(make_schedule(program, Options("host", "single")))
    target = target_for(alive.schedule)

    def counted(step: Step, *words: Any) -> Candidate:
        calls.append(step.name)
        return smallest(step, *words)

    monkeypatch.setattr(inner, "smallest", counted)
    level = InnerLevel(alive, target, InnerLevel(alive, target, 0).capacity)
    assert len(level.unfit("single")) == len(alive.schedule.steps)
    assert dict(level.too_small("single").facts)["free"].startswith("0 B of ")
    assert len(calls) == len(set(level.kinds)) < len(alive.schedule.steps)
