"""Cached copies: storages at home in the outermost level, copied into the middle level for the steps that use them.

A value of the forward pass is written and read at once, and read again a whole pass later. Its home far out costs
little if it goes out while later steps run, and comes in while earlier ones do; the engine then waits for no kernel,
nor they for it, as the stages of steps do.
"""

import itertools
from collections.abc import Sequence

from deployer.core.level import L_HOME, Residency
from deployer.core.plan import Lifetime, Schedule
from deployer.core.target import Target
from deployer.tilers.levels.model import Cacheable

LEAST_GAP = 6
"""Steps without a use, at least, between two residencies: fewer would not hide both transfers."""
SLACK = 2
"""How many times as long as a transfer the steps under it take: others are on their way as well."""
FARTHEST = 16
"""Steps that a transfer may take, at most."""
RISK = 8
"""One part in this many of a transfer's cycles is taken as not hidden."""


def residencies_of(
    schedule: Schedule, eligible: Sequence[Lifetime], target: Target, inside: Sequence[int]
) -> list[Residency]:
    """The two residencies of each storage that may have some, those of one storage next to each other.

    `inside` are the cycles of steps with nothing spilled. It is a value of one graph, which one step writes, and which
    no step uses for a while. There are none where the options keep each transfer within its step.
    """
    if not schedule.options.cross_step_prefetch:
        return []
    program, uses, writers = schedule.program, dict[str, list[int]](), dict[str, list[int]]()
    for step in schedule.steps:
        for o in step.access.operands:
            storage = program.storage(o.tensor)
            uses.setdefault(storage, []).append(step.index)
            if o.writes:
                writers.setdefault(storage, []).append(step.index)
    hop, pairs = target.hops[L_HOME], list[Residency]()
    for life in eligible:
        used = sorted(set(uses.get(life.storage, ())))
        graphs = {schedule.steps[step].graph for step in used}
        if program.tensors[life.storage].role != "value" or len(graphs) != 1 or len(used) < 2:
            continue
        if writers.get(life.storage) != used[:1]:
            continue
        gap, at = max((b - a, a) for a, b in itertools.pairwise(used))
        if gap < LEAST_GAP:
            continue
        back = used[used.index(at) + 1]
        out = SLACK * (hop.issue + hop.outward.cycles(life.bytes, 1))
        into = SLACK * (hop.issue + hop.inward.cycles(life.bytes, 1))
        end = max(at, _until(range(used[0] + 1, back - 2), out, inside))
        begin = _until(range(back - 1, end, -1), into, inside)
        residencies = (
            Residency(life.storage, used[0], used[0], at, end),
            Residency(life.storage, begin, back, used[-1], used[-1]),
        )
        if not {residency.name for residency in residencies} & program.tensors.keys():
            pairs += residencies
    return pairs


def _until(steps: range, cycles: int, inside: Sequence[int]) -> int:
    """The step up to which these steps take so many cycles."""
    for count, step in enumerate(steps, 1):
        cycles -= inside[step]
        if cycles <= 0 or count == FARTHEST:
            return step
    return steps[-1]


def cacheable_of(
    residencies: Sequence[Residency], eligible: Sequence[Lifetime], target: Target
) -> tuple[Cacheable, ...]:
    """The storages of the residencies for the solver's model: it caches a storage for both of its, or for none."""
    hop, bytes_of = target.hops[L_HOME], {life.storage: life.bytes for life in eligible}
    cacheable = []
    for storage, group in itertools.groupby(residencies, key=lambda residency: residency.storage):
        size = bytes_of[storage]
        moved = hop.inward.cycles(size, 1) + hop.outward.cycles(size, 1)
        cycles = 2 * (target.prefetch_issue + hop.issue + hop.wait) + moved // RISK
        cacheable.append(
            Cacheable(storage, size, tuple((residency.begin, residency.end) for residency in group), cycles)
        )
    return tuple(cacheable)
