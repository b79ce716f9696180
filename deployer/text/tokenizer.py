"""Text to token ids and back, without loss for any bytes."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from deployer.core.errors import DatasetMismatch

BYTES = 256
"""Values of a byte, each of which is a token of every vocabulary."""
TEXT_BYTES = 1 << 28
"""The largest text that is read: its ids in Python have a hundred times the bytes."""


class Tokenizer(ABC):
    """A vocabulary, and the rule by which text becomes ids.

    `tokens` has the bytes of each id. Some ids no text gives, whatever it spells: the document's end, without bytes,
    and added tokens of a foreign file, with their name, or none if special.
    """

    tokens: tuple[bytes, ...]
    end: int
    """The id between documents, which decodes to nothing."""

    @property
    def vocab(self) -> int:
        """The number of ids."""
        return len(self.tokens)

    @abstractmethod
    def encode(self, text: bytes | str) -> list[int]:
        """The ids of a text; a `str` counts as its UTF-8."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the file that `read_tokenizer` reads."""

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids; DatasetMismatch for an id outside the vocabulary."""
        return b"".join(self.tokens[number] for number in checked_ids(ids, self.vocab))


def checked_ids(ids: Iterable[int], vocab: int) -> Iterator[int]:
    """The ids one by one; DatasetMismatch names position, id and vocabulary of the first that is outside."""
    for position, given in enumerate(ids):
        try:
            number = operator.index(given)
        except TypeError:
            number = -1
        if not 0 <= number < vocab:
            facts = [("position", str(position)), ("id", str(given)), ("vocabulary", f"{vocab} ids, 0 to {vocab - 1}")]
            hint = "decode with the tokenizer that gave the ids"
            raise DatasetMismatch(f"id {given} at position {position} is outside the vocabulary", facts, hint)
        yield number


def text_bytes(text: bytes | str) -> bytes:
    """The UTF-8 of a text, or its bytes as they are; DatasetMismatch where it has half a surrogate pair."""
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        facts = [("position", str(error.start)), ("character", f"U+{ord(text[error.start]):04X}")]
        raise DatasetMismatch("the text has a lone surrogate, which UTF-8 has not", facts, "pass the bytes") from None


def byte_tokens() -> tuple[bytes, ...]:
    """A token for each byte."""
    return tuple(bytes((value,)) for value in range(BYTES))
