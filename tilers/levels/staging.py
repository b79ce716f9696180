"""Candidates of a step in the level between: the operands that are spilled, and the tiles in which they pass through.

A spilled operand has its home in the outermost level. The model of `deployer.tilers.levels.model` decides on homes as
for the inner level; a storage is "resident" here if its home is in the level between.
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
"""Most points of a front, per residency."""
SLOTS: dict[Buffering, int] = {"single": 1, "double": 3}
"""Slots of an inout operand: with double buffering one to fill, one in use, and one whose egress runs."""


@dataclass(frozen=True)
class Costs:
    """The cost of a stage: its number of tiles, all cycles of its engine, and those of transfers that nothing hides."""

    tiles: int
    busy: int
    exposed: int

    def around(self, cycles: int, buffering: Buffering) -> int:
        """Cycles of a step whose inner loop takes `cycles` per tile of the stage."""
        return staged_cycles(cycles * self.tiles, self.tiles, self.busy, self.exposed, buffering)


@dataclass(frozen=True)
class Spill:
    """The storages with homes in the outermost level, and the stages of steps with such operands, by step index."""

    storages: frozenset[str]
    stages: dict[int, Stage]


NOTHING = Spill(frozenset(), {})


@dataclass(frozen=True)
class Inside:
    """The cost of a step without spilled operands: its fewest cycles, and the cycles of its kernel calls alone for each
    combination of the stage's grid. Kernels are slower on some tiles than on others with the same work."""

    cycles: int
    kernels: Ints


def stage_grid(access: Access) -> Grid:
    """The tiles to try for a stage. Reductions are not split, as a sum stays in its slot until it is complete."""
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
    """The Pareto fronts of all residencies. `eligible` storages may be spilled; `inside` is the cost without that.

    Storages that cannot be spilled need `fixed` bytes of the capacity, which are part of each candidate's bytes.
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
    """The access of one tile of the stage, in which the view of a staged operand is its box."""
    dims = tuple(replace(d, size=stage.tile[d.name]) for d in access.dims)
    operands = tuple(
        replace(o, view=box_shape(o, access, stage.tile)) if o.arg in stage.slots else o for o in access.operands
    )
    return Access(dims, operands)


def stage_costs(step: Step, stage: Stage, storage_of: Mapping[str, str], target: Target, fresh: bool) -> Costs:
    """The cost of a stage, by the estimate that the solver uses."""
    access = step.access
    grid = grid_at(access, stage.tile)
    staged = [o for o in access.operands if o.arg in stage.slots]
    moves = [movement(step, o.arg, access, grid, [stage.order], storage_of, target, fresh, USUAL) for o in staged]
    _, busy, exposed = _priced(moves, stage.buffering, target)
    return Costs(tile_count(access, stage.tile), int(busy[0]), int(exposed[0]))
