"""Texts as samples of a language model: rows of ids, and the ids behind them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem
from deployer.core.files.reading import content_of
from deployer.core.operator import Array
from deployer.lm.model import IDS
from deployer.text.tokenizer import TEXT_BYTES, Tokenizer

SEPARATOR = re.compile(rb"(?m)^<\|endoftext\|>\r?\n?")
"""A line between documents of a file."""
SUFFIX = ".txt"
LABELS, IGNORED = "labels", -100
"""The name of the loss's target, and the label of places that do not count."""


def read_documents(path: Path) -> list[bytes]:
    """The documents of a file, or of a folder's text files; FileProblem where there is none."""
    files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not files:
        raise FileProblem(f"{path} has no file *{SUFFIX}", hint="a text file, or a folder of some")
    found = [part for file in files for part in SEPARATOR.split(_content(file)) if part]
    if not found:
        raise FileProblem(f"{path} is empty", hint="a text")
    return found


def _content(file: Path) -> bytes:
    return content_of(file, TEXT_BYTES, "the path of a text", "a smaller text")


def token_stream(tokenizer: Tokenizer, documents: Sequence[bytes], vocab: int, place: str) -> Array:
    """The ids of all documents, each between two ends; DatasetMismatch for an id outside of the vocabulary."""
    ids = np.fromiter(_ids(tokenizer, documents), np.int64)
    wrong = np.flatnonzero((ids < 0) | (ids >= vocab))
    if wrong.size:
        at = int(wrong[0])
        facts = [("position", str(at)), ("id", str(ids[at])), ("vocabulary", f"0 to {vocab - 1}")]
        raise DatasetMismatch(f"{place}: id {ids[at]} is outside of the model's vocabulary", facts, "its own tokenizer")
    return ids


def _ids(tokenizer: Tokenizer, documents: Sequence[bytes]) -> Iterator[int]:
    yield tokenizer.end
    for document in documents:
        yield from tokenizer.encode(document)
        yield tokenizer.end


def samples_of(stream: Array, context: int, end: int) -> dict[str, Array]:
    """The rows of a stream: ids [rows, context] and the labels behind them; the last row's rest is ignored.

    Every id but the first is a label once.
    """
    count = -(-(len(stream) - 1) // context)
    ids = np.full((count, context), end, np.int64)
    labels = np.full((count, context), IGNORED, np.int64)
    ids.reshape(-1)[: len(stream) - 1] = stream[:-1]
    labels.reshape(-1)[: len(stream) - 1] = stream[1:]
    return {IDS: ids, LABELS: labels}
