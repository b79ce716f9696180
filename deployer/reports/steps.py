"""Steps of a plan: their timeline by the cost model, with a row and a name for each, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from deployer.codegen.step_comment import tile_text
from deployer.core.plan import Plan, PlanStep
from deployer.core.safe_text import html_text
from deployer.reports.html import legend
from deployer.reports.plot import framed, linear

ROW, HEAD = 17, 20
"""Pixels of a row, and of the numbers above the first one."""
COLOURS = {"c0": "kernels", "c1": "waits for ingress", "c2": "waits for egress", "c4": "everything else"}
STEP_HEADINGS = ("step", "operator", "tile of whole", "tiles", "buffering", "DMA in", "DMA out", "cycles")


@dataclass(frozen=True)
class StepTime:
    """Predicted cycles of a step: of its kernels, of waits for transfers, and all of them."""

    step: int
    name: str
    operator: str
    graph: str
    tiles: int
    kernels: int
    ingress_wait: int
    egress_wait: int
    cycles: int

    @property
    def shares(self) -> tuple[int, ...]:
        """Cycles of each kind, in the order of the colours."""
        known = (self.kernels, self.ingress_wait, self.egress_wait)
        return (*known, max(self.cycles - sum(known), 0))


def timeline_of(plan: Plan) -> tuple[StepTime, ...]:
    """The steps in the order of their execution."""
    return tuple(
        StepTime(
            step.index,
            step.name,
            step.op_label,
            step.graph,
            step.tiles,
            sum(step.tile_cycles),
            sum(step.timeline.ingress_wait),
            sum(step.timeline.egress_wait),
            step.cycles,
        )
        for step in plan.steps
    )


def timeline(rows: Sequence[StepTime], target: str) -> str:
    """The timeline: a summary, a legend, and a row for each step."""
    totals: dict[str, int] = {}
    for row in rows:
        totals[row.graph] = totals.get(row.graph, 0) + row.cycles
    share = sum(row.kernels for row in rows) / max(sum(row.cycles for row in rows), 1)
    texts = [f"{cycles} cycles of {graph}" for graph, cycles in totals.items()]
    said = f"{', '.join(texts)}, by the cost model of {target}; kernels have {100 * share:.0f} % of them"
    return f"<p>{html_text(said)}</p>{legend(COLOURS)}{_picture(rows)}"


def _picture(rows: Sequence[StepTime]) -> str:
    ends = list(accumulate(row.cycles for row in rows))
    total = max(ends[-1] if ends else 1, 1)
    names, shapes = [], [_numbers(total)]
    for number, (row, end) in enumerate(zip(rows, ends, strict=True)):
        top = HEAD + number * ROW
        label = html_text(f"{row.step} {row.name} ({row.operator}): {row.cycles} cycles, {row.tiles} tiles")
        names.append(_name(row.name or row.operator, top + 13, label))
        shapes.append(f"<g><title>{label}</title>{_bars(row, end - row.cycles, top, total)}</g>")
        if number and row.graph != rows[number - 1].graph:
            shapes.append(f'<line class="limit" x1="0" x2="100%" y1="{top}" y2="{top}"/>')
    title = "Timeline of a pass: cycles to the right, a row for each step"
    picture = framed(title, "".join(names), "".join(shapes), HEAD + len(rows) * ROW, "named")
    return f'<div class="tall">{picture}</div><p class="soft">cycles to the right, a row for each step</p>'


WIDTHS = {"long": 28, "short": 16}
"""Characters of a step's name, by the class of pages on which it is shown."""


def _name(name: str, y: int, label: str) -> str:
    """A step's name with its full text as a title; a long one loses its middle, since steps differ at the ends."""
    shown = {kind: _within(name, longest) for kind, longest in WIDTHS.items()}
    kinds = [""] if len({*shown.values()}) == 1 else list(shown)
    classes = {kind: f' class="{kind}"' if kind else "" for kind in kinds}
    return "".join(
        f'<text{classes[kind]} x="0" y="{y}">{html_text(shown.get(kind, name))}<title>{label}</title></text>'
        for kind in kinds
    )


def _within(name: str, longest: int) -> str:
    """The name in so many characters, without its middle."""
    begin = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:begin]}…{name[begin + 1 - longest :]}"


def _numbers(total: int) -> str:
    axis = linear(0.0, float(total), False)
    every = [(axis.share(number), f"{number:,.0f}") for number, _ in axis.numbers[:: max(len(axis.numbers) // 2, 1)]]
    anchors = ["start" if share < 0.1 else "end" if share > 0.9 else "middle" for share, _ in every]
    return "".join(
        f'<text class="axis" x="{100 * share:.2f}%" y="13" text-anchor="{anchor}">{text}</text>'
        for (share, text), anchor in zip(every, anchors, strict=True)
    )


def _bars(row: StepTime, begin: int, top: int, total: int) -> str:
    """The step's share of each kind of cycles, side by side: how they alternate is not shown."""
    bars = []
    for cycles, kind in zip(row.shares, COLOURS, strict=True):
        place = f'x="{100 * begin / total:.3f}%" y="{top + 2}"'
        size = f'width="{max(100 * cycles / total, 0.05):.3f}%" height="{ROW - 4}"'
        bars += [f'<rect class="{kind}" {place} {size}/>'] if cycles else []
        begin += cycles
    return "".join(bars)


def step_cells(step: PlanStep) -> tuple[str, ...]:
    """A step's row: index, operator, tile, tiles, buffering, bytes in and out, predicted cycles."""
    numbers = (step.tiles, step.buffering, step.bytes_in, step.bytes_out, step.cycles)
    return str(step.index), step.op_label, tile_text(step), *map(str, numbers)
