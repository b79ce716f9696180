"""Byte-level BPE of Hugging Face's `tokenizer.json`, taken only where every text gets the same ids here.

The file is read here, member by member, by the rules of `foreign.toml`; its strings are compared, never
run. The package `tokenizers` (the extra `lm`)
then encodes probes by the same file as an independent judge.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.errors import FileProblem, OptionProblem, ToolMissing
from deployer.core.files.reading import cause_of, damage, own_toml
from deployer.core.safe_text import json_line
from deployer.text.bpe import BpeTokenizer, Merge
from deployer.text.tokenizer import BYTES

EXTRA = "lm"
"""The extra of this package that installs `tokenizers`."""
NOTHING = "null"
"""A missing member in `foreign.toml`."""
_HINT = "train a tokenizer here (`train_bpe`), or one of bytes"
_LETTERS = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [value for value in range(BYTES) if value not in _LETTERS]
ALPHABET = {chr(value): value for value in _LETTERS} | {chr(BYTES + n): value for n, value in enumerate(_OTHERS)}
"""The byte of each character of a token as files write it: visible ones of Latin-1 are themselves."""
PROBES = (
    "Once upon a time, there was a little dog. It didn't bark.",
    "  two blanks\n\n\tand  a tab \r\n end ",
    "x=1234567890; y[0]+=3.25e-7 // 50% (ok)?!",
    "größe naïve Ελληνικά 漢字仮名 🙂👍🏽 \u00a0\u2003\u200b",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "I'LL WE've THEY'RE it's a'b 'quoted' don''t",
    "".join(map(chr, range(1, 128))),
    " ".join(map(chr, range(33, 384))),
    "".join(f"{a}{b}{c}" for a in "a1. \n" for b in "a1. \n" for c in "b2, \t"),
)
"""Texts of all classes and changes between them."""


def is_foreign(table: object) -> bool:
    """Whether a table of JSON is a `tokenizer.json`."""
    return isinstance(table, dict) and isinstance(table.get("model"), dict) and "added_tokens" in table


def foreign_tokenizer(path: Path, table: Mapping[str, Any], end: str | None = None) -> BpeTokenizer:
    """The tokenizer of a `tokenizer.json` with the ids of its file.

    Names of added tokens in a text are ordinary text here, so that no text can end a document. FileProblem names the
    member by which texts would get other ids; ToolMissing says how the judge is installed.
    """
    _check_rules(path, table)
    model = table["model"]
    with damage(f"{path} has a vocabulary that is not one of byte-level BPE", _HINT):
        vocabulary = {_token(text): _id(number) for text, number in model["vocab"].items()}
        added = {str(token["content"]): (_id(token["id"]), token["special"] is True) for token in table["added_tokens"]}
    for content, (number, _) in added.items():  # files may list added tokens among the others, too
        if vocabulary.get(_as_token(content)) == number:
            del vocabulary[_as_token(content)]
    finish = _end(path, {name: number for name, (number, special) in added.items() if special}, end)
    tokens = _tokens(path, vocabulary, added)
    with damage(f"{path} has merges that are no pairs of tokens", _HINT):
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        merges = [(vocabulary[_token(left)], vocabulary[_token(right)]) for left, right in pairs]
    ours = BpeTokenizer(tokens, _used(tokens, merges), finish, str(path))
    _judge(path, table, ours)
    return ours


def _check_rules(path: Path, table: Mapping[str, Any]) -> None:
    """FileProblem for the first member by which text would get other ids."""
    rules = _rules()
    for place, prefix, known in ((table["model"], "model.", rules["model"]), (table, "", rules["table"])):
        for name, values in known.items():
            found = NOTHING if place.get(name) is None else place[name]
            if not any(type(found) is type(value) and found == value for value in values):
                raise _other_rule(path, prefix + name, place.get(name), values[0])
    expected, before = pre_tokenizer(), table.get("pre_tokenizer")
    steps = before.get("pretokenizers") if isinstance(before, dict) and before.get("type") == expected["type"] else None
    if not isinstance(steps, list) or len(steps) != len(expected["pretokenizers"]):
        raise _other_rule(path, "pre_tokenizer", before, json_line(expected))
    for index, (found, step) in enumerate(zip(steps, expected["pretokenizers"], strict=True)):
        for name, value in step.items():
            given = found.get(name) if isinstance(found, dict) else None
            if given != value:
                raise _other_rule(path, f"pre_tokenizer.pretokenizers[{index}].{name}", given, json_line(value))


def pre_tokenizer() -> dict[str, Any]:
    """The member `pre_tokenizer` of a `tokenizer.json` with the words of `words_of`."""
    found: dict[str, Any] = _rules()["pre_tokenizer"]
    return found


@cache
def _rules() -> dict[str, Any]:
    return own_toml(Path(__file__).with_name("foreign.toml"))


def _other_rule(path: Path, name: str, found: object, known: str) -> FileProblem:
    facts = [("member", name), ("in the file", json_line(found)[:300]), ("supported", known)]
    return FileProblem(f"{path} encodes by another rule, so texts would get other ids here", facts, _HINT)


def _token(text: str) -> bytes:
    """The bytes of a token as the file writes it; KeyError for a character that is no byte's."""
    return bytes(ALPHABET[character] for character in text)


