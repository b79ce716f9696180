"""Memory layout of a library: a struct, packed anew without frozen tensors, and constants for the frozen ones.

A plan of one memory has constants among its tensors, as its program loads them. A library's are in flash already: the
struct has the other tensors alone, with the lifetimes that they have in the plan.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployer.core.cost import rounded
from deployer.core.errors import PlacementInfeasible, one_of
from deployer.core.ir import Program, TensorType
from deployer.core.level import L_INNER
from deployer.core.plan import Home, Plan, target_of
from deployer.firmware.state import WORD, words_of
from deployer.tilers.addresses.placement import Item, place

FROZEN = 1 << 30
"""The first place among the constants, in words; a struct has fewer."""


@dataclass(frozen=True)
class MemoryLayout:
    """Places of tensors and length of a struct, in words; `frozen` ones follow each other from `FROZEN` on.

    Those `beside` the plan's, which no step reads or writes, are at the struct's end.
    """

    places: Mapping[str, int]
    words: int
    frozen: tuple[Home, ...]
    beside: tuple[Home, ...] = ()

    @property
    def frozen_words(self) -> int:
        """Words of the constants."""
        return sum(map(words_of, self.frozen))


def memory_layout(
    plan: Plan, program: Program, budget: int, beside: Sequence[tuple[str, TensorType]] = ()
) -> MemoryLayout:
    """The layout of a plan of one memory with tensors `beside` its own, by names and types in whole words.

    PlacementInfeasible where its struct takes more than `budget` bytes.
    """
    writable, more = _writable(plan), sum(kind.bytes for _, kind in beside)
    frozen, inside = list[Home](), list[Home]()
    for home in plan.homes:
        is_frozen = program.tensors[home.storage].role == "constant" and home.storage not in writable
        (frozen if is_frozen else inside).append(home)
    offsets, height = _packed(plan, inside, budget)
    if height + more > budget:
        level = plan.levels[L_INNER]
        largest = sorted(inside, key=lambda home: (-home.bytes, home.storage))[:3]
        facts = [("needed", f"{height + more} B"), ("available", f"{budget} B")]
        facts.append(("largest", ", ".join(f"{home.storage} {home.bytes} B" for home in largest)))
        facts += [("of that beside the plan", f"{more} B: " + ", ".join(name for name, _ in beside))] if more else []
        cause = f"the tensors do not fit {level.name} of target {plan.options.target!r}"
        target = target_of(plan.options)
        hint = one_of(
            *target.larger(target.level(level.name), height + more),
            "fewer trainable weights" if plan.weights else "a smaller model",
        )
        raise PlacementInfeasible(cause, facts, hint)
    places = {storage: offset // WORD for storage, offset in offsets.items()}
    following = FROZEN
    for home in frozen:
        places[home.storage] = following
        following += words_of(home)
    added = tuple(_beside(plan, beside, height))
    places |= {home.storage: home.offset // WORD for home in added}
    return MemoryLayout(places, (height + more) // WORD, tuple(frozen), added)


def _beside(plan: Plan, tensors: Sequence[tuple[str, TensorType]], at: int) -> Iterator[Home]:
    """The homes of tensors one behind the other, from a byte of the struct on."""
    level, last = plan.levels[L_INNER].name, len(plan.steps) - 1
    for name, kind in tensors:
        yield Home(name, kind, level, at, kind.bytes, 0, last, loaded=False, persistent=True)
        at += kind.bytes


def _writable(plan: Plan) -> set[str]:
    """The tensors that steps write, or to which their kernels have pointers by which they might."""
    return {
        operand.storage
        for step in plan.steps
        for operand in step.operands
        if operand.mode != "in" or any(written for arg, _, written in step.kernel.pointers if arg == operand.arg)
    }


def _packed(plan: Plan, homes: list[Home], budget: int) -> tuple[dict[str, int], int]:
    """Offset of each home, and the bytes of all: the plan's, where all of its tensors stay."""
    if len(homes) == len(plan.homes):
        base = plan.table_bytes
        return {home.storage: home.offset - base for home in homes}, plan.levels[L_INNER].peak - base
    alignment = target_of(plan.options).alignment
    items = [Item(home.storage, rounded(home.bytes, alignment), home.first, home.last) for home in homes]
    placement = place(items, budget, alignment)
    return placement.offsets, placement.height
