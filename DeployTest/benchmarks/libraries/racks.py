"""Passes per second of racks of devices on a GPU, with every digest compared with the host's; or emulated digests.

`python -m DeployTest.benchmarks.libraries.racks` writes racks.json and the table of docs/cuda.md. On a machine with a
GPU it takes less than five minutes; elsewhere, or with `--emulate`, devices are few, their lanes are threads, and only
digests count. Devices have samples in orders of their own and 1024 learning rates. The host's C is called from Python,
on one core and by a process per core. Exit code 1 where a digest differs.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import ToolMissing
from deployer.racks.driver import Driver
from deployer.racks.launch import is_device_per_lane
from deployer.racks.library import RackLibrary
from deployer.racks.start import BuiltRack, build_rack
from DeployTest.benchmarks.flat import processor
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.firmware.bindings.modules import imported
from DeployTest.targets.cuda import racks
from DeployTest.targets.cuda.racks import Trial

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "cuda.md"
MARKS = ("<!-- rack table -->", "<!-- end of rack table -->")
PASSES = {"simple_mlp": 200, "digits": 50, "autoencoder": 20, "dscnn": 2, "resnet8": 2}
"""Passes of each device, by model."""
COUNTS, EMULATED = (1, 132, 1056, 8448), (1, 8)
"""Numbers of devices on a GPU, and in an emulation."""
LIMIT = 270.0
"""Seconds after which no further row begins, on a GPU."""
RATE, RATES = 0.01, 1024


@dataclass(frozen=True)
class Row:
    """A rack: devices, launch, passes per second, digests that were compared, those that differ; the first one."""

    model: str
    devices: int
    launch: str
    per_second: float
    checked: int
    different: int
    digest: str


def trial_of(model: str, root: Path, devices: int) -> Trial:
    """A trial of so many devices with orders and rates of their own."""
    made = racks.trial_of(model, root, 1)
    order = np.random.default_rng(3).integers(0, racks.SAMPLES, (devices, PASSES[model]))
    rates = RATE * (1 - np.arange(devices, dtype=np.float32)[:, np.newaxis] % RATES / (2 * RATES))
    return Trial(made.folder, made.module, made.samples, order, rates.astype(np.float32))


def _digests(folder: Path, samples: Mapping[str, Any], order: Any, rates: Any) -> list[int]:
    """The digests of some devices by the library's C; run in a process of its own."""
    library, module = RackLibrary(folder), imported(folder)
    trial = Trial(folder, module, samples, order, rates)
    assert library.accumulate >= 1
    return racks.on_host(trial, len(order)).digests


def on_all_cores(trial: Trial, cores: int) -> tuple[list[int], float]:
    """The digests of all devices, and passes per second by a process per core."""
    pieces = np.array_split(np.arange(len(trial.order)), min(4 * cores, len(trial.order)))
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        list(pool.map(_digests, *zip(*[_piece(trial, np.arange(1))] * cores, strict=True)))  # all have begun
        begin = time.perf_counter()
        found = pool.map(_digests, *zip(*(_piece(trial, part) for part in pieces), strict=True))
        digests = [digest for part in found for digest in part]
        return digests, trial.order.size / (time.perf_counter() - begin)


def _piece(trial: Trial, part: Any) -> tuple[Path, Mapping[str, Any], Any, Any]:
    return trial.folder, trial.samples, trial.order[part], trial.rates[part]


def on_one_core(trial: Trial) -> float:
    """Passes per second of the library's C on one core, for about a second."""
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < 1:
        racks.on_host(trial, 1)
        done += trial.order.shape[1]
    return done / (time.perf_counter() - begin)


def racked(trial: Trial, model: str, built: BuiltRack, devices: int, expected: Sequence[int]) -> Row:
    """A row; the first passes are none, so that loading code is no part of the time."""
    rack = built.start(devices)
    rack.give_samples(trial.samples)
    rack.set_rates(trial.rates[:devices])
    rack.train(trial.order[:devices, :0])
    begin = time.perf_counter()
    rack.train(trial.order[:devices])
    seconds, digests = time.perf_counter() - begin, rack.digests().tolist()
    rack.close()
    different = sum(mine != host for mine, host in zip(digests, expected, strict=False))
    rate = trial.order[:devices].size / seconds
    return Row(model, devices, str(rack.launch), round(rate, 1), len(digests), different, f"{digests[0]:016x}")


def measured(model: str, root: Path, emulate: bool, end: float) -> tuple[dict[str, float], list[Row]]:
    """The host's passes per second on one core and on all, and the rows of a model."""
    counts = EMULATED if emulate else COUNTS
    trial, cores = trial_of(model, root, counts[-1]), os.cpu_count() or 1
    expected, every = on_all_cores(trial, cores)
    host = {"one": round(on_one_core(trial), 1), "all": round(every, 1)}
    rows, built = [], dict[bool, BuiltRack]()
    for devices in counts:
        if not emulate and time.monotonic() > end:
            print(f"{model}, {devices} devices: left out, the time is over", flush=True)
            continue
        per_lane = is_device_per_lane(RackLibrary(trial.folder).struct_bytes, devices, racks.RULES.launch)
        if per_lane not in built:
            place = root / f"code_{model}_{per_lane}"
            built[per_lane] = build_rack(trial.folder, racks.TARGET, per_lane, place, emulate)
        row = racked(trial, model, built[per_lane], devices, expected)
        print(row, flush=True)
        rows.append(row)
    return host, rows


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print and write all rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulate", action="store_true", help="emulate the GPU also where there is one")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models to measure, without writing (default: all)")
    a = parser.parse_args(words)
    machine, end = "", time.monotonic() + LIMIT
    if not a.emulate:
        try:
            driver = Driver(racks.RULES.driver)
            machine = driver.limits.name
            driver.release()
        except ToolMissing as error:
            print(f"emulated: {error.cause}")
    hosts, rows = dict[str, dict[str, float]](), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models or PASSES:
            hosts[model], found = measured(model, Path(folder), not machine, end)
            rows += found
    record = {"processor": processor(), "cores": os.cpu_count(), "machine": machine, "hosts": hosts}
    if not a.models:
        whole = {**record, "rows": [asdict(row) for row in rows]}
        RESULT.write_text(json.dumps(whole, indent=1) + "\n")
        publish(__file__, PAGE, MARKS, page_table(whole))
    return int(any(row.different for row in rows))


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    rows = [Row(**each) for each in record["rows"]]
    head = f"{record['machine']} beside {record['cores']} cores of {record['processor']}, called from Python:"
    columns = ("model", "devices", "launch", "passes/s", "host, 1 core", "host, all cores", "digests", "differ")
    if not record["machine"]:
        head = f"Emulated by threads ({record['processor']}); times of an emulation say nothing of a GPU:"
        columns = ("model", "devices", "launch", "digest of the first", "digests", "differ")
    lines = [head, "", f"| {' | '.join(columns)} |", "|---|---:|---|" + "---:|" * (len(columns) - 3)]
    for row in rows:
        host = record["hosts"][row.model]
        speeds = [f"{number:.0f}" for number in (row.per_second, host["one"], host["all"])]
        middle = speeds if record["machine"] else [f"`{row.digest}`"]
        lines.append(
            "| "
            + " | ".join(map(str, (row.model, row.devices, row.launch, *middle, row.checked, row.different)))
            + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
