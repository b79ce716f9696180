"""Comparison of the resources that a model's training needs with those that a board has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deployer.sizing.boards import Board, BoardMemory
from deployer.sizing.needs import CaseNeeds, CoreNeeds, TargetNeeds

UNITS = 1000
"""MHz are cycles per microsecond; a millisecond has so many."""


@dataclass(frozen=True)
class Footprint:
    """Row of a board: bytes needed and bytes available; None if unknown.

    `place` is the memory of the struct. `instructions` and `update_instructions` are the emulator's of a pass and an
    update, never cycles; `cycles` and `update_cycles` are predicted by a target's cost model. `least_ms` is what a pass
    and its update take if the core begins as many instructions in each cycle as it can, `least_uj` their energy then.
    `lacking` says why it does not fit, `unknown` what was not counted.
    """

    board: str
    title: str
    source: str
    memory: int
    memory_of: int
    place: str
    flash: int
    flash_of: int
    stack: int | None
    instructions: int | None
    update_instructions: int | None
    cycles: int | None
    update_cycles: int | None
    least_ms: float | None
    least_uj: float | None
    lacking: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether all that is known fits."""
        return not self.lacking


def fit_board(board: Board, needs: CaseNeeds, counted: bool = True) -> Footprint:
    """The row of a board; instructions are there only if they are to be `counted`."""
    if board.target is not None:
        return _on_target(board, needs.on_target(board.target))
    assert board.core is not None, "a board has a core where it has no target"
    return _on_core(board, needs.memory, needs.constants, needs.on_core(board.core, counted))


def _on_core(board: Board, memory: int, constants: int, core: CoreNeeds) -> Footprint:
    place, lacking = _placed(board.memories, memory, core.stack or 0)
    flash = constants + (core.code or 0)
    if flash > board.flash:
        lacking = [*lacking, f"flash: {flash - board.flash} B too many"]
    unknown = ["code"] * (core.code is None) + ["stack"] * (core.stack is None)
    unknown += ["instructions"] * (core.train is None)
    least = energy = None
    if core.train is not None and board.core is not None:
        count = core.train + (core.update or 0)
        least = count / (board.core.issue * board.mhz * UNITS)
        energy = least * board.energy.milliamperes * board.energy.volts if board.energy else None
    return Footprint(
        board=board.stem,
        title=board.name,
        source=board.source,
        memory=memory,
        memory_of=place.bytes,
        place=place.name,
        flash=flash,
        flash_of=board.flash,
        stack=core.stack,
        instructions=core.train,
        update_instructions=core.update,
        cycles=None,
        update_cycles=None,
        least_ms=least,
        least_uj=energy,
        lacking=tuple(lacking),
        unknown=tuple(unknown),
    )


def _placed(memories: Sequence[BoardMemory], needed: int, stack: int) -> tuple[BoardMemory, list[str]]:
    """The largest memory that holds the struct and leaves room for the stack, there or in another; what is lacking."""
    for place in memories:
        left = place.bytes - needed
        if left >= stack or (left >= 0 and any(other.bytes >= stack for other in memories if other != place)):
            return place, []
    largest = memories[0]
    over = needed - largest.bytes if needed > largest.bytes else needed + stack - largest.bytes
    return largest, [f"memory: {over} B too many for {largest.name}"]


def _on_target(board: Board, target: TargetNeeds) -> Footprint:
    """A machine with several levels: each has its plan's peak; the outermost is the row's memory."""
    assert board.target is not None
    levels: Iterable[tuple[str, int, int]] = target.levels or ((board.target.levels[-1].name, 0, 0),)
    names = ", ".join(f"{name} {peak} of {budget}" for name, peak, budget in target.levels)
    planned = not target.lacking
    return Footprint(
        board=board.stem,
        title=board.name,
        source=board.source,
        memory=sum(peak for _, peak, _ in levels),
        memory_of=sum(budget for _, _, budget in levels),
        place=names,
        flash=0,
        flash_of=0,
        stack=None,
        instructions=None,
        update_instructions=None,
        cycles=target.train if planned else None,
        update_cycles=target.update if planned else None,
        least_ms=None,
        least_uj=None,
        lacking=(target.lacking,) if target.lacking else (),
        unknown=("code", "stack"),
    )
