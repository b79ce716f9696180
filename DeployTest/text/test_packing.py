"""Documents are found, split and packed: every id once, with the document's end between documents."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.text.bpe import ByteTokenizer
from deployer.text.documents import read_documents, split_documents
from deployer.text.packing import Boundaries, Remainder, pack, pack_ids, predicted_bytes
from deployer.text.stories import stories
from DeployTest.text.vocabularies import trained

pytestmark = [pytest.mark.host]
END = ByteTokenizer().end


def test_blank_lines_divide_a_file(tmp_path: Path) -> None:
    """One or more of them, also with spaces, and with other line ends; a single line end divides nothing."""
    path = tmp_path / "text"
    path.write_bytes(b"\n\none\nmore\n\ntwo  \r\n \t\r\n\r\nthree\n\n\n")
    assert read_documents(path) == (b"one\nmore", b"two", b"three")


def test_a_separator_divides_files(tmp_path: Path) -> None:
    """Blank lines then belong to the text; a folder's files are documents by name, or divided, too."""
    (tmp_path / "b.txt").write_text("one\n\nmore<|end|>\n<|end|>two")
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "c.md").write_text("none")
    assert read_documents(tmp_path / "b.txt", "<|end|>") == (b"one\n\nmore", b"two")
    assert read_documents(tmp_path) == (b"first", b"one\n\nmore<|end|>\n<|end|>two")
    assert read_documents(tmp_path, "<|end|>") == (b"first", b"one\n\nmore", b"two")


def test_no_documents(tmp_path: Path) -> None:
    """A missing file, one without text, a folder without texts, and a separator that is none."""
    (tmp_path / "empty").write_text(" \n\n")
    for path, message in (("missing", "does not exist"), ("empty", "has no text"), (".", "has no file that ends with")):
        with pytest.raises(FileProblem, match=message) as error:
            read_documents(tmp_path / path)
        assert error.value.hint
    with pytest.raises(OptionProblem, match="separator of documents is empty"):
        read_documents(tmp_path / "empty", "")


@pytest.mark.parametrize(
    ("count", "share", "kept"), [(100, 0.1, 10), (2, 0.01, 1), (2, 0.99, 1), (7, 0.5, 4), (5, 0, 0)]
)
def test_split(count: int, share: float, kept: int) -> None:
    """The last documents are kept, in order."""
    documents = [f"{number:03}".encode() for number in range(count)]
    train, held = split_documents(documents, share)
    assert (len(train), len(held)) == (count - kept, kept)
    assert [*train, *held] == documents


def test_no_split() -> None:
    with pytest.raises(DatasetMismatch, match="one document cannot be both"):
        split_documents([b"one"])
    assert split_documents([b"one"], 0) == ((b"one",), ())
    for share in (-0.1, 1, float("nan")):
        with pytest.raises(OptionProblem, match="share of documents for evaluation"):
            split_documents([b"one", b"two"], share)


texts = st.lists(st.binary(max_size=12), min_size=1, max_size=8).filter(any)


