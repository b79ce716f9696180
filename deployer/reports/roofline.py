"""Roofline of a plan's kernels: operations per byte and per cycle by the cost model, below the target's bounds."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.cost import phases
from deployer.core.ir import Program
from deployer.core.kernel import Work
from deployer.core.level import L_INNER
from deployer.core.operator import operator_of
from deployer.core.plan import Plan, PlanStep, target_of
from deployer.core.safe_text import html_text
from deployer.core.target import Target
from deployer.reports.html import count_text, table
from deployer.reports.plot import PlotAxis, down, framed, number_below, powers, upright

HEIGHT, LISTED = 280, 20
"""Pixels of the picture, and the most kernels in it and in the table: those with the most cycles."""
RADIUS = 9
"""Pixels of a kernel's circle, which holds its number."""


@dataclass(frozen=True)
class KernelLoad:
    """The steps of a kernel: multiply-accumulates, all operations with these, bytes moved, and cycles."""

    kernel: str
    steps: int
    macs: int
    operations: int
    bytes: int
    cycles: int

    @property
    def intensity(self) -> float:
        """Operations per byte; infinite where no byte is moved."""
        return self.operations / self.bytes if self.bytes else math.inf

    @property
    def rate(self) -> float:
        """Operations per cycle."""
        return self.operations / max(self.cycles, 1)


@dataclass(frozen=True)
class Roofline:
    """Kernels in the order of their cycles, and the target's bounds.

    `peak` are multiply-accumulates per cycle of all cores in the cheapest kernel of the target. `bandwidth` are bytes
    per cycle of the DMA engine next to the kernels; None where there is none, and bytes are then those of operands.
    """

    target: str
    peak: float
    bandwidth: float | None
    kernels: tuple[KernelLoad, ...]

    def bound(self, intensity: float) -> float:
        """The most operations per cycle."""
        return self.peak if self.bandwidth is None else min(self.peak, intensity * self.bandwidth)


def roofline_of(plan: Plan, fused: Program) -> Roofline:
    """The roofline of a plan; `fused` is the program whose nodes are its steps."""
    target = target_of(plan.options)
    nodes = {node.name: node for node in fused.nodes}
    types = {name: tensor.type for name, tensor in fused.tensors.items()}
    grouped = defaultdict[str, list[tuple[PlanStep, Work]]](list)
    for step in plan.steps:
        node = nodes[step.name]
        access = operator_of(node).access(node, types)
        work = operator_of(node).work(node, access, access.sizes, target.kernel_model)
        grouped[step.function].append((step, work))
    loads = [_load(kernel, pairs, bool(target.hops)) for kernel, pairs in grouped.items()]
    ordered = tuple(sorted(loads, key=lambda load: (-load.cycles, load.kernel)))
    costs = [cost.mac_milli for cost in target.kernels.values() if cost.mac_milli]
    return Roofline(target.name, 1000 * target.cores / min(costs, default=1000), _bandwidth(target), ordered)


def _bandwidth(target: Target) -> float | None:
    for hop in target.hops[L_INNER : L_INNER + 1]:
        return 1000 / max(hop.inward.byte_milli, 1)
    return None


def _load(kernel: str, pairs: Sequence[tuple[PlanStep, Work]], moves: bool) -> KernelLoad:
    macs = sum(phase.macs for _, work in pairs for phase in phases(work))
    others = sum(phase.elements for _, work in pairs for phase in phases(work))
    steps = [step for step, _ in pairs]
    moved = sum(step.bytes_in + step.bytes_out if moves else _operand_bytes(step) for step in steps)
    return KernelLoad(kernel, len(steps), macs, macs + others, moved, sum(step.cycles for step in steps))


def _operand_bytes(step: PlanStep) -> int:
    return sum(math.prod(o.view) * step.kernel.element_bytes(o.arg) for o in step.operands)


def roofline(found: Roofline) -> str:
    """The picture with a numbered circle for each kernel, and its table."""
    shown = found.kernels[:LISTED]
    moved = "bytes that the DMA engine moves" if found.bandwidth else "bytes of operands"
    lines = [f"{found.peak:.4g} multiply-accumulates per cycle at most, in the cheapest kernel of {found.target}"]
    lines += [f"{found.bandwidth:.4g} bytes per cycle from the next memory"] if found.bandwidth else []
    said = f"Bounds: {', '.join(lines)}. Operations are multiply-accumulates and others on elements; {moved} count."
    heads = ("", "kernel", "steps", "MACs", "operations", "bytes", "op/B", "cycles", "op/cycle", "of bound", "limit")
    rows = [_row(number, load, found) for number, load in enumerate(shown, 1)]
    more = len(found.kernels) - len(shown)
    note = f'<p class="soft">{more} more kernels have fewer cycles.</p>' if more else ""
    return f"<p>{html_text(said)}</p>{_picture(found, shown)}{table(heads, rows)}{note}"


