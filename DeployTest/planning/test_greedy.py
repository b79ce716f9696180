"""The greedy start of the tiling model: what becomes resident, and which candidate each step has."""

import pytest

from deployer.core.plan import Lifetime
from deployer.tilers.levels.candidates import Candidate
from deployer.tilers.levels.model import Problem, _Greedy

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
