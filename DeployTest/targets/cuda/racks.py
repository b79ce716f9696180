"""Racks under test: libraries of cases, what each device has of its own, and the same on this machine by C alone."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core import target
from deployer.core.errors import ToolMissing
from deployer.racks import tools
from deployer.racks.emulation import EmulatedMachine, build_emulation
from deployer.racks.launch import launch_of
from deployer.racks.library import RackLibrary
from deployer.racks.rack import Rack
from deployer.racks.rules import RackRules, rack_rules
from DeployTest.firmware.bindings.modules import module_of
from DeployTest.support.building.cases import case_dir

Array = np.ndarray[Any, Any]
TARGET = target.load("cuda")
RULES = rack_rules(TARGET)
DEVICES, SAMPLES, PASSES = 3, 5, 4
RATES = (0.01, 0.003, 0.02)


@dataclass(frozen=True)
class Trial:
    """A library's folder and module, samples, and of each device the order of its samples and its rate."""

    folder: Path
    module: Any
    samples: Mapping[str, Array]
    order: Array
    rates: Array


def trial_of(model: str, root: Path, devices: int = DEVICES) -> Trial:
    """A trial of a model of the tests."""
    folder = root / f"library_{model}"
    module = module_of("net", case_dir(model, root), folder, "-p", TARGET.name)
    return trial_of_library(folder, module, devices)


def trial_of_library(folder: Path, module: Any, devices: int = DEVICES) -> Trial:
    """A trial of a library with its module."""
    draw, samples = np.random.default_rng(5), dict[str, Array]()
    for row in RackLibrary(folder).inputs:
        shape = (SAMPLES, *row.shape)
        floats = row.dtype == "float32"
        samples[row.name] = (
            draw.standard_normal(shape).astype(np.float32) if floats else draw.integers(0, 2, shape, row.dtype)
        )
    passes = PASSES * RackLibrary(folder).accumulate
    order = np.stack([draw.integers(0, SAMPLES, passes) for _ in range(devices)])
    return Trial(folder, module, samples, order, np.resize(np.float32(RATES), devices)[:, np.newaxis])


@dataclass(frozen=True)
class Trained:
    """Losses [devices, passes], digests and weights of all devices."""

    losses: Array
    digests: list[int]
    weights: list[dict[str, Array]]


def on_host(trial: Trial, devices: int = DEVICES) -> Trained:
    """The trial by the library's own interface, one device after the other."""
    names = [row.name for row in RackLibrary(trial.folder).inputs]
    every, losses, digests, weights = RackLibrary(trial.folder).accumulate, [], [], []
    for order, rate in list(zip(trial.order, trial.rates, strict=True))[:devices]:
        with trial.module.Model() as model:
            for group in range(RackLibrary(trial.folder).groups):
                model.set_learning_rate(float(rate[0]), group)
            for number, sample in enumerate(order, 1):
                losses.append(model.train_step(*(trial.samples[name][sample] for name in names)))
                if number % every == 0:
                    model.update()
            digests.append(int(model.digest(), 16))
            weights.append({name: array.copy() for name, array in model.weights.items()})
    return Trained(np.float32(losses).reshape(devices, -1), digests, weights)


def on_rack(rack: Rack, trial: Trial) -> Trained:
    """The trial on a rack, which is closed."""
    rack.give_samples(trial.samples)
    rack.set_rates(trial.rates)
    half = trial.order.shape[1] // 2
    losses = np.concatenate([rack.train(trial.order[:, part]) for part in (slice(half), slice(half, None))], axis=1)
    digests, weights = rack.digests().tolist(), rack.weights()
    assert not rack.statuses.any()
    rack.close()
    each = [{name: array[device] for name, array in weights.items()} for device in range(rack.devices)]
    return Trained(losses, digests, each)


def emulated(
    trial: Trial, place: Path, lanes: int, per_lane: bool = False, races: bool = False, rules: RackRules = RULES
) -> Rack:
    """An emulated rack of a trial's devices."""
    library = RackLibrary(trial.folder)
    machine = EmulatedMachine(build_emulation(library, rules, per_lane, place, races), rules)
    launch = launch_of(library.struct_bytes, per_lane, 1, machine.limits, rules.launch, lanes)
    return Rack(library, machine, launch, len(trial.order), rules.emulation.lanes)


def assert_same(found: Trained, expected: Trained) -> None:
    """All bits are the same."""
    assert found.digests == expected.digests
    assert found.losses.tobytes() == expected.losses.tobytes()
    for mine, other in zip(found.weights, expected.weights, strict=True):
        assert {name: array.tobytes() for name, array in mine.items()} == {name: other[name].tobytes() for name in mine}


@cache
def lacking() -> str:
    """Why no device code can be made here; empty where it can."""
    try:
        tools.device_compiler(RULES.device)
        tools.assembler(RULES.device)
    except ToolMissing as error:
        return error.cause
    return ""


@cache
def without_sanitizer() -> str:
    """Why threads cannot be watched here; empty where they can."""
    command = "echo 'int main(void) { return 0; }' | gcc -fsanitize=thread -x c - -o /tmp/$$.tsan && /tmp/$$.tsan"
    run = subprocess.run(
        f"{command}; code=$?; rm -f /tmp/$$.tsan; exit $code", shell=True, capture_output=True, check=False
    )
    return "gcc's thread sanitizer does not work here" if run.returncode else ""


def without_joins(trial: Trial, place: Path) -> Trial:
    """The trial of a library whose cores do not meet behind kernels."""
    shutil.copytree(trial.folder, place)
    steps = place / "src/net.c"
    text = steps.read_text()
    assert "    hal_join();\n" in text
    steps.write_text(text.replace("    hal_join();\n", ""))
    return replace(trial, folder=place)