@given(texts, st.integers(1, 9), st.sampled_from(["mark", "mask"]), st.sampled_from(["drop", "pad"]))
@settings(deadline=None)
def test_each_id_is_predicted_once(
    documents: list[bytes], context: int, boundaries: Boundaries, remainder: Remainder
) -> None:
    """The rows are the text with ends around documents; what counts, where positions begin, and what is dropped."""
    stream = [END]
    for document in documents:
        stream += [*document, END]
    if len(stream) <= context and remainder == "drop":
        with pytest.raises(DatasetMismatch, match="shorter than a row"):
            pack(documents, ByteTokenizer(), context, boundaries, remainder)
        return
    packed = pack(documents, ByteTokenizer(), context, boundaries, remainder)
    assert packed.rows.dtype == packed.positions.dtype == packed.documents.dtype == np.int32
    assert packed.rows.shape == (len(packed.rows), context + 1)
    for first, second in pairwise(packed.rows.tolist()):
        assert first[-1] == second[0]
    read, predicted = packed.inputs.ravel().tolist(), packed.targets.ravel().tolist()
    whole = min(len(read), len(stream) - 1)
    assert read[:whole] == stream[:whole]
    assert predicted[:whole] == stream[1 : whole + 1]
    assert {*read[whole + 1 :], *predicted[whole:]} <= {END}
    assert packed.dropped == len(stream) - 1 - whole
    assert packed.dropped < (context if remainder == "drop" else 1)
    apart = boundaries == "mask"
    counts = [at < whole and not (apart and id_ == END) for at, id_ in enumerate(read)]
    assert packed.valid.ravel().tolist() == counts
    assert packed.predictions == sum(counts)
    for row, positions, numbers in zip(packed.inputs, packed.positions, packed.documents, strict=True):
        number = position = 0
        for at, id_ in enumerate(row):
            begins = apart and id_ == END
            number, position = number + begins, 0 if begins or at == 0 else position + 1
            assert (positions[at], numbers[at]) == (position, number)


def test_masked_predictions_need_no_other_document() -> None:
    """An id that counts is predicted from ids of its own document alone, if ids attend within their number."""
    documents = [text.encode() for text in stories(12, 5)]
    packed = pack(documents, ByteTokenizer(), 100, "mask")
    owner = [0]
    for number, document in enumerate(documents):
        owner += [number] * (len(document) + 1)  # an end that is predicted belongs to the document before
    for row, (valid, numbers) in enumerate(zip(packed.valid, packed.documents, strict=True)):
        for at in np.flatnonzero(valid):
            seen = [row * 100 + j for j in range(at + 1) if numbers[j] == numbers[at]]
            texts_seen = {owner[j] for j in seen if packed.inputs[row, j - row * 100] != END}
            assert texts_seen == {owner[row * 100 + at + 1]}


@pytest.mark.parametrize("vocab", [257, 1024])
def test_bytes_of_predictions(vocab: int) -> None:
    """All bytes of the documents where nothing is dropped; the end has none."""
    documents = [text.encode() for text in stories(9, 5)]
    packed = pack(documents, trained(vocab), 64, remainder="pad")
    assert predicted_bytes(packed, trained(vocab)) == sum(map(len, documents))
    assert packed.predictions == sum(len(trained(vocab).encode(text)) + 1 for text in documents)


def test_too_little_text() -> None:
    """The hint's context can be packed."""
    with pytest.raises(DatasetMismatch, match="shorter than a row") as error:
        pack(["abc"], ByteTokenizer(), 50)
    [context] = re.findall(r"at most (\d+)", error.value.hint)
    assert pack(["abc"], ByteTokenizer(), int(context)).rows.tolist() == [[END, *b"abc", END]]
    for documents in ([], [b""]):
        with pytest.raises(DatasetMismatch, match="no text to pack"):
            pack(documents, ByteTokenizer(), 4)


def test_bad_ids_and_options() -> None:
    """An id outside the vocabulary is refused with its place; and options that are none."""
    with pytest.raises(DatasetMismatch, match="id 257 at position 1 is outside the vocabulary"):
        pack_ids([[1, 257]], ByteTokenizer(), 1)
    for options in ({"boundaries": "none"}, {"remainder": "none"}, {"context": 0}):
        with pytest.raises(OptionProblem, match=r"of packed rows is (unknown|out of range)"):
            pack_ids([[1, 2]], ByteTokenizer(), **{"context": 1, **options})


def test_stories_are_a_text() -> None:
    """They follow from seed and number, differ, are ASCII, and are about 400 bytes."""
    first = stories(200, 1)
    assert first[:50] == stories(50, 1)
    assert len({*first}) == 200
    assert not {*first} & {*stories(200, 2)}
    assert all(text.isascii() and 200 < len(text) < 800 and text.endswith("\n") for text in first)
    assert not re.search(r"[{}]|  ", "".join(first))
