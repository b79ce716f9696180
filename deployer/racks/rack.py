"""A rack of devices: structs of a library on a machine, with their own samples, rates and states."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from deployer.core.errors import DatasetMismatch, RunFailed
from deployer.core.operator import Array
from deployer.racks.launch import Launch
from deployer.racks.library import RackLibrary
from deployer.racks.machine import Machine, RackCall

KEEP_STATE = 0
"""The kind of an image of the whole state."""
ROW = 8
"""Bytes to which images are aligned."""


class Rack:
    """So many devices. All calls work on all of them; those that have failed do nothing more.

    `alone` is the number of lanes of a group in calls where each lane is a device.
    """

    def __init__(self, library: RackLibrary, machine: Machine, launch: Launch, devices: int, alone: int) -> None:
        """Prepare all devices: each tests how the machine rounds. RunFailed where one refuses."""
        self.library, self.machine, self.launch, self.devices = library, machine, launch, devices
        self._alone, self._samples = alone, 0
        self._models = machine.allocate(devices * library.struct_bytes)
        self._statuses = machine.allocate(devices * 4)
        self._call("begin")
        self._check("begin")

    def _call(self, entry: str, launch: Launch | None = None, **arguments: int) -> None:
        """Run an entry on all devices: a lane for each, or as the launch says."""
        call = RackCall(models=self._models, statuses=self._statuses, count=self.devices, **arguments)
        if launch is None:
            self.machine.launch(entry, -(-self.devices // self._alone), self._alone, 0, call)
        else:
            self.machine.launch(entry, launch.groups(self.devices), launch.lanes, launch.scratch, call)

    @contextmanager
    def _memory(self, content: bytes = b"", count: int = 0) -> Iterator[int]:
        """Memory of the machine with this content, or of so many bytes."""
        address = self.machine.allocate(count or len(content))
        try:
            if content:
                self.machine.write(address, content)
            yield address
        finally:
            self.machine.free(address)

    @property
    def statuses(self) -> Array:
        """The first result of each device that was not 0, as int32 [devices]; its meaning is `library.statuses`."""
        return np.frombuffer(self.machine.read(self._statuses, 4 * self.devices), np.int32)

    def _check(self, what: str) -> None:
        """Raise RunFailed where a device has failed."""
        statuses = self.statuses
        if statuses.any():
            first = int(np.flatnonzero(statuses)[0])
            name, meaning = self.library.statuses[statuses[first]]
            facts = [("devices", f"{np.count_nonzero(statuses)} of {self.devices}"), ("first", str(first))]
            raise RunFailed(f"{what} of library {self.library.name} ends with {name}: {meaning}", facts)

    def set_rates(self, rates: Any) -> None:
        """Set the learning rates from the next update on: float32 [devices, groups], or what broadcasts to it."""
        shape = (self.devices, self.library.groups)
        with self._memory(np.ascontiguousarray(np.broadcast_to(np.float32(rates), shape)).tobytes()) as address:
            self._call("set_rates", rates=address)
            self._check("set_learning_rate")

    def load(self, images: bytes | Sequence[bytes]) -> None:
        """Load an image into all devices, or one into each; RunFailed where the library refuses one."""
        each = [images] if isinstance(images, bytes) else list(images)
        if len(each) not in (1, self.devices) or len({*map(len, each)}) != 1:
            facts = [("expected", f"1 or {self.devices} images of one length"), ("found", str(len(each)))]
            raise DatasetMismatch("these are not the images of a rack", facts, "an image for each device")
        stride = -(-len(each[0]) // ROW) * ROW
        content = b"".join(image.ljust(stride, b"\0") for image in each)
        with self._memory(content) as address:
            self._call("load", images=address, image_bytes=len(each[0]), stride=stride if len(each) > 1 else 0)
            self._check("load")

    def give_samples(self, samples: Mapping[str, Array]) -> None:
        """Copy samples to the machine: per input an array with a first axis of samples."""
        if self._samples:
            self.machine.free(self._samples)
        content = self.library.packed(samples)
        self._samples = self.machine.allocate(len(content))
        self._sample_count = len(content) // self.library.sample_bytes
        self.machine.write(self._samples, content)

    def train(self, order: Array) -> Array:
        """Make passes, with an update whenever there are as many as the library has for one.

        `order` [devices, passes] or [passes] has the numbers of samples. Returns the losses, float32 [devices, passes];
        those of passes that a device did not make are NaN.
        """
        given = np.asarray(order, np.uint32)
        rows = np.ascontiguousarray(np.broadcast_to(given, (self.devices, given.shape[-1])))
        if not self._samples or rows.max(initial=0) >= self._sample_count:
            raise DatasetMismatch("the order names samples that the rack does not have", hint="give_samples first")
        losses = np.full(rows.shape, np.nan, np.float32)
        with self._memory(rows.tobytes()) as at, self._memory(losses.tobytes()) as out:
            passes = rows.shape[1]
            self._call(self.launch.entry, self.launch, samples=self._samples, order=at, losses=out, passes=passes)
            return np.frombuffer(self.machine.read(out, losses.nbytes), np.float32).reshape(rows.shape)

    def digests(self) -> Array:
        """The digest of each device's state, uint64 [devices]."""
        with self._memory(count=8 * self.devices) as address:
            self._call("digest", digests=address)
            return np.frombuffer(self.machine.read(address, 8 * self.devices), np.uint64)

    def states(self) -> list[bytes]:
        """The image of each device's state."""
        size = self.library.state_bytes
        stride = -(-size // ROW) * ROW
        with self._memory(count=stride * self.devices) as address:
            self._call("save", images=address, image_bytes=size, stride=stride, keep=KEEP_STATE)
            content = self.machine.read(address, stride * self.devices)
        return [content[at : at + size] for at in range(0, len(content), stride)]

    def weights(self) -> dict[str, Array]:
        """The weights of all devices by name, each with a first axis of devices."""
        each = [self.library.tensors(image) for image in self.states()]
        return {name: np.stack([tensors[name] for tensors in each]) for name in each[0]}

    def close(self) -> None:
        """Give all memory and the machine back."""
        for address in filter(None, (self._models, self._statuses, self._samples)):
            self.machine.free(address)
        self.machine.close()
