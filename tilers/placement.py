"""Addresses: buffers with lifetimes packed into a level, by first fit and, where that leaves a gap, by CP-SAT."""

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

SOLVER_LIMIT = 1.0
"""Deterministic seconds one feasibility question may take."""


@dataclass(frozen=True)
class Item:
    """A buffer: name, bytes (a multiple of the level's alignment) and the steps first..last in which it is live."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Placement:
    """Offsets in bytes, the highest byte used, and the lower bound: the most bytes live at once."""

    offsets: dict[str, int]
    height: int
    bound: int


def lower_bound(items: Sequence[Item]) -> int:
    """Most bytes live at any one step."""
    return max((sum(x.bytes for x in items if x.first <= s <= x.last) for s in {x.first for x in items}), default=0)


def place(items: Sequence[Item], capacity: int, alignment: int = 4) -> Placement:
    """Pack the items. The height may exceed `capacity` where nothing better was found; the caller decides what then.

    First fit in several orders; a height above the bound is then asked of CP-SAT: can it be done at the bound, and if
    not, anywhere within the capacity.
    """
    bound = lower_bound(items)
    best = min(
        (first_fit(items, order) for order in _orders(items)),
        key=lambda p: p.height,
        default=Placement({}, 0, 0),
    )
    for limit in (bound, capacity):
        if best.height <= max(limit, bound) or limit < bound:
            continue
        offsets = _feasible(items, limit, alignment, best)
        if offsets is not None:
            height = max(offsets[x.name] + x.bytes for x in items)
            best = Placement(offsets, height, bound)
    return Placement(best.offsets, best.height, bound)


def first_fit(items: Sequence[Item], order: Sequence[int]) -> Placement:
    """Place the items in the given order, each at the lowest offset where it overlaps no live one."""
    placed: list[tuple[Item, int]] = []
    for index in order:
        item = items[index]
        busy = sorted((at, at + x.bytes) for x, at in placed if x.first <= item.last and item.first <= x.last)
        offset = 0
        for begin, end in busy:
            if offset + item.bytes <= begin:
                break
            offset = max(offset, end)
        placed.append((item, offset))
    height = max((at + x.bytes for x, at in placed), default=0)
    return Placement({x.name: at for x, at in placed}, height, lower_bound(items))


def _orders(items: Sequence[Item]) -> list[list[int]]:
    """Orders worth trying: longest life first, largest first, largest area first, by birth."""
    keys = [
        lambda x: (-(x.last - x.first), -x.bytes, x.name),
        lambda x: (-x.bytes, x.first, x.name),
        lambda x: (-x.bytes * (x.last - x.first + 1), x.first, x.name),
        lambda x: (x.first, -x.last, -x.bytes, x.name),
        lambda x: (-x.last, x.first, -x.bytes, x.name),
    ]
    return [sorted(range(len(items)), key=lambda i, k=key: k(items[i])) for key in keys]  # type: ignore[misc]


def _feasible(items: Sequence[Item], capacity: int, alignment: int, hint: Placement) -> dict[str, int] | None:
    """Offsets within the capacity, or None where CP-SAT finds none in its deterministic time."""
    model = cp_model.CpModel()
    units = capacity // alignment
    offsets, time, space = {}, [], []
    for item in items:
        size = item.bytes // alignment
        if size == 0:
            continue
        if size > units:
            return None
        var = model.new_int_var(0, units - size, item.name)
        model.add_hint(var, min(hint.offsets[item.name] // alignment, units - size))
        offsets[item.name] = var
        space.append(model.new_fixed_size_interval_var(var, size, f"{item.name} space"))
        time.append(model.new_fixed_size_interval_var(item.first, item.last - item.first + 1, f"{item.name} time"))
    model.add_no_overlap_2d(time, space)
    model.add_cumulative(time, [x.bytes // alignment for x in items if x.bytes], units)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = SOLVER_LIMIT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {x.name: solver.value(offsets[x.name]) * alignment if x.name in offsets else 0 for x in items}
