"""Files of tokenizers: damage is named, foreign files give the ids of the package that made them, or are refused."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deployer.core.errors import DeployerError, FileProblem, OptionProblem, ToolMissing
from deployer.text.bpe import BpeTokenizer
from deployer.text.foreign import PROBES, is_foreign, pre_tokenizer
from deployer.text.tokenizer_files import read_tokenizer
from DeployTest.text.vocabularies import as_foreign, probes, trained

pytestmark = [pytest.mark.host]
JUDGED = pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is None, reason="the package tokenizers is not installed"
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def vocabulary() -> BpeTokenizer:
    """A small trained one."""
    found = trained(300)
    assert isinstance(found, BpeTokenizer)
    return found


def written(folder: Path, table: object) -> Path:
    """A file of JSON."""
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(table))
    return path


def saved(folder: Path) -> dict[str, Any]:
    """The table of a saved tokenizer."""
    vocabulary().save(folder / "saved")
    table: dict[str, Any] = json.loads((folder / "saved").read_text())
    return table


@pytest.mark.parametrize(
    ("member", "value", "message"),
    [
        ("format", "other", "is no tokenizer's file"),
        ("version", 2, "has a version that is not read"),
        ("kind", "unigram", "has an unknown kind"),
        ("kind", ["bpe"], "has an unknown kind"),
        ("kind", "bytes", "has other members"),
        ("more", 1, "has other members"),
        ("words", "gpt2", "by an unknown rule"),
        ("end", "256", "no hexadecimal digits, or ids that are no numbers"),
        ("end", True, "no hexadecimal digits, or ids that are no numbers"),
        ("tokens", ["zz"], "no hexadecimal digits, or ids that are no numbers"),
        ("tokens", [1], "no hexadecimal digits, or ids that are no numbers"),
        ("tokens", {}, "no hexadecimal digits, or ids that are no numbers"),
        ("tokens", ["61"], "no token for some bytes"),
        ("merges", [[1, 2, 3]], "no hexadecimal digits, or ids that are no numbers"),
        ("merges", [[1, 2.5]], "no hexadecimal digits, or ids that are no numbers"),
        ("merges", [5], "no hexadecimal digits, or ids that are no numbers"),
        ("merges", [[1, 999]], "merge 0 joins id 999"),
    ],
)
def test_damaged_files(member: str, value: object, message: str, tmp_path: Path) -> None:
    """Each is an error that names the file."""
    path = written(tmp_path, {**saved(tmp_path), member: value})
    with pytest.raises(FileProblem, match=r"tokenizer\.json") as error:
        read_tokenizer(path)
    assert message in error.value.cause
    assert error.value.hint


def test_files_that_are_none(tmp_path: Path) -> None:
    """A missing file, no JSON, and a value that is no table."""
    for content, message in ((None, "does not exist"), (b"\xff{", "is not JSON"), (b"[]", "is no tokenizer's file")):
        path = tmp_path / "file"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(FileProblem, match=message):
            read_tokenizer(path)


def test_each_cut_of_a_file(tmp_path: Path) -> None:
    """A file that lost its end is an error of the user's."""
    content = json.dumps(saved(tmp_path)).encode()
    for size in range(0, len(content), 97):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(FileProblem):
            read_tokenizer(tmp_path / "cut")


@JUDGED
@pytest.mark.parametrize("vocab", [300, 1024])
def test_ids_of_the_package(vocab: int, tmp_path: Path) -> None:
    """The same vocabulary in the package gives the same ids for all texts that are UTF-8."""
    import tokenizers

    ours = trained(vocab)
    assert isinstance(ours, BpeTokenizer)
    table = as_foreign(ours)
    assert is_foreign(table)
    path = written(tmp_path, table)
    read = read_tokenizer(path)
    assert isinstance(read, BpeTokenizer)
    assert (read.tokens, read.merges, read.end) == (ours.tokens, ours.merges, ours.end)
    theirs = tokenizers.Tokenizer.from_file(str(path))
    texts = [*PROBES, *(text.decode(errors="replace") for text in probes(10_000))]
    assert [theirs.encode(text).ids for text in texts] == [read.encode(text) for text in texts]


