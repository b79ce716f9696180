"""Lowering: the loop program of a step of the plan, with the order of all transfers, waits and slot rotations.

A single-buffered loop fetches, waits, computes, stores and waits, tile by tile. A double-buffered loop fetches one tile
ahead: it starts the ingress of the next box, waits for the current one and computes it, and waits for the egress of a
slot before it fills the slot again. A staged step has a loop over the tiles of its stage around the loop over tiles.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from deployer.core.kernel import Const
from deployer.core.plan import Buffering, PlanOperand, PlanStep
from deployer.expressions.tree import Expr, Number, Tree, variables
from deployer.expressions.words import add, word
from deployer.loops.leaves import HomeExpr, SlotExpr
from deployer.loops.loop_program import (
    Arguments,
    ArgumentTable,
    AssignStmt,
    Block,
    CallStmt,
    Declare,
    Done,
    Fetch,
    Group,
    GroupSize,
    Let,
    LoopProgram,
    LoopStmt,
    StartStmt,
    Statement,
    Tickets,
)
from deployer.loops.moves import (
    DoubleMoves,
    Guarded,
    Opens,
    Port,
    SingleMoves,
    grouped,
    home_of,
    tile_count,
    tile_counter,
)
from deployer.loops.tile_loop import FLAG, FirstTile, TileLoop


def lower(step: PlanStep, fetched: int = 0, shared: int | None = None, opens: Opens = frozenset()) -> LoopProgram:
    """The loop program of a step, which begins with the fetch of that many bytes of argument tables, if any.

    If its table is `shared`, the one of the step with that number, it sets all of its addresses itself: those that no
    tile changes first of all. `opens` are the transfers whose ends its graph handles.
    """
    stage = TileLoop(step, "stage_", staged=True) if step.staging else None
    loop = TileLoop(step, outer=stage)
    fixed, varying = _arguments(step, loop)
    table, kernel = ArgumentTable(step.index if shared is None else shared), step.kernel.symbol
    own = [(name, value) for name, value in fixed if shared is not None and has_address(value)]
    first = (Arguments(kernel, table),) if varying and not own else ()
    call = Block((*(AssignStmt(name, value) for name, value in varying), CallStmt(step.function, table)))
    ahead = TileLoop(step, "next_", outer=stage)
    port = Port(step, staged=bool(step.staging), opens=opens)
    body = _loop(Port(step, staged=False) if stage else port, step.buffering, loop, ahead, first, call)
    if stage and step.staging:
        coming = TileLoop(step, "coming_", staged=True)
        body = _loop(port, step.staging.buffering, stage, coming, (), body)
    if fetched:
        body = Block((Fetch(Group(step.index), GroupSize(step.index, fetched)), *body.body))
    if own:
        body = Block((Arguments(kernel, table), *(AssignStmt(name, value) for name, value in own), *body.body))
        fixed = tuple(item for item in fixed if item not in own)
    storages = tuple((o.arg, o.storage) for o in step.operands)
    starts, lasts = _starts(port), _lasts(port, stage or loop)
    return LoopProgram(
        step.index, step.op_label, step.name, step.kernel, table.step, storages, fixed, body, starts, lasts
    )


def _starts(port: Port) -> tuple[StartStmt, ...]:
    """The first fetches, where the graph makes them."""
    tile, starts = FirstTile(port.step, port.staged), []
    for o in port.moved():
        if o.mode != "out" and port.opened(o, "in"):
            transfer = port.transfer(tile, o, "in")
            value = word("choose", FLAG, Done(), transfer) if o.overwrite_on_first_pass else transfer
            starts.append(StartStmt(port.first(o), value))
    return tuple(starts)


def _lasts(port: Port, loop: TileLoop) -> tuple[tuple[str, int], ...]:
    """Names and numbers of the tickets of last egresses, where the graph waits for them."""
    staging = port.step.staging
    double = (staging.buffering if staging else port.step.buffering) == "double" and loop.split
    written = [o for o in port.moved() if o.mode != "in" and port.opened(o, "out")]
    return tuple((port.last(o).name, port.slots(o) if double else 1) for o in written)


def has_address(value: Expr) -> bool:
    """Whether the value is an address of a home or slot."""
    return isinstance(value, Tree) and any(isinstance(node, (HomeExpr, SlotExpr)) for node in value.walk())


def _loop(
    port: Port, buffering: Buffering, loop: TileLoop, ahead: TileLoop, first: tuple[Statement, ...], inside: Block
) -> Block:
    """The loop over the tiles of one hop around `inside`, with all transfers; no loop where there is only one tile."""
    moved = port.moved()

    def of_all(phase: Callable[[PlanOperand], list[Guarded]]) -> list[Statement]:
        return grouped(pair for o in moved for pair in phase(o))

    if buffering == "double" and loop.split:
        return _double(port, loop, ahead, first, inside, of_all)
    moves = SingleMoves(port, loop)
    fetch, leave = of_all(moves.fetch), of_all(moves.leave)
    each = [*fetch, *of_all(moves.arrive), inside, *leave, *of_all(moves.settle)]
    if not loop.split:
        return Block((*first, *each))
    total, count = tile_count(port, loop)
    lengths = _definitions(loop.lengths(), [inside, *leave, *fetch])
    declared = _declared(loop.coordinates())
    body = LoopStmt(tile_counter(port, "tile"), count, (), (*lengths, *each, *loop.advance()))
    return Block((*total, *first, *declared, body))


def _double(
    port: Port,
    loop: TileLoop,
    ahead: TileLoop,
    first: tuple[Statement, ...],
    inside: Block,
    of_all: Callable[[Callable[[PlanOperand], list[Guarded]]], list[Statement]],
) -> Block:
    """The double-buffered loop; without ingress it has no statements that run ahead."""
    moves = DoubleMoves(port, loop, ahead)
    fetch, leave = of_all(moves.fetch), of_all(moves.leave)
    each = [*of_all(moves.arrive), inside, *leave, *of_all(moves.advance), *loop.advance()]
    work = [*_definitions(loop.lengths(), [inside, *leave]), *each]
    names = variables(tuple(fetch))
    runs_ahead = any(name.startswith(ahead.prefix) for name in names)
    coordinates = loop.coordinates() | (ahead.coordinates() if runs_ahead else {})
    arrays = moves.arrays()
    total, count = tile_count(port, loop)
    declared: list[Statement] = [
        *total,
        *first,
        *_declared(coordinates | moves.numbers()),
        *([Tickets(arrays)] if arrays else []),
    ]
    fetching = [*_definitions(ahead.lengths(), fetch), *fetch, *ahead.advance()] if runs_ahead else fetch
    counter = tile_counter(port, "iter" if fetching else "tile")
    return Block((*declared, LoopStmt(counter, count, tuple(fetching), tuple(work)), *of_all(moves.drain)))


def _declared(first: dict[str, Expr]) -> list[Statement]:
    return [Declare(tuple(first), tuple(first.values()))] if first else []


def _definitions(lengths: Sequence[Let], statements: Sequence[Statement]) -> list[Statement]:
    """The definitions of the variables that the statements use, and of those that these definitions use."""
    names, lets = variables(tuple(statements)), list[Statement]()
    for let in reversed(lengths):
        if let.name in names:
            lets.insert(0, let)
            names |= variables(let)
    return lets


def _arguments(step: PlanStep, loop: TileLoop) -> tuple[tuple[tuple[str, Expr], ...], list[tuple[str, Expr]]]:
    """The arguments that are constant and not zero, and those that change from tile to tile or pass to pass."""
    fixed, varying = list[tuple[str, Expr]](), list[tuple[str, Expr]]()
    for name, value, constant in (*_pointers(step, loop), *_scalars(step, loop)):
        if not constant:
            varying.append((name, value))
        elif not _is_zero(value):
            fixed.append((name, value))
    return tuple(fixed), varying


def _is_zero(value: Expr) -> bool:
    """Whether the value has only zero bits, as a cleared table has; -0.0 has its sign bit set."""
    if isinstance(value, Number):
        nearest = np.float32(value.value)
        return bool(nearest == 0 and not np.signbit(nearest))
    return value == 0


def _pointers(step: PlanStep, loop: TileLoop) -> Iterator[tuple[str, Expr, bool]]:
    """For each pointer argument its name, its address, and whether that is the same for all tiles."""
    operands = {o.arg: o for o in step.operands}
    for name, _, _ in step.kernel.pointers:
        operand = operands.get(name)
        if operand is None:
            continue
        if operand.slots == 0:
            offset = loop.element(operand)
            yield name, add(home_of(step, operand), offset), isinstance(offset, int)
        else:
            yield name, Port(step, staged=False).slot(operand, "use"), operand.slots == 1


def _scalars(step: PlanStep, loop: TileLoop) -> Iterator[tuple[str, Expr, bool]]:
    """For each scalar argument its name, its value, and whether that is the same for all tiles."""
    for name, _ in step.kernel.scalars:
        value = loop.argument(step.args[name])
        yield name, value, isinstance(step.args[name], Const) or isinstance(value, int)
