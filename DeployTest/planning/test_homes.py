"""Homes: the greedy start of the tiling model, and the search by the clock of the middle level."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployer import pipeline
from deployer.core.level import L_HOME, Hop
from deployer.core.plan import Lifetime, Options, Plan
from deployer.core.target import load
from deployer.tilers.levels import dma_timeline, home_search, model
from deployer.tilers.levels.candidates import Candidate
from deployer.tilers.levels.home_search import HomeSearch
from deployer.tilers.levels.model import Cacheable, HomeProblem, HomeSelection, _Greedy, feasible
from deployer.tilers.levels.staging import StageCost, StageTraffic
from DeployTest.support.building.cases import load_case

pytestmark = [pytest.mark.host, pytest.mark.training]
HOME = Lifetime("a", 10, 0, 1, False, False)


def candidate(size: int, cycles: int, *resident: str) -> Candidate:
    """A candidate of which only residency, bytes and cycles matter."""
    return Candidate({}, (), "single", frozenset(resident), {}, size, cycles)


@pytest.mark.parametrize(("cycles", "saves"), [(30, False), (15, False), (14, True)])
def test_a_home_has_to_save_cycles(cycles: int, saves: bool) -> None:
    """A home counts by the cycles it saves over all steps of a life, not the last one; equal cycles are no reason."""
    steps = ((candidate(8, 10), candidate(0, cycles, "a")), (candidate(8, 10), candidate(0, 5, "a")))
    greedy = _Greedy(HomeProblem(steps, (frozenset("a"),) * 2, (HOME,), 100, (1, 1)))
    greedy.bring(HOME)
    assert greedy.resident == ({"a"} if saves else set())


def test_the_cheapest_candidate_is_first() -> None:
    """Whatever the order of a step's candidates, it has the cheapest that fits."""
    steps = ((candidate(8, 30), candidate(200, 5), candidate(9, 10), candidate(8, 20)),)
    greedy = _Greedy(HomeProblem(steps, (frozenset(),), (), 100, (1,)))
    assert [pick[:2] for pick in greedy.picks if pick] == [(10, 2)]


