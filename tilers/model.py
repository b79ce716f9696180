"""One CP-SAT model for a level: a candidate per step, a home per tensor, what is alive at a step within the level."""

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from deployer.plan import Lifetime
from deployer.tilers.candidates import Candidate

SOLVER_LIMIT = 1.0
"""Deterministic seconds of one solve: one worker and a fixed seed give the same choice anywhere."""
GAP = 0.002


@dataclass(frozen=True)
class Problem:
    """Candidates per step and the storages each step touches, storages that may be resident, bytes to stay within, and
    how often each step runs."""

    candidates: tuple[tuple[Candidate, ...], ...]
    touches: tuple[frozenset[str], ...]
    eligible: tuple[Lifetime, ...]
    capacity: int
    weights: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """Indices of the chosen candidates, the resident storages, and the objective in cycles."""

    picks: tuple[int, ...]
    resident: frozenset[str]
    cycles: int


def objective(problem: Problem, picks: Sequence[int]) -> int:
    """Weighted cycles of a choice."""
    return sum(w * c[i].cycles for w, c, i in zip(problem.weights, problem.candidates, picks, strict=True))


def feasible(problem: Problem, picks: Sequence[int], resident: frozenset[str]) -> bool:
    """Whether a choice agrees with the homes and fits at every step."""
    for step, (candidates, pick) in enumerate(zip(problem.candidates, picks, strict=True)):
        chosen = candidates[pick]
        if chosen.resident != resident & problem.touches[step]:
            return False
        homes = sum(x.bytes for x in problem.eligible if x.storage in resident and x.first <= step <= x.last)
        if homes + chosen.bytes > problem.capacity:
            return False
    return True


def greedy(problem: Problem) -> Choice | None:
    """Homes by cycles saved per byte-step, one after the other while everything still fits; the solver starts here."""
    resident: frozenset[str] = frozenset()
    best = _cheapest(problem, resident)
    if best is None:
        return None
    for life in sorted(problem.eligible, key=lambda x: (x.bytes * (x.last - x.first + 1), x.storage)):
        trial = _cheapest(problem, resident | {life.storage})
        if trial is not None and trial.cycles < best.cycles:
            best, resident = trial, trial.resident
    return best


def _cheapest(problem: Problem, resident: frozenset[str]) -> Choice | None:
    """The best candidate of each step under fixed homes, or None where one does not fit."""
    picks = []
    for step, candidates in enumerate(problem.candidates):
        homes = sum(x.bytes for x in problem.eligible if x.storage in resident and x.first <= step <= x.last)
        fitting = [
            (c.cycles, i)
            for i, c in enumerate(candidates)
            if c.resident == resident & problem.touches[step] and c.bytes + homes <= problem.capacity
        ]
        if not fitting:
            return None
        picks.append(min(fitting)[1])
    return Choice(tuple(picks), resident, objective(problem, picks))


def solve(problem: Problem, hint: Choice | None = None) -> Choice | None:
    """The choice of least cycles CP-SAT finds, never worse than the hint; None where nothing fits."""
    start = min((c for c in (hint, greedy(problem)) if c is not None), key=lambda c: c.cycles, default=None)
    model = cp_model.CpModel()
    picked = [[model.new_bool_var(f"x{s}_{i}") for i in range(len(c))] for s, c in enumerate(problem.candidates)]
    home = {life.storage: model.new_bool_var(f"home {life.storage}") for life in problem.eligible}
    for step, (candidates, variables) in enumerate(zip(problem.candidates, picked, strict=True)):
        model.add_exactly_one(variables)
        for storage in sorted(problem.touches[step] & set(home)):
            using = [v for v, c in zip(variables, candidates, strict=True) if storage in c.resident]
            model.add(sum(using) == home[storage])
        alive = [x.bytes * home[x.storage] for x in problem.eligible if x.first <= step <= x.last]
        slots = [c.bytes * v for v, c in zip(variables, candidates, strict=True)]
        model.add(sum(alive) + sum(slots) <= problem.capacity)
    model.minimize(
        sum(
            weight * c.cycles * v
            for weight, candidates, variables in zip(problem.weights, problem.candidates, picked, strict=True)
            for c, v in zip(candidates, variables, strict=True)
        )
    )
    if start is not None:
        for step, variables in enumerate(picked):
            for i, variable in enumerate(variables):
                model.add_hint(variable, i == start.picks[step])
        for storage, variable in home.items():
            model.add_hint(variable, storage in start.resident)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = SOLVER_LIMIT
    solver.parameters.relative_gap_limit = GAP
    # Measured on training graphs: the linear relaxation closes the gap, probing only costs time.
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    picks = tuple(next(i for i, v in enumerate(variables) if solver.value(v)) for variables in picked)
    resident = frozenset(s for s, v in home.items() if solver.value(v))
    found = Choice(picks, resident, objective(problem, picks))
    return found if start is None or found.cycles <= start.cycles else start
