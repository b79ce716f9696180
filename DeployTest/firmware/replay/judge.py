"""The records that a ring of latents must hold and draw, by its policies' definitions, in whole numbers of Python."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from deployer.operators.base.philox import philox

REPLACED, TRAINED, STREAM = 0, 1, 2
BITS = 32


def below(seed: int, count: int, index: int, purpose: int) -> int:
    """A whole number below a count: the product with 64 random bits, without as many bits."""
    words = [int(word) for word in philox(np.array([index, 0, purpose, STREAM]), (seed % 2**BITS, seed >> BITS))]
    return (words[1] << BITS | words[0]) * count >> 2 * BITS


@dataclass
class Ring(ABC):
    """A ring: the numbers of its samples in their slots, and what it counts; `labels` are those of all samples."""

    slots: int
    labels: Sequence[int]
    seed: int = 0
    held: list[int] = field(default_factory=list)
    adds: int = 0
    draws: int = 0

    def add(self, sample: int) -> None:
        """Take a record."""
        slot = len(self.held) if len(self.held) < self.slots else self.replaced(sample)
        if slot == len(self.held):
            self.held.append(sample)
        elif slot < self.slots:
            self.held[slot] = sample
        self.adds += 1

    @abstractmethod
    def replaced(self, sample: int) -> int:
        """The slot that makes room for a record in a full ring, or one that is none."""

    def counters(self) -> list[int]:
        """All counters in their order."""
        return [self.adds, self.draws]

    def draw(self) -> int:
        """The sample of a record for a pass."""
        self.draws += 1
        return self.held[below(self.seed, len(self.held), self.draws - 1, TRAINED)]


class Reservoir(Ring):
    """Vitter's algorithm R (Random sampling with a reservoir, 1985)."""

    def replaced(self, sample: int) -> int:
        """Any slot with the same probability."""
        slot = below(self.seed, self.adds + 1, self.adds, REPLACED)
        return slot if slot < self.slots else self.slots + 1


@dataclass
class Balanced(Ring):
    """Class-balancing reservoir sampling (Chrysakis, Moens, ICML 2020, algorithm 1)."""

    seen: dict[int, int] = field(default_factory=dict)
    full: set[int] = field(default_factory=set)

    def add(self, sample: int) -> None:
        """Count the record's class as well."""
        label = self.labels[sample]
        self.seen[label] = self.seen.get(label, 0) + 1
        super().add(sample)

    def of(self, label: int) -> list[int]:
        """The slots with records of a class."""
        return [slot for slot, sample in enumerate(self.held) if self.labels[sample] == label]

    def replaced(self, sample: int) -> int:
        """A record of the largest classes, or of the same class if that was ever one of them."""
        label = self.labels[sample]
        most = max(len(self.of(other)) for other in self.seen)
        largest = {other for other in self.seen if len(self.of(other)) == most}
        self.full |= largest
        if label not in self.full:
            room = [slot for slot, old in enumerate(self.held) if self.labels[old] in largest]
            return room[below(self.seed, len(room), self.adds, REPLACED)]
        own = self.of(label)
        number = below(self.seed, self.seen[label], self.adds, REPLACED)
        return own[number] if number < len(own) else self.slots + 1

    def counters(self) -> list[int]:
        """Adds and draws, then what is counted by class."""
        classes = range(max(self.labels) + 1)
        seen, held = [self.seen.get(label, 0) for label in classes], [len(self.of(label)) for label in classes]
        return [self.adds, self.draws, *seen, *held, *(int(label in self.full) for label in classes)]


RINGS = {"balanced": Balanced, "reservoir": Reservoir}