def test_the_solver_is_left_out_of_large_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many candidates the start is the choice; without a start the solver finds one, however many."""
    both = (candidate(8, 10), candidate(0, 1, "a"))
    dear = replace(HOME, storage="b", bytes=45)
    problem = HomeProblem((both, (candidate(50, 5),)), (frozenset("a"), frozenset()), (HOME, dear), 60, (1, 1))
    bad = HomeSelection((0, 0), frozenset(), 15)
    monkeypatch.setattr(model, "greedy", lambda problem: bad)
    assert model.solve(problem) == HomeSelection((1, 0), frozenset("a"), 6)
    monkeypatch.setattr(model, "LARGEST", 2)
    assert model.solve(problem) == bad
    monkeypatch.setattr(model, "greedy", lambda problem: None)
    assert model.solve(problem) == HomeSelection((1, 0), frozenset("a"), 6)


# The search


@st.composite
def problems(draw: st.DrawFn) -> HomeProblem:
    """Up to four steps over up to three storages, each step with candidates for all that it may find in the level."""
    steps = draw(st.integers(1, 4))
    eligible, cacheable, touches = [], [], [set[str]() for _ in range(steps)]
    for name in "abc"[: draw(st.integers(1, 3))]:
        first = draw(st.integers(0, steps - 1))
        last = draw(st.integers(first, steps - 1))
        eligible.append(Lifetime(name, 4 * draw(st.integers(1, 10)), first, last, False, False))
        for step in {first, last}:
            touches[step].add(name)
        if last > first + 1 and draw(st.booleans()):
            cacheable.append(
                Cacheable(name, eligible[-1].bytes, ((first, first), (last, last)), draw(st.integers(0, 9)))
            )
    candidates = []
    for names in touches:
        sets = [frozenset(m) for r in range(len(names) + 1) for m in itertools.combinations(sorted(names), r)]
        pairs = st.tuples(st.integers(0, 40), st.integers(1, 60))
        candidates.append(
            tuple(candidate(*draw(pairs), *sorted(names)) for names in sets for _ in range(draw(st.integers(1, 2))))
        )
    capacity = 4 * draw(st.integers(5, 25))
    return HomeProblem(
        tuple(candidates), tuple(map(frozenset, touches)), tuple(eligible), capacity, (1,) * steps, tuple(cacheable)
    )


def queue(problem: HomeProblem, picks: Sequence[int], cached: Iterable[str]) -> int:
    """A clock on which a dear step delays the next one, so that the cycles of steps do not add up."""
    now, late = sum(problem.candidates[0][0].cycles for _ in cached), 0
    for candidates, pick in zip(problem.candidates, picks, strict=True):
        cycles = candidates[pick].cycles
        now, late = now + cycles + late, max(2 * cycles - 40, 0)
    return now


def choices(problem: HomeProblem) -> Iterator[HomeSelection]:
    """All choices of a problem that fit."""
    names, cacheable = [x.storage for x in problem.eligible], {x.storage for x in problem.cacheable}
    for places in itertools.product("ohv", repeat=len(names)):
        at = {kind: frozenset(n for n, p in zip(names, places, strict=True) if p == kind) for kind in "hv"}
        for picks in itertools.product(*(range(len(c)) for c in problem.candidates)):
            if at["v"] <= cacheable and feasible(problem, picks, at["h"], at["v"]):
                yield HomeSelection(picks, at["h"], 0, at["v"])


@given(problems())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_of_few_storages_all_homes_are_tried(problem: HomeProblem) -> None:
    """The search is as good as the best way to place all storages, where each step has its cheapest candidate."""
    start, search = model.solve(problem), HomeSearch(problem, lambda *choice: queue(problem, *choice[:2]))
    every = [*choices(problem)]
    assert (start is None) == (not every)
    if start is None:
        return

    def cycles(choice: HomeSelection) -> int:
        return queue(problem, choice.picks, choice.cached)

    groups: dict[tuple[frozenset[str], frozenset[str]], list[HomeSelection]] = {}
    for choice in every:
        groups.setdefault((choice.resident, choice.cached), []).append(choice)
    cheapest = [min(group, key=lambda c: model.objective(problem, c.picks)) for group in groups.values()]
    best = search.best(start)
    assert best in [replace(choice, cycles=best.cycles) for choice in every]
    assert cycles(best) <= min(cycles(start), *map(cycles, cheapest))


@given(problems(), st.integers(1, 30))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_a_search_among_many_is_never_worse_than_its_start(problem: HomeProblem, runs: int) -> None:
    """Whatever it accepts on its way, its choice fits, has no more cycles than its start or another's homes, and is the
    same again.
    """
    start = model.solve(problem)
    if start is None:
        return
    search = HomeSearch(problem, lambda *choice: queue(problem, *choice[:2]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "_all", lambda: search._accepted(10**9, search._state(start)))
        search.runs = runs
        best = search.best(start)
        again = search.best(start, [best])
        assert search.best(start) == best
    assert best in [replace(choice, cycles=best.cycles) for choice in choices(problem)]
    least = [queue(problem, c.picks, c.cached) for c in (start, best, again)]
    assert least[0] >= least[1]
    assert least[0] >= least[2]


@given(problems(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_moves_leave_each_step_its_cheapest_candidate(problem: HomeProblem, moves: list[tuple[int, int]]) -> None:
    """Storages that move one by one come to the picks that they have where all steps are looked at anew, and a state
    names the steps whose picks differ from those before.
    """
    start, search = model.solve(problem), HomeSearch(problem, lambda *choice: queue(problem, *choice[:2]))
    state = search._changed(search._state(start), [], True) if start else None
    for number, place in moves:
        if state is None or number >= len(search.names) or place not in search.spans[number]:
            continue
        moved = search._changed(state, [(number, place)])
        anew = search._changed(state, [(number, place)], True)
        assert (moved is None) == (anew is None)
        if moved is not None and anew is not None:
            assert moved.picks == anew.picks
            assert moved.taken.tolist() == anew.taken.tolist()
            differing = {step for step, pick in enumerate(moved.picks) if pick != state.picks[step]}
            assert differing <= set(moved.met or ())
            state = moved


def test_a_storage_that_moves_gives_and_takes_room() -> None:
    """A step that does not use it takes its quick candidate while a storage is away, and its small one otherwise."""
    ends = tuple(candidate(0, 5, *names) for names in ((), ("a",)))
    life = Lifetime("a", 4, 0, 2, False, False)
    steps = (ends, (candidate(8, 10), candidate(0, 30)), ends)
    touches = (frozenset("a"), frozenset[str](), frozenset("a"))
    search = HomeSearch(HomeProblem(steps, touches, (life,), 10, (1, 1, 1)), lambda picks, cached, differing: 0)
    start = search._changed(search._state(HomeSelection((0, 0, 0), frozenset(), 0)), [], True)
    assert start is not None
    home = search._changed(start, [(0, home_search.HOME)])
    assert home is not None
    away = search._changed(home, [(0, home_search.OUTSIDE)])
    assert away is not None
    assert (start.picks, home.picks, away.picks) == ([0, 0, 0], [1, 1, 1], [0, 0, 0])
    assert set(away.met or ()) == {0, 1, 2}


def test_a_search_takes_turns_that_the_solver_does_not_see() -> None:
    """Two steps in the level that the sum prefers delay each other; the clock prefers one of them and a visit."""
    steps = tuple((candidate(8, 30), candidate(0, 25, name)) for name in "ab")
    lives = tuple(Lifetime(name, 10, i, i, False, False) for i, name in enumerate("ab"))
    problem = HomeProblem(steps, (frozenset("a"), frozenset("b")), lives, 100, (1, 1))
    start = model.solve(problem)
    assert start is not None
    assert start.resident == {"a", "b"}

    def clock(picks: Sequence[int], cached: Iterable[str], differing: object) -> int:
        return 100 if tuple(picks) == (1, 1) else 60 + sum(picks)

    assert HomeSearch(problem, clock).best(start).resident == frozenset()


# The clock

HOP = Hop(
    issue=3, wait=0, shared=True, inward=load("host").hops[L_HOME].inward, outward=load("host").hops[L_HOME].outward
)


@pytest.mark.parametrize(
    ("flow", "lag", "cycles", "later"),
    [
        (StageCost(2, 100, (StageTraffic(10, 2),), (), "single"), 0, 2 * (3 + 10 + 100), 0),
        (
            StageCost(2, 100, (StageTraffic(10, 2),), (StageTraffic(20, 2),), "single"),
            0,
            2 * (3 + 10 + 100 + 3 + 20),
            0,
        ),
        (StageCost(2, 100, (StageTraffic(10, 2),), (), "double"), 0, 3 + 3 + 7 + 100 + 100, 0),
        (StageCost(3, 100, (StageTraffic(10, 1),), (), "double"), 0, 3 + 10 + 300, 0),
        (StageCost(2, 10, (), (StageTraffic(50, 2),), "double"), 0, 10 + 3 + 50 + 50, 0),
        (StageCost(3, 10, (), (StageTraffic(50, 3),), "double"), 0, 10 + 3 + 150, 0),
        (StageCost(2, 100, (StageTraffic(10, 2),), (), "single"), 50, 50 + 10 + 100 + 3 + 10 + 100, 0),
        (StageCost(1, 100, (), (), "single"), 500, 100, 400),
    ],
)
def test_a_stage_on_the_clock(flow: StageCost, lag: int, cycles: int, later: int) -> None:
    """By hand: with one slot all take turns; with more, transfers run under the loops, one after the other, and behind
    those that the engine has from before.
    """
    assert dma_timeline._Clocked(flow, HOP).run((lag, lag)) == (cycles, (later, later))


# Whole plans

L_OUTER = Options("host", "auto", {"L1": 16000, "L2": 70000}, outermost="L3")


def planned(options: Options, root: Path) -> Plan:
    """The autoencoder's plan."""
    return pipeline.plan_case(load_case("autoencoder", root), options, jobs=1)[1]


