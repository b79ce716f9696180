"""Judge of cached copies: copies in the middle level hold the content that the steps expect.

Rule: visit. That copies have room in all of their steps is part of the rule of overlaps, as they have homes.
"""

from collections import defaultdict

from deployer.core.level import L_HOME, L_OUTER, Residency
from deployer.core.plan import Home, Plan, PlanStep, Tiling
from deployer.verify.tiling import need

Moves = dict[int, list[tuple[str, str]]]
"""By the step in which they start, or in which they are awaited, the homes from and to which copies go."""


def check_residencies(plan: Plan) -> None:
    """No step finds old content, nor changes what a copy under way reads or writes, and no copy leaves its graph."""
    homes = {home.storage: home for home in plan.homes}
    residencies: dict[str, list[Residency]] = defaultdict(list)
    for residency in plan.residencies:
        residencies[residency.storage].append(residency)
    _need(not (plan.options.apart and plan.residencies), "storages are copied between steps, which the options forbid")
    starts: Moves = defaultdict(list)
    ends: Moves = defaultdict(list)
    for storage, group in residencies.items():
        before = -1
        for number, residency in enumerate(group):
            text = f"visit {number} of {storage!r}, in steps {residency.begin}..{residency.end}"
            _outline(plan, residency, homes, text)
            _need(before < residency.begin, f"{text}, begins before the one before it ends")
            before = residency.end
            if residency.begin < residency.first:
                starts[residency.begin].append((storage, residency.name))
                ends[residency.first - 1].append((storage, residency.name))
            if residency is not group[-1]:
                written = max((s.index for s in plan.steps if residency.name in _written(s)), default=residency.end)
                _need(residency.first <= written < residency.end, f"{text}, goes out without being written before")
                starts[written + 1].append((residency.name, storage))
                ends[residency.end].append((residency.name, storage))
    _contents(plan, starts, ends)


def check_resident(tiling: Tiling) -> None:
    """Copies are of spilled storages, and each step that uses such a storage is in one of its visits."""
    spans = [(v.storage, range(v.first, v.last + 1)) for v in tiling.residencies]
    of = {storage for storage, _ in spans}
    need(
        of <= set(tiling.spilled), "visit", f"{sorted(of - set(tiling.spilled))} have residencies, and are not spilled"
    )
    ordered = [(v.first, v.storage) for v in tiling.residencies] == sorted(
        (v.first, v.storage) for v in tiling.residencies
    )
    need(ordered, "visit", "the residencies are not in the order of their first steps")
    program = tiling.lifetimes.schedule.program
    names = [residency.name for residency in tiling.residencies]
    need(len({*names, *program.tensors}) == len(names) + len(program.tensors), "visit", "copies share a name")
    for step in tiling.lifetimes.schedule.steps:
        for storage in {program.storage(o.tensor) for o in step.access.operands} & of:
            count = sum(name == storage and step.index in span for name, span in spans)
            need(
                count == 1,
                "visit",
                f"step {step.index} {step.name!r} uses {storage!r}, and is in {count} of its residencies",
            )


def _need(holds: bool, cause: str) -> None:
    need(holds, "visit", cause)


def _written(step: PlanStep) -> set[str]:
    return {o.storage for o in step.operands if o.mode != "in"}


def _outline(plan: Plan, residency: Residency, homes: dict[str, Home], text: str) -> None:
    """The storage is a value at home in the outermost level, and has a copy as large in the level between."""
    _need(residency.storage in homes and residency.name in homes, f"{text}: there is no home, or none of the copy")
    home, copy = homes[residency.storage], homes[residency.name]
    levels = [level.name for level in plan.levels]
    _need([home.level, copy.level] == [*levels[L_OUTER:], levels[L_HOME]], f"{text}: the homes are in other levels")
    _need(not (home.loaded or home.persistent), f"{text}: the storage is not a value")
    _need(home.type == copy.type, f"{text}: the copy is a {copy.type}, the storage a {home.type}")
    ordered = home.first <= residency.begin <= residency.first <= residency.last <= residency.end <= home.last
    _need(ordered and (copy.first, copy.last) == (residency.begin, residency.end), f"{text}: the copy has another life")
    graphs = {step.graph for step in plan.steps[residency.begin : residency.end + 1]}
    _need(len(graphs) == 1, f"{text}: it is of several graphs")


def _contents(plan: Plan, starts: Moves, ends: Moves) -> None:
    """In the order of the steps: which homes hold what was written last, and which a copy under way reads or writes."""
    names = {name: residency.storage for residency in plan.residencies for name in (residency.name, residency.storage)}
    current, reading, writing = set[str](), list[str](), list[str]()
    for step in plan.steps:
        for source, target in starts[step.index]:
            _need(source in current, f"step {step.index}: {source!r} is copied before it is written")
            _need(not {source, target} & {*writing}, f"step {step.index}: {source!r} or {target!r} is being written")
            reading.append(source)
            writing.append(target)
        for o in step.operands:
            if o.storage not in names:
                continue
            text = f"step {step.index} {step.name!r}: operand {o.arg!r} in {o.storage!r}"
            _need(o.storage not in writing, f"{text}, which a copy under way writes")
            _need(o.mode == "in" or o.storage not in reading, f"{text}, which a copy under way reads")
            _need(o.mode == "out" or o.storage in current, f"{text}, which does not hold it")
            if o.mode != "in":
                current -= {name for name, storage in names.items() if storage == names[o.storage]}
                current.add(o.storage)
        for source, target in ends[step.index]:
            reading.remove(source)
            writing.remove(target)
            current.add(target)
