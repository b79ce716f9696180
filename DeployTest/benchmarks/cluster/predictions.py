"""Predicted against measured cycles on Siracusa under GVSoC, of the networks drawn by seed.

Costs are fitted on single kernels and on generated programs; no number is chosen over these networks.

`python -m DeployTest.benchmarks.cluster.predictions` trains them with profiles, writes predictions.json and the table
of docs/cluster.md: how far steps above 2000 cycles and whole networks are off, and which are too far off.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from DeployTest.benchmarks.cluster.gains import PAGE, ROOT, measured
from DeployTest.benchmarks.cluster.networks import SEEDS, drawn
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import add_simulator, end, write_rows

RESULT = Path(__file__).with_suffix(".json")
MARKS = ("<!-- predictions table -->", "<!-- end of predictions table -->")
LONG = 2000
"""Cycles from which on a step is judged by itself."""
STEP, TOTAL = 0.20, 0.05
"""How far off a long step, and the sum of a training step and its update, may be."""


@dataclass(frozen=True)
class Prediction:
    """A step of a network, or with an empty operator all of it; cycles as the model and as the simulator have them."""

    seed: int
    op: str
    kernel: str
    tiles: int
    cycles: int
    predicted: int

    @property
    def off(self) -> float:
        """Error of the prediction, as a share of the measured cycles."""
        return (self.predicted - self.cycles) / self.cycles

    @property
    def beyond(self) -> bool:
        """Whether it is off by more than it may be."""
        return abs(self.off) > (STEP if self.op else TOTAL)


def predictions(seed: int, figures: dict[str, Any]) -> Iterator[Prediction]:
    """The sum and the long steps of a measured network."""
    yield Prediction(seed, "", "", 0, figures["train"] + figures["optimizer"], sum(figures["predicted"]))
    for step in figures["steps"]:
        if step["cycles"] > LONG:
            yield Prediction(seed, **{name: step[name] for name in ("op", "kernel", "tiles", "cycles", "predicted")})


def markdown(found: Sequence[Prediction]) -> str:
    """Render the errors of networks and kernels, and the long steps beyond the limit."""
    totals, steps = [p for p in found if not p.op], [p for p in found if p.op]
    far, off = [p for p in steps if p.beyond], ", ".join(f"{100 * p.off:+.1f}" for p in totals)
    lines = [
        f"Sums are off by {off} %, {sum(p.beyond for p in totals)} of {len(totals)} by more than {100 * TOTAL:.0f} %."
        f" Of {len(steps)} steps above {LONG} cycles {len(far)} are off by more than {100 * STEP:.0f} %.",
        "",
        "| kernel | steps | cycles | off in all | median | least | most | beyond |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kernel in sorted({p.kernel for p in steps}):
        own = [p for p in steps if p.kernel == kernel]
        cycles, offs = sum(p.cycles for p in own), [p.off for p in own]
        shares = (sum(p.predicted for p in own) / cycles - 1, statistics.median(offs), min(offs), max(offs))
        cells = [str(len(own)), str(cycles), *(f"{100 * s:+.1f} %" for s in shares), str(sum(p.beyond for p in own))]
        lines.append(f"| `{kernel}` | {' | '.join(cells)} |")
    if far:
        lines += [
            "",
            "| seed | step | kernel | tiles | cycles | predicted | off |",
            "|---:|---|---|---:|---:|---:|---:|",
        ]
    for p in far:
        cells = (p.seed, p.op, f"`{p.kernel}`", p.tiles, p.cycles, p.predicted, f"{100 * p.off:+.1f} %")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Measure all and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.cluster.predictions", description=__doc__)
    add_simulator(parser)
    parser.add_argument("--only", nargs="+", type=int, metavar="SEED", help="print these, and write nothing")
    a = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in a.only or SEEDS:
            case = drawn(seed).write(Path(folder) / str(seed))
            found += predictions(seed, measured(case, ROOT, profile=True))
            print(f"{seed} measured", file=sys.stderr, flush=True)
    text = markdown(found)
    print(text)
    if not a.only:
        write_rows(RESULT, {"from": LONG}, a.simulator, "predictions", [asdict(p) for p in found])
        publish(__file__, PAGE, MARKS, text)
    return 0


if __name__ == "__main__":
    end(main)
