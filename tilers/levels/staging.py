"""Candidates of a step in the middle level: the spilled operands, and the tiles in which they pass through.

A spilled operand has its home in the outermost level. The model of `deployer.tilers.levels.model` decides on homes as
for the inner level; a storage is "resident" here if its home is in the middle level.
"""

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from deployer.core.access import Access, box_shape, tile_count
from deployer.core.cost import staged_cycles
from deployer.core.level import L_HOME, Count, Residency
from deployer.core.plan import Buffering, Stage, Step
from deployer.core.target import Target
from deployer.kernel_variants.costs import CallCosts
from deployer.tilers.levels.candidates import (
    DmaTraffic,
    LoopOrders,
    batches,
    fronts,
    kernel_totals,
    movement,
    possible,
    thinned,
    totals,
)
from deployer.tilers.levels.geometry import Places
from deployer.tilers.levels.grid import Bools, Grid, Ints, grid_at, grid_of, loop_orders

LENGTHS = 10
"""Tile lengths tried per dim."""
LIMIT = 6
"""Most points of a front, per residency."""
SLOTS: dict[Buffering, int] = {"single": 1, "double": 3}
"""Slots of an inout operand: with double buffering one to fill, one in use, and one whose egress runs."""


@dataclass(frozen=True)
class StageEstimate:
    """Estimated cost of a stage: number of tiles, all cycles of its engine, and those of exposed transfers."""

    tiles: int
    busy: int
    exposed: int

    def around(self, cycles: int, buffering: Buffering) -> int:
        """Cycles of a step whose inner loop takes `cycles` per tile of the stage."""
        return staged_cycles(cycles * self.tiles, self.tiles, self.busy, self.exposed, buffering)


@dataclass(frozen=True)
class Spill:
    """Storages with homes in the outermost level, and the stages of steps with such operands, by step index.

    `residencies` are cached copies of them in the middle level, which replace stages.
    """

    storages: frozenset[str]
    stages: dict[int, Stage]
    residencies: tuple[Residency, ...] = ()


NOTHING = Spill(frozenset(), {})


class StageTraffic(NamedTuple):
    """Transfers of an operand through a stage in one direction: cycles of one, and their number."""

    cycles: int
    loads: int


class StageCost(NamedTuple):
    """Traffic of a step with a stage: its number of tiles, cycles of the loop inside of one, and its transfers."""

    tiles: int
    inner: int
    inward: tuple[StageTraffic, ...]
    outward: tuple[StageTraffic, ...]
    buffering: Buffering


@dataclass(frozen=True)
class InnerCost:
    """The cost of a step without spilled operands: its fewest cycles, and the cycles of its kernel calls alone for each
    combination of the stage's grid. Kernels are slower on some tiles than on others with the same work."""

    cycles: int
    kernels: Ints

    def around(self, kernels: Count, tiles: Count, target: Target) -> Count:
        """Cycles of all inner loops of a stage of so many tiles, on which the kernel calls alone take `kernels`."""
        return self.cycles + kernels - int(self.kernels.min()) + (tiles - 1) * target.step


def stage_grid(access: Access) -> Grid:
    """The tiles to try for a stage. Reductions are not split, as a sum stays in its slot until it is complete."""
    reductions = frozenset(d.name for d in access.dims if d.kind == "reduction")
    return grid_of(access, reductions, LENGTHS)


class FrontPoint(NamedTuple):
    """One way for spilled operands to pass through the level: tile, loop order, buffering, slots, bytes and cycles."""

    tile: dict[str, int]
    order: tuple[str, ...]
    buffering: Buffering
    slots: dict[str, int]
    bytes: int
    cycles: int


Fronts = dict[frozenset[int], list[FrontPoint]]
"""For each set of storages that stay in the level, the front of ways for the others to pass through it."""


