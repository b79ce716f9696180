"""Fault classes of overflows: after a kernel call the injector writes one more word, an element of floats."""

import math
import random
from collections.abc import Iterator

from deployer.core.access import Span, strides
from deployer.core.plan import PlanOperand, PlanStep

from . import printed
from .census import Place
from .fault import Action, Op, Point, Sites, fault_class
from .program import Buffer, Program, walk

POISON = 0x7FA0DEAD
"""What the simulator fills dead memory with: a signalling NaN."""
PLUS_ONE = 0


def store(
    step: PlanStep, arg: str, ordinal: int, place: Place, value: int, note: str
) -> tuple[int, str, str, tuple[Action, ...]]:
    """A site that writes one word after a call."""
    action = Action(Point.STORE, Op.SET, step.index, ordinal=ordinal, values=(*place, value))
    return step.index, arg, f"call {ordinal}: {note}", (action,)


Written = tuple[PlanStep, PlanOperand, int, Place, tuple[Span, ...]]
"""Step, operand, call, the pointer, and the box of the view that the call writes."""


def overwrites(program: Program) -> Iterator[Written]:
    """Yield the writes of every kernel call."""
    for step in program.plan.steps:
        names, tiles = printed.field_names(step), list(walk(step))
        for operand in step.operands:
            if operand.mode == "in":
                continue
            for ordinal, (call, tile) in enumerate(zip(program.census.calls(step.index), tiles, strict=True)):
                place = call.values[names.index(operand.arg)]
                box = tuple(a.span(tile, n) for a, n in zip(operand.axes, operand.view, strict=True))
                if isinstance(place, tuple) and place[0] >= 0 and all(length for _, length in box):
                    yield step, operand, ordinal, place, box


def last_byte(program: Program, operand: PlanOperand, box: tuple[Span, ...]) -> int:
    """One past the last byte of a box, from its first: packed in a slot, in rows of the tensor at home."""
    if operand.slots:
        return program.width(operand) * math.prod(length for _, length in box)
    pitches = strides(operand.view)
    return program.width(operand) * (
        1 + sum((length - 1) * pitch for (_, length), pitch in zip(box, pitches, strict=True))
    )


def beside(kind: str, before: bool, value: int) -> None:
    """Register a class that writes next to a call's own box."""

    @fault_class("overflows", kind)
    def propose(program: Program) -> Sites:
        for step, operand, ordinal, (level, offset), box in overwrites(program):
            at = offset - 4 if before else offset + last_byte(program, operand, box)
            if 0 <= at <= program.memory.sizes[program.plan.levels[level].name] - 4:
                yield store(step, operand.arg, ordinal, (level, at), value, f"{at - offset:+d} B from its tile")


beside("an element before the tile", True, PLUS_ONE)
beside("an element after the tile", False, PLUS_ONE)
beside("poison after the tile", False, POISON)


@fault_class("overflows", "inside the tensor, outside of the tile")
def inside(program: Program) -> Sites:
    """An element of the same resident tensor that belongs to another tile."""
    for step, operand, ordinal, (level, _), box in overwrites(program):
        lengths = tuple(length for _, length in box)
        if operand.slots or lengths == operand.view:
            continue
        draw = random.Random(f"{step.index} {operand.arg} {ordinal}")
        home, pitches = program.home(operand), strides(operand.view)
        for _ in range(20):
            index = tuple(draw.randrange(n) for n in operand.view)
            if not all(first <= i < first + n for i, (first, n) in zip(index, box, strict=True)):
                at = home.start + program.width(operand) * sum(i * n for i, n in zip(index, pitches, strict=True))
                yield store(step, operand.arg, ordinal, (level, at), PLUS_ONE, f"element {list(index)}")
                break


