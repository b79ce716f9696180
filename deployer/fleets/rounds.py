"""Rounds of a fleet: who is asked, what is drawn to fail, the new global model, and what is kept of each round."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import ToolFailed
from deployer.core.files.reading import damage, parse_json
from deployer.core.safe_text import json_line
from deployer.fitting.checkpoint import CheckpointPlace, checkpoint_bytes, read_checkpoint
from deployer.fitting.history import EpochRow
from deployer.fitting.runs.run_files import CHECKPOINT
from deployer.fleets.compression import Arrays, Compression, sent_bytes
from deployer.fleets.device import GRADIENT_IMAGE, PASS_COUNTER, PASSES, DeviceTask
from deployer.fleets.engines import Ask
from deployer.fleets.options import FAILED, GRADIENTS, KILLED, LATE, NONE, REPLIED
from deployer.fleets.preparation import Measure
from deployer.fleets.strategies import DevicePart, FleetStrategy, ServerState, stepped
from deployer.running import output

ASKED, DRAWN = 1, 2
"""Numbers of the random streams of devices that are asked, and of faults, beside that of splits."""
MEMORY, FACTS = "devices/", "fleet/rounds"
"""Names of arrays in a checkpoint: what devices keep, and the records of rounds, before names of weights."""
SHOWN_CAUSES = 3


@dataclass(frozen=True)
class DrawnFaults:
    """Shares of the asked devices that a draw makes late, failing or killed in each round."""

    late: float = 0.0
    failed: float = 0.0
    killed: float = 0.0

    def of(self, seed: int, number: int, devices: Sequence[int]) -> list[str]:
        """The fault of each device in a round, empty for none."""
        shares = np.random.default_rng([seed, DRAWN, number]).random(max(devices, default=0) + 1)
        ends = np.cumsum([self.killed, self.failed, self.late])
        names = (KILLED, FAILED, LATE, "")
        return [names[int(np.searchsorted(ends, shares[device], side="right"))] for device in devices]


@dataclass(frozen=True)
class RoundRecord:
    """A round, from 1 on: devices that were asked and what became of them, and bytes to and from devices.

    `late` and `failed` devices have no part in the model; `causes` has some of what was said of them. `samples` are
    those of the devices that replied.
    """

    round: int
    asked: tuple[int, ...]
    replied: tuple[int, ...]
    late: tuple[int, ...]
    failed: tuple[int, ...]
    samples: int
    bytes_down: int
    bytes_up: int
    causes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Counts of the devices by their ends, in one line."""
        others = [f"{len(found)} {name}" for name, found in ((LATE, self.late), (FAILED, self.failed)) if found]
        return ", ".join([f"{len(self.replied)} of {len(self.asked)} replied", *others])


@dataclass(frozen=True)
class FleetOptions:
    """Options of a fleet: rounds, devices asked in each (0: all), the fewest replies (0: of all), seconds, faults."""

    rounds: int
    per_round: int = 0
    min_replies: int = 0
    deadline: float | None = None
    seed: int = 0
    faults: DrawnFaults = field(default_factory=DrawnFaults)


Told = Callable[[EpochRow, RoundRecord], None]
"""Called with each round at its end."""


