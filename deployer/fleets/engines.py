"""Engines: what hands a round's tasks to devices and collects their replies; the one without Flower is here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from deployer.fleets.device import DeviceReply, DeviceTask, FleetRules, devices_of
from deployer.fleets.options import FAILED, LATE, LOOP, REPLIED

LONGEST_CAUSE = 300


@dataclass(frozen=True, eq=False)
class DeviceOutcome:
    """Outcome of a device in a round: one of `OUTCOMES`, with the reply, or with the cause of its absence."""

    device: int
    outcome: str
    cause: str = ""
    reply: DeviceReply | None = None


Ask = Callable[[Sequence[DeviceTask], float | None], list[DeviceOutcome]]
"""(tasks of a round, seconds until its deadline) -> an outcome for each task, in any order."""


class Engine(Protocol):
    """Distribution of tasks to devices."""

    def play(self, rules: FleetRules, devices: int, server: Callable[[Ask], None]) -> None:
        """Call the server with a function that asks devices; devices are there while it runs."""


class LoopEngine:
    """Devices one after another in this process; nothing can be late but what is drawn to be."""

    def play(self, rules: FleetRules, devices: int, server: Callable[[Ask], None]) -> None:
        """Call the server."""
        own = devices_of(rules)

        def ask(tasks: Sequence[DeviceTask], deadline: float | None) -> list[DeviceOutcome]:
            return [_outcome(own.work, task) for task in tasks]

        server(ask)


def _outcome(work: Callable[[DeviceTask], DeviceReply], task: DeviceTask) -> DeviceOutcome:
    try:
        return arrived(task, work(task))
    except (RuntimeError, ValueError) as error:
        return DeviceOutcome(task.device, FAILED, shortened_cause(error))


def arrived(task: DeviceTask, reply: DeviceReply) -> DeviceOutcome:
    """The outcome of a reply that has come in time; one that is drawn to be late counts as late."""
    if task.fault == LATE:
        return DeviceOutcome(task.device, LATE, "late, as drawn")
    return DeviceOutcome(task.device, REPLIED, reply=reply)


def shortened_cause(error: object) -> str:
    """The first line of an error's text, of a bounded length."""
    return str(error).partition("\n")[0][:LONGEST_CAUSE]


def engine_of(backend: str, workers: int) -> Engine:
    """The engine of a back end by its name. Raises ToolMissing without Flower, which all but one need."""
    if backend == LOOP:
        return LoopEngine()
    from deployer.fleets.flower import flower_engine

    return flower_engine(backend, workers)
