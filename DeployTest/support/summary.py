"""The table of SB, DB and auto cycles that CI shows, joined on test, level and L1."""

Cycles = tuple[int, int]
Rows = dict[tuple[str, str, int], dict[str, Cycles]]
MODES = ("singlebuffer", "doublebuffer", "auto")


def write_summary(rows: Rows) -> str:
    """Markdown: training and optimizer cycles per mode, and the difference of DB and auto from SB in percent."""
    lines = [
        "### Cycles per mini-batch and per update (host model)",
        "",
        "| test | level | L1 | SB train | DB train | auto train | SB opt | DB opt | auto opt |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for (test, level, l1), modes in sorted(rows.items()):
        cells = [cell(modes, mode, part) for part in (0, 1) for mode in MODES]
        lines.append(f"| {test} | {level} | {l1} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(modes: dict[str, Cycles], mode: str, part: int) -> str:
    """Cycles of a mode, with the difference from SB where both ran."""
    if mode not in modes:
        return "-"
    cycles = modes[mode][part]
    base = modes.get("singlebuffer", (0, 0))[part]
    return f"{cycles}" if mode == "singlebuffer" or not base else f"{cycles} ({100 * (cycles - base) / base:+.1f} %)"
