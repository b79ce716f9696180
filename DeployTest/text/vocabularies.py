"""Tokenizers and texts that the tests of text share."""

import random
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from deployer.firmware.sources import library_rules
from deployer.text.bpe import BpeTokenizer, ByteTokenizer
from deployer.text.bpe_training import train_bpe
from deployer.text.c_tokenizer import CTokenizer
from deployer.text.foreign import ALPHABET, pre_tokenizer
from deployer.text.stories import stories
from deployer.text.tokenizer import Tokenizer
from DeployTest.firmware.test_library import WARNINGS

CLASSES = (
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\x0b",
    b"\x0c",
    b"a",
    b"Z",
    b"e",
    b"0",
    b"9",
    b"!",
    b"@",
    b"[",
    b"`",
    b"{",
    b"\x7f",
)
EDGES = (b"/", b":", b"\x00", b"\x08", b"\x0e", b"\x1f", b"\x80", b"\xff", "é".encode(), "漢".encode(), b"the", b"'")
MAIN = Path(__file__).with_name("tokenizer_main.c")
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@cache
def trained(vocab: int) -> Tokenizer:
    """The tokenizer of a vocabulary over the stories and some text of another kind; that of bytes for 257."""
    draw, sounds = random.Random(4), [a + b for a in "bcdfghklmnprstvwzß" for b in "aeiouäéω"]
    made = "".join("".join(draw.choices(sounds, k=draw.randrange(1, 5))) + draw.choice(" ,.\n-") for _ in range(8000))
    more = [made, Path(__file__).read_text(), " ".join(f"{n} {n * n:x};" for n in range(400))]
    return ByteTokenizer() if vocab == ByteTokenizer().vocab else train_bpe([*stories(300, 1), *more], vocab)


def probes(count: int) -> list[bytes]:
    """Texts: all bytes, all changes of class, invalid UTF-8, long words, and then drawn ones."""
    draw, pieces = random.Random(5), (*CLASSES, *EDGES)
    found = [
        b"",
        bytes(range(256)),
        bytes(reversed(range(256))),
        b"\xc3",
        b"\xe6\xbc",
        b"\xf0\x9f\x99",
        b"\xed\xa0\x80",
    ]
    found += [bytes((value,)) for value in range(256)]
    found += [a + b + c for a in pieces for b in pieces for c in (b"", b" ", b"a", b" a", b"\n", b"  1", b"\xff")]
    found += [piece * size for piece in pieces for size in (63, 64, 65, 130)]
    found += [b"the" * 700, b" " * 2000, b" " * 1999 + b"x", b"\n" * 500 + b" \t ", draw.randbytes(3000)]
    words = "".join(stories(20, 2)).encode()
    while len(found) < count:
        kind, size = len(found) % 3, draw.randrange(1, 60)
        start = draw.randrange(len(words))
        drawn = (b"".join(draw.choices(pieces, k=size)), draw.randbytes(size), words[start : start + size])
        found.append(drawn[kind])
    return found


def compiled_encoder(tokenizer: Tokenizer, folder: Path, compiler: Sequence[str] = ("gcc", *SANITIZED)) -> Path:
    """A program that encodes and decodes texts from its input by the C of a tokenizer."""
    for name, text in CTokenizer(tokenizer, "word").files.items():
        (folder / name).write_text(text)
    rules = library_rules()
    flags = [f"-std=c{rules.standard}", *rules.flags, *WARNINGS, f"-I{folder}"]
    words = [*compiler, *flags, str(MAIN), str(folder / "word_tokenizer.c"), "-o", str(folder / "encoder")]
    subprocess.run(words, check=True)
    return folder / "encoder"


def encoded_in_c(program: Path, texts: Sequence[bytes]) -> list[list[int]]:
    """The ids of each text; the program has compared the decoded bytes with the text."""
    given = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    run = subprocess.run([program], input=given, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    words, rows, at = np.frombuffer(run.stdout, "<i4"), list[list[int]](), 0
    for _ in texts:
        rows.append(words[at + 1 : at + 1 + words[at]].tolist())
        at += 1 + int(words[at])
    assert at == len(words)
    return rows


def as_foreign(tokenizer: BpeTokenizer) -> dict[str, object]:
    """The table of a `tokenizer.json` with the same vocabulary, whose special token is `<|end|>`."""
    characters = {value: character for character, value in ALPHABET.items()}
    names = ["".join(characters[value] for value in token) for token in tokenizer.tokens]
    level = {"trim_offsets": True, **pre_tokenizer()["pretokenizers"][1]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    model = {
        **{"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None},
        **{"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False},
        "vocab": {name: number for number, name in enumerate(names) if name},
        "merges": [[names[left], names[right]] for left, right in tokenizer.merges],
    }
    return {
        **{"version": "1.0", "truncation": None, "padding": None},
        "added_tokens": [{"id": tokenizer.end, "content": "<|end|>", **flags}],
        **{"normalizer": None, "post_processor": None, "decoder": level},
        "pre_tokenizer": {**pre_tokenizer(), "pretokenizers": [pre_tokenizer()["pretokenizers"][0], level]},
        "model": model,
    }
