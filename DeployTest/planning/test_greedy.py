"""The greedy start of the tiling model: what becomes resident, and which candidate each step has."""

from dataclasses import replace

import pytest

from deployer.core.plan import Lifetime
from deployer.tilers.levels import model
from deployer.tilers.levels.candidates import Candidate
from deployer.tilers.levels.model import Choice, Problem, _Greedy

pytestmark = [pytest.mark.host, pytest.mark.training]
HOME = Lifetime("a", 10, 0, 1, False, False)


def candidate(size: int, cycles: int, *resident: str) -> Candidate:
    """A candidate of which only residency, bytes and cycles matter."""
    return Candidate({}, (), "single", frozenset(resident), {}, size, cycles)


@pytest.mark.parametrize(("cycles", "saves"), [(30, False), (15, False), (14, True)])
def test_a_home_has_to_save_cycles(cycles: int, saves: bool) -> None:
    """What counts is the sum over all steps of a life, not the last step; as many cycles as before are no reason."""
    steps = ((candidate(8, 10), candidate(0, cycles, "a")), (candidate(8, 10), candidate(0, 5, "a")))
    greedy = _Greedy(Problem(steps, (frozenset("a"),) * 2, (HOME,), 100, (1, 1)))
    greedy.bring(HOME)
    assert greedy.resident == ({"a"} if saves else set())


def test_the_cheapest_candidate_is_first() -> None:
    """Whatever the order of a step's candidates, it has the cheapest that fits."""
    steps = ((candidate(8, 30), candidate(200, 5), candidate(9, 10), candidate(8, 20)),)
    greedy = _Greedy(Problem(steps, (frozenset(),), (), 100, (1,)))
    assert [pick[:2] for pick in greedy.picks if pick] == [(10, 2)]


def test_the_solver_is_left_out_of_large_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many candidates the start is the choice; without a start the solver finds one, however many."""
    both = (candidate(8, 10), candidate(0, 1, "a"))
    dear = replace(HOME, storage="b", bytes=45)
    problem = Problem((both, (candidate(50, 5),)), (frozenset("a"), frozenset()), (HOME, dear), 60, (1, 1))
    bad = Choice((0, 0), frozenset(), 15)
    monkeypatch.setattr(model, "greedy", lambda problem: bad)
    assert model.solve(problem) == Choice((1, 0), frozenset("a"), 6)
    monkeypatch.setattr(model, "LARGEST", 2)
    assert model.solve(problem) == bad
    monkeypatch.setattr(model, "greedy", lambda problem: None)
    assert model.solve(problem) == Choice((1, 0), frozenset("a"), 6)
