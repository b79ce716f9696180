"""Documents as rows of token ids, one behind the other, with the document's end between them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.text.tokenizer import Tokenizer, checked_ids

Ids = npt.NDArray[np.int32]
Boundaries = Literal["mark", "mask"]
Remainder = Literal["drop", "pad"]


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of `context` + 1 ids, of which each predicts the next; a row begins with the last id of the row before.

    `valid` says which of the `context` predictions count, `positions` counts the ids of a row from 0, or of a document
    in a row, and `documents` numbers the documents of a row: ids of one number may attend to each other. `dropped` ids
    at the end of the text are in no row.
    """

    rows: Ids
    valid: npt.NDArray[np.bool_]
    positions: Ids
    documents: Ids
    dropped: int

    @property
    def inputs(self) -> Ids:
        """The ids that are read, [rows, context]."""
        return self.rows[:, :-1]

    @property
    def targets(self) -> Ids:
        """The ids that are to be predicted, [rows, context]."""
        return self.rows[:, 1:]

    @property
    def predictions(self) -> int:
        """The number of predictions that count."""
        return int(self.valid.sum())


def pack(
    documents: Iterable[bytes | str],
    tokenizer: Tokenizer,
    context: int,
    boundaries: Boundaries = "mark",
    remainder: Remainder = "drop",
) -> PackedRows:
    """The rows of texts: the document's end, and each document with the end behind it.

    "mark" predicts on across documents, as one text with marks. "mask" keeps them apart: the end begins a document, its
    positions count from there, and the first id of a document is not predicted, so no prediction that counts needs
    another document. Ids that fill no row are dropped, or padded with ends that do not count. Each id is predicted
    once. DatasetMismatch where there is no text, or less than a row that is not padded.
    """
    return pack_ids([tokenizer.encode(text) for text in documents], tokenizer, context, boundaries, remainder)


def pack_ids(
    documents: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    context: int,
    boundaries: Boundaries = "mark",
    remainder: Remainder = "drop",
) -> PackedRows:
    """The same for documents of ids; DatasetMismatch for an id outside the vocabulary, before anything else."""
    for name, value, known in (("boundaries", boundaries, ("mark", "mask")), ("remainder", remainder, ("drop", "pad"))):
        if value not in known:
            raise OptionProblem(f"{name} {value!r} of packed rows is unknown", [("known", ", ".join(known))], known[0])
    if context < 1:
        raise OptionProblem("the context of packed rows is out of range", [("context", str(context))], "a context of 1")
    end = tokenizer.end
    ids = [end]
    for document in documents:
        ids += checked_ids(document, tokenizer.vocab)
        ids.append(end)
    if len(ids) == 1 + len(documents):
        raise DatasetMismatch("there is no text to pack", [("documents", str(len(documents)))], "documents with text")
    targets = len(ids) - 1
    if targets < context and remainder == "drop":
        facts = [("ids", str(len(ids))), ("a row", f"{context + 1} ids: the context and one more")]
        hint = f"more text, a context of at most {targets}, or remainder pad"
        raise DatasetMismatch("the text is shorter than a row", facts, hint)
    count = targets // context if remainder == "drop" else math.ceil(targets / context)
    return _rows(np.array(ids, np.int32), end, context, count, boundaries == "mask")


def _rows(ids: Ids, end: int, context: int, count: int, apart: bool) -> PackedRows:
    """`count` rows of the ids, with ends behind them if they are too few."""
    targets = len(ids) - 1
    padded = np.concatenate([ids, np.full(max(0, count * context - targets), end, np.int32)])
    at = np.arange(count)[:, None] * context + np.arange(context + 1)
    rows = padded[at]
    valid = at[:, :-1] < targets
    positions = np.broadcast_to(np.arange(context, dtype=np.int32), valid.shape)
    numbers = np.zeros(valid.shape, np.int32)
    if apart:
        begins = rows[:, :-1] == end
        valid = valid & ~begins
        numbers = np.cumsum(begins, axis=1, dtype=np.int32)
        positions = positions - np.maximum.accumulate(np.where(begins, positions, 0), axis=1)
    return PackedRows(rows, valid, positions.astype(np.int32), numbers, max(0, targets - count * context))


def predicted_bytes(packed: PackedRows, tokenizer: Tokenizer) -> int:
    """Bytes of text of the predictions that count; bits per byte is their total loss in bits divided by this.

    The document's end is predicted, too, and has no bytes.
    """
    sizes = np.array([len(token) for token in tokenizer.tokens])
    sizes[tokenizer.end] = 0
    return int(sizes[packed.targets[packed.valid]].sum())
