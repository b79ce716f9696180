"""The CP-SAT model of a level: it picks a candidate per step and the resident storages, within the level's capacity."""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deployer.core.plan import Lifetime, Lifetimes
from deployer.tilers.levels.candidates import Candidate

SOLVER_LIMIT = 0.5
"""Deterministic seconds of one solve: one worker and a fixed seed give the same choice on any machine. Twice as much
gave no better choice for any network tried."""
GAP = 0.002
LARGEST = 30_000
"""Most candidates that the solver may choose among: in its time it has bettered no choice of more, and often spent all
of it before the search."""
LARGEST_CACHED = 7_000
"""The same where storages may be in the level for their steps alone, which takes the solver longer."""
UNBOUNDED = -(1 << 63)
"""The least bound of a constraint that has none."""


@dataclass(frozen=True)
class Cacheable:
    """Storage that may be cached in the level for the steps that use it, and the cycles that this costs.

    It is there in the spans of steps, each with its first and last, that hold all of these.
    """

    storage: str
    bytes: int
    spans: tuple[tuple[int, int], ...]
    cycles: int

    def there(self, step: int) -> bool:
        """Whether it is in the level in a step."""
        return any(first <= step <= last for first, last in self.spans)


@dataclass(frozen=True)
class HomeProblem:
    """Candidates of each step, the eligible storages that it touches, and how often it runs (`weights`).

    Also the capacity in bytes. Eligible storages may be resident, the `cacheable` ones cached for their steps alone.
    """

    candidates: tuple[tuple[Candidate, ...], ...]
    touches: tuple[frozenset[str], ...]
    eligible: tuple[Lifetime, ...]
    capacity: int
    weights: tuple[int, ...]
    cacheable: tuple[Cacheable, ...] = ()


@dataclass(frozen=True)
class HomeSelection:
    """Index of a candidate for each step, the resident storages, and the objective in cycles.

    `cached` are the storages cached for their steps alone, which candidates count as resident.
    """

    picks: tuple[int, ...]
    resident: frozenset[str]
    cycles: int
    cached: frozenset[str] = frozenset()


def problem_of(
    lifetimes: Lifetimes,
    eligible: tuple[Lifetime, ...],
    capacity: int,
    candidates: Sequence[tuple[Candidate, ...]],
    cacheable: tuple[Cacheable, ...] = (),
) -> HomeProblem:
    """The problem of a schedule whose steps have these candidates."""
    schedule = lifetimes.schedule
    storage_of, names = schedule.program.storage, frozenset(x.storage for x in eligible)
    touches = tuple(frozenset(storage_of(o.tensor) for o in s.access.operands) & names for s in schedule.steps)
    weights = tuple(schedule.repeats(s) for s in schedule.steps)
    return HomeProblem(tuple(candidates), touches, eligible, capacity, weights, cacheable)


def objective(problem: HomeProblem, picks: Sequence[int], cached: frozenset[str] = frozenset()) -> int:
    """Cycles of a choice, each step's times its weight."""
    steps = sum(w * c[i].cycles for w, c, i in zip(problem.weights, problem.candidates, picks, strict=True))
    return steps + sum(item.cycles for item in problem.cacheable if item.storage in cached)


def feasible(
    problem: HomeProblem, picks: Sequence[int], resident: frozenset[str], cached: frozenset[str] = frozenset()
) -> bool:
    """Whether a choice agrees with the homes and fits at every step."""
    for step, (candidates, pick) in enumerate(zip(problem.candidates, picks, strict=True)):
        candidate = candidates[pick]
        if candidate.resident != (resident | cached) & problem.touches[step]:
            return False
        homes = sum(x.bytes for x in problem.eligible if x.storage in resident and x.first <= step <= x.last)
        homes += sum(x.bytes for x in problem.cacheable if x.storage in cached and x.there(step))
        if homes + candidate.bytes > problem.capacity:
            return False
    return True


_Pick = tuple[int, int, int]
"""A candidate of a step: its cycles, its index, and its bytes."""