@JUDGED
def test_ids_of_a_file_of_the_package(tmp_path: Path) -> None:
    """A file that the package trained and saved, whose ids have another order, with the rule of words."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

    theirs = Tokenizer(models.BPE())
    steps = [
        pre_tokenizers.Split(Regex(pre_tokenizer()["pretokenizers"][0]["pattern"]["Regex"]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    theirs.pre_tokenizer = pre_tokenizers.Sequence(steps)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|end|>", "<|pad|>"], initial_alphabet=alphabet, show_progress=False
    )
    texts = [text.decode(errors="replace") for text in probes(5000)]
    theirs.train_from_iterator(texts, trainer)
    theirs.add_tokens([AddedToken("<name>")])
    theirs.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(OptionProblem, match="has 2 special tokens"):
        read_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(OptionProblem, match="no special token 'end'"):
        read_tokenizer(tmp_path / "tokenizer.json", end="end")
    read = read_tokenizer(tmp_path / "tokenizer.json", end="<|end|>")
    assert (read.end, read.vocab, read.tokens[-1]) == (0, 601, b"<name>")
    assert [theirs.encode(text).ids for text in texts] == [read.encode(text) for text in texts]
    assert read.decode(read.encode("a <|end|> <name>")) == b"a <|end|> <name>"
    assert not {0, 1, 600} & {*read.encode("a <|end|> <name>")}, "names of added tokens are text"


def edited(change: Callable[[Any], None]) -> Any:
    """A foreign table after a change."""
    table = json.loads(json.dumps(as_foreign(vocabulary())))
    change(table)
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(normalizer={"type": "NFC"}), "normalizer"),
        (lambda t: t["model"].update(type="Unigram"), "model.type"),
        (lambda t: t["model"].update(dropout=0.1), "model.dropout"),
        (lambda t: t["model"].update(ignore_merges=True), "model.ignore_merges"),
        (lambda t: t["model"].update(byte_fallback=True), "model.byte_fallback"),
        (lambda t: t["model"].update(end_of_word_suffix="</w>"), "model.end_of_word_suffix"),
        (lambda t: t["model"].update(continuing_subword_prefix="##"), "model.continuing_subword_prefix"),
        (lambda t: t.update(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False}), "pre_tokenizer"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=GPT2), "pretokenizers[0].pattern"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed"), "pretokenizers[0].behavior"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][1].update(use_regex=True), "pretokenizers[1].use_regex"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True), "[1].add_prefix_space"),
        (lambda t: t["pre_tokenizer"]["pretokenizers"].pop(), "pre_tokenizer"),
    ],
)
def test_other_rules_are_refused(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    """By the name of the member by which a text would get other ids."""
    with pytest.raises(FileProblem, match="encodes by another rule") as error:
        read_tokenizer(written(tmp_path, edited(change)))
    assert error.value.facts[0][0] == "member"
    assert error.value.facts[0][1].endswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["model"].update(vocab=[]), "not one of byte-level BPE"),
        (lambda t: t["model"]["vocab"].update({"漢": 299}), "not one of byte-level BPE"),
        (lambda t: t["model"]["vocab"].update({"a": "1"}), "not one of byte-level BPE"),
        (lambda t: t["model"]["vocab"].update({"zzz": 5}), "two tokens with id 5"),
        (lambda t: t["model"]["vocab"].update({"zzz": 1 << 40}), "no token with id 300"),
        (lambda t: t["model"]["vocab"].pop("a"), "no token with id 97"),
        (lambda t: t["added_tokens"][0].pop("special"), "not one of byte-level BPE"),
        (lambda t: t.update(added_tokens=[]), "0 special tokens"),
        (lambda t: t["model"].update(merges=5), "merges that are no pairs"),
        (lambda t: t["model"].update(merges=["a"]), "merges that are no pairs"),
        (lambda t: t["model"].update(merges=["a zzz"]), "merges that are no pairs"),
        (lambda t: t["model"].update(merges=[["a", "b", "c"]]), "merges that are no pairs"),
        (lambda t: t["model"].update(merges=t["model"]["merges"][:1] * 2), "merges 0 and 1 join the same ids"),
    ],
)
def test_broken_foreign_files(change: Callable[[Any], None], message: str, tmp_path: Path) -> None:
    with pytest.raises(DeployerError, match=r"tokenizer\.json") as error:
        read_tokenizer(written(tmp_path, edited(change)))
    assert message in error.value.cause


def test_the_judge_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how it is installed, and the extra exists."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ToolMissing, match="which is not installed") as error:
        read_tokenizer(written(tmp_path, edited(lambda t: None)))
    assert error.value.hint == "pip install 'deployer[lm]'"
    assert 'lm = ["tokenizers' in Path(__file__).parents[2].joinpath("pyproject.toml").read_text()


@JUDGED
def test_the_judge_disagrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault here that gives other ids is seen by its first token."""
    monkeypatch.setattr("deployer.text.bpe.words_of", lambda text: [bytes((byte,)) for byte in text])
    path = written(tmp_path, edited(lambda t: None))
    with pytest.raises(FileProblem, match="gives other ids here than tokenizers does") as error:
        read_tokenizer(path)
    assert dict(error.value.facts).keys() == {"text", "token", "tokenizers", "here"}


@JUDGED
def test_the_package_refuses(tmp_path: Path) -> None:
    """A member that this reader does not look at, and that the package does not take."""
    with pytest.raises(FileProblem, match="is refused by tokenizers"):
        read_tokenizer(written(tmp_path, edited(lambda t: t.update(decoder={"type": "Unknown"}))))
