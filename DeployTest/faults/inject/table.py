"""The detection table: who notices which class of fault, under each kind of guards and order of transfers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .draw import GROUPS
from .fault import CLASSES, Fault
from .judge import CRASHED, NAMED, NOTHING, RESULTS, UNSEEN, VERDICT, Judgement, Mode

SHORT = {NAMED: "named", VERDICT: "by value", CRASHED: "crashed", NOTHING: "changes nothing", UNSEEN: "unseen"}
BEGIN, END = "<!-- detection table -->", "<!-- end of detection table -->"
QUANTIZED_BEGIN, QUANTIZED_END = "<!-- quantized table -->", "<!-- end of quantized table -->"
"""Marks of the programs with a part of 8 bits."""
TOTALS = {2: "both", 6: "all six"}
"""Names of the sums over so many programs."""


@dataclass(frozen=True)
class Row:
    """A fault that was planted, and what became of it."""

    seed: int
    program: str
    fault: Fault
    mode: Mode
    judgement: Judgement

    @property
    def group(self) -> str:
        """The group of its class."""
        return CLASSES[self.fault.kind].group

    @property
    def replay(self) -> str:
        """The command that plants it again."""
        guards = f" --guards {self.mode.guards}" if self.mode.guards else ""
        words = f'replay "{self.program}" "{self.fault.text}"{guards} --dma-order {self.mode.order}'
        return f"python -m DeployTest.faults.inject {words}"


def counted(rows: Iterable[Row]) -> Counter[str]:
    """Number of faults per result."""
    return Counter(r.judgement.result for r in rows)


def cell(rows: Sequence[Row]) -> str:
    """named / by value / crashed / changes nothing, and what nobody saw where there is any."""
    count = counted(rows)
    text = " / ".join(str(count[result]) for result in (NAMED, VERDICT, CRASHED, NOTHING))
    return f"{text}, **{count[UNSEEN]} unseen**" if count[UNSEEN] else text


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def by_group(rows: Sequence[Row], modes: Sequence[Mode]) -> list[str]:
    """Per group and mode: what changes bits or is named, and how much of it is noticed, and named."""
    lines = []
    for group in (*GROUPS, "all"):
        of = [r for r in rows if group in (r.group, "all")]
        cells = [group, str(len(of) // len(modes))]
        for mode in modes:
            count = counted(r for r in of if r.mode == mode)
            live = sum(count.values()) - count[NOTHING]
            seen = live - count[UNSEEN]
            cells.append(f"{seen} of {live}, {_percent(count[NAMED], live)} named")
        lines.append(cells)
    return markdown(("group", "faults", *(m.label for m in modes)), lines)


def _percent(part: int, total: int) -> str:
    """A share, rounded down, so that 100 % is all."""
    return f"{100 * part // total} %" if total else "-"


def by_class(rows: Sequence[Row], modes: Sequence[Mode]) -> list[str]:
    """A row per class."""
    lines = []
    for group in GROUPS:
        for kind in (k for k, c in CLASSES.items() if c.group == group):
            of = [r for r in rows if r.fault.kind == kind]
            cells = [cell([r for r in of if r.mode == mode]) for mode in modes]
            lines.append([f"{group}: {kind}", str(len(of) // len(modes)), *cells])
    return markdown(("class", "faults", *(m.label for m in modes)), lines)


def by_seed(rows: Sequence[Row], mode: Mode) -> list[str]:
    """A row per seed and program in one mode."""
    lines = []
    for seed in sorted({r.seed for r in rows}):
        of = [r for r in rows if r.seed == seed and r.mode == mode]
        programs = tuple(dict.fromkeys(r.program for r in of))
        for program in (*programs, ""):
            count = counted(r for r in of if program in (r.program, ""))
            cells = [str(count[result]) for result in RESULTS]
            lines.append([f"{seed}", program or TOTALS.get(len(programs), "all"), str(sum(count.values())), *cells])
    return markdown(("seed", "program", "faults", *(SHORT[r] for r in RESULTS)), lines)


def in_place(rows: Sequence[Row], modes: Sequence[Mode]) -> str:
    """Count the named steps that are the step with the fault."""
    parts = []
    for mode in modes:
        named = [r for r in rows if r.mode == mode and r.judgement.result == NAMED and r.fault.step >= 0]
        same = sum(r.fault.step in r.judgement.steps for r in named)
        parts.append(f"{same} of {len(named)} ({mode.label})")
    return ", ".join(parts)


def tables(rows: Sequence[Row]) -> str:
    """All tables as markdown."""
    modes = list(dict.fromkeys(r.mode for r in rows))
    seeds = ", ".join(map(str, sorted({r.seed for r in rows})))
    total = len(rows) // len(modes)
    lines = [
        f"{total} faults from seeds {seeds}, each in {len(modes)} modes: guards and order of transfers.",
        "",
        "Share found of the faults that change bits or end the run, and share named:",
        "",
        *by_group(rows, modes),
        "",
        "By class, over all seeds: named / by value / crashed / changes nothing.",
        "",
        *by_class(rows, modes),
        "",
        f"By seed and program, {modes[0].label}:",
        "",
        *by_seed(rows, modes[0]),
        "",
        f"The message names the faulty step in {in_place(rows, modes)}.",
    ]
    return "\n".join(lines)


def renewed(text: str, rows: Sequence[Row], marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The document with new tables between these marks."""
    before, rest = text.split(marks[0])
    _, after = rest.split(marks[1])
    return f"{before}{marks[0]}\n{tables(rows)}\n{marks[1]}{after}"


def unseen_list(rows: Iterable[Row]) -> str:
    """List the unseen faults, with a command for each."""
    lines = []
    for r in rows:
        if r.judgement.result == UNSEEN:
            where = f"step {r.fault.step} {r.fault.arg} {r.fault.place}".strip()
            lines += [f"- {r.group}: {r.fault.kind}; {r.program}, {where}; {r.mode.label}: {r.judgement.said}"]
            lines += [f"  `{r.replay}`"]
    return "\n".join(lines) + "\n" if lines else "none\n"