class _Greedy:
    """Greedy choice: storages become resident one by one, and each step has its cheapest candidate."""

    def __init__(self, problem: HomeProblem) -> None:
        self.problem = problem
        self.resident: set[str] = set()
        self.cached: set[str] = set()
        self.homes = [0] * len(problem.candidates)
        self.by_residency: list[dict[frozenset[str], list[_Pick]]] = []
        for candidates in problem.candidates:
            groups: dict[frozenset[str], list[_Pick]] = {}
            for index, c in enumerate(candidates):
                groups.setdefault(c.resident, []).append((c.cycles, index, c.bytes))
            self.by_residency.append({key: sorted(group) for key, group in groups.items()})
        self.picks: list[_Pick | None] = [None] * len(self.homes)
        self.picks = [self._cheapest(step, 0, None) for step in range(len(self.homes))]

    def _cheapest(self, step: int, more: int, storage: str | None) -> _Pick | None:
        """The step's best candidate if `storage`, with `more` bytes, were resident too; or None."""
        pick, touched = self.picks[step], self.problem.touches[step]
        room = self.problem.capacity - self.homes[step] - more
        if pick and storage not in touched and pick[2] <= room:
            return pick  # less room, and only that, changes nothing for it
        resident = frozenset(s for s in touched if s in self.resident or s in self.cached or s == storage)
        fitting = (pick for pick in self.by_residency[step].get(resident, ()) if pick[2] <= room)
        return next(fitting, None)

    def bring(self, life: Lifetime) -> None:
        """Make a storage resident where that saves cycles and every step still fits; without steps it saves none."""
        if self.picks and self._fits(life.storage, life.bytes, range(life.first, life.last + 1), 0):
            self.resident.add(life.storage)

    def cache(self, item: Cacheable) -> None:
        """Let a storage that is not resident be there for its steps where that saves cycles and every step fits."""
        steps = [step for first, last in item.spans for step in range(first, last + 1)]
        if item.storage not in self.resident and self._fits(item.storage, item.bytes, steps, item.cycles):
            self.cached.add(item.storage)

    def _fits(self, storage: str, more: int, steps: Sequence[int], cycles: int) -> bool:
        """Whether a storage saves more than these cycles in the level, and fits there; then the steps count on it."""
        saved, picks = -cycles, {}
        for step in steps:
            best, current = self._cheapest(step, more, storage), self.picks[step]
            if best is None or current is None:
                return False
            saved += self.problem.weights[step] * (current[0] - best[0])
            picks[step] = best
        if saved <= 0:
            return False
        for step, pick in picks.items():
            self.homes[step] += more
            self.picks[step] = pick
        return True

    def choice(self) -> HomeSelection | None:
        """The choice, or None if a step has no candidate that fits."""
        picks = [p[1] for p in self.picks if p is not None]
        if len(picks) < len(self.picks):
            return None
        cached = frozenset(self.cached)
        return HomeSelection(tuple(picks), frozenset(self.resident), objective(self.problem, picks, cached), cached)


def greedy(problem: HomeProblem) -> HomeSelection | None:
    """The greedy choice, at which the solver starts: storages in ascending order of bytes times steps of life.

    Storages that may be there for their steps alone come last. Another choice lets as many of the largest of these be
    so first as are needed for all others to fit.
    """
    state = _Greedy(problem)
    for life in sorted(problem.eligible, key=_area):
        state.bring(life)
    for item in problem.cacheable:
        state.cache(item)
    return fewest(state.choice(), _greedy_cached(problem)) if problem.cacheable else state.choice()


def _area(life: Lifetime) -> tuple[int, str]:
    """Bytes times steps of life."""
    return life.bytes * (life.last - life.first + 1), life.storage


def _greedy_cached(problem: HomeProblem) -> HomeSelection | None:
    """The choice that first caches the storages that free the most room while some step is too full."""
    lives, used = {life.storage: life for life in problem.eligible}, [0] * len(problem.candidates)
    for life in problem.eligible:
        for step in range(life.first, life.last + 1):
            used[step] += life.bytes
    least = [min(c.bytes for c in candidates) for candidates in problem.candidates]
    state = _Greedy(problem)

    absent = [_absent(item, lives[item.storage]) for item in problem.cacheable]
    over = [here + slots - problem.capacity for here, slots in zip(used, least, strict=True)]

    def freed(number: int) -> int:
        size = problem.cacheable[number].bytes
        return sum(min(size, over[step]) for step in absent[number] if over[step] > 0)

    # Caching a storage frees less and less while others are cached, so an earlier count is a bound: few count again.
    pending = [(-freed(number), number) for number in range(len(absent))]
    heapq.heapify(pending)
    while pending and pending[0][0]:
        bound, number = pending[0]
        now = -freed(number)
        if now != bound:
            heapq.heapreplace(pending, (now, number))
            continue
        heapq.heappop(pending)
        best = problem.cacheable[number]
        state.cache(best)
        if best.storage in state.cached:
            for step in absent[number]:
                over[step] -= best.bytes
    for life in sorted(problem.eligible, key=_area):
        if life.storage not in state.cached:
            state.bring(life)
    for item in problem.cacheable:
        if item.storage not in state.cached:
            state.cache(item)
    return state.choice()


def _absent(item: Cacheable, life: Lifetime) -> list[int]:
    """The steps of a storage's life in which its cached copy is not in the level."""
    return [step for step in range(life.first, life.last + 1) if not item.there(step)]


@dataclass(frozen=True)
class _Numbers:
    """Numbers of the model's variables: of each step's first candidate, which others follow, of homes and of copies."""

    first: tuple[int, ...]
    homes: dict[str, int]
    cacheable: dict[str, int]

    @classmethod
    def of(cls, problem: HomeProblem) -> "_Numbers":
        """Those of a problem."""
        *first, count = itertools.accumulate((len(c) for c in problem.candidates), initial=0)
        homes = {life.storage: count + i for i, life in enumerate(problem.eligible)}
        cacheable = {x.storage: count + len(homes) + i for i, x in enumerate(problem.cacheable)}
        return cls(tuple(first), homes, cacheable)