class StagedStep:
    """A step some of whose operands may be spilled; it has numbers for storages, so steps of equal geometry share it.

    `places` has the storage of each operand, of which those in `eligible` may be spilled.
    """

    def __init__(self, step: Step, places: Places, eligible: frozenset[int], target: Target, fresh: bool) -> None:
        access = step.access
        grid, orders = stage_grid(access), loop_orders(access)
        named = {o.tensor: str(place) for o, place in zip(access.operands, places, strict=True)}
        spilled = [(o, place) for o, place in zip(access.operands, places, strict=True) if place in eligible]
        self.moves = [movement(step, o.arg, access, grid, orders, named, target, fresh, L_HOME) for o, _ in spilled]
        self.places = [place for _, place in spilled]
        self.target, self.loop_order_of = target, LoopOrders(access, grid, orders)
        self.counts = np.tile(grid.calls, len(orders))
        storages = sorted(eligible)
        self.masks = [frozenset(m) for r in range(len(storages)) for m in itertools.combinations(storages, r)]
        self._whole: dict[tuple[int, Buffering], list[_Whole]] = {}
        self._fronts: dict[tuple[tuple[int, Buffering], tuple[int, ...]], Fronts] = {}

    def fronts(self, inside: InnerCost, room: int, mode: Buffering) -> Fronts:
        """The Pareto fronts in `room` bytes, by the storages that stay, each thinned to LIMIT.

        What fits less room is the beginning of the front of all, so rooms in which as much fits share their fronts.
        """
        key = inside.cycles, mode
        if key not in self._whole:
            self._whole[key] = self._computed(inside, mode)
        counts = tuple(bisect.bisect_right(sizes, room) for sizes, _, _, _ in self._whole[key])
        if (key, counts) not in self._fronts:
            self._fronts[key, counts] = {
                mask: self._points(front, thinned(count, LIMIT))
                for mask, front, count in zip(self.masks, self._whole[key], counts, strict=True)
            }
        return self._fronts[key, counts]

    def _computed(self, inside: InnerCost, mode: Buffering) -> list["_Whole"]:
        """The fronts of all masks in any room."""
        computed: list[_Whole] = []
        spilled = np.array([[place not in mask for place in self.places] for mask in self.masks])
        kernels = np.tile(inside.kernels, len(self.counts) // len(inside.kernels))
        inner = inside.around(kernels, self.counts, self.target)
        slots = [m.slots(SLOTS[mode]) for m in self.moves]
        for rows in batches(len(self.masks), len(self.counts)):
            size, busy, exposed = _priced(self.moves, spilled[rows], mode, self.target)
            cycles = staged_cycles(inner, self.counts, busy, exposed, mode)
            for row, front in enumerate(fronts(size, cycles, possible(self.moves, spilled[rows]))):
                used = {
                    m.arg: n[front].tolist()
                    for m, n, out in zip(self.moves, slots, spilled[rows][row], strict=True)
                    if out
                }
                computed.append(_Whole(size[row, front].tolist(), cycles[row, front].tolist(), front.tolist(), used))
        return computed

    def _points(self, front: "_Whole", chosen: Iterable[int]) -> list[FrontPoint]:
        """Those points of a front."""
        points = []
        for at in chosen:
            slots = {arg: counts[at] for arg, counts in front.slots.items()}
            buffering: Buffering = "double" if max(slots.values()) > 1 else "single"
            points.append(
                FrontPoint(*self.loop_order_of[front.indices[at]], buffering, slots, front.bytes[at], front.cycles[at])
            )
        return points


class _Whole(NamedTuple):
    """A front in any room, in ascending order of bytes: also cycles, indices of loop orders, and slots by operand."""

    bytes: list[int]
    cycles: list[int]
    indices: list[int]
    slots: dict[str, list[int]]


def _priced(moves: list[DmaTraffic], moved: Bools, mode: Buffering, target: Target) -> tuple[Ints, Ints, Ints]:
    """Bytes of the slots, cycles of the engine, and those of the first box in and the last box out.

    Each array has a row for each row of `moved`, which says for each operand whether it moves.
    """
    hop = target.hops[L_HOME]
    starts = [m.loads * ((m.cycles_in > 0).astype(np.int64) + (m.cycles_out > 0)) for m in moves]
    size = totals(moved, [m.slot_bytes * m.slots(SLOTS[mode]) for m in moves])
    total_in = totals(moved, [m.cycles_in + n * (hop.issue + hop.wait) for m, n in zip(moves, starts, strict=True)])
    total_out = totals(moved, [m.cycles_out for m in moves])
    ends = totals(moved, [m.cycles_in // m.loads + m.cycles_out // m.loads for m in moves])
    busy = total_in + total_out if hop.shared else np.maximum(total_in, total_out)
    return size, busy if mode == "double" else total_in + total_out, np.minimum(ends, busy)


def staged_access(access: Access, stage: Stage) -> Access:
    """The access of one tile of the stage, in which the view of a staged operand is its box."""
    dims = tuple(replace(d, size=stage.tile[d.name]) for d in access.dims)
    operands = tuple(replace(o, view=box_shape(o, stage.tile)) if o.arg in stage.slots else o for o in access.operands)
    return Access(dims, operands)


def stage_estimate(
    step: Step, stage: Stage, storage_of: Mapping[str, str], target: Target, fresh: bool
) -> StageEstimate:
    """The cost of a stage, by the estimate that the solver uses."""
    moves = _moves(step, [stage], grid_at(step.access, stage.tile), storage_of, target, fresh)
    _, busy, exposed = _priced(moves, np.ones((1, len(moves)), np.bool_), stage.buffering, target)
    return StageEstimate(tile_count(step.access, stage.tile), int(busy[0, 0]), int(exposed[0, 0]))


def stage_costs(
    step: Step,
    stages: Sequence[Stage],
    inside: InnerCost,
    known: CallCosts,
    storage_of: Mapping[str, str],
    target: Target,
    fresh: bool,
) -> Iterator[StageCost]:
    """Yield the tiles, cycles and traffic of each of a step's stages; `known` are the costs of its calls."""
    grid, orders = grid_at(step.access, *(stage.tile for stage in stages)), _orders(stages)
    cycles = inside.around(kernel_totals(grid, target, known), grid.calls, target) // grid.calls
    moves = _moves(step, stages, grid, storage_of, target, fresh)
    for number, (stage, tiles, inner) in enumerate(zip(stages, grid.calls.tolist(), cycles.tolist(), strict=True)):
        at = orders.index(stage.order) * len(stages) + number
        staged = [
            (int(m.loads[at]), int(m.cycles_in[at]), int(m.cycles_out[at])) for m in moves if m.arg in stage.slots
        ]
        inward = tuple(StageTraffic(into // loads, loads) for loads, into, _ in staged if into)
        outward = tuple(StageTraffic(out // loads, loads) for loads, _, out in staged if out)
        yield StageCost(tiles, inner, inward, outward, stage.buffering)


def _moves(
    step: Step, stages: Sequence[Stage], grid: Grid, storage_of: Mapping[str, str], target: Target, fresh: bool
) -> list[DmaTraffic]:
    """The movements of operands that pass through any of the stages, whose tiles are those of the grid."""
    access, orders = step.access, _orders(stages)
    staged = [o.arg for o in access.operands if any(o.arg in stage.slots for stage in stages)]
    return [movement(step, arg, access, grid, orders, storage_of, target, fresh, L_HOME) for arg in staged]


def _orders(stages: Sequence[Stage]) -> list[tuple[str, ...]]:
    """The loop orders that stages have."""
    return list(dict.fromkeys(stage.order for stage in stages))
