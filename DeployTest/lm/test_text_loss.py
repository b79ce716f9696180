"""Texts as rows, the loss of a text, and tokens that are drawn."""

import math
from pathlib import Path

import numpy as np
import pytest

from deployer.core.errors import DatasetMismatch
from deployer.lm.decoder import Decoder
from deployer.lm.evaluation import TextLoss, continuation, label_log_probabilities, scores_of, text_loss
from deployer.lm.folder import LanguageModel, new_model
from deployer.lm.rows import IGNORED, read_rows
from deployer.text.bpe import ByteTokenizer
from deployer.text.sampling import Sampler
from DeployTest.lm.sizes import SMALL, small

pytestmark = [pytest.mark.host, pytest.mark.training]
BYTES = ByteTokenizer()


@pytest.mark.parametrize("context", [1, 2, 4, 5, 6, 7, 100])
def test_each_id_is_a_label_once(context: int, tmp_path: Path) -> None:
    """All ids but the first, in order, each behind those that the model sees of it."""
    (tmp_path / "text.txt").write_bytes(b"ab\n\nc")
    rows = read_rows(tmp_path / "text.txt", BYTES, small("llama", context=context, vocab=257))
    assert rows.ids.shape == rows.labels.shape == (math.ceil(5 / context), context)
    assert rows.labels[rows.labels != IGNORED].tolist() == [97, 98, 256, 99, 256]
    assert rows.ids[rows.labels != IGNORED].tolist() == [256, 97, 98, 256, 99]
    assert rows.size == 3


def test_ids_outside_of_the_vocabulary(tmp_path: Path) -> None:
    """They are named before anything runs."""
    (tmp_path / "text.txt").write_bytes(b"ab")
    with pytest.raises(DatasetMismatch, match=r"text.txt: id 256 is outside of the model's vocabulary"):
        read_rows(tmp_path / "text.txt", BYTES, small("llama", vocab=256))


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


def test_loss_of_a_text(model: LanguageModel, tmp_path: Path) -> None:
    """The same for any batch, and that of the scores; a later token changes no earlier score."""
    text = b"a small text, of which not all rows are whole"
    (tmp_path / "text.txt").write_bytes(text)
    rows = read_rows(tmp_path / "text.txt", BYTES, model.architecture)
    losses = []
    for batch in (1, 4):
        with scores_of(model, batch) as scores:
            losses.append(text_loss(scores, rows, batch))
            whole = scores(rows.ids)
            changed = rows.ids.copy()
            changed[:, -1] = (changed[:, -1] + 1) % BYTES.vocab
            assert (scores(changed)[:, :-1] == whole[:, :-1]).all()
            assert (scores(changed)[:, -1] != whole[:, -1]).any()
    assert losses[0] == losses[1]
    assert (losses[0].tokens, losses[0].bytes) == (len(text) + 1, len(text))
    picked = label_log_probabilities(whole, rows.labels)
    assert math.isclose(losses[0].loss, -picked.sum() / losses[0].tokens, rel_tol=1e-12)


def test_greedy_continuation(model: LanguageModel) -> None:
    """Each token is the most likely one by the forward model, of what is in the context: its last half if it was full.

    An id that ends documents ends the text.
    """
    context = model.architecture.context
    decoder = Decoder(model.architecture, model.weights, chunk=4)
    found = list(continuation(decoder, [BYTES.end, 97], 14, -1, Sampler(0.0)))
    assert len(found) == 14
    with scores_of(model, 1) as scores:
        text = [BYTES.end, 97]
        seen = list(text)
        for token in found:
            row = np.array([seen + [7] * (context - len(seen))])
            assert token == int(scores(row)[0, len(seen) - 1].argmax())
            text.append(token)
            seen = [*seen, token] if len(seen) < context else text[-(context // 2) :]
    decoder.reset()
    assert list(continuation(decoder, [BYTES.end, 97], 14, found[3], Sampler(0.0))) == found[: found.index(found[3])]