def _fill(proto: Any, problem: HomeProblem, numbers: _Numbers, start: HomeSelection | None) -> None:
    """Write a problem into CP-SAT's empty model: a variable of 0 or 1 per candidate and per home, hinted by `start`.

    Whole arrays go into the solver's message: its expression objects, one per candidate, take longer than the solver.
    """
    homes, cacheable = numbers.homes, numbers.cacheable
    count = sum(len(c) for c in problem.candidates)
    variable = proto.variables.add()
    variable.domain.extend((0, 1))
    proto.variables.extend([variable] * (count + len(homes) + len(cacheable) - 1))
    for storage, number in cacheable.items():
        proto.constraints.add().at_most_one.literals.extend((homes[storage], number))
    for step, (candidates, at) in enumerate(zip(problem.candidates, numbers.first, strict=True)):
        proto.constraints.add().exactly_one.literals.extend(range(at, at + len(candidates)))
        for storage in sorted(problem.touches[step] & homes.keys()):
            using = [i for i, c in enumerate(candidates, at) if storage in c.resident]
            # Where no candidate has it resident, the home is 0; either sign says so, but choices depend on it.
            terms = [*((i, 1) for i in using), (homes[storage], -1 if using else 1)]
            terms += [(cacheable[storage], -1 if using else 1)] if storage in cacheable else []
            _linear(proto.constraints.add().linear, terms, 0, 0)
        slots = [(i, c.bytes) for i, c in enumerate(candidates, at)]
        held = [(homes[x.storage], x.bytes) for x in problem.eligible if x.first <= step <= x.last]
        held += [(cacheable[x.storage], x.bytes) for x in problem.cacheable if x.there(step)]
        _linear(proto.constraints.add().linear, [*slots, *held], UNBOUNDED, problem.capacity)
    cycles = [
        w * c.cycles for w, candidates in zip(problem.weights, problem.candidates, strict=True) for c in candidates
    ]
    proto.objective.vars.extend((*range(count), *cacheable.values()))
    proto.objective.coeffs.extend((*cycles, *(item.cycles for item in problem.cacheable)))
    proto.objective.scaling_factor = 1
    if start is not None:
        picked = {at + pick for at, pick in zip(numbers.first, start.picks, strict=True)}
        picked |= {number for storage, number in homes.items() if storage in start.resident}
        picked |= {number for storage, number in cacheable.items() if storage in start.cached}
        numbered = range(count + len(homes) + len(cacheable))
        proto.solution_hint.vars.extend(numbered)
        proto.solution_hint.values.extend([int(i in picked) for i in numbered])


def _linear(constraint: Any, terms: Sequence[tuple[int, int]], least: int, most: int) -> None:
    """Write a linear constraint: the sum of (variable, factor) over the terms is within least..most."""
    used = [(variable, factor) for variable, factor in terms if factor]
    constraint.vars.extend([variable for variable, _ in used])
    constraint.coeffs.extend([factor for _, factor in used])
    constraint.domain.extend((least, most))


def fewest(*choices: HomeSelection | None) -> HomeSelection | None:
    """The first choice with the fewest cycles; None where there is none."""
    return min((c for c in choices if c is not None), key=lambda c: c.cycles, default=None)


def solve(problem: HomeProblem, hint: HomeSelection | None = None) -> HomeSelection | None:
    """The choice with the fewest cycles that CP-SAT finds, no worse than the hint; None if nothing fits."""
    return improved(problem, fewest(hint, greedy(problem)))


def improved(problem: HomeProblem, start: HomeSelection | None) -> HomeSelection | None:
    """The choice with the fewest cycles that CP-SAT finds, no worse than `start`; None if nothing fits.

    From a problem with more than LARGEST candidates the solver is asked for a choice only if there is no start.
    """
    if not problem.candidates:
        return HomeSelection((), frozenset(), 0)
    most = LARGEST_CACHED if problem.cacheable else LARGEST
    if start is not None and sum(map(len, problem.candidates)) > most:
        return start
    # Loading the solver takes longer than running what was planned before.
    from ortools.sat.python import cp_model

    model, numbers = cp_model.CpModel(), _Numbers.of(problem)
    _fill(model.Proto(), problem, numbers, start)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = SOLVER_LIMIT
    solver.parameters.relative_gap_limit = GAP
    # Measured on training graphs: the linear relaxation closes the gap, probing only costs time.
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    # Its own handler would take Ctrl-C for "enough", and leave the process without one afterwards.
    solver.parameters.catch_sigint_signal = False
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    values = list(solver.ResponseProto().solution)
    picks = tuple(values.index(1, at) - at for at in numbers.first)
    resident = frozenset(storage for storage, number in numbers.homes.items() if values[number])
    cached = frozenset(storage for storage, number in numbers.cacheable.items() if values[number])
    choice = HomeSelection(picks, resident, objective(problem, picks, cached), cached)
    return choice if start is None or choice.cycles <= start.cycles else start
