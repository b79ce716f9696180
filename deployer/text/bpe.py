"""Byte pair encoding: the bytes of a word, of which neighbours are merged by rank."""

import heapq
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from deployer.core.errors import FileProblem
from deployer.core.safe_text import folded_json
from deployer.text.tokenizer import BYTES, Tokenizer, byte_tokens, text_bytes
from deployer.text.words import CLASSES, words_of

FORMAT, VERSION = "deployer tokenizer", 1
"""The first members of a tokenizer's file."""
VOCAB = 1 << 18
"""Ids of the largest vocabulary, that of Gemma; a model for a microcontroller has some thousand."""
MERGES = 1 << 20
"""Merges of the largest vocabulary: four for each token."""
TOKEN_BYTES = 1 << 10
"""Bytes of the longest token."""
REMEMBERED = 1 << 16
"""Words whose ids are kept, so that frequent ones are merged once."""

Merge = tuple[int, int]
"""Left and right id. The result is the token with the bytes of both; its rank is its place among the merges."""


class ByteTokenizer(Tokenizer):
    """Ids 0 to 255 are the bytes, 256 is the document's end."""

    def __init__(self) -> None:
        self.tokens = (*byte_tokens(), b"")
        self.end = BYTES

    def encode(self, text: bytes | str) -> list[int]:
        """The bytes."""
        return list(text_bytes(text))

    def save(self, path: Path) -> None:
        """Write the kind alone."""
        path.write_text(folded_json({"format": FORMAT, "version": VERSION, "kind": "bytes"}))


class BpeTokenizer(Tokenizer):
    """A vocabulary of bytes and merges.

    Within a word, of all neighbours that a merge joins, those of the lowest rank are joined, the leftmost of these
    first, until no merge is left. Merges only join tokens that are bytes or results of earlier merges. FileProblem,
    which begins with `place`, where tokens and merges are none.
    """

    def __init__(
        self, tokens: Sequence[bytes], merges: Sequence[Merge], end: int, place: str = "the tokenizer"
    ) -> None:
        self.tokens, self.merges, self.end = tuple(tokens), tuple(merges), end
        by_bytes = _ids_by_bytes(self.tokens, place)
        self.byte_ids = _byte_ids(by_bytes, place)
        self.results = _results(self.tokens, self.merges, by_bytes, self.byte_ids, place)
        """The id that each merge makes."""
        if not 0 <= end < self.vocab:
            raise FileProblem(f"{place}: the document's end is id {end}", _vocabulary(self.tokens), _WHOLE)
        if end in {*self.byte_ids, *self.results}:
            facts = [("token", repr(self.tokens[end]))]
            raise FileProblem(f"{place}: the document's end, id {end}, is a token that text gives", facts, _WHOLE)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._remembered: dict[bytes, tuple[int, ...]] = {}

    def encode(self, text: bytes | str) -> list[int]:
        """The ids of all words."""
        ids: list[int] = []
        for word in words_of(text_bytes(text)):
            found = self._remembered.get(word)
            if found is None:
                found = tuple(merged([self.byte_ids[value] for value in word], self._ranks, self.results))
                if len(self._remembered) < REMEMBERED:
                    self._remembered[word] = found
            ids += found
        return ids

    def save(self, path: Path) -> None:
        """Write tokens in hexadecimal digits, and merges as pairs of ids."""
        tokens = [token.hex() for token in self.tokens]
        head = {"format": FORMAT, "version": VERSION, "kind": "bpe", "words": CLASSES, "end": self.end}
        path.write_text(folded_json({**head, "tokens": tokens, "merges": [list(pair) for pair in self.merges]}))


