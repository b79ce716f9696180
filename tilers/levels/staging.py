"""Candidates of a step at the level between: which operands are spilled, and in what tiles those pass through.

A spilled operand has its home in the outermost level; the model of `deployer.tilers.model` decides on homes as it does
for the inner level, with "resident" meaning at home here.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from deployer.core.access import Access, box_shape, tile_count
from deployer.core.cost import staged_cycles
from deployer.core.level import USUAL
from deployer.core.plan import Buffering, Stage, Step
from deployer.core.target import Target
from deployer.tilers.levels.candidates import (
    Candidate,
    Movement,
    Walks,
    front,
    movement,
)
from deployer.tilers.levels.grid import Grid, Ints, grid_at, grid_of, loop_orders

LENGTHS = 10
"""Tile lengths tried per dim."""
LIMIT = 6
"""Points of a front that are kept per residency."""
SLOTS: dict[Buffering, int] = {"single": 1, "double": 3}
"""Slots of an operand in place: one to fill while another is used, a third that leaves meanwhile."""


@dataclass(frozen=True)
class Costs:
    """What a stage adds to a step: tiles, cycles of its engine in all, and of the transfers nothing can hide."""

    tiles: int
    busy: int
    exposed: int

    def around(self, cycles: int, buffering: Buffering) -> int:
        """Cycles of a step whose inner loop takes so many per tile of the stage."""
        return staged_cycles(cycles * self.tiles, self.tiles, self.busy, self.exposed, buffering)


@dataclass(frozen=True)
class Spill:
    """Storages at home in the outermost level, and by step index how its spilled operands pass through the next."""

    storages: frozenset[str]
    stages: dict[int, Stage]


NOTHING = Spill(frozenset(), {})


@dataclass(frozen=True)
class Inside:
    """What a step costs whose operands are all at home: its best cycles, and those of its kernel calls alone were the
    tiles those of the stage's grid. Kernels work less well on some tiles than on others of the same work."""

    cycles: int
    kernels: Ints


def stage_grid(access: Access) -> Grid:
    """Tiles to try for a stage. Reductions are not split: the sum of a tile stays in its slot until it is done."""
    reductions = frozenset(d.name for d in access.dims if d.kind == "reduction")
    return grid_of(access, reductions, LENGTHS)


def staged_candidates(
    step: Step,
    storage_of: Mapping[str, str],
    eligible: frozenset[str],
    target: Target,
    capacity: int,
    fixed: int,
    fresh: bool,
    inside: Inside,
    modes: tuple[Buffering, ...],
) -> list[Candidate]:
    """Fronts per residency. `eligible` storages may be spilled; `inside` is what the step costs without that.

    Of the capacity `fixed` bytes are taken by what stays, and counted to each candidate.
    """
    access = step.access
    grid, orders = stage_grid(access), loop_orders(access)
    moves = [movement(step, o.arg, access, grid, orders, storage_of, target, fresh, USUAL) for o in access.operands]
    touched = sorted({storage_of[o.tensor] for o in access.operands} & eligible)
    walks = Walks(access, grid, orders)
    counts, kernels = (np.tile(values, len(orders)) for values in (grid.calls, inside.kernels))
    inner = inside.cycles + kernels - inside.kernels.min() + (counts - 1) * target.step
    candidates = [Candidate(access.sizes, tuple(access.sizes), "single", frozenset(touched), {}, fixed, inside.cycles)]
    for mask in (frozenset(m) for r in range(len(touched)) for m in itertools.combinations(touched, r)):
        spilled = [m for m in moves if m.storage in touched and m.storage not in mask]
        allowed = np.logical_and.reduce([m.possible for m in spilled])
        for mode in modes:
            size, busy, exposed = _priced(spilled, mode, target)
            size += fixed
            slot_counts = {m.arg: m.slots(SLOTS[mode]) for m in spilled}
            cycles = staged_cycles(inner, counts, busy, exposed, mode)
            fits = np.flatnonzero(allowed & (size <= capacity))
            for index in fits[front(size[fits], cycles[fits], LIMIT)]:
                slots = {arg: int(n[index]) for arg, n in slot_counts.items()}
                buffering: Buffering = "double" if any(n > 1 for n in slots.values()) else "single"
                walk = walks[int(index)]
                candidates.append(Candidate(*walk, buffering, mask, slots, int(size[index]), int(cycles[index])))
    return candidates


def _priced(spilled: list[Movement], mode: Buffering, target: Target) -> tuple[Ints, Ints, Ints]:
    """Bytes of the slots, cycles of the engine, and those of the first box in and the last box out."""
    hop = target.hops[USUAL]
    size, total_in, total_out, first, last = (np.zeros_like(spilled[0].loads) for _ in range(5))
    for m in spilled:
        size += m.slot_bytes * m.slots(SLOTS[mode])
        starts = m.loads * ((m.cycles_in > 0).astype(np.int64) + (m.cycles_out > 0)) * (hop.issue + hop.wait)
        total_in += m.cycles_in + starts
        total_out += m.cycles_out
        first += m.cycles_in // m.loads
        last += m.cycles_out // m.loads
    busy = total_in + total_out if hop.shared else np.maximum(total_in, total_out)
    return size, busy if mode == "double" else total_in + total_out, np.minimum(first + last, busy)


def staged_access(access: Access, stage: Stage) -> Access:
    """One tile of the stage as an iteration space: staged operands are seen as their boxes in it."""
    dims = tuple(replace(d, size=stage.tile[d.name]) for d in access.dims)
    operands = tuple(
        replace(o, view=box_shape(o, access, stage.tile)) if o.arg in stage.slots else o for o in access.operands
    )
    return Access(dims, operands)


def stage_costs(step: Step, stage: Stage, storage_of: Mapping[str, str], target: Target, fresh: bool) -> Costs:
    """What a stage costs by the same estimate that chose it."""
    access = step.access
    grid = grid_at(access, stage.tile)
    staged = [o for o in access.operands if o.arg in stage.slots]
    moves = [movement(step, o.arg, access, grid, [stage.order], storage_of, target, fresh, USUAL) for o in staged]
    _, busy, exposed = _priced(moves, stage.buffering, target)
    return Costs(tile_count(access, stage.tile), int(busy[0]), int(exposed[0]))
