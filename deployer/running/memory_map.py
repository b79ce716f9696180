"""The memory map as one HTML file: time to the right, addresses upwards, a rectangle per buffer; works offline."""

from deployer.core.level import L_INNER, LevelUse
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import html_text
from deployer.loops.moves import slot_life
from deployer.tilers.levels.tables import fetched_bytes, group_spans

WIDTH, HEIGHT, MARGIN = 1100, 420, 60
COLOURS = {"persistent": "#4c78a8", "value": "#f58518", "slot": "#54a24b", "tables": "#b279a2"}


def memory_map(plan: Plan) -> str:
    """The whole page."""
    style = "body{font:14px sans-serif;margin:2em} rect{stroke:#fff;stroke-width:.5} rect:hover{stroke:#000}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Memory map</title>'
        f"<style>{style}</style></head>\n<body><h1>Memory map</h1>{memory_sections(plan)}\n</body></html>\n"
    )


def memory_sections(plan: Plan) -> str:
    """A section per level: buffers with their lifetimes, hover shows the name, a line marks the budget."""
    body = "\n".join(_level(plan, level) for level in plan.levels)
    legend = " ".join(f'<span style="color:{c}">&#9632; {html_text(k)}</span>' for k, c in COLOURS.items())
    return f"<p>{legend}</p>\n{body}"


def _level(plan: Plan, level: LevelUse) -> str:
    steps = max(len(plan.steps), 1)
    top = max(level.budget if level.peak * 4 > level.budget else level.peak, 1)
    x = (WIDTH - MARGIN) / steps
    y = HEIGHT / top
    shapes = []
    for name, kind, offset, size, first, last in _buffers(plan, level):
        left, width = MARGIN + first * x, (last - first + 1) * x
        place = f'x="{left:.1f}" y="{HEIGHT - (offset + size) * y:.2f}"'
        extent = f'width="{width:.1f}" height="{max(size * y, 0.5):.2f}"'
        title = html_text(f"{name}: {size} B at {offset}, steps {first}..{last}")
        shapes.append(f'<rect {place} {extent} fill="{COLOURS[kind]}"><title>{title}</title></rect>')
    line = HEIGHT - level.budget * y
    if line >= 0:
        ends = f'x1="{MARGIN}" x2="{WIDTH}" y1="{line:.1f}" y2="{line:.1f}"'
        shapes.append(f'<line {ends} stroke="red" stroke-dasharray="6 3"/>')
    for share in (0, 0.25, 0.5, 0.75, 1):
        at = HEIGHT - top * share * y + 4
        text = f'x="{MARGIN - 4}" y="{at:.0f}" text-anchor="end" font-size="11"'
        shapes.append(f"<text {text}>{int(top * share)}</text>")
    gap = level.peak - level.bound
    share_of_bound = 100 * gap / max(level.bound, 1)
    facts = (
        f"peak {level.peak} B of {level.budget} B, lower bound {level.bound} B, gap {gap} B ({share_of_bound:.1f} %)"
    )
    return (
        f"<h2>{html_text(level.name)}</h2><p>{facts}; steps 0 to {steps - 1}</p>"
        f'<svg viewBox="0 -10 {WIDTH} {HEIGHT + 20}" width="100%" role="img">{"".join(shapes)}</svg>'
    )


def _buffers(plan: Plan, level: LevelUse) -> list[tuple[str, str, int, int, int, int]]:
    """(name, kind, offset, bytes, first, last) of everything that lies in a level."""
    last = len(plan.steps) - 1
    rows = []
    number, fetched = plan.levels.index(level), fetched_bytes(plan.groups, plan.steps, target_of(plan.options))
    if number == L_INNER and plan.table_bytes and not plan.groups:
        rows.append(("argument tables", "tables", 0, plan.table_bytes, 0, last))
    for span in group_spans(plan.groups, len(plan.steps)) if number == L_INNER else ():
        rows.append(
            (
                f"argument tables of steps {span.start} to {span[-1]}",
                "tables",
                0,
                fetched[span.start],
                span.start,
                span[-1],
            )
        )
    for home in plan.homes:
        if home.level == level.name:
            kind = "persistent" if home.persistent else "value"
            rows.append((home.storage, kind, home.offset, home.bytes, home.first, min(home.last, last)))
    for step in plan.steps:
        for o in step.operands:
            for slots in o.places[number : number + 1]:
                if slots.count:
                    name = f"{step.name} {o.arg}: {slots.count} slots for {o.tensor}"
                    rows.append(
                        (name, "slot", slots.offset, slots.count * slots.bytes, *slot_life(plan, step, o, number))
                    )
    return rows
