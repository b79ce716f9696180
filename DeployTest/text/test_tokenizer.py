"""Tokenizers: ids and bytes are each other's inverse, merges have one order, training and files give the same again."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.text.bpe import BpeTokenizer, ByteTokenizer, Merge
from deployer.text.bpe_training import train_bpe
from deployer.text.foreign import pre_tokenizer
from deployer.text.stories import stories
from deployer.text.tokenizer import Tokenizer, byte_tokens
from deployer.text.tokenizer_files import read_tokenizer
from deployer.text.words import words_of
from DeployTest.text.vocabularies import probes, trained

pytestmark = [pytest.mark.host]
VOCABS = (257, 300, 1024)
BYTE_IDS = [*byte_tokens(), b""]


def by_the_rule(tokenizer: BpeTokenizer, word: bytes) -> list[int]:
    """The ids of a word by the rule's own words: look for the lowest rank from the left, join, begin again."""
    ids = [tokenizer.tokens.index(bytes((value,))) for value in word]
    while True:
        known = [
            (tokenizer.merges.index(pair), at) for at, pair in enumerate(pairwise(ids)) if pair in tokenizer.merges
        ]
        if not known:
            return ids
        rank, at = min(known)
        left, right = tokenizer.merges[rank]
        ids[at : at + 2] = [tokenizer.tokens.index(tokenizer.tokens[left] + tokenizer.tokens[right])]


@pytest.mark.parametrize("vocab", VOCABS)
def test_bytes_come_back(vocab: int) -> None:
    """Whatever the bytes are; and no text gives the document's end."""
    tokenizer = trained(vocab)
    assert (tokenizer.vocab, tokenizer.end) == (vocab, 256)
    for text in probes(3000):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.end not in ids
    assert tokenizer.decode([tokenizer.end]) == b""


@given(st.binary(max_size=80) | st.text(alphabet="ab the01!\n\t é漢", max_size=80).map(str.encode))
@settings(deadline=None)
def test_words(text: bytes) -> None:
    """Joined they are the text; each has one class of bytes behind one blank at most; none is cut."""
    words = words_of(text)
    assert b"".join(words) == text

    def kind(byte: int) -> str:
        if byte >= 0x80 or chr(byte).isalpha():
            return "letter"
        return "space" if byte in b" \t\n\v\f\r" else "digit" if byte in b"0123456789" else "other"

    for word in words:
        inner = word[1:] if len(word) > 1 and word[:1] == b" " and kind(word[1]) != "space" else word
        assert len({kind(byte) for byte in inner}) == 1
    for first, second in pairwise(words):
        assert kind(first[-1]) != kind(second[0]) or (kind(second[-1]) != "space" and second[:1] == b" ")
        assert first[-1:] != b" " or kind(second[0]) == "space"


@given(st.text(max_size=60) | st.text(alphabet="ab the01!\n\t\r\v\f é漢\u00a0\u2003\x7f\x80", max_size=60))
@settings(deadline=None)
def test_words_of_characters(text: str) -> None:
    """The rule over characters, which a `tokenizer.json` holds, finds the same words."""
    text = text.encode(errors="replace").decode()
    expression = pre_tokenizer()["pretokenizers"][0]["pattern"]["Regex"]
    assert [word.encode() for word in re.findall(expression, text)] == words_of(text.encode())


@pytest.mark.parametrize("vocab", VOCABS[1:])
def test_merges_have_one_order(vocab: int) -> None:
    """The lowest rank first, the leftmost of equals."""
    tokenizer = trained(vocab)
    assert isinstance(tokenizer, BpeTokenizer)
    checked = 0
    for text in probes(1500):
        for word in {word for word in words_of(text) if 1 < len(word) < 70}:
            assert tokenizer.encode(word) == by_the_rule(tokenizer, word), word
            checked += 1
    assert checked > 1000


def test_a_token_with_two_merges() -> None:
    """A later pair that has a lower rank than the merge in hand goes first."""
    tokens = [*BYTE_IDS, b"bc", b"abc", b"abcd", b"ab"]
    bc, abc, abcd, ab = range(257, 261)
    merges = [(98, 99), (97, bc), (abc, 100), (97, 98), (ab, 99)]
    tokenizer = BpeTokenizer(tokens, merges, 256)
    for word in (b"abcd", b"abcabcd", b"ababcdbcd", b"aabccd"):
        assert tokenizer.encode(word) == by_the_rule(tokenizer, word)
    assert tokenizer.encode(b"abcd") == [abcd]


