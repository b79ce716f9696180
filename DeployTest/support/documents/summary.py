"""The tables of SB, DB and auto cycles that CI shows: one per clock, joined on test, level and L1."""

from collections.abc import Callable, Mapping

from DeployTest.support.building.cases import Entry

Cycles = tuple[int, int]
Rows = dict[str, dict[tuple[str, str, int], dict[str, Cycles]]]
"""By clock, then by test, level and L1, then by mode: cycles of a mini-batch and of an update."""
MODES = ("singlebuffer", "doublebuffer", "auto")


def write_summary(rows: Rows) -> str:
    """Markdown: training and optimizer cycles per mode, and the difference of DB and auto from SB in percent."""
    return "\n".join(text for clock in sorted(rows) for text in _table(clock, rows[clock])) + "\n"


def _table(clock: str, rows: dict[tuple[str, str, int], dict[str, Cycles]]) -> list[str]:
    """One clock's table, line by line."""
    lines = [
        f"### Cycles per mini-batch and per update (clock: {clock})",
        "",
        "| test | level | L1 | SB train | DB train | auto train | SB opt | DB opt | auto opt |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (test, level, l1), modes in sorted(rows.items()):
        cells = [cell(modes, mode, part) for part in (0, 1) for mode in MODES]
        lines.append(f"| {test} | {level} | {l1} | {' | '.join(cells)} |")
    return [*lines, ""]


def cell(modes: dict[str, Cycles], mode: str, part: int) -> str:
    """Cycles of a mode, with the difference from SB where both ran."""
    if mode not in modes:
        return "-"
    cycles = modes[mode][part]
    base = modes.get("singlebuffer", (0, 0))[part]
    return f"{cycles}" if mode == "singlebuffer" or not base else f"{cycles} ({100 * (cycles - base) / base:+.1f} %)"


def record(record_property: Callable[[str, object], None], entry: Entry, bench: Mapping[str, str]) -> None:
    """Hand a run's cycles on to the table of its clock; `record_property` is pytest's fixture."""
    for key in ("clock", "train_cycles", "opt_cycles"):
        record_property(key, bench[key])
    level = f"{entry.level}, L2 of {entry.l2}" if entry.l2 else entry.level
    record_property("row", f"{entry.test}|{level}|{entry.mode}|{entry.l1}")