@dataclass(eq=False)
class Federation:
    """A fleet between rounds: the server's state, what devices keep, rows and records of the rounds so far.

    `passes` are those of each device in a round, `groups` the learning rates of each round by group, `rate` the shown
    rate of each, `plain` names of running statistics, `module` the library's, for gradients of which `model` is the
    server's own instance.
    """

    options: FleetOptions
    strategy: FleetStrategy
    compression: Compression
    passes: Sequence[int]
    groups: Sequence[Sequence[float]]
    rate: Sequence[float]
    plain: Sequence[str]
    server: ServerState
    module: Any
    origin: Mapping[str, str]
    memory: dict[int, Arrays] = field(default_factory=dict)
    rows: list[EpochRow] = field(default_factory=list)
    records: list[RoundRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    model: Any = None

    def __post_init__(self) -> None:
        """Make the server's own instance of the library where gradients go there."""
        self.model = self.module.Model()
        self._set(self.server.weights)

    def _set(self, weights: Mapping[str, Any]) -> None:
        for name, array in weights.items():
            self.model.weights[name][...] = array

    @property
    def digest(self) -> str:
        """The library's digest of the state with the global weights."""
        return str(self.model.digest())

    def asked(self, number: int) -> list[int]:
        """The devices that a round asks, in ascending order."""
        devices, few = len(self.passes), self.options.per_round
        if not few or few >= devices:
            return list(range(devices))
        draw = np.random.default_rng([self.options.seed, ASKED, number])
        return sorted(draw.choice(devices, few, replace=False).tolist())

    def run(self, ask: Ask, folder: Path, force: bool, measure: Measure | None, told: Told) -> None:
        """Make the rounds that are left; a checkpoint is written after each.

        ToolFailed where a round has fewer replies than it needs: the model is then that of the round before.
        """
        while len(self.rows) < self.options.rounds:
            begin = time.perf_counter()
            record, loss, made = self._round(ask, len(self.rows) + 1, folder)
            metrics = measure(self.server.weights) if measure else {}
            row = EpochRow(record.round, made, loss, float(self.rate[record.round - 1]), metrics)
            self.rows.append(row)
            self.records.append(record)
            self.seconds.append(time.perf_counter() - begin)
            output.write(folder, {CHECKPOINT: self.checkpoint()}, force, lasting=True)
            told(row, record)

    def tasks(self, number: int) -> list[DeviceTask]:
        """The tasks of a round."""
        asked = self.asked(number)
        faults = self.options.faults.of(self.options.seed, number, asked)
        most, rates = max(self.passes), tuple(map(float, self.groups[number - 1])) if len(self.groups) else ()
        gradients = self.strategy.name == GRADIENTS
        found = []
        for place, (device, fault) in enumerate(zip(asked, faults, strict=True)):
            first = (
                (number - 1) * len(asked) + place if gradients else ((number - 1) * len(self.passes) + device) * most
            )
            known = self.memory.get(device, {})
            found.append(DeviceTask(device, number, self.server.weights, rates, first, known, fault))
        return found

    def _round(self, ask: Ask, number: int, folder: Path) -> tuple[RoundRecord, float, int]:
        tasks = self.tasks(number)
        outcomes = sorted(ask(tasks, self.options.deadline), key=lambda outcome: outcome.device)
        good = [o.reply for o in outcomes if o.outcome == REPLIED and o.reply is not None]
        by_name = {name: tuple(o.device for o in outcomes if o.outcome == name) for name in (REPLIED, LATE, FAILED)}
        causes = tuple(f"device {o.device}: {o.cause}" for o in outcomes if o.cause)[:SHOWN_CAUSES]
        needed = self.options.min_replies or len(tasks)
        if len(good) < needed:
            self._lacks(number, len(good), needed, by_name, causes, folder)
        parts = [DevicePart(reply.device, reply.samples, reply.arrays) for reply in good]
        samples = sum(part.samples for part in parts)
        record = RoundRecord(
            number,
            tuple(task.device for task in tasks),
            by_name[REPLIED],
            by_name[LATE],
            by_name[FAILED],
            samples,
            len(tasks) * sent_bytes(self.server.weights),
            sum(sent_bytes(part.arrays) for part in parts),
            causes,
        )
        if self.strategy.name == GRADIENTS:
            self._update(parts, tasks)
        else:
            self._average(parts)
            self.memory |= {reply.device: dict(reply.memory) for reply in good if reply.memory}
        loss = sum(reply.samples * reply.loss for reply in good) / samples
        before = self.rows[-1].passes if self.rows else 0
        return record, loss, before + sum(reply.passes for reply in good)

    def _average(self, parts: Sequence[DevicePart]) -> None:
        """The strategy's step by weights, or by changes of those that are compressed."""
        compressed = self.compression.name != NONE
        if compressed:
            shapes = {n: array.shape for n, array in self.server.weights.items() if n not in self.plain}
            own = self.compression
            parts = [
                DevicePart(
                    part.device,
                    part.samples,
                    own.unpacked(part.arrays, shapes) | {name: part.arrays[name] for name in self.plain},
                )
                for part in parts
            ]
        self.server = stepped(self.strategy, self.server, parts, compressed, self.plain)
        self._set(self.server.weights)

    def _update(self, parts: Sequence[DevicePart], tasks: Sequence[DeviceTask]) -> None:
        """One update by the sum of gradients, in the order of devices, as passes of one device add them."""
        for group, rate in enumerate(tasks[0].rates):
            self.model.set_learning_rate(rate, group)
        for part in parts:
            self.model.add_gradients(part.arrays[GRADIENT_IMAGE])
        self.model.update()
        if PASS_COUNTER in self.model.state:
            self.model.state[PASS_COUNTER][...] = (tasks[-1].first_pass + 1) % PASSES
        if self.plain:
            plain = [DevicePart(p.device, p.samples, {n: p.arrays[n] for n in self.plain}) for p in parts]
            self._set(stepped(FleetStrategy(), self.server, plain, False, self.plain).weights | self._trained())
        self.server = ServerState({name: array.copy() for name, array in self.model.weights.items()})

    def _trained(self) -> Arrays:
        return {name: array.copy() for name, array in self.model.weights.items() if name not in self.plain}

    def _lacks(
        self,
        number: int,
        found: int,
        needed: int,
        by_name: Mapping[str, Sequence[int]],
        causes: Sequence[str],
        folder: Path,
    ) -> None:
        """Raise ToolFailed."""
        facts = [(name, str(len(by_name[name]))) for name in (LATE, FAILED)] + [("cause", text) for text in causes]
        fewer = f"--min-replies {max(found, 1)}"
        hint = f"more devices that reply, or {fewer}"
        if number > 1:
            last = f"the model after round {number - 1} is in {folder}"
            hint = f"{last}; --resume goes on from there, with other devices, or with {fewer}"
        cause = f"round {number} has {found} replies, and needs {needed}"
        raise ToolFailed(cause, facts, hint)

    # Checkpoints: those of a run, with what a fleet needs beside it.

    def checkpoint(self) -> bytes:
        """The checkpoint of the rounds so far: a run's, whose passes are rounds, with what devices and server keep."""
        state: dict[str, Any] = {name: array.copy() for name, array in self.model.state.items()}
        state |= self.server.weights | self.server.moments
        for device, kept in self.memory.items():
            state |= {f"{MEMORY}{device}/{name}": array for name, array in kept.items()}
        text = json_line([asdict(record) for record in self.records]).encode()
        state[FACTS] = np.frombuffer(text, np.uint8)
        losses = np.array([row.loss for row in self.rows], np.float32)
        place = CheckpointPlace(len(self.rows), losses, state, tuple(self.rows))
        return checkpoint_bytes(place, self.origin)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint of this fleet; errors are those of `read_checkpoint`."""
        place = read_checkpoint(path, self.origin)
        with damage(f"{path} is not the checkpoint of a fleet", "a folder of `deployer fleet`"):
            facts = parse_json(place.state[FACTS].tobytes().decode(), nonfinite=True)
            records = [_record(fact) for fact in facts]
        self.rows, self.records = list(place.rows), records
        weights = {name: np.array(place.state[name], np.float32) for name in self.server.weights}
        known = {*weights, *self.model.state, FACTS}
        others = {name: np.array(array) for name, array in place.state.items() if name not in known}
        for name, array in others.items():
            if name.startswith(MEMORY):
                device, _, tensor = name.removeprefix(MEMORY).partition("/")
                self.memory.setdefault(int(device), {})[tensor] = array
        self.server = ServerState(weights, {n: a for n, a in others.items() if not n.startswith(MEMORY)})
        for name, array in self.model.state.items():
            array[...] = place.state[name]
        self._set(weights)


def _record(fact: Mapping[str, Any]) -> RoundRecord:
    """The record of a round as JSON has it; TypeError where it is none."""
    fields: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in fact.items()}
    return RoundRecord(**fields)
