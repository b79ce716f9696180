"""The timeline of a pass and its update by the cost model, as a picture: a row for each step, cycles to the right."""

from itertools import accumulate

from deployer.core.plan import Plan, PlanStep
from deployer.core.safe_text import html_text
from deployer.fitting.pages.curves import legend

WIDTH, MARGIN, HEIGHT, HEAD = 1000, 190, 620, 18
"""Units of the picture; the margin has the operators' names."""
ROW, NAMED = (2.0, 15.0), 9.0
"""The least and the most that a row is high, and from which height on it has its operator's name."""
COLOURS = {
    "kernels": "#4c78a8",
    "waits for ingress": "#f58518",
    "waits for egress": "#54a24b",
    "everything else": "#bbb",
}


def timeline_section(plan: Plan) -> str:
    """Render the timeline: a summary, a legend, and the picture."""
    parts = [f"{plan.cycles(graph)} cycles of {graph}" for graph in plan.graphs]
    share = sum(sum(step.tile_cycles) for step in plan.steps) / max(sum(step.cycles for step in plan.steps), 1)
    said = f"{', '.join(parts)}, by the cost model of {plan.options.target}; kernels have {100 * share:.0f} % of them"
    return f'<p>{html_text(said)}</p>{legend(COLOURS)}<div class="wide">{_picture(plan)}</div>'


def _picture(plan: Plan) -> str:
    ends = list(accumulate(step.cycles for step in plan.steps))
    total, row = max(ends[-1] if ends else 1, 1), min(max(HEIGHT / max(len(ends), 1), ROW[0]), ROW[1])
    scale = (WIDTH - MARGIN) / total
    shapes = []
    for number, (step, end) in enumerate(zip(plan.steps, ends, strict=True)):
        top = HEAD + number * row
        label = html_text(f"{step.index} {step.op_label}: {step.cycles} cycles, {step.tiles} tiles")
        shapes.append(
            f"<g><title>{label}</title>{_bars(step, MARGIN + (end - step.cycles) * scale, top, row, scale)}</g>"
        )
        if row >= NAMED:
            place = f'x="{MARGIN - 6}" y="{top + row - 3.5:.1f}" text-anchor="end"'
            shapes.append(f"<text {place}>{html_text(step.op_label)}</text>")
        if number and step.graph != plan.steps[number - 1].graph:
            line = f'x1="0" x2="{WIDTH}" y1="{top:.1f}" y2="{top:.1f}"'
            shapes.append(f'<line {line} stroke="#888" stroke-dasharray="4 3"/>')
    box = f'class="steps" viewBox="0 0 {WIDTH + 4} {HEAD + len(ends) * row + 4:.0f}" role="img"'
    heads = [f'<text x="{MARGIN}" y="12">0</text>', f'<text x="{WIDTH}" y="12" text-anchor="end">{total}</text>']
    return f"<svg {box}><title>Timeline of a pass</title>{''.join([*heads, *shapes])}</svg>"


def _bars(step: PlanStep, left: float, top: float, row: float, scale: float) -> str:
    """The step's share of each kind of cycles, side by side: how they alternate is not shown."""
    known = [sum(step.tile_cycles), sum(step.timeline.ingress_wait), sum(step.timeline.egress_wait)]
    bars = []
    for cycles, colour in zip([*known, max(step.cycles - sum(known), 0)], COLOURS.values(), strict=True):
        size = f'width="{max(cycles * scale, 0.3):.2f}" height="{row:.2f}"'
        bars += [f'<rect x="{left:.2f}" y="{top:.2f}" {size} fill="{colour}"/>'] if cycles else []
        left += cycles * scale
    return "".join(bars)
