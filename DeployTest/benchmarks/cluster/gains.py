"""Ten networks drawn by seed, trained on Siracusa under GVSoC by two states of the compiler.

`python -m DeployTest.benchmarks.cluster.gains --before COMMIT` writes networks.json and the table of docs/cluster.md:
cycles of a training step with its update before and after, the geometric mean of the gains, and the least of them. Both
states train the same case, which this checkout writes; losses and weights must be the same bits.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deployer.core.errors import OptionProblem, ToolFailed
from DeployTest.benchmarks.cluster.networks import SEEDS, Network, drawn
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import add_simulator, end, write_rows

HERE = Path(__file__).resolve()
ROOT, MEASURED, RESULT = HERE.parents[3], HERE.with_name("measured.py"), HERE.with_name("networks.json")
PAGE = ROOT / "docs" / "cluster.md"
MARKS = ("<!-- networks table -->", "<!-- end of networks table -->")
L1 = 128_000


@dataclass(frozen=True)
class Row:
    """Cycles of a training step and of an update before and after; `gain` is the quotient of their sums."""

    seed: int
    network: str
    macs: int
    before_train: int
    before_optimizer: int
    after_train: int
    after_optimizer: int
    predicted: int
    gain: float
    same_bits: bool


def measured(
    case: Path, checkout: Path, profile: bool = False, options: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The figures of a case by the code of a checkout; ToolFailed with its last words where it does not train.

    `options` are fields of the compiler's options that differ from their defaults.
    """
    words = [sys.executable, str(MEASURED), str(case), str(L1), str(int(profile)), json.dumps(options or {})]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    found = subprocess.run(words, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ToolFailed(f"{checkout} does not train {case}", [("said", found.stderr[-2000:])])
    figures: dict[str, Any] = json.loads(found.stdout)
    return figures


@contextmanager
def checked_out(name: str) -> Iterator[Path]:
    """The folder of a checkout, or a commit of this repository in a folder of its own as long as it is used."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        made = subprocess.run(
            [*git, "worktree", "add", "--detach", str(place), name], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise OptionProblem(f"{name!r} is neither a folder nor a commit here", [("git", made.stderr.strip())])
        try:
            yield place
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(place)], check=True)


def row(network: Network, before: dict[str, Any], after: dict[str, Any]) -> Row:
    """Both states' figures of a network."""
    sums = [run["train"] + run["optimizer"] for run in (before, after)]
    return Row(
        seed=network.seed,
        network=network.name,
        macs=network.macs(),
        before_train=before["train"],
        before_optimizer=before["optimizer"],
        after_train=after["train"],
        after_optimizer=after["optimizer"],
        predicted=sum(after["predicted"]),
        gain=round(sums[0] / sums[1], 3),
        same_bits=before["bits"] == after["bits"],
    )


def mean_gain(rows: Sequence[Row]) -> float:
    """The geometric mean of the gains."""
    return math.exp(sum(math.log(r.gain) for r in rows) / len(rows))


def markdown(rows: Sequence[Row], before: str) -> str:
    """A row per network, and what they come to."""
    least = min(rows, key=lambda r: r.gain)
    lines = [
        f"Against {before}: {mean_gain(rows):.2f} times as fast in the geometric mean, {least.gain:.2f} times for seed"
        f" {least.seed} at least.",
        "",
        "| seed | network | MACs forward | before | after | gain | predicted |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        cycles = r.after_train + r.after_optimizer
        cells = (r.seed, r.network, r.macs, r.before_train + r.before_optimizer, cycles, f"{r.gain:.2f}")
        lines.append(f"| {' | '.join(map(str, cells))} | {100 * (r.predicted - cycles) / cycles:+.1f} % |")
    return "\n".join(lines)


def main() -> int:
    """Measure all, print each; 1 where bits differ."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.cluster.gains", description=__doc__)
    add_simulator(parser)
    parser.add_argument(
        "--before", required=True, metavar="CHECKOUT", help="a folder with another checkout, or a commit"
    )
    parser.add_argument("--after", default=str(ROOT), metavar="CHECKOUT", help="the same; by default this checkout")
    parser.add_argument("--only", nargs="+", type=int, metavar="SEED", help="print these, and write nothing")
    a = parser.parse_args()
    rows = []
    with checked_out(a.before) as before, checked_out(a.after) as after, tempfile.TemporaryDirectory() as folder:
        for seed in a.only or SEEDS:
            network = drawn(seed)
            case = network.write(Path(folder) / str(seed))
            rows.append(row(network, measured(case, before), measured(case, after)))
            print(rows[-1], flush=True)
    text = markdown(rows, Path(a.before).name)
    print(text)
    if not a.only:
        write_rows(
            RESULT, {"l1": L1, "before": Path(a.before).name}, a.simulator, "networks", [asdict(r) for r in rows]
        )
        publish(__file__, PAGE, MARKS, text)
    return int(not all(r.same_bits for r in rows))


if __name__ == "__main__":
    end(main)
