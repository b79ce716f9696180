"""Time of a packaged library on this machine: by C, by its module of Python, and beside the native target's program.

`python -m DeployTest.benchmarks.libraries.python_calls` writes python_calls.json and the table of docs/firmware.md. A
time is the processor's of a pass and its update on one core, the least mean of some rounds. Rates are zero, so that all
passes are of the same weights.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deployer.core.target import native
from DeployTest.benchmarks.flat import processor, program
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.firmware.bindings.modules import module_of
from DeployTest.support.building.cases import case_dir, load_case

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "firmware.md"
MARKS = ("<!-- python table -->", "<!-- end of python table -->")
MODELS = ("simple_mlp", "digits", "resnet8")
ROUNDS, SPAN = 30, 0.05
"""Rounds, and about how many seconds each takes."""
MOST = 30.0
"""Microseconds of overhead that two calls may have."""
TIMED = """#include "net.h"
#include <stdio.h>
#include <time.h>
static net_t model;
static double now(void) { return 1e6 * (double)clock() / CLOCKS_PER_SEC; }
int main(void) {
    double best = 1e30;
    if (net_init(&model)) return 1;
    for (unsigned group = 0; group < NET_RATES; group++)
        if (net_set_learning_rate(&model, group, 0.0f)) return 3;
FILLED
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = now();
        for (int pass = 0; pass < PASSES; pass++)
            if (net_train_step(&model, 0) || net_update(&model)) return 2;
        const double mean = (now() - begin) / PASSES;
        if (mean < best) best = mean;
    }
    printf("%.3f\\n", best);
    return 0;
}
"""


@dataclass(frozen=True)
class Row:
    """Microseconds: C as `make` builds it, as `make shared` does, the native target's program, and calls of Python."""

    model: str
    portable: float
    shared: float
    native: float
    in_place: float
    arrays: float


def best(call: Callable[[], Any]) -> float:
    """The least mean time of a call in microseconds, over all rounds."""
    begin, count = time.process_time(), 0
    while time.process_time() - begin < SPAN:
        call()
        count += 1
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(count):
            call()
        times.append((time.process_time() - begin) / count)
    return round(1e6 * min(times), 2)


def timed(folder: Path, library: str, passes: int) -> float:
    """The same of the C in a library."""
    inputs = json.loads((folder / "manifest.json").read_text())["inputs"]
    lines = [
        f"    for (int i = 0; i < {int(np.prod(row['shape']))}; i++) net_input_{row['name']}(&model)[i] = "
        + ("(float)(i * 37 % 19) / 19.0f - 0.5f;" if row["type"] == "float32" else "0;")
        for row in inputs
    ]
    source = folder / "build/timed.c"
    source.write_text(TIMED.replace("FILLED", "\n".join(lines)))
    words = ["gcc", "-O2", f"-DROUNDS={ROUNDS}", f"-DPASSES={passes}", "-Iinclude", str(source), f"build/{library}"]
    subprocess.run([*words, "-lm", "-Wl,-rpath,build", "-o", "build/timed"], cwd=folder, check=True)
    run = subprocess.run(["build/timed"], cwd=folder, check=True, capture_output=True, text=True)
    return round(float(run.stdout), 2)


def measured(model: str, root: Path) -> Row:
    """A row."""
    case = case_dir(model, root)
    folder = root / f"library_{model}"
    instance = module_of("net", case, folder).Model()
    for x in instance.inputs.values():
        if x.dtype == np.float32:
            x.flat = np.arange(x.size) * 37 % 19 / 19 - 0.5
    instance.set_learning_rate(0.0)
    subprocess.run(["make", "-s", "-C", str(folder), "build/libnet.a"], check=True)
    given = [x.copy() for x in instance.inputs.values()]

    def with_arrays() -> None:
        instance.train_step(*given)
        instance.update()

    def in_place() -> None:
        instance.train_step()
        instance.update()

    arrays, filled = best(with_arrays), best(in_place)
    passes = max(1, int(SPAN * 1e6 / filled))
    made = program(load_case(model, root), native().name, root / f"program_{model}", max(20, min(passes, 500)))
    return Row(
        model,
        timed(folder, "libnet.a", passes),
        timed(folder, "libnet.so", passes),
        round(min(made.native() for _ in range(ROUNDS)), 2),
        filled,
        arrays,
    )


def main() -> None:
    """Measure, print and write all rows; exit code 1 where calls have more overhead than MOST."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(model, Path(folder)) for model in MODELS]
    Console().print(*rows, sep="\n")
    record = {"processor": processor(), "python": sys.version.split()[0], "rows": [asdict(row) for row in rows]}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, page_table(record))
    slow = [row.model for row in rows if row.arrays - row.shared > max(MOST, row.shared / 2)]
    sys.exit(f"calls for {slow[0]} have more overhead than {MOST:g} us" if slow else 0)


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"Processor time of a pass and its update in microseconds, best of {ROUNDS} rounds ({record['processor']}):",
        "",
        "| model | `make` | `make shared` | program of `host_flat` | Python, inputs in place | Python, arrays |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in (Row(**each) for each in record["rows"]):
        numbers = (row.portable, row.shared, row.native, row.in_place, row.arrays)
        lines.append(f"| {row.model} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
