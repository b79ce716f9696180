"""`deployer rack`: many devices of one machine train a case, each with its own samples and rate."""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from deployer import pipeline
from deployer.codegen.harness import data_read
from deployer.commands import ending
from deployer.core import target as targets
from deployer.core.errors import OptionProblem
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.safe_text import json_text
from deployer.firmware.library import Material
from deployer.frontend.dataset import Dataset
from deployer.racks.rack import Rack
from deployer.racks.rules import rack_names, rack_rules
from deployer.racks.start import start_rack
from deployer.running import output
from deployer.running.terminal import Terminal
from deployer.sizing.library_folder import write_library
from deployer.sizing.needs import material
from deployer.training.samples import npz_bytes

LIBRARY, ARRAYS, FACTS = "library", "rack.npz", "rack.json"
"""Subfolder and files of the output."""
NAME = "device"
"""Name of the library that all devices have."""
SHOWN = 4
"""Devices whose digests are shown."""


def run_rack(a: argparse.Namespace, console: Terminal) -> int:
    """Package the case, train it on a rack, and write losses, digests and weights; 1 where a device has stopped."""
    target = targets.load(a.platform or rack_names()[0])
    rack_rules(target)
    case = pipeline.load_training(a.case, a.n_steps, a.accumulate_grad_batches, warn=lambda w: ending.tell(str(w)))
    with console.status("plan") as status:
        made = material(case, NAME, Options(target=target.name), "", lambda w: ending.tell(str(w)), status.update)
    if a.lr and made.dataset.rates.size:
        raise OptionProblem("--lr has no effect on a case with a schedule of rates", hint="leave --lr out")
    write_library(made, a.output / LIBRARY, compiled=False, force=a.force, status=console.status)
    with tempfile.TemporaryDirectory() as place, console.status("build and run"):
        rack = start_rack(a.output / LIBRARY, target, a.replicas, Path(place), a.lanes or 0, a.emulate)
        losses, seconds = trained(rack, made, a.lr or (), a.seed)
        digests, weights, statuses = rack.digests(), rack.weights(), rack.statuses
        rack.close()
    facts = {
        "machine": rack.machine.limits.name,
        "launch": str(rack.launch),
        "devices": rack.devices,
        "passes": int(losses.shape[1]),
        "seconds": round(seconds, 6),
        "passes_per_second": round(losses.size / seconds, 1),
        "stopped": int(np.count_nonzero(statuses)),
        "digests": [f"{digest:016x}" for digest in digests.tolist()],
    }
    arrays = {"losses": losses, "digests": digests, "statuses": statuses}
    files: dict[str, str | bytes] = {
        ARRAYS: npz_bytes({**arrays, **{f"weights/{name}": array for name, array in weights.items()}}),
        FACTS: json_text(facts),
    }
    with output.opened(a.output, files, a.force):
        output.write(a.output, files, a.force)
    _tell(rack, facts, losses, statuses, console)
    return int(statuses.any())


def trained(rack: Rack, made: Material, rates: Sequence[float], seed: int | None) -> tuple[Array, float]:
    """Train all devices on the case's passes: the losses [devices, passes], and the seconds of the passes alone.

    Device i takes rate i modulo their number. With a `seed` each device takes the passes in an order of its own.
    """
    rack.give_samples(samples_of(made))
    if rates:
        rack.set_rates(np.resize(np.asarray(rates, np.float32), rack.devices)[:, np.newaxis])
    passes = made.dataset.n_batches
    order = np.broadcast_to(np.arange(passes), (rack.devices, passes))
    if seed is not None:
        order = np.stack([np.random.default_rng((seed, i)).permutation(passes) for i in range(rack.devices)])
    losses, begin = list[Array](), time.perf_counter()
    for update, window in enumerate(_windows(made.dataset)):
        if made.dataset.rates.size:
            rack.set_rates(made.dataset.rates[min(update, len(made.dataset.rates) - 1)])
        losses.append(rack.train(order[:, window]))
    return np.concatenate(losses, axis=1), time.perf_counter() - begin


def samples_of(made: Material) -> dict[str, Array]:
    """The inputs of each pass by the library's names, with a first axis of passes."""
    read = data_read(made.plan)
    rows = [dict(zip(made.plan.data, made.dataset.sample(i), strict=True)) for i in range(made.dataset.n_batches)]
    return {
        name: np.stack([np.asarray(row[name], made.program.tensors[name].type.dtype) for row in rows]) for name in read
    }


def _windows(dataset: Dataset) -> Iterator[slice]:
    """The passes between changes of the rates."""
    each = dataset.n_accum if dataset.rates.size else dataset.n_batches
    for first in range(0, dataset.n_batches, each):
        yield slice(first, min(first + each, dataset.n_batches))


def _tell(rack: Rack, facts: dict[str, object], losses: Array, statuses: Array, console: Terminal) -> None:
    """Show what came of it."""
    each = f"{facts['passes']} passes each, {facts['passes_per_second']} passes/s"
    console.lines(f"{rack.devices} devices on {rack.machine.limits.name}: {rack.launch}; {each}")
    digests = facts["digests"]
    assert isinstance(digests, list)
    for device, digest in enumerate(digests[:SHOWN]):
        console.lines(f"device {device}: digest {digest}, last loss {losses[device, -1]:.9g}")
    for status in sorted({*statuses.tolist()} - {0}):
        name, meaning = rack.library.statuses[status]
        console.lines(f"{np.count_nonzero(statuses == status)} devices have stopped: {name}, {meaning}")
    console.event("end", facts)
