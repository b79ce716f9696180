"""Settings and workloads, which cells vary: how texts are read, and how a program of them is compiled and run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.lm.rows import IGNORED
from DeployTest.consistency.subjects import VOCAB, Layout

CONTEXTS = (24, 136)
"""Places of the reference's rows: the least that a text fits in."""
LONGEST, WINDOW, PAD = 130, 64, 7
"""Tokens of a text at most; passes that an update may have; the id of places without a text."""


@dataclass(frozen=True)
class Workload:
    """The texts that are read, each of so many tokens, and of which of them labels count in an update.

    If it is `ragged`, each text is three tokens shorter than the one before it.
    """

    texts: int = 2
    length: int = 19
    counted: int = -1
    ragged: bool = False

    def tokens(self, text: int) -> int:
        """The number of tokens of a text."""
        return max(1, self.length - 3 * text) if self.ragged else self.length

    def counts(self, text: int) -> bool:
        """Whether its labels count in an update."""
        return self.counted in (-1, text)


def words(text: int) -> tuple[Array, Array]:
    """The ids of a text and the labels behind them."""
    drawn = np.random.default_rng([5, text]).integers(0, VOCAB, LONGEST + 1)
    return drawn[:-1], drawn[1:]


@dataclass(frozen=True)
class Place:
    """Place of a text: its row of the batch, and its first place in that."""

    row: int
    first: int
    text: int


@dataclass(frozen=True)
class Setting:
    """A way to compute a subject; its defaults are those of the reference.

    `order` is the order of texts, `layout` where they stand in rows: "plain", "left N", "packed N" with N texts a row.
    `context` is the length of rows, by default the reference's; `chunk` that of chunks (0: no cache; -1: all at
    once). `trains` says whether the training program is observed, `evaluates` whether the one without gradients is.
    With `exact` an update has the passes that its texts need, else it ends before its window does.
    """

    batch: int = 1
    order: str = "ascending"
    layout: str = "plain"
    context: int = 0
    chunk: int = 0
    trains: bool = True
    evaluates: bool = True
    selects: bool = False
    exact: bool = False
    joint: bool = False
    target: str = "host_flat"
    l1: int = 0
    buffering: str = "auto"
    cores: int = 0
    dma: str = ""
    rewrites: bool = True

    def __post_init__(self) -> None:
        """Chunks have no training pass."""
        if self.chunk:
            object.__setattr__(self, "trains", False)

    def model_layout(self, workload: Workload) -> Layout:
        """The layout of the models' rows."""
        if self.chunk:
            size = workload.length if self.chunk < 0 else self.chunk
            most = -(-workload.length // size) * size
            return Layout(self.batch, max(self.fitting(workload), most), size)
        return Layout(self.batch, self.fitting(workload), placed=self.layout != "plain")

    def fitting(self, workload: Workload) -> int:
        """The length of rows; ValueError where a row's texts do not fit."""
        least = workload.length * self.packed + self.left
        known = self.context or next((n for n in CONTEXTS if n >= least), 0)
        if known < least:
            raise ValueError(f"rows of {known} places are shorter than {least}")
        return known

    @property
    def packed(self) -> int:
        """Texts of a row."""
        return int(self.layout.split()[1]) if self.layout.startswith("packed") else 1

    @property
    def left(self) -> int:
        """Places in front of a row's text."""
        return int(self.layout.split()[1]) if self.layout.startswith("left") else 0

    def passes(self, workload: Workload) -> Iterator[tuple[Place, ...]]:
        """The places of the texts of each pass."""
        texts = list(range(workload.texts))
        if self.order == "descending":
            texts.reverse()
        elif self.order == "rotated":
            texts = texts[1:] + texts[:1]
        each = self.batch * self.packed
        for begin in range(0, len(texts), each):
            yield tuple(
                Place(i // self.packed, self.left + i % self.packed * workload.length, text)
                for i, text in enumerate(texts[begin : begin + each])
            )

    def options(self, workload: Workload, training: bool) -> Options:
        """The options of a program."""
        passes = len(list(self.passes(workload))) if self.exact else WINDOW
        return Options(
            self.target,
            self.buffering,
            {"L1": self.l1} if self.l1 else None,
            self.cores or None,
            accumulate=passes if training else 1,
            allow_rewrites=self.rewrites,
            fuse_update=self.joint and training,
            canonical_batch=True,
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of the simulator."""
        return ("--dma-order", self.dma) if self.dma else ()


def rows_of(places: tuple[Place, ...], layout: Layout, workload: Workload) -> Mapping[str, Array]:
    """The rows of a pass: ids and positions [batch, length], and what is added to scores [batch, 1, length, length].

    A token sees itself and those before it of its own text; a place without a text sees itself.
    """
    shape = layout.batch, layout.length
    ids, where = np.full(shape, PAD, np.int64), np.zeros(shape, np.int64)
    owner = np.full(shape, -1) - np.arange(layout.length)
    for place in places:
        count = workload.tokens(place.text)
        span = place.row, slice(place.first, place.first + count)
        ids[span], where[span], owner[span] = words(place.text)[0][:count], np.arange(count), place.text
    before = np.arange(layout.length)[:, None] >= np.arange(layout.length)
    seen = (owner[:, :, None] == owner[:, None]) & before
    return {"ids": ids, "places": where, "hidden": np.where(seen, 0, -np.inf).astype(np.float32)[:, None]}


def labels_of(places: tuple[Place, ...], layout: Layout, workload: Workload, only: Any = None) -> Array:
    """The labels of a pass [rows]: those of texts that count, or of one token `only` of a text."""
    labels = np.full((layout.batch, layout.length), IGNORED, np.int64)
    for place in places:
        count = workload.tokens(place.text)
        own = words(place.text)[1][:count]
        if only is None and workload.counts(place.text):
            labels[place.row, place.first : place.first + count] = own
        elif only is not None and only[0] == place.text:
            labels[place.row, place.first + only[1]] = own[only[1]]
    return labels.reshape(-1)