def _as_token(text: str) -> bytes:
    """The bytes of a text if it is written as tokens are, else none."""
    return _token(text) if text and all(character in ALPHABET for character in text) else b""


def _id(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{str(number)[:40]!r} is no id")
    return number


def _end(path: Path, special: Mapping[str, int], end: str | None) -> int:
    """The id of the document's end."""
    names = [end] if end is not None else list(special)
    if len(names) == 1 and names[0] in special:
        return special[names[0]]
    facts = [("special tokens", ", ".join(sorted(special)[:20]) or "none")]
    if end is not None:
        raise OptionProblem(f"{path} has no special token {end!r}", facts, "the name of one of them")
    hint = "name one as the document's end" if special else _HINT
    raise OptionProblem(f"{path} has {len(special)} special tokens, and one ends documents", facts, hint)


def _tokens(path: Path, vocabulary: Mapping[bytes, int], added: Mapping[str, tuple[int, bool]]) -> list[bytes]:
    """The bytes of each id; FileProblem where an id is missing or has two tokens."""
    found = {number: b"" if special else content.encode() for content, (number, special) in added.items()}
    count = len(vocabulary) + len(found)
    for token, number in vocabulary.items():
        if number in found:
            raise FileProblem(f"{path} has two tokens with id {number}", [("token", repr(token))], _HINT)
        found[number] = token
    missing = next((number for number in range(count) if number not in found), None)
    if missing is not None:
        raise FileProblem(f"{path} has no token with id {missing}", [("tokens", str(count))], _HINT)
    return [found[number] for number in range(count)]


def _used(tokens: list[bytes], merges: list[Merge]) -> list[Merge]:
    """The merges without those of tokens that nothing makes, which no text reaches."""
    known = {token: number for number, token in enumerate(tokens)}
    made = {number for number, token in enumerate(tokens) if len(token) == 1}
    made |= {known[whole] for left, right in merges if (whole := tokens[left] + tokens[right]) in known}
    return [pair for pair in merges if made.issuperset(pair)]


def _judge(path: Path, table: Mapping[str, Any], ours: BpeTokenizer) -> None:
    """FileProblem where the package gives other ids for a probe."""
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        cause = f"{path} is compared with the package tokenizers, which is not installed"
        raise ToolMissing(cause, hint=f"pip install 'deployer[{EXTRA}]'") from error
    try:
        theirs = tokenizers.Tokenizer.from_str(json_line({**table, "truncation": None, "padding": None}))
    except Exception as error:  # the package raises Exception itself
        raise FileProblem(f"{path} is refused by tokenizers", [("cause", cause_of(error))], _HINT) from None
    for probe in PROBES:
        expected, found = theirs.encode(probe, add_special_tokens=False).ids, ours.encode(probe)
        if expected != found:
            at = next((n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), len(found))
            facts = [("text", repr(probe)), ("token", str(at)), ("tokenizers", str(expected[at : at + 8]))]
            raise FileProblem(
                f"{path} gives other ids here than tokenizers does", [*facts, ("here", str(found[at : at + 8]))], _HINT
            )
