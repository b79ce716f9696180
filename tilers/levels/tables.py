"""Argument tables of steps: all resident in the innermost level, or by groups that take turns in one area of it.

A group is some consecutive steps of a graph. Its tables are constants of the program; its first step fetches a copy of
them into the area, the first bytes of the innermost level. A plan names the first step of each group.

Or steps share tables: those whose tables differ in addresses alone have one, and set the addresses themselves. Tables
are then so few that all are resident in what would be the area. A plan names the table of each step.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.access import Axis, Broadcast, Whole
from deployer.core.cost import rounded
from deployer.core.level import L_INNER
from deployer.core.plan import PlanStep, Step
from deployer.core.target import Target

Steps = Sequence[Step] | Sequence[PlanStep]
SHARE = 16
"""Groups have this part of the level: of an 8th to a 64th it gave the fewest cycles for most programs tried."""
MUCH = 6
"""From this part of the level on groups are tried though resident tables fit. Adapters of a Llama of six layers, whose
tables take a fifth of it, have 43.4 M cycles with groups and 63.3 M without.
"""
LEAST_GAIN_MILLI = 10
"""Thousandths of cycles that groups must save: solver and cost model are not more exact."""
MOST_LOSS_MILLI = 1
"""Thousandths of cycles that sharing may cost beside groups: nothing that shows, for a program of half the bytes."""


@dataclass(frozen=True)
class ArgumentTables:
    """The bytes that a program's tables take in the innermost level, and the first step of each group.

    Without groups they are all resident. One that is an `alternative` is tried where others fit, too.
    """

    bytes: int
    groups: tuple[int, ...] = ()
    alternative: bool = False


def table_sizes(steps: Steps, target: Target) -> list[int]:
    """Bytes of each step's table."""
    return [rounded(s.kernel.table_bytes(target.pointer_bytes), target.alignment) for s in steps]


def resident_tables(steps: Steps, target: Target) -> ArgumentTables:
    """All tables resident."""
    return ArgumentTables(sum(table_sizes(steps, target)))


def group_spans(groups: Sequence[int], count: int) -> list[range]:
    """The steps of each group: from its first to the one before the next group's, the last of `count` steps at most."""
    return [range(first, end) for first, end in zip(groups, [*groups, count][1:], strict=True)]


def fetched_bytes(groups: Sequence[int], steps: Steps, target: Target) -> dict[int, int]:
    """The bytes that the first step of each group fetches, by its number."""
    sizes = table_sizes(steps, target)
    return {span.start: sum(sizes[span.start : span.stop]) for span in group_spans(groups, len(steps))}


def fetch_cycles(size: int, target: Target, contention: int) -> int:
    """Cycles in which a step fetches that many bytes of tables before all else; its code costs as a tile's does."""
    if not size:
        return 0
    hop = target.hops[L_INNER]
    return target.tile + hop.issue + hop.inward.cycles(size, 1, contention) + hop.wait


def sharers(tables: Sequence[int]) -> dict[int, int]:
    """The steps that share their table with others, and the number of the first of these."""
    count = Counter(tables)
    return {step: table for step, table in enumerate(tables) if count[table] > 1}


def shared_bytes(tables: Sequence[int], steps: Steps, target: Target) -> int:
    """Bytes of all tables where steps share them."""
    sizes = table_sizes(steps, target)
    return sum(sizes[table] for table in set(tables))


def fixed_addresses(step: PlanStep) -> int:
    """Pointers of a step's table that no tile changes; if others share the table, the step sets them, too."""
    cut = {d.name for d in step.dims if d.count > 1}
    return sum(o.slots == 1 or (o.slots == 0 and not cut & _dims(o.axes)) for o in step.operands)


def _dims(axes: Sequence[Axis]) -> set[str]:
    """The dims along which boxes move on axes."""
    return {axis.dim for axis in axes if not isinstance(axis, Whole | Broadcast)}


def tables_in(room: int, steps: Steps, target: Target, alternative: bool = False) -> ArgumentTables:
    """The fewest groups whose tables fit an area of at most `room` bytes, which no table exceeds."""
    groups, used, most = list[int](), 0, 0
    for number, size in enumerate(table_sizes(steps, target)):
        if not groups or used + size > room or steps[number].graph != steps[number - 1].graph:
            groups.append(number)
            used = 0
        used += size
        most = max(most, used)
    return ArgumentTables(most, tuple(groups), alternative)


def tables_to_try(steps: Steps, target: Target) -> list[ArgumentTables]:
    """Resident tables; groups in an area of a share of the level; and, where neither fits, of the least area.

    The groups are an alternative where resident tables take so much of the level that another plan is worth the time.
    """
    sizes = table_sizes(steps, target)
    found = [resident_tables(steps, target)]
    if not target.hops or not sizes:
        return found
    budget, largest = target.levels[L_INNER].budget, max(sizes)
    alternative = found[0].bytes * MUCH > budget
    for room in dict.fromkeys((max(budget // SHARE, largest), largest)):
        tables = tables_in(room, steps, target, alternative and len(found) == 1)
        if tables.bytes < found[-1].bytes:
            found.append(tables)
    return found


def hardly_longer(cycles: int, groups: int) -> bool:
    """Whether a plan whose steps share tables takes hardly more cycles than with the same tiles and groups."""
    return cycles * 1000 <= groups * (1000 + MOST_LOSS_MILLI)


def worthwhile(cycles: int, resident: int) -> bool:
    """Whether a plan with groups takes so many cycles less than one with resident tables that chance does not tell."""
    return cycles * 1000 < resident * (1000 - LEAST_GAIN_MILLI)
