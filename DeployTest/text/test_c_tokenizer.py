"""The tokenizer in C gives the ids of the one in Python."""

import random
import re
from itertools import product
from pathlib import Path

import pytest

from deployer.text.bpe import BpeTokenizer
from deployer.text.c_tokenizer import CTokenizer
from DeployTest.text.test_tokenizer import BYTE_IDS
from DeployTest.text.vocabularies import SANITIZED, compiled_encoder, encoded_in_c, probes, trained

pytestmark = [pytest.mark.host]
FLASH = {257: 1288, 1024: 11_000, 4096: 52_000}
"""Bytes of tables, at most."""


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("vocab", FLASH)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_ids_in_c(vocab: int, compiler: str, tmp_path: Path) -> None:
    """For 10 000 texts, under sanitizers for addresses and undefined behaviour; decoded bytes are the text's."""
    tokenizer, texts = trained(vocab), probes(10_000)
    program = compiled_encoder(tokenizer, tmp_path, (compiler, *SANITIZED))
    assert encoded_in_c(program, texts) == [tokenizer.encode(text) for text in texts]


def test_ids_in_any_order(tmp_path: Path) -> None:
    """Ids that are not in the order of the merges, two merges of one token, and a vocabulary beyond 16 bits."""
    tokens = [b"", *(bytes((value,)) for value in range(255, -1, -1)), b"abcd", b"bc", b"abc", b"ab", b"cd"]
    ids = {token: number for number, token in enumerate(tokens)}
    pairs = [(b"b", b"c"), (b"a", b"bc"), (b"abc", b"d"), (b"a", b"b"), (b"ab", b"c"), (b"c", b"d"), (b"ab", b"cd")]
    merges = [(ids[left], ids[right]) for left, right in pairs]
    for more in (0, 70_000):
        tokenizer = BpeTokenizer([*tokens, *[b""] * more], merges, 0)
        assert len(CTokenizer(tokenizer, "word").result_tables) == 1
        texts = [b"abcd" * 5, b"aabbccdd", b"abab cdcd", *probes(500)]
        program = compiled_encoder(tokenizer, tmp_path)
        assert encoded_in_c(program, texts) == [tokenizer.encode(text) for text in texts]


def test_words_in_c(tmp_path: Path) -> None:
    """Bytes on both sides of each border of a class: two of them are one token within a word, and two across."""
    limits = bytes.fromhex("00 08 09 0a 0b 0c 0d 0e 1f 20 21 2f 30 39 3a 40 41 5a 5b 60 61 7a 7b 7f 80 c0 ff")
    pairs = [(first, second) for first in limits for second in limits]
    tokenizer = BpeTokenizer([*BYTE_IDS, *map(bytes, pairs)], pairs, 256)
    assert tokenizer.encode(b"aZ") != [*b"aZ"]
    assert tokenizer.encode(b"a0") == [*b"a0"]
    draw = random.Random(9)
    texts = [bytes(text) for size in (1, 2, 3) for text in product(limits, repeat=size)]
    texts += [bytes(draw.choices(limits, k=draw.randrange(4, 40))) for _ in range(2000)]
    program = compiled_encoder(tokenizer, tmp_path)
    assert encoded_in_c(program, texts) == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("vocab", FLASH)
def test_flash(vocab: int, tmp_path: Path) -> None:
    """The figure is the size of the tables as they are compiled."""
    made = CTokenizer(trained(vocab), "word")
    arrays = re.findall(r"static const uint(\d+)_t \w+\[\] = \{([^}]*)\}", made.files["word_tokenizer.c"])
    assert made.flash_bytes == sum(int(bits) // 8 * text.count("u,") for bits, text in arrays)
    assert made.flash_bytes <= FLASH[vocab]


def test_the_same_text(tmp_path: Path) -> None:
    """The files follow from the tokenizer, and call nothing."""
    files = CTokenizer(trained(300), "word").files
    assert files == CTokenizer(trained(300), "word").files
    assert {*files} == {"word_tokenizer.h", "word_tokenizer.c"}
    assert re.findall(r"#include [<\"](.*)[>\"]", "".join(files.values())) == [
        "stddef.h",
        "stdint.h",
        "word_tokenizer.h",
    ]


@pytest.mark.parametrize("name", ["a b", "1", "int", "x;"])
def test_names_of_c(name: str) -> None:
    with pytest.raises(ValueError, match="is not an identifier of C"):
        CTokenizer(BpeTokenizer(BYTE_IDS, [], 256), name)
