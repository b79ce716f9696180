"""Schedules of taps for the cluster's hardware loops: prints `targets/siracusa/scheduled_taps.h`, a macro for each.

`python -m DeployTest.support.kernels.tap_schedules` writes it. A core waits for what the instruction before loaded,
so loads run two ahead of the taps: two of them come first, then a tap and a load in turn.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from deployer.core.target import TARGETS_DIR
from DeployTest.support.kernels import block_schedules

HEADER = TARGETS_DIR / "siracusa" / "scheduled_taps.h"
AHEAD = 2
"""Loads that run ahead of the taps."""
REGISTERS = 4
"""Registers that the values of a window pass through."""
TAPS = 3
"""Rows and columns of a window."""
WIDTH = 118
"""Columns in front of the backslash of a macro over several lines."""
NOTE = """\
/* Schedules of taps, printed by `python -m DeployTest.support.kernels.tap_schedules`: a macro for each, and how many
 * instructions it has. Loads run two ahead of the taps, so that no value is used right after its load.
 *
 * ROWS_hw, for conv_lines.h: h rows of w taps of an output, with STEP in front of the last one.
 * ROW_.., for conv_planes.h: a row of three taps of four outputs, ROW_ONE.. of one. Output p meets values p to p + 2.
 * _BEGIN has no value in front of the first output, _END none behind the last one, _BOTH neither.
 * FOURS_.., for conv_fours.h: a row of taps of four channels and four outputs; _BUT_FIRST without the first tap of
 * output 0, _BUT_LAST without the last one of output 3. SIXTEEN_n and SHARED_n, for conv_taps.h: a row of n taps of
 * four by four sums, and of four sums that share a factor. */"""


def interleaved(loads: Sequence[str], taps: Sequence[str], between: str = "") -> list[str]:
    """Two loads, then taps and loads alternate; `between` comes before the last tap."""
    waiting, found = list(loads), list(loads[:AHEAD])
    del waiting[:AHEAD]
    for tap in taps[:-1]:
        found += [tap, *waiting[:1]]
        del waiting[:1]
    return [*found, *([between] if between else []), taps[-1]]


def window(height: int, width: int) -> list[str]:
    """The schedule of the taps of an output, row by row; values pass through the registers in turn."""
    places = [(row, column) for row in range(height) for column in range(width)]
    steps = ["0", "TAP_1", "TAP_2"]
    loads = [f'FLW("ft{i % REGISTERS}", "%[x{r}]", {steps[c]})' for i, (r, c) in enumerate(places)]
    taps = [f'TAP("ft{i % REGISTERS}", {r}{c})' for i, (r, c) in enumerate(places)]
    return interleaved(loads, ["FIRST_TAP", *taps[1:]], "STEP")


def row(outputs: int, before: bool, behind: bool, get: str) -> list[str]:
    """The schedule of a row of taps of neighbouring outputs; values `before` and `behind` them may be absent.

    Taps come in the order of the weights, and the first one of each output begins its sum.
    """
    values = range(0 if before else 1, outputs + (TAPS - 1 if behind else TAPS - 2))
    begun: set[int] = set()
    taps = []
    for tap in range(TAPS):
        for output in range(outputs):
            if output + tap in values:
                function = "GO_ON" if output in begun else "FIRST"
                begun.add(output)
                taps.append(f"{function}({output}, {output + tap}, a##{tap})")
    return interleaved([f"{get}({value}, x)" for value in values], taps)


def macros() -> Iterator[tuple[str, str, list[str]]]:
    """Name, parameters and schedule of each macro."""
    for height in range(1, TAPS + 1):
        for width in range(1, TAPS + 1):
            yield f"ROWS_{height}{width}", "", window(height, width)
    sides = {"MIDDLE": (True, True), "BEGIN": (False, True), "END": (True, False), "BOTH": (False, False)}
    for name, (before, behind) in sides.items():
        yield f"ROW_{name}", "(FIRST, a, x)", row(4, before, behind, "GET")
    for name, (before, behind) in (("", (True, True)), ("_BEGIN", (False, True)), ("_END", (True, False))):
        yield f"ROW_ONE{name}", "(FIRST, a, x)", row(1, before, behind, "GET_ONE")


def defined(name: str, parameters: str, words: Sequence[str]) -> Iterator[str]:
    """The lines of a macro, and of the number of its instructions."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 5 > WIDTH:
            lines.append("")
        lines[-1] += f" {word}"
    if len(lines) == 1 and len(name) + len(parameters) + len(lines[0]) + 8 <= WIDTH:
        yield f"#define {name}{parameters}{lines[0]}"
    else:
        yield f"#define {name}{parameters}".ljust(WIDTH) + "\\"
        for line in lines[:-1]:
            yield f"   {line}".ljust(WIDTH) + "\\"
        yield f"   {lines[-1]}"
    yield f"#define {name}_LENGTH {len(words)}"


def printed() -> str:
    """The header."""
    guard = HEADER.stem.upper() + "_H"
    lines = [line for macro in (*macros(), *block_schedules.macros()) for line in defined(*macro)]
    return "\n".join([NOTE, f"#ifndef {guard}", f"#define {guard}", "", *lines, "", "#endif", ""])


def main(path: Path = HEADER) -> None:
    """Write the header."""
    path.write_text(printed())


if __name__ == "__main__":
    main()
