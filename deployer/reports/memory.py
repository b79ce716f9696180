"""The memory map: time to the right in steps, addresses upwards, a rectangle with its name per buffer."""

from collections.abc import Sequence
from dataclasses import dataclass

from deployer.core.level import L_INNER, LevelUse
from deployer.core.plan import Plan, target_of
from deployer.core.safe_text import html_text
from deployer.loops.moves import slot_life
from deployer.reports.html import Section, byte_text, folded, legend, page, table
from deployer.reports.plot import ROUND, TOP, PlotAxis, down, framed, number_below, upright, whole
from deployer.tilers.levels.tables import fetched_bytes, group_spans

HEIGHT, NAMED, WIDE = 360, 13.0, 6.0
"""Pixels of a level's picture, and the least height and per cent of its width of a buffer that shows its name."""
LISTED = 40
"""A level's table has at most so many buffers, the largest."""
KINDS = {"persistent": "c0", "value": "c1", "slot": "c2", "tables": "c3"}
NAMES = {
    "c0": "persistent: weights, states, accumulators",
    "c1": "values of a pass",
    "c2": "slots of tiles",
    "c3": "argument tables",
}


@dataclass(frozen=True)
class MappedBuffer:
    """A buffer in a level: `bytes` at `offset` in the steps first..last."""

    name: str
    kind: str
    offset: int
    bytes: int
    first: int
    last: int

    @property
    def text(self) -> str:
        """The buffer in one line."""
        return f"{self.name}: {self.bytes} B at {self.offset}, steps {self.first}..{self.last}"


@dataclass(frozen=True)
class LevelMap:
    """A level of memory with the buffers in it; `bound` is the most bytes that live at once."""

    name: str
    budget: int
    peak: int
    bound: int
    buffers: tuple[MappedBuffer, ...]


def memory_page(plan: Plan) -> str:
    """The page memory.html."""
    return page("Memory map", "<h1>Memory map</h1>", memory_sections(memory_of(plan), len(plan.steps)))


def memory_of(plan: Plan) -> tuple[LevelMap, ...]:
    """The map of each level."""
    return tuple(
        LevelMap(level.name, level.budget, level.peak, level.bound, tuple(_buffers(plan, level)))
        for level in plan.levels
    )


def memory_sections(levels: Sequence[LevelMap], steps: int) -> list[Section]:
    """A section per level: a picture, and its largest buffers as a table."""
    return [Section(level.name, _level(level, max(steps, 1))) for level in levels]


def _level(level: LevelMap, steps: int) -> str:
    gap = level.peak - level.bound
    facts = (
        f"peak {level.peak} B of {level.budget} B, lower bound {level.bound} B, gap {gap} B "
        f"({100 * gap / max(level.bound, 1):.1f} %); steps 0 to {steps - 1}"
    )
    largest = sorted(level.buffers, key=lambda each: -each.bytes)[:LISTED]
    rows = [(b.name, b.kind, byte_text(b.bytes), str(b.offset), f"{b.first} to {b.last}") for b in largest]
    count = f"{len(level.buffers)} buffers" if len(largest) == len(level.buffers) else f"The {LISTED} largest buffers"
    listing = folded(f"{count} of {level.name}", table(("name", "kind", "size", "offset", "steps"), rows))
    return f"<p>{facts}</p>{legend({kind: NAMES[kind] for kind in _kinds(level)})}{_picture(level, steps)}{listing}"


def _kinds(level: LevelMap) -> list[str]:
    found = {KINDS[buffer.kind] for buffer in level.buffers}
    return [kind for kind in KINDS.values() if kind in found]


def _picture(level: LevelMap, steps: int) -> str:
    top = max(level.budget if level.peak * 4 > level.budget else level.peak, 1)
    axis = _bytes_axis(top)
    shapes = [
        f'<line class="grid" x1="0" x2="100%" y1="{(y := down(axis.share(number), HEIGHT)):.1f}" y2="{y:.1f}"/>'
        for number, _ in axis.numbers
    ]
    shapes += [_rectangle(buffer, axis, steps) for buffer in level.buffers]
    if level.budget <= top:
        y = down(axis.share(level.budget), HEIGHT)
        shapes.append(f'<line class="limit" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"><title>budget</title></line>')
    numbers = [(step, text) for step, text in whole(steps - 1).numbers if step % 1 == 0]
    shapes += [number_below((step + 0.5) / steps, text, HEIGHT) for step, text in numbers]
    title = f"Buffers of {level.name}: steps to the right, addresses upwards"
    caption = "steps to the right, addresses upwards" + (
        "; the dashed line is the budget"
        if level.budget <= top
        else f"; the budget of {byte_text(level.budget)} lies above"
    )
    return framed(title, upright(axis, HEIGHT), "".join(shapes), HEIGHT) + f'<p class="soft">{caption}</p>'


def _bytes_axis(top: int) -> PlotAxis:
    """An axis of bytes with units, whose numbers are multiples of a round one."""
    power = 10 ** (len(str(top)) - 1)
    step = next(int(first * power) for first in (0.1, 0.2, 0.25, 0.5, *ROUND) if first * power * 5 >= top) or 1
    return PlotAxis(0, top, [(number, byte_text(number)) for number in range(0, top + 1, step)])


def _rectangle(buffer: MappedBuffer, axis: PlotAxis, steps: int) -> str:
    """A buffer as a picture of its own, so that its name ends where it does."""
    high = max(HEIGHT * buffer.bytes / axis.high, 0.5)
    y = TOP + HEIGHT - HEIGHT * (buffer.offset + buffer.bytes) / axis.high
    left, width = 100 * buffer.first / steps, 100 * (buffer.last - buffer.first + 1) / steps
    named = high >= NAMED and width >= WIDE
    label = f'<text class="on" x="4" y="{min(high / 2 + 4, 24):.1f}">{html_text(buffer.name)}</text>'
    name = label if named else ""
    place = f'x="{left:.3f}%" y="{y:.2f}" width="{width:.3f}%" height="{high:.2f}"'
    shape = f'<rect class="buffer {KINDS[buffer.kind]}" width="100%" height="100%"/>'
    return f"<svg {place}><title>{html_text(buffer.text)}</title>{shape}{name}</svg>"


def _buffers(plan: Plan, level: LevelUse) -> list[MappedBuffer]:
    """Everything that lies in a level."""
    last = len(plan.steps) - 1
    rows = []
    number, fetched = plan.levels.index(level), fetched_bytes(plan.groups, plan.steps, target_of(plan.options))
    if number == L_INNER and plan.table_bytes and not plan.groups:
        rows.append(MappedBuffer("argument tables", "tables", 0, plan.table_bytes, 0, last))
    for span in group_spans(plan.groups, len(plan.steps)) if number == L_INNER else ():
        name = f"argument tables of steps {span.start} to {span[-1]}"
        rows.append(MappedBuffer(name, "tables", 0, fetched[span.start], span.start, span[-1]))
    for home in plan.homes:
        if home.level == level.name:
            kind = "persistent" if home.persistent else "value"
            rows.append(MappedBuffer(home.storage, kind, home.offset, home.bytes, home.first, min(home.last, last)))
    for step in plan.steps:
        for o in step.operands:
            for slots in o.places[number : number + 1]:
                if slots.count:
                    name = f"{step.name} {o.arg}: {slots.count} slots for {o.tensor}"
                    life = slot_life(plan, step, o, number)
                    rows.append(MappedBuffer(name, "slot", slots.offset, slots.count * slots.bytes, *life))
    return rows
