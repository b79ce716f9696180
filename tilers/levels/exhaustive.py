"""The oracle for tiny problems: every combination of candidates and homes, no solver."""

import itertools

from deployer.tilers.levels.model import HomeProblem, HomeSelection, feasible, objective


def solve(problem: HomeProblem) -> HomeSelection | None:
    """The best feasible choice by enumeration; only for problems with few steps and candidates."""
    best: HomeSelection | None = None
    names = sorted(x.storage for x in problem.eligible)
    homes = [frozenset(m) for r in range(len(names) + 1) for m in itertools.combinations(names, r)]
    for picks in itertools.product(*(range(len(c)) for c in problem.candidates)):
        cycles = objective(problem, picks)
        if best is not None and cycles >= best.cycles:
            continue
        for resident in homes:
            if feasible(problem, picks, resident):
                best = HomeSelection(picks, resident, cycles)
                break
    return best
