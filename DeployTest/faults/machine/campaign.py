"""Each point of each command fails once, and memory ends at several limits: how commands end, and what they leave."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from DeployTest.faults.machine.runs import Bench, Ran, Tree, address_space, load, tree

LOCK, MANIFEST = ".deployer/lock", ".deployer/manifest.json"
"""Files of an output folder that say who works there, and what was written: no results."""
MEMORY, LIMITS, MOST_MEMORY = "memory", 20, 1.05
"""The name of that fault, how many limits there are, and the largest, in what the command takes."""
ENDED = "cannot allocate memory for thread-local data: ABORT"
"""The C library's last words where a thread has no memory, with the exit code 127."""


@dataclass(frozen=True)
class Fault:
    """Result of one command under one fault: `losses` are the violations of its contract."""

    command: str
    point: str
    told: str
    code: int | None
    losses: tuple[str, ...]
    errors: str


class Campaign:
    """The faults of one command."""

    def __init__(self, name: str, root: Path) -> None:
        """Prepare the command, and run it twice without a fault."""
        self.name, self.bench = name, Bench(name, root)
        load(self._whole().modules)
        self.whole = self._whole()
        self.after = tree(self.bench.folder)
        self.points = list(self.whole.seen)

    def _whole(self) -> Ran:
        self.bench.laid_out()
        ran = self.bench.run()
        if ran.code != 0:
            raise RuntimeError(f"{self.name} ended with {ran.code} without a fault:\n{ran.errors}")
        return ran

    def share(self, number: int, of: int) -> Iterator[Fault]:
        """The faults of one of so many shares of the points, which depend on their digests, and of the limits."""
        for point in self.points:
            if int(hashlib.sha256(point.encode()).hexdigest(), 16) % of == number:
                yield self.failed(point)
        for limit in range(1 + number, LIMITS + 1, of):
            yield self.without_memory(limit)

    def failed(self, point: str) -> Fault:
        """The fault of a point."""
        self.bench.laid_out()
        ran = self.bench.run(fails=point)
        losses = [] if ran.failed else ["the point did not come"]
        return self._judged(point, ran.failed, ran, losses)

    def without_memory(self, limit: int) -> Fault:
        """The command with a part of the memory that it takes."""
        self.bench.laid_out()
        space = int(max(self.whole.bytes - address_space(), 1 << 20) * MOST_MEMORY * limit / LIMITS)
        return self._judged(f"{MEMORY} {limit} of {LIMITS}", f"{space} B more", self.bench.run(space=space), [])

    def _judged(self, point: str, told: str, ran: Ran, losses: list[str]) -> Fault:
        """List the violations in a run's end, in its files, and in the next run."""
        left = tree(self.bench.folder)
        losses += _ending(ran)
        if ran.code == 0:
            losses += [f"{name} is not as it was to be" for name in _differing(left, self.after)]
        renewed = self.bench.command.renews
        losses += [f"{x} is damaged" for x in _damaged(left, self.bench.before, self.after) if x not in renewed]
        losses += [f"{name} is gone" for name in self.bench.before if name in self.after and name not in left]
        strangers = sorted(name for name in left if name not in self.bench.before and name not in self.after)
        losses += [f"{name} is left" for name in strangers]
        if strangers or (ran.code != 0 and _differing(left, self.bench.before)):
            again = self.bench.run()
            if again.code != 0:
                losses.append(f"the next run ends with {again.code}: {again.errors[-300:]}")
            else:
                wrong = _differing(tree(self.bench.folder), self.after)
                wrong = [name for name in wrong if name not in self.bench.command.tells]
                losses += [f"{name} is not as it was to be after the next run" for name in wrong]
        return Fault(self.name, point, told, ran.code, tuple(losses), ran.errors)


def _ending(ran: Ran) -> Iterator[str]:
    """List the violations in the exit code and the message."""
    if ran.code not in (0, 2) and not (ran.code == 127 and ENDED in ran.errors):
        yield f"exit code {ran.code}"
    if "Traceback" in ran.errors:
        yield "a traceback"
    if ran.code == 2 and "\n  try " not in ran.errors:
        yield "no way out is named"


def _differing(one: Tree, other: Tree) -> list[str]:
    """The names of results that are only in one, or not the same."""
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return [name for name in names if not name.endswith((LOCK, MANIFEST))]


def _damaged(left: Tree, before: Tree, after: Tree) -> list[str]:
    """The names of files that are neither as before nor as they were to be."""
    known = (before.keys() | after.keys()) & left.keys()
    return [name for name in _differing(left, before) if name in known and left[name] != after.get(name)]


def judged(names: Sequence[str], root: Path, number: int, of: int) -> Iterator[Fault]:
    """The faults of commands, of one of so many shares."""
    for name in names:
        yield from Campaign(name, root / name.replace(" ", "-")).share(number, of)
