"""The plan as the layer needs it, in C: argument fields, where operands' tiles lie, levels and kernels."""

from dataclasses import dataclass

from deployer.codegen.c_names import MemoryNames, memory_name
from deployer.core.kernel import Kernel
from deployer.core.operator import registry
from deployer.core.plan import Plan, PlanOperand, PlanStep
from deployer.core.target import Target
from deployer.loops.moves import copies

HAL_CALLS = (
    *(f"hal_{name}" for name in ("init", "step", "parallel", "dma_wait", "tables", "read", "write", "print")),
    *(f"hal_dma_{direction}_{form}d" for direction in ("in", "out") for form in (1, 2, 3)),
    "train_network_run",
    "optimizer_network_run",
)
"""What the layer takes the place of, besides the kernels."""


@dataclass(frozen=True)
class Region:
    """Region of an operand's tiles in the inner level of a hop; `part` is the size of one slot."""

    arg: str
    hop: int
    start: int
    bytes: int
    part: int
    reads: bool
    writes: bool


def layout(kernel: Kernel) -> str:
    """A letter per argument field, in the struct's order: p, u, i, f. Kernels of one layout are interchangeable."""
    return "p" * len(kernel.pointers) + "".join(kind[0] for _, kind in kernel.scalars)


def stand_ins(plan: Plan) -> tuple[Kernel, ...]:
    """For each of the plan's kernels the first that the plan has not, of the same layout and in plain C."""
    own = {s.kernel.symbol: s.kernel for s in plan.steps}
    all_kernels = {o.kernel.symbol: o.kernel for o in registry().values() if o.kernel}
    by_symbol: dict[str, Kernel] = {}
    for kernel in own.values():
        others = [k for name, k in sorted(all_kernels.items()) if name not in own and layout(k) == layout(kernel)]
        if others:
            by_symbol[others[0].symbol] = others[0]
    return tuple(by_symbol[symbol] for symbol in sorted(by_symbol))


def kernels(plan: Plan) -> tuple[Kernel, ...]:
    """The plan's kernels and those that stand in for them, by their number in the layer."""
    by_symbol = {k.symbol: k for k in (*(s.kernel for s in plan.steps), *stand_ins(plan))}
    return tuple(by_symbol[symbol] for symbol in sorted(by_symbol))


def regions(plan: Plan, memory: MemoryNames, step: PlanStep) -> tuple[Region, ...]:
    """The regions of a step by their number: slots of each operand, then of its stage, and copies that start in it.

    The region of a copy has the copy's name, which no operand has.
    """
    inner, between = (level.name for level in plan.levels[:2])
    rows = []
    for o in step.operands:
        if o.slots:
            rows.append(_region(o, 0, memory.address(inner, o.slot_offset), o.slots, o.slot_bytes))
        if o.stage_slots:
            rows.append(_region(o, 1, memory.address(between, o.stage_offset), o.stage_slots, o.stage_bytes))
    homes = {home.storage: home for home in plan.homes}
    for copy in (c for c in copies(plan) if c.start == step.index):
        start = memory.address(between, homes[copy.name].offset)
        rows.append(
            Region(copy.name, 1, start, copy.bytes, copy.bytes, copy.direction == "in", copy.direction == "out")
        )
    return tuple(rows)


def early(plan: Plan, memory: MemoryNames) -> list[tuple[int, int, int]]:
    """Of each first ingress that starts in an earlier step: its step, the number of its region, and that step."""
    rows = []
    for c in (c for c in plan.cross_step_transfers if c.direction == "in"):
        found = regions(plan, memory, plan.steps[c.step])
        outermost = max((r.hop, number) for number, r in enumerate(found) if r.arg == c.arg)
        rows.append((c.step, outermost[1], c.at))
    return rows


def _region(o: PlanOperand, hop: int, start: int, slots: int, size: int) -> Region:
    return Region(o.arg, hop, start, slots * size, size, o.mode != "out", o.mode != "in")


def field_names(step: PlanStep) -> tuple[str, ...]:
    """Names of the argument fields, in the struct's order."""
    return (*(p[0] for p in step.kernel.pointers), *(s[0] for s in step.kernel.scalars))


def wrap_words() -> list[str]:
    """The linker's words that put the layer in place: the same for all programs, which share objects by them."""
    symbols = sorted({o.kernel.symbol for o in registry().values() if o.kernel})
    return [f"-Wl,--wrap={name}" for name in (*HAL_CALLS, *symbols)]


def source(plan: Plan, target: Target) -> str:
    """InjectPlan.c."""
    memory, symbols = MemoryNames(plan, target), [k.symbol for k in kernels(plan)]
    lines = ['#include "inject.h"', '#include "Network.h"', "#include <stddef.h>"]
    lines += [f'#include "{symbol}.h"' for symbol in symbols]
    for symbol in symbols:
        lines += [f"void __real_{symbol}(const void *args);", f"void __wrap_{symbol}(const void *args);"]
        lines += [f"void __wrap_{symbol}(const void *args) {{", f"    __real_{symbol}(args);"]
        lines += ["    inject_after_kernel();", "}"]
    for step in plan.steps:
        lines += _tables(plan, memory, step)
    lines += ["static const inject_step_t steps[] = {"]
    for step in plan.steps:
        size, count = f"sizeof({step.kernel.symbol}_args_t)", len(regions(plan, memory, step))
        lines.append(f"    {{fields_{step.index}, {len(layout(step.kernel))}, {size}, regions_{step.index}, {count}}},")
    cells = [f"{{{step}, {region}, {at}}}" for step, region, at in early(plan, memory)]
    lines += ["};", f"static const inject_early_t early[] = {{{', '.join(cells or ['{0, 0, 0}'])}}};"]
    lines += ["static const inject_level_t levels[] = {"]
    lines += [f"    {{{memory_name(x.name)}, {memory.sizes[x.name]}}}," for x in plan.levels]
    lines += ["};", f"static const hal_kernel_t kernels[] = {{{', '.join(symbols)}}};"]
    lines += [
        "const inject_plan_t inject_plan = {"
        f"levels, {len(plan.levels)}, steps, {len(plan.steps)}, early, {len(cells)}, kernels, {len(symbols)}}};"
    ]
    return "\n".join(lines) + "\n"


def _tables(plan: Plan, memory: MemoryNames, step: PlanStep) -> list[str]:
    """The fields and regions of a step."""
    symbol = step.kernel.symbol
    lines = [f"static const inject_field_t fields_{step.index}[] = {{"]
    for name, kind in zip(field_names(step), layout(step.kernel), strict=True):
        lines.append(f"    {{\"{name}\", offsetof({symbol}_args_t, {name}), '{kind}'}},")
    cells = [f"{{{r.hop}, {r.start}, {r.bytes}, {r.reads:d}, {r.writes:d}}}" for r in regions(plan, memory, step)]
    rows = ", ".join(cells or ["{0, 0, 0, 0, 0}"])
    return [*lines, "};", f"static const inject_region_t regions_{step.index}[] = {{{rows}}};"]
