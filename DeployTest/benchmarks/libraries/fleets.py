"""A fleet of a thousand devices on digits: accuracy by round, time and memory, and one digest by each back end.

`python -m DeployTest.benchmarks.libraries.fleets` writes fleets.json and the tables of docs/fleets.md; some twenty
minutes. What needs Flower is run where that is installed (the environment of `make test-fleet`), and Ray, too.
The samples are split by shares of classes drawn from a Dirichlet distribution. A time is the wall's, of rounds alone.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deployer.fleets.device import Devices, DeviceTask, FleetRules, imported
from deployer.fleets.options import FAILED, LATE
from deployer.fleets.preparation import write_devices
from deployer.fleets.splits import dirichlet_parts
from deployer.training.order import Samples
from DeployTest.benchmarks.flat import processor
from DeployTest.benchmarks.upkeep.commits import ROOT, publish
from DeployTest.models import digits as model
from DeployTest.support.graphs.digit_images import digits, digits_source

RESULT = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "fleets.md"
MARKS = ("<!-- fleet table -->", "<!-- end of fleet table -->")
TRAINED, BATCH, DEVICES, ROUNDS, CONCENTRATION = 1437, 4, 1000, 20, 0.5
LOCAL = ("--lr", "0.1", "--epochs", "5")
LARGE = (("loop", 1), ("threads", 2))
"""Back ends and workers of fleets of DEVICES; fleets of FEW devices run on all of WAYS."""
KILLED_WAYS = (("loop", 1), ("processes", 2), ("ray", 2))
SHOWN = (1, 2, 5, 10, 15, 20)
"""Rounds whose accuracy the table has."""
WAYS = (("loop", 1), ("threads", 1), ("threads", 2), ("processes", 1), ("processes", 2), ("ray", 1), ("ray", 2))
FAULTS = ("--killed", "0.05", "--late", "0.05", "--min-replies")
FEW, FEW_ROUNDS = 100, 5
"""Devices and rounds of fleets on every back end."""


@dataclass(frozen=True)
class Row:
    """A fleet: what it is, where it ran, seconds of its rounds, peak memory in MB, replies, accuracies, digest."""

    title: str
    backend: str
    workers: int
    devices: int
    seconds: float
    megabytes: int
    worker_megabytes: int
    replied: int
    late: int
    failed: int
    bytes_up: int
    accuracies: tuple[float, ...]
    digest: str


def fleet(folder: Path, title: str, backend: str, workers: int, *words: object) -> Row:
    """A row."""
    named = [folder / "case/digits.onnx", "--loss", "cross_entropy", "--data", folder / "train.npz"]
    named += ["--validation", folder / "validation.npz", "--split", "dirichlet", "--concentration", CONCENTRATION]
    out = folder / "out"
    line = [sys.executable, "-m", "deployer", "fleet", *named, "--backend", backend, "--workers", workers]
    line += [*words, "--quiet", "--force", "-o", out]
    subprocess.run(list(map(str, line)), cwd=ROOT, check=True)
    report = json.loads((out / "report.json").read_text())
    rounds = report["rounds"]
    counts = [sum(len(record[name]) for record in rounds) for name in ("replied", LATE, FAILED)]
    row = Row(
        title,
        backend,
        workers,
        report["fleet"]["devices"],
        round(sum(report["seconds"]), 1),
        report["peak_bytes"] // 1000000,
        report["peak_worker_bytes"] // 1000000 if backend in ("processes", "ray") else 0,
        *counts,
        report["bytes_up"],
        tuple(round(epoch["metrics"]["accuracy"], 4) for epoch in report["epochs"]),
        report["digest"],
    )
    Console().print(row)
    return row


def accumulated(folder: Path) -> str:
    """The digest of one device that accumulates a pass of each device of the fleet that has run last."""
    x, y = digits()
    parts = dirichlet_parts(y[:TRAINED].astype(np.int32), DEVICES, CONCENTRATION, 0)
    module: Any = imported(folder / "out/library", "fleet")
    arrays = {"input": x[:TRAINED], "labels": y[:TRAINED].astype(np.int32)}
    write_devices(folder / "devices.npz", Samples({}, arrays, BATCH), parts)
    devices = Devices(FleetRules(str(folder / "out/library"), "fleet", str(folder / "devices.npz"), BATCH))
    one = module.Model()
    for number in range(1, ROUNDS + 1):
        for device in range(DEVICES):
            devices.fill(one, DeviceTask(device, number, {}).device, number - 1)
            one.train_step()
        one.update()
    return str(one.digest())


def main() -> None:
    """Measure, print and write all rows; exit code 1 where digests differ that have to be the same."""
    has = {"flwr": importlib.util.find_spec("flwr"), "ray": importlib.util.find_spec("ray")}
    ways = [way for way in WAYS if way[0] == "loop" or (has["flwr"] and (way[0] != "ray" or has["ray"]))]
    x, y = digits()
    rows = list[Row]()
    base = ("--devices", DEVICES, "--rounds", ROUNDS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model.generate(folder / "case", batch=BATCH)
        np.savez(folder / "train.npz", input=x[:TRAINED], labels=y[:TRAINED])
        np.savez(folder / "validation.npz", input=x[TRAINED:], labels=y[TRAINED:])
        large = [way for way in ways if way in LARGE]
        few = ("--devices", FEW, "--rounds", FEW_ROUNDS, *LOCAL)
        rows += [fleet(folder, "all reply", *way, *base, *LOCAL) for way in large]
        faults = (*FAULTS, int(0.8 * DEVICES))
        rows += [fleet(folder, "5 % late, 5 % lost", *way, *base, *LOCAL, *faults) for way in large[:1]]
        rows += [fleet(folder, "all reply", *way, *few) for way in ways]
        faults = (*FAULTS, int(0.7 * FEW))
        rows += [fleet(folder, "5 % late, 5 % killed", *way, *few, *faults) for way in ways if way in KILLED_WAYS]
        rows.append(fleet(folder, "gradients", *large[0], *base, "--strategy", "gradients", "--lr", 0.0003))
        alone = accumulated(folder)
    record = {"processor": processor(), "cores": os.cpu_count(), "digits": digits_source(), "accumulated": alone}
    record |= {"rows": [asdict(row) for row in rows]}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, page_table(record))
    digests: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        digests.setdefault((row.title, row.devices), set()).add(row.digest)
    digests["gradients", DEVICES].add(alone)
    differing = [title for (title, _), found in digests.items() if len(found) > 1]
    sys.exit(f"digests differ: {', '.join(differing)}" if differing else 0)


def page_table(record: Mapping[str, Any]) -> str:
    """The tables of the results."""
    rows = [Row(**{**row, "accuracies": tuple(row["accuracies"])}) for row in record["rows"]]
    data = f"The digits are {record['digits']}; {TRAINED} of them for devices, 360 for validation"
    lines = [f"{data}; {record['cores']} cores ({record['processor']}). Times are the wall's.", ""]
    lines += ["| devices, rounds | back end, workers | seconds | MB | MB of a worker | late, failed | digest |"]
    lines += ["|---|---|---:|---:|---:|---:|---|"]
    for row in rows:
        size = f"{row.devices}, {len(row.accuracies)}: {row.title}"
        worker = str(row.worker_megabytes or "")
        cells = [size, f"{row.backend}, {row.workers}", f"{row.seconds:g}", str(row.megabytes), worker]
        lines.append(f"| {' | '.join(cells)} | {row.late}, {row.failed} | `{row.digest}` |")
    lines.append(f"| one device, {DEVICES} passes accumulated | | | | | | `{record['accumulated']}` |")
    heads = " | ".join(f"round {number}" for number in SHOWN)
    lines += [
        "",
        f"Validation accuracy in %, of {DEVICES} devices:",
        "",
        f"| | {heads} |",
        "|---|" + "---:|" * len(SHOWN),
    ]
    for title in dict.fromkeys(row.title for row in rows if len(row.accuracies) >= max(SHOWN)):
        row = next(row for row in rows if row.title == title)
        shown = " | ".join(f"{100 * row.accuracies[number - 1]:.1f}" for number in SHOWN)
        lines.append(f"| {title} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