def _row(number: int, load: KernelLoad, found: Roofline) -> tuple[str, ...]:
    bound = found.bound(load.intensity)
    limit = "compute" if bound >= found.peak else "transfers"
    return (
        str(number),
        load.kernel,
        str(load.steps),
        count_text(load.macs),
        count_text(load.operations),
        count_text(load.bytes),
        f"{load.intensity:.3g}" if load.bytes else "no transfer",
        count_text(load.cycles),
        f"{load.rate:.3g}",
        f"{100 * load.rate / bound:.0f} %" if bound else "",
        limit,
    )


def _picture(found: Roofline, shown: Sequence[KernelLoad]) -> str:
    usual = [(load.intensity, load.rate) for load in shown if load.operations and load.bytes]
    apart = any(load.operations and not load.bytes for load in shown)
    rates = [load.rate for load in shown if load.operations]
    if not rates:
        return "<p>No kernel has operations to show.</p>"
    ridge = found.peak / found.bandwidth if found.bandwidth else 1.0
    across = powers(min([ridge, *(x for x, _ in usual)]) / 1.5, max([ridge, *(x for x, _ in usual)]) * 1.5)
    axis = powers(min([found.peak, *rates]), max([found.peak, *rates]) * 1.2)
    width = 0.88 if apart else 1.0
    shapes = [*_grid(axis, across, width), *_roofs(found, axis, across, width)]
    for number, load in reversed(list(enumerate(shown, 1))):
        if load.operations:
            x = width * across.place(load.intensity) if load.bytes else (1 + width) / 2
            shapes.append(_circle(number, load, x, down(axis.place(load.rate), HEIGHT)))
    if apart:
        shapes.append(number_below(1.0, "no DMA", HEIGHT))
    title = "Roofline: operations per byte to the right, operations per cycle upwards"
    caption = "operations per byte to the right, operations per cycle upwards; both by powers of ten"
    return framed(title, upright(axis, HEIGHT), "".join(shapes), HEIGHT) + f'<p class="soft">{caption}</p>'


def _grid(axis: PlotAxis, across: PlotAxis, width: float) -> list[str]:
    rows = [(down(axis.share(number), HEIGHT)) for number, _ in axis.numbers]
    columns = [(100 * width * across.share(number), text) for number, text in across.numbers]
    lines = [f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>' for y in rows]
    top, foot = down(1, HEIGHT), down(0, HEIGHT)
    lines += [f'<line class="grid" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top}" y2="{foot}"/>' for x, _ in columns]
    return lines + [number_below(x / 100, text, HEIGHT) for x, text in columns if width == 1 or x < 100 * width - 6]


def _roofs(found: Roofline, axis: PlotAxis, across: PlotAxis, width: float) -> list[str]:
    """The bounds as lines: by transfers, which rises, and by computing, which is level."""
    peak, left = down(axis.place(found.peak), HEIGHT), 0.0
    lines = []
    if found.bandwidth:
        lowest = max(10.0**across.low, 10.0**axis.low / found.bandwidth)
        start, left = width * across.place(lowest), width * across.place(found.peak / found.bandwidth)
        y = down(axis.place(lowest * found.bandwidth), HEIGHT)
        lines.append(
            f'<line class="roof" x1="{100 * start:.2f}%" y1="{y:.1f}" x2="{100 * left:.2f}%" y2="{peak:.1f}"/>'
        )
    return [*lines, f'<line class="roof" x1="{100 * left:.2f}%" x2="100%" y1="{peak:.1f}" y2="{peak:.1f}"/>']


def _circle(number: int, load: KernelLoad, x: float, y: float) -> str:
    label = html_text(f"{load.kernel}: {load.rate:.3g} operations per cycle, {load.cycles} cycles")
    place = f'x="{100 * x:.2f}%" y="{y + 4:.1f}" text-anchor="middle"'
    circle = f'<circle class="c0" cx="{100 * x:.2f}%" cy="{y:.1f}" r="{RADIUS}"/>'
    return f'<g><title>{label}</title>{circle}<text class="on" {place}>{number}</text></g>'
