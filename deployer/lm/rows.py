"""Texts as samples of a language model: rows of ids, and the ids behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch
from deployer.core.operator import Array
from deployer.lm.architecture import Architecture
from deployer.lm.model import IDS
from deployer.text.documents import read_documents, split_documents
from deployer.text.packing import pack, predicted_bytes
from deployer.text.tokenizer import Tokenizer

LABELS, IGNORED = "labels", -100
"""The name of the loss's target, and the label of places that do not count."""


@dataclass(frozen=True, eq=False)
class TextRows:
    """Samples of a text: `ids` [rows, context] and the `labels` behind them; labels that count are of `size` bytes."""

    ids: Array
    labels: Array
    size: int

    @property
    def samples(self) -> dict[str, Array]:
        """The arrays by the names of data inputs."""
        return {IDS: self.ids, LABELS: self.labels}


def read_rows(path: Path, tokenizer: Tokenizer, architecture: Architecture, separator: str | None = None) -> TextRows:
    """The rows of a text's documents, one behind the other; the rest of the last row is ignored.

    Raises what `read_documents` and `pack` raise, and DatasetMismatch for an id outside of the model's vocabulary.
    """
    return _rows(read_documents(path, separator), path, tokenizer, architecture)


def split_rows(
    path: Path, share: float, tokenizer: Tokenizer, architecture: Architecture, separator: str | None = None
) -> tuple[TextRows, TextRows]:
    """Rows to train on, and rows of the last documents, which are that share of all: no document is in both.

    Raises what `read_rows` and `split_documents` raise.
    """
    parts = split_documents(read_documents(path, separator), share)
    trained, kept = (_rows(documents, path, tokenizer, architecture) for documents in parts)
    return trained, kept


def _rows(documents: Sequence[bytes], path: Path, tokenizer: Tokenizer, architecture: Architecture) -> TextRows:
    packed = pack(documents, tokenizer, architecture.context, remainder="pad")
    wrong = packed.rows[(packed.rows < 0) | (packed.rows >= architecture.vocab)]
    if wrong.size:
        facts = [("id", str(wrong[0])), ("vocabulary", f"0 to {architecture.vocab - 1}")]
        hint = "the tokenizer that the model was made with"
        raise DatasetMismatch(f"{path}: id {wrong[0]} is outside of the model's vocabulary", facts, hint)
    labels = np.where(packed.valid, packed.targets, IGNORED)
    return TextRows(packed.inputs.astype(np.int64), labels.astype(np.int64), predicted_bytes(packed, tokenizer))
