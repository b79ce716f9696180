"""Shared argument tables: steps whose tables differ only in addresses share one, and set the addresses themselves."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

from deployer.core.plan import Tiling
from deployer.loops.loop_program import AssignStmt
from deployer.loops.lower import has_address, lower
from deployer.planning.tile import predicted
from deployer.planning.timeline import StepRuns, drafted
from deployer.tilers.levels.geometry import loop_key
from deployer.tilers.levels.tables import hardly_longer, shared_bytes


def shared_tables(tiling: Tiling, kinds: Sequence[int]) -> tuple[int, ...]:
    """For each step the first one with the same table: of its graph, for its kernel, with the same sizes.

    `kinds` are equal for steps of equal geometry.
    """
    known, first = dict[Hashable, Hashable](), dict[Hashable, int]()
    tables = []
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        # As texts, arguments that are 0.0 and -0.0 differ.
        key = (kinds[step.index], repr(step.args), loop_key(choice), loop_key(choice.stage))
        if key not in known:
            program = lower(drafted(step, choice))
            kept = tuple((name, value) for name, value in program.arguments if not has_address(value))
            changed = tuple(x.argument for x in program.body.walk() if isinstance(x, AssignStmt))
            known[key] = kept, tuple(sorted({*changed, *(o.arg for o in step.access.operands)}))
        tables.append(first.setdefault((step.graph, step.kernel.symbol, known[key]), step.index))
    return tuple(tables)


def with_shared_tables(tiling: Tiling, runs: StepRuns) -> tuple[Tiling, StepRuns] | None:
    """The tiling with shared tables in place of its groups, and its runs; `runs` are those with groups.

    None without groups, where the tables do not fit their area, or where the addresses that steps set take too many
    cycles.
    """
    if not tiling.groups:
        return None
    schedule, tables = tiling.lifetimes.schedule, shared_tables(tiling, runs.kinds)
    size = shared_bytes(tables, schedule.steps, runs.target)
    if size > tiling.table_bytes:
        return None
    shared, others = replace(tiling, table_bytes=size, groups=(), tables=tables), runs.with_tables(tables)
    return (shared, others) if hardly_longer(predicted(shared, others), predicted(tiling, runs)) else None
