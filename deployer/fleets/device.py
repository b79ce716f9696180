"""A simulated device: an instance of the packaged library, its own samples, and its work in a round.

Each process that runs devices loads this module: nothing heavy is imported but numpy.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from deployer.core.files.arrays import read_npz
from deployer.fleets.compression import Compression
from deployer.fleets.options import FAILED, KILLED, NONE
from deployer.training.order import Order

Arrays = dict[str, Any]
GRADIENT_IMAGE = "gradients"
"""The name of a reply's image of gradients among its arrays."""
PASS_COUNTER = "pass"
"""The tensor of a library's state that random draws of a pass, such as dropout, depend on."""
PASSES = 1 << 31
"""Numbers of passes begin again after so many."""
PARTS, ENDS = "parts", "ends"
"""Arrays of a data file beside the samples: numbers of samples device by device, and the end of each device's."""
EXIT = 9
"""Exit code of a process whose device is killed."""


@dataclass(frozen=True)
class FleetRules:
    """Work of a device in a round: passes over its samples, passes per update, the proximal mu, the compression.

    `library` is the folder of the packaged library, `name` its name, `data` the file of samples, of which a pass takes
    `batch`. `gradients` devices make one pass and reply its gradients. `weights` are the tensors that have a proximal
    term and are compressed, by name with the names of their gradients; other tensors are sent as they are.
    """

    library: str
    name: str
    data: str
    batch: int
    seed: int = 0
    shuffled: bool = True
    epochs: int = 1
    per_update: int = 1
    mu: float = 0.0
    gradients: bool = False
    weights: tuple[tuple[str, str], ...] = ()
    compression: Compression = field(default_factory=Compression)
    own_process: bool = False


@dataclass(frozen=True, eq=False)
class DeviceTask:
    """A round's task for a device: global weights, learning rates by group, the number of its first pass.

    `memory` is what the device keeps of its last update, `fault` what is going to happen to it, empty for nothing.
    """

    device: int
    round: int
    weights: Mapping[str, Any]
    rates: tuple[float, ...] = ()
    first_pass: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, eq=False)
class DeviceReply:
    """The reply of a device: what it sends, its samples and passes, the mean loss of these, and what it keeps."""

    device: int
    arrays: Mapping[str, Any]
    samples: int
    passes: int
    loss: float
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceOrder(Order):
    """The order of a device's own samples, which differs from device to device."""

    device: int = 0

    def of_epoch(self, epoch: int) -> Any:
        """The order of all samples in an epoch, counted from 0."""
        if not self.shuffled:
            return super().of_epoch(epoch)
        return np.random.default_rng([self.seed, self.device, epoch]).permutation(self.count)


class DeviceLost(RuntimeError):
    """A device that ends without a reply."""


def imported(folder: Path, name: str) -> ModuleType:
    """The module of a packaged library, by the path of its folder."""
    spec = importlib.util.spec_from_file_location(f"deployer_fleet_{name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Devices:
    """All devices of a fleet, as one process sees them: the library and the samples are loaded once."""

    rules: FleetRules

    @cached_property
    def module(self) -> Any:
        """The library's module."""
        return imported(Path(self.rules.library), self.rules.name)

    @cached_property
    def samples(self) -> dict[str, Any]:
        """Arrays by data input, and the parts of devices."""
        return read_npz(Path(self.rules.data))

    def part(self, device: int) -> Any:
        """The numbers of a device's samples."""
        ends = self.samples[ENDS]
        return self.samples[PARTS][ends[device - 1] if device else 0 : ends[device]]

    def work(self, task: DeviceTask) -> DeviceReply:
        """Make the passes of a task; DeviceLost where the task says that the device is lost."""
        if task.fault == KILLED and self.rules.own_process:
            os._exit(EXIT)
        if task.fault in (FAILED, KILLED):
            raise DeviceLost(f"{task.fault}, as drawn")
        with self.module.Model() as model:
            for name, array in task.weights.items():
                model.weights[name][...] = array
            for group, rate in enumerate(task.rates):
                model.set_learning_rate(rate, group)
            if PASS_COUNTER in model.state:
                model.state[PASS_COUNTER][...] = task.first_pass % PASSES
            return self._gradients(model, task) if self.rules.gradients else self._weights(model, task)

    def order(self, device: int) -> DeviceOrder:
        """The order of a device's samples in batches."""
        rules = self.rules
        return DeviceOrder(len(self.part(device)), rules.batch, rules.seed, rules.shuffled, device=device)

    def fill(self, model: Any, device: int, index: int) -> None:
        """Fill the inputs of the device's pass of that index, counted over all epochs."""
        numbers = self.part(device)[self.order(device).indices(index)]
        for name, place_of in model.inputs.items():
            if name in self.samples:
                place_of[...] = self.samples[name][numbers].reshape(place_of.shape)

    def _gradients(self, model: Any, task: DeviceTask) -> DeviceReply:
        self.fill(model, task.device, task.round - 1)
        loss = model.train_step()
        sent = {GRADIENT_IMAGE: np.frombuffer(model.get_gradients(), np.uint8)}
        known = dict(self.rules.weights)
        sent |= {name: array.copy() for name, array in model.weights.items() if name not in known}
        return DeviceReply(task.device, sent, self.rules.batch, 1, loss)

    def _weights(self, model: Any, task: DeviceTask) -> DeviceReply:
        rules, losses = self.rules, list[float]()
        each = self.order(task.device).passes * rules.epochs
        for number in range(each):
            self.fill(model, task.device, (task.round - 1) * each + number)
            losses.append(model.train_step())
            if (number + 1) % rules.per_update == 0 or number == each - 1:
                self._pull(model, task)
                model.update()
        after = {name: array.copy() for name, array in model.weights.items()}
        loss = float(np.mean(np.asarray(losses, np.float64)))
        samples = len(self.part(task.device))
        if rules.compression.name == NONE:
            return DeviceReply(task.device, after, samples, each, loss)
        known = dict(rules.weights)
        changes = {name: after[name] - task.weights[name] for name in known}
        changes = {name: change + task.memory.get(name, np.float32(0)) for name, change in changes.items()}
        sent = rules.compression.packed(changes)
        found = rules.compression.unpacked(sent, {name: change.shape for name, change in changes.items()})
        memory = {name: change - found[name] for name, change in changes.items()}
        sent |= {name: array for name, array in after.items() if name not in known}
        return DeviceReply(task.device, sent, samples, each, loss, memory)

    def _pull(self, model: Any, task: DeviceTask) -> None:
        """Add the gradient of the proximal term, mu (w - w0), to the gradients that wait for the update."""
        if self.rules.mu:
            mu = np.float32(self.rules.mu)
            for name, gradient in self.rules.weights:
                waiting = model.state[gradient]
                waiting += mu * (model.weights[name] - task.weights[name])


@lru_cache(maxsize=1)
def devices_of(rules: FleetRules) -> Devices:
    """The devices of these rules, loaded once in a process."""
    return Devices(rules)
