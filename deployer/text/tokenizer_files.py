"""Read a tokenizer's file, which may be anybody's: sizes are limited, and what is wrong is named."""

from pathlib import Path
from typing import Any

from deployer.core.errors import FileProblem
from deployer.core.files.reading import damage, read_json
from deployer.text.bpe import FORMAT, VERSION, BpeTokenizer, ByteTokenizer
from deployer.text.foreign import foreign_tokenizer, is_foreign
from deployer.text.tokenizer import Tokenizer
from deployer.text.words import CLASSES

FILE_BYTES = 1 << 26
"""The largest file: Gemma's `tokenizer.json` has half of it."""
_KINDS = {
    "bytes": frozenset({"format", "version", "kind"}),
    "bpe": frozenset({"format", "version", "kind", "words", "end", "tokens", "merges"}),
}
_HINT = "a file that a tokenizer's save() or Hugging Face's tokenizers wrote"


def read_tokenizer(path: Path | str, end: str | None = None) -> Tokenizer:
    """The tokenizer of a file of `save`, or of a `tokenizer.json`, which needs the extra `lm`.

    `end` is the name of the added token of a `tokenizer.json` that stands between documents; by default its only
    special one. FileProblem for a file that is damaged, or whose rule is not one that is encoded exactly.
    """
    path = Path(path)
    table = read_json(path, "no tokenizer's file: it is not JSON", _HINT, FILE_BYTES)
    if is_foreign(table):
        return foreign_tokenizer(path, table, end)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise FileProblem(f"{path} is no tokenizer's file", [("expected", f'"format": "{FORMAT}"')], _HINT)
    _check_members(path, table)
    if table["kind"] == "bytes":
        return ByteTokenizer()
    with damage(f"{path} has tokens that are no hexadecimal digits, or ids that are no numbers", _HINT):
        tokens = [bytes.fromhex(token) for token in _list_of(table, "tokens", str)]
        merges = [_pair(pair) for pair in _list_of(table, "merges", list)]
        finish = _whole("end", table["end"])
    return BpeTokenizer(tokens, merges, finish, str(path))


def _check_members(path: Path, table: dict[str, Any]) -> None:
    """FileProblem for another version, an unknown kind or rule of words, and members that are missing or unknown."""
    if table.get("version") != VERSION:
        facts = [("version", str(table.get("version"))), ("this deployer reads", str(VERSION))]
        raise FileProblem(f"{path} has a version that is not read", facts, "train the tokenizer again")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise FileProblem(f"{path} has an unknown kind", [("kind", str(kind)), ("kinds", ", ".join(_KINDS))], _HINT)
    if other := table.keys() ^ _KINDS[kind]:
        facts = [("member", f"{name!r} is {'unknown' if name in table else 'missing'}") for name in sorted(other)]
        raise FileProblem(f"{path} has other members than a tokenizer of kind {kind!r}", facts[:10], _HINT)
    if table.get("words", CLASSES) != CLASSES:
        facts = [("words", str(table["words"])), ("known", CLASSES)]
        raise FileProblem(f"{path} divides text into words by an unknown rule", facts, _HINT)


def _list_of(table: dict[str, Any], name: str, kind: type) -> list[Any]:
    values = table[name]
    if not isinstance(values, list):
        raise TypeError(f"{name} is no list")
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            raise TypeError(f"{name}[{index}] is {str(value)[:40]!r}")
    return values


def _pair(pair: list[Any]) -> tuple[int, int]:
    left, right = (_whole("an id of merges", number) for number in pair)
    return left, right


def _whole(name: str, number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{name} is {str(number)[:40]!r}")
    return number