@fault_class("overflows", "inside the slot, after the tile")
def slot_tail(program: Program) -> Sites:
    """A write past the end of a tile that is shorter than its slot."""
    for step, operand, ordinal, (level, offset), box in overwrites(program):
        size = last_byte(program, operand, box)
        if operand.slots and size < operand.slot_bytes:
            yield store(step, operand.arg, ordinal, (level, offset + size), PLUS_ONE, f"+{size} B")


@fault_class("overflows", "the other slot of the operand")
def other_slot(program: Program) -> Sites:
    """The half of a double buffer that another tile holds."""
    for step, operand, ordinal, (level, offset), _ in overwrites(program):
        region = next((r for r in program.regions(step) if r.arg == operand.arg and r.hop == 0), None)
        for other in range(operand.slots):
            delta = region.start + other * region.part - offset if region else 0
            if delta:
                yield store(step, operand.arg, ordinal, (level, offset + delta), PLUS_ONE, f"slot {other}")


def behind(kind: str, staged: bool) -> None:
    """Register a class that writes where tiles of the operand come from or go to: in its home, or in its stage."""

    @fault_class("overflows", kind)
    def propose(program: Program) -> Sites:
        for step, operand, ordinal, _, _ in overwrites(program):
            draw = random.Random(f"{kind} {step.index} {operand.arg} {ordinal}")
            home, regions = program.home(operand), program.regions(step)
            spans = [(r.hop, r.start, r.bytes) for r in regions if staged and r.hop and r.arg == operand.arg]
            spans += [(home.level, home.start, home.end - home.start)] if operand.slots and not staged else []
            for level, start, size in spans:
                at = start + 4 * draw.randrange(max(size // 4, 1))
                yield store(step, operand.arg, ordinal, (level, at), PLUS_ONE, f"{at - start:+d} B")


behind("the home of an operand that has slots", staged=False)
behind("the stage of an operand", staged=True)


def into_dead(kind: str, level: int, value: int) -> None:
    """Register a class that writes where nobody has anything."""

    @fault_class("overflows", kind)
    def propose(program: Program) -> Sites:
        for step, operand, ordinal, _, _ in overwrites(program):
            draw, spans = random.Random(f"{kind} {step.index} {operand.arg} {ordinal}"), program.dead(step, level)
            start, size = draw.choice(spans)
            at = start + 4 * draw.randrange(max(size // 4, 1))
            yield store(step, operand.arg, ordinal, (level, at), value, f"L{level + 1} + {at}")


into_dead("dead bytes of L1", 0, PLUS_ONE)
into_dead("dead bytes of L2", 1, PLUS_ONE)
into_dead("poison into dead bytes of L1", 0, POISON)


def into_live(kind: str, value: int, reading: bool) -> None:
    """Register a class that writes into a buffer that the step only reads, or does not touch."""

    @fault_class("overflows", kind)
    def propose(program: Program) -> Sites:
        for step, operand, ordinal, _, _ in overwrites(program):
            draw = random.Random(f"{kind} {step.index} {operand.arg} {ordinal}")
            buffers = candidates(program, step, reading)
            if buffers:
                b = draw.choice(buffers)
                at = b.start + 4 * draw.randrange(max((b.end - b.start) // 4, 1))
                yield store(step, operand.arg, ordinal, (b.level, at), value, f"{b.name} + {at - b.start}")


def candidates(program: Program, step: PlanStep, reading: bool) -> list[Buffer]:
    """Live buffers that the step only reads, in homes and in slots, or homes that it does not touch."""
    modes = {o.storage: o.mode for o in step.operands}
    by_arg = {o.arg: o.mode for o in step.operands}
    buffers = []
    for buffer in program.live(step):
        mode = by_arg[buffer.arg] if buffer.arg else modes.get(buffer.storage)
        if (mode == "in") if reading else (mode is None):
            buffers.append(buffer)
    return buffers


into_live("a live buffer that the step does not touch", PLUS_ONE, reading=False)
into_live("a live buffer that the step only reads", PLUS_ONE, reading=True)
into_live("poison into a live buffer", POISON, reading=False)