def test_training_by_counting() -> None:
    """Each merge joins the most frequent pair, the lowest of equals, as counting everything again finds it."""
    texts = ["hahahaha hahaha aaaa aaaaa\n", "in 1999 or 1919; the end. The end!", *stories(3, 7)]
    words = [[*word] for text in texts for word in words_of(text.encode())]
    tokens, merges = list(BYTE_IDS), list[Merge]()
    for _ in range(40):
        counts = Counter(pair for word in words for pair in pairwise(word))
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        tokens.append(tokens[best[0]] + tokens[best[1]])
        for word in words:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = [len(tokens) - 1]
                at += 1
    found = train_bpe(texts, 257 + 40)
    assert list(found.merges) == merges
    assert list(found.tokens) == tokens


def test_training_and_files_are_reproducible(tmp_path: Path) -> None:
    """The same bytes from texts in another order, and from a file that was read."""
    texts = [text.decode(errors="replace") for text in probes(3000)]
    first, second = train_bpe(texts, 500), train_bpe(texts[::-1], 500)
    for tokenizer, name in ((first, "first"), (second, "second"), (ByteTokenizer(), "bytes")):
        tokenizer.save(tmp_path / name)
        again = read_tokenizer(tmp_path / name)
        again.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes()
        assert type(again) is type(tokenizer)
        assert (again.tokens, again.end) == (tokenizer.tokens, tokenizer.end)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("vocab", VOCABS[:2])
@pytest.mark.parametrize("bad", [-1, 300, 1 << 40, 1.5, "a", None])
def test_ids_outside_the_vocabulary(vocab: int, bad: object) -> None:
    """Place, id and vocabulary are named."""
    tokenizer: Tokenizer = trained(vocab)
    with pytest.raises(DatasetMismatch) as error:
        tokenizer.decode([0, 1, bad])
    assert [text for _, text in error.value.facts] == ["2", str(bad), f"{vocab} ids, 0 to {vocab - 1}"]


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(DatasetMismatch, match="lone surrogate") as error:
        ByteTokenizer().encode("ab\ud800")
    assert error.value.facts[0] == ("position", "2")


@pytest.mark.parametrize("vocab", [0, 256, 1 << 19])
def test_a_vocabulary_out_of_range(vocab: int) -> None:
    with pytest.raises(OptionProblem, match="cannot be trained"):
        train_bpe(["text"], vocab)


def test_too_little_text_to_train() -> None:
    """The hint's vocabulary can be trained."""
    with pytest.raises(DatasetMismatch, match="too few pairs") as error:
        train_bpe(["abab abab"], 400)
    [least] = re.findall(r"at most (\d+) ids", error.value.hint)
    assert train_bpe(["abab abab"], int(least)).vocab == int(least)


@pytest.mark.parametrize(
    ("tokens", "merges", "end", "message"),
    [
        (BYTE_IDS[1:], [], 255, "no token for some bytes"),
        ([*BYTE_IDS, b"ab", b"ab"], [], 256, "tokens 257 and 258 have the same bytes"),
        ([*BYTE_IDS, b"a" * 1025], [], 256, "token 257 is too long"),
        (BYTE_IDS, [], 257, "the document's end is id 257"),
        (BYTE_IDS, [], 97, "the document's end, id 97, is a token that text gives"),
        ([*BYTE_IDS, b"ab"], [(97, 258)], 256, "merge 0 joins id 258, which is outside"),
        ([*BYTE_IDS, b"ab"], [(97, -1)], 256, "merge 0 joins id -1, which is outside"),
        ([*BYTE_IDS, b"ab", b"abc"], [(257, 99), (97, 98)], 256, "merge 0 joins id 257, which is no byte"),
        ([*BYTE_IDS, b"ab"], [(97, 98), (97, 98)], 256, "merges 0 and 1 join the same ids"),
        ([*BYTE_IDS, b"ab"], [(97, 99)], 256, "no token has the bytes of merge 0"),
        ([*BYTE_IDS, b"ab"], [(97, 98)], 257, "the document's end, id 257, is a token that text gives"),
        ([*BYTE_IDS, b""], [(256, 257)], 256, "merge 0 joins id 256, which is no byte"),
        ([*BYTE_IDS, *[b""] * (1 << 18)], [], 256, "too large a vocabulary"),
    ],
)
def test_broken_vocabularies(tokens: list[bytes], merges: list[Merge], end: int, message: str) -> None:
    with pytest.raises(FileProblem, match="the tokenizer") as error:
        BpeTokenizer(tokens, merges, end)
    assert error.value.cause.startswith("the tokenizer")
    assert message in error.value.cause
