"""Texts as rows, the loss of a text, and tokens that are drawn."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch, FileProblem
from deployer.lm.evaluation import Sampling, TextLoss, continuation, label_log_probabilities, scores_of, text_loss
from deployer.lm.folder import LanguageModel, new_model
from deployer.lm.rows import IGNORED, LABELS, read_documents, samples_of, token_stream
from deployer.text.bpe import ByteTokenizer
from DeployTest.lm.sizes import SMALL

pytestmark = [pytest.mark.host, pytest.mark.training]
BYTES = ByteTokenizer()


def test_documents(tmp_path: Path) -> None:
    """A separator is a line of its own; a folder's files come in the order of their names."""
    (tmp_path / "b.txt").write_bytes(b"three\r\n<|endoftext|>\r\nfour")
    (tmp_path / "a.txt").write_bytes(b"one <|endoftext|> one\n<|endoftext|>\ntwo\n<|endoftext|>\n")
    (tmp_path / "c.md").write_bytes(b"not read")
    assert read_documents(tmp_path / "a.txt") == [b"one <|endoftext|> one\n", b"two\n"]
    assert read_documents(tmp_path) == [b"one <|endoftext|> one\n", b"two\n", b"three\r\n", b"four"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileProblem, match=r"has no file \*.txt"):
        read_documents(tmp_path / "empty")
    (tmp_path / "a.txt").write_bytes(b"<|endoftext|>\n")
    with pytest.raises(FileProblem, match="is empty"):
        read_documents(tmp_path / "a.txt")


@pytest.mark.parametrize("context", [1, 2, 4, 5, 6, 7, 100])
def test_each_id_is_a_label_once(context: int) -> None:
    """All ids but the first, in order, each behind those that the model sees of it."""
    stream = token_stream(BYTES, [b"ab", b"c"], BYTES.vocab, "text")
    assert stream.tolist() == [256, 97, 98, 256, 99, 256]
    rows = samples_of(stream, context, BYTES.end)
    ids, labels = rows["ids"], rows[LABELS]
    assert ids.shape == labels.shape == (math.ceil(5 / context), context)
    assert labels[labels != IGNORED].tolist() == [97, 98, 256, 99, 256]
    assert ids[labels != IGNORED].tolist() == [256, 97, 98, 256, 99]


class Low(ByteTokenizer):
    """Bytes, of which 0 ends a document."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 0


def test_ids_outside_of_the_vocabulary() -> None:
    """The first of them is named with its place."""
    with pytest.raises(DatasetMismatch, match=r"book.txt: id 98 is outside of the model's vocabulary"):
        token_stream(Low(), [b"aab"], 98, "book.txt")


def test_log_probabilities() -> None:
    """Those of a softmax in float64; ignored labels count nothing, and large scores do not overflow."""
    scores = np.random.default_rng(1).standard_normal((3, 4, 7), np.float32) * np.float32(3)
    labels = np.array([[0, 1, 2, 3], [4, 5, 6, IGNORED], [IGNORED, 0, 0, 6]])
    found = label_log_probabilities(scores, labels)
    for at in np.ndindex(labels.shape):
        row = [math.exp(x) for x in scores[at].tolist()]
        expected = math.log(row[labels[at]] / math.fsum(row)) if labels[at] != IGNORED else 0.0
        assert math.isclose(found[at], expected, rel_tol=1e-12, abs_tol=1e-12)
    large = np.array([[[1e30, 0.0]]], np.float32)
    assert label_log_probabilities(large, np.array([[0]]))[0, 0] == 0


def test_numbers_of_a_loss() -> None:
    """Perplexity and bits per byte of a uniform guess among 256 bytes, and of one that is hopeless."""
    found = TextLoss(math.log(256), 10, 10)
    assert math.isclose(found.perplexity, 256)
    assert math.isclose(found.bits_per_byte, 8)
    assert TextLoss(1e4, 10, 10).perplexity == math.inf


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A small model of bytes, whose scores are far from even."""
    folder = tmp_path_factory.mktemp("lm") / "model"
    fields = {n: x for n, x in SMALL.items() if n != "vocab"}
    return new_model(folder, {**fields, "init_std": 0.5}, BYTES, 3)


def test_loss_of_a_text(model: LanguageModel) -> None:
    """The same for any batch, and that of the scores; a later token changes no earlier score."""
    text = b"a small text, of which not all rows are whole"
    stream = token_stream(BYTES, [text], BYTES.vocab, "text")
    rows = samples_of(stream, model.architecture.context, BYTES.end)
    losses = []
    for batch in (1, 4):
        with scores_of(model, batch) as scores:
            losses.append(text_loss(scores, rows, len(text), batch))
            whole = scores(rows["ids"])
            changed = rows["ids"].copy()
            changed[:, -1] = (changed[:, -1] + 1) % BYTES.vocab
            assert (scores(changed)[:, :-1] == whole[:, :-1]).all()
            assert (scores(changed)[:, -1] != whole[:, -1]).any()
    assert losses[0] == losses[1]
    assert (losses[0].tokens, losses[0].bytes) == (len(text) + 1, len(text))
    picked = label_log_probabilities(whole, rows[LABELS])
    assert math.isclose(losses[0].loss, -picked.sum() / losses[0].tokens, rel_tol=1e-12)


def test_greedy_continuation(model: LanguageModel) -> None:
    """Each token is the most likely one behind all before it, also when the text is longer than the context."""
    context = model.architecture.context
    with scores_of(model, 1) as scores:
        found = list(continuation(scores, [BYTES.end, 97], 14, context, -1, Sampling(0.0)))
        text = [BYTES.end, 97]
        for token in found:
            seen = text[-context:]
            row = np.array([seen + [7] * (context - len(seen))])
            assert token == int(scores(row)[0, len(seen) - 1].argmax())
            text.append(token)
    assert len(found) == 14


def test_draws() -> None:
    """Tokens come as often as their shares say; among the top ones alone; a seed decides."""
    scores = np.log(np.array([0.5, 0.25, 0.15, 0.1], np.float32))
    counts = Counter(Sampling(1.0, None, 1).draw(scores, step) for step in range(1500))
    for token, share in enumerate((0.5, 0.25, 0.15, 0.1)):
        assert abs(counts[token] / 1500 - share) < 5 * math.sqrt(share * (1 - share) / 1500)
    warm = Counter(Sampling(0.5, None, 1).draw(scores, step) for step in range(1500))
    assert abs(warm[0] / 1500 - 0.25 / (0.25 + 0.0625 + 0.0225 + 0.01)) < 0.04
    assert {Sampling(1.0, 2, 5).draw(scores, step) for step in range(200)} == {0, 1}
    assert Sampling(0.0).draw(scores, 0) == 0
    same = [[Sampling(1.0, None, seed).draw(scores, step) for step in range(50)] for seed in (1, 1, 2)]
    assert same[0] == same[1] != same[2]