def merged(ids: Sequence[int], ranks: Mapping[Merge, int], results: Sequence[int]) -> list[int]:
    """The ids of a word after all merges: the lowest rank first, the leftmost of equals.

    A heap has the pairs that can be merged; one whose neighbours have changed since is dropped when it comes up.
    """
    left_of, right_of = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
    now: list[int | None] = list(ids)
    heap = [(ranks[pair], at) for at, pair in enumerate(itertools.pairwise(ids)) if pair in ranks]
    heapq.heapify(heap)

    def rank_at(at: int) -> int | None:
        if at < 0 or right_of[at] >= len(ids):
            return None
        left, right = now[at], now[right_of[at]]
        return None if left is None or right is None else ranks.get((left, right))

    while heap:
        rank, at = heapq.heappop(heap)
        if rank_at(at) != rank:
            continue
        gone = right_of[at]
        now[at], now[gone], right_of[at] = results[rank], None, right_of[gone]
        if right_of[at] < len(ids):
            left_of[right_of[at]] = at
        for place in (left_of[at], at):
            found = rank_at(place)
            if found is not None:
                heapq.heappush(heap, (found, place))
    return [number for number in now if number is not None]


_WHOLE = "restore the file, or train the tokenizer again"


def _vocabulary(tokens: Sequence[bytes]) -> list[tuple[str, str]]:
    return [("vocabulary", f"{len(tokens)} ids, 0 to {len(tokens) - 1}")]


def _ids_by_bytes(tokens: Sequence[bytes], place: str) -> dict[bytes, int]:
    """The id of each token that has bytes; FileProblem for too many, too long ones, and duplicates."""
    if len(tokens) > VOCAB:
        facts = [("tokens", str(len(tokens))), ("at most", str(VOCAB))]
        raise FileProblem(f"{place} has too large a vocabulary", facts, "a smaller vocabulary")
    found: dict[bytes, int] = {}
    for number, token in enumerate(tokens):
        if len(token) > TOKEN_BYTES:
            facts = [("bytes", str(len(token))), ("at most", str(TOKEN_BYTES))]
            raise FileProblem(f"{place}: token {number} is too long", facts, _WHOLE)
        if token and found.setdefault(token, number) != number:
            facts = [("bytes", repr(token))]
            raise FileProblem(f"{place}: tokens {found[token]} and {number} have the same bytes", facts, _WHOLE)
    return found


def _byte_ids(by_bytes: Mapping[bytes, int], place: str) -> tuple[int, ...]:
    """The id of each byte; FileProblem where one has none."""
    missing = [value for value, token in enumerate(byte_tokens()) if token not in by_bytes]
    if missing:
        facts = [("first byte", f"0x{missing[0]:02x}"), ("missing", f"{len(missing)} of {BYTES}")]
        hint = "a vocabulary of bytes, which the initial alphabet of byte-level BPE gives"
        raise FileProblem(f"{place} has no token for some bytes, so not every text has ids", facts, hint)
    return tuple(by_bytes[token] for token in byte_tokens())


def _results(
    tokens: Sequence[bytes],
    merges: Sequence[Merge],
    by_bytes: Mapping[bytes, int],
    byte_ids: Sequence[int],
    place: str,
) -> tuple[int, ...]:
    """The id that each merge makes; FileProblem for duplicates, unknown ids, and ids that come later."""
    if len(merges) > MERGES:
        facts = [("merges", str(len(merges))), ("at most", str(MERGES))]
        raise FileProblem(f"{place} has too many merges", facts, "a smaller vocabulary")
    results: list[int] = []
    made, ranks = set(byte_ids), dict[Merge, int]()
    for rank, pair in enumerate(merges):
        if ranks.setdefault(pair, rank) != rank:
            raise FileProblem(
                f"{place}: merges {ranks[pair]} and {rank} join the same ids", [("ids", str(pair))], _WHOLE
            )
        for number in pair:
            if not 0 <= number < len(tokens):
                cause = f"{place}: merge {rank} joins id {number}, which is outside the vocabulary"
                raise FileProblem(cause, _vocabulary(tokens), _WHOLE)
            if number not in made:
                cause = f"{place}: merge {rank} joins id {number}, which is no byte and no earlier merge's result"
                raise FileProblem(cause, [("token", repr(tokens[number]))], _WHOLE)
        whole = tokens[pair[0]] + tokens[pair[1]]
        if whole not in by_bytes:
            cause = f"{place}: no token has the bytes of merge {rank}"
            raise FileProblem(cause, [("ids", str(pair)), ("bytes", repr(whole[:TOKEN_BYTES]))], _WHOLE)
        results.append(by_bytes[whole])
        made.add(by_bytes[whole])
    return tuple(results)
