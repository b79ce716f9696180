"""Train byte pair encoding on texts; the same texts in the same order give the same vocabulary on every machine."""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable

from deployer.core.errors import DatasetMismatch, OptionProblem
from deployer.text.bpe import VOCAB, BpeTokenizer, Merge
from deployer.text.tokenizer import BYTES, byte_tokens, text_bytes
from deployer.text.words import words_of

LEAST = BYTES + 1
"""Ids of a vocabulary without merges: the bytes and the document's end."""


def train_bpe(texts: Iterable[bytes | str], vocab: int) -> BpeTokenizer:
    """A tokenizer with `vocab` ids: the bytes, the document's end, and the most frequent pairs, one after the other.

    Of pairs that are as frequent, the one with the lower left id is taken, then the one with the lower right id. A pair
    is within a word. OptionProblem where `vocab` is out of range, DatasetMismatch where the text has too few pairs.
    """
    if not LEAST <= vocab <= VOCAB:
        facts = [("vocabulary", str(vocab)), ("at least", str(LEAST)), ("at most", str(VOCAB))]
        raise OptionProblem(f"a vocabulary of {vocab} ids cannot be trained", facts, f"a vocabulary of {LEAST * 4} ids")
    words = Counter(word for text in texts for word in words_of(text_bytes(text)))
    pairs = _Pairs(words)
    tokens, merges = [*byte_tokens(), b""], list[Merge]()
    known = {token: number for number, token in enumerate(tokens) if token}
    while len(tokens) < vocab:
        best = pairs.most_frequent()
        if best is None:
            facts = [("vocabulary", str(vocab)), ("different words", str(len(words))), ("ids found", str(len(tokens)))]
            hint = f"more text, or a vocabulary of at most {len(tokens)} ids"
            raise DatasetMismatch(f"the text has too few pairs for {vocab} ids", facts, hint)
        whole = tokens[best[0]] + tokens[best[1]]
        if whole not in known:
            known[whole] = len(tokens)
            tokens.append(whole)
        merges.append(best)
        pairs.merge(best, known[whole])
    return BpeTokenizer(tokens, merges, BYTES)


class _Pairs:
    """Counts of neighbouring ids over all words, and the words that have them."""

    def __init__(self, words: Counter[bytes]) -> None:
        self.words = [(list(word), count) for word, count in words.items()]
        self.counts: Counter[Merge] = Counter()
        self.places: defaultdict[Merge, set[int]] = defaultdict(set)
        for index, (ids, count) in enumerate(self.words):
            for pair in itertools.pairwise(ids):
                self.counts[pair] += count
                self.places[pair].add(index)
        self.heap = [(-count, pair) for pair, count in self.counts.items()]
        heapq.heapify(self.heap)

    def most_frequent(self) -> Merge | None:
        """The pair to merge; None where none is left. Entries whose count has changed since are skipped."""
        while self.heap:
            negative, pair = self.heap[0]
            if self.counts[pair] == -negative and negative:
                return pair
            heapq.heappop(self.heap)
        return None

    def merge(self, pair: Merge, result: int) -> None:
        """Join a pair everywhere, from the left of each word."""
        changed: set[Merge] = set()
        for index in self.places.pop(pair):
            ids, count = self.words[index]
            for old in itertools.pairwise(ids):
                self.counts[old] -= count
                changed.add(old)
            ids[:] = _joined(ids, pair, result)
            for new in itertools.pairwise(ids):
                self.counts[new] += count
                self.places[new].add(index)
                changed.add(new)
        for touched in changed:
            if self.counts[touched] > 0:
                heapq.heappush(self.heap, (-self.counts[touched], touched))


def _joined(ids: list[int], pair: Merge, result: int) -> list[int]:
    joined, at = list[int](), 0
    while at < len(ids):
        both = tuple(ids[at : at + 2]) == pair
        joined.append(result if both else ids[at])
        at += 1 + both
    return joined