def cycles_of(plan: Plan) -> int:
    """Cycles of all graphs."""
    return sum(plan.cycles(graph) for graph in plan.graphs)


@pytest.mark.slow
def test_a_plan_is_never_dearer_for_the_search(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the search finds, the plan has no more cycles than with the solver's homes; where those are better, it
    has them, to the byte.
    """
    found = planned(L_OUTER, models_root)
    monkeypatch.setattr(HomeSearch, "best", lambda self, start, others=(): start)
    solved = planned(L_OUTER, models_root)
    assert cycles_of(found) <= cycles_of(solved)

    def worst(self: HomeSearch, start: HomeSelection, others: Sequence[HomeSelection] = ()) -> HomeSelection:
        nowhere = replace(start, resident=frozenset(), cached=frozenset())
        state = self._placed(nowhere)
        return self._choice(state) if state else start

    monkeypatch.setattr(HomeSearch, "best", worst)
    assert planned(L_OUTER, models_root) == solved


@pytest.mark.slow
def test_nothing_is_searched_where_nothing_is_spilled(models_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room in the level between, or without a level beyond it, plans are as they were."""

    def refuse(self: HomeSearch, problem: HomeProblem, *words: object) -> None:
        raise AssertionError("a search")

    monkeypatch.setattr(home_search.HomeSearch, "__init__", refuse)
    for options in (Options("host", "auto", {"L1": 16000}), replace(L_OUTER, budgets={"L1": 16000})):
        assert planned(options, models_root).cycles("train") > 0
    with pytest.raises(AssertionError, match="a search"):
        planned(L_OUTER, models_root)
