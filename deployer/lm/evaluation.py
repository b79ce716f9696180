"""A language model run on this machine: scores of rows, the loss of a text, and a text that goes on."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import FitEvaluator, evaluated_program
from deployer.fitting.segments import build_segment
from deployer.frontend import parse
from deployer.frontend.prepare import Axes
from deployer.lm.decoder import Decoder
from deployer.lm.folder import MODEL, LanguageModel
from deployer.lm.graph import save_model
from deployer.lm.model import forward_model
from deployer.lm.rows import IGNORED, TextRows
from deployer.text.sampling import Sampler

CHUNK = 8
"""Batches whose scores are in memory at once."""
Scores = Callable[[Array], Array]
"""From ids [rows, context] to scores [rows, context, vocab]."""


@dataclass(frozen=True)
class TextLoss:
    """The mean loss of a token in nats; `tokens` were predicted, of a text of so many `bytes`."""

    loss: float
    tokens: int
    bytes: int

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return math.exp(self.loss) if self.loss < math.log(np.finfo(np.float64).max) else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Bits of all tokens, documents' ends included, over the bytes of the text."""
        return self.loss * self.tokens / math.log(2) / self.bytes

    @property
    def record(self) -> dict[str, float]:
        """All numbers by name."""
        numbers = {"loss": self.loss, "perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        return {**numbers, "tokens": self.tokens, "bytes": self.bytes}


@contextmanager
def scores_of(model: LanguageModel, batch: int, stage: Callable[[str], None] = lambda text: None) -> Iterator[Scores]:
    """A function for the scores of rows of ids by the generated program, built for `batch` rows at once."""
    with TemporaryDirectory(prefix="deployer-lm-") as place:
        graph = parse.read_graphs(_forward_file(model, Path(place)), None, Axes(batch)).main
        program = evaluated_program(graph, tuple(model.weights))
        plan = build_segment(program, Options(native().name), Path(place), False, stage)
        evaluator, a = FitEvaluator(program, plan, Path(place)), model.architecture

        def scores(ids: Array) -> Array:
            filled = np.concatenate([ids, np.zeros((-len(ids) % batch, a.context), ids.dtype)]).astype(np.int32)
            batches = [(part,) for part in filled.reshape(-1, batch, a.context)]
            return evaluator.outputs(model.weights, batches).reshape(-1, a.context, a.vocab)[: len(ids)]

        yield scores


def _forward_file(model: LanguageModel, place: Path) -> Path:
    """The file of the forward model, with adapters if there are any; it then lies in `place`."""
    if model.adapters is None:
        return model.model
    save_model(forward_model(model.architecture, model.weights, model.adapters.evaluated), place / MODEL)
    return place / MODEL


def text_loss(scores: Scores, rows: TextRows, batch: int) -> TextLoss:
    """The loss of a text's rows, in float64 from scores in float32."""
    total, count, each = 0.0, 0, batch * CHUNK
    for at in range(0, len(rows.ids), each):
        labels = rows.labels[at : at + each]
        total -= float(label_log_probabilities(scores(rows.ids[at : at + each]), labels).sum())
        count += int((labels != IGNORED).sum())
    return TextLoss(total / count, count, rows.size)


def label_log_probabilities(scores: Array, labels: Array) -> Array:
    """The log-probability of each label that is not ignored, and zero elsewhere, in float64."""
    wide = scores.astype(np.float64)
    largest = wide.max(-1)
    total = largest + np.log(np.exp(wide - largest[..., None]).sum(-1))
    picked = np.take_along_axis(wide, np.maximum(labels, 0)[..., None], -1)[..., 0]
    return np.where(labels == IGNORED, 0, picked - total)


def continuation(decoder: Decoder, ids: Sequence[int], count: int, end: int, sampler: Sampler) -> Iterator[int]:
    """Up to `count` ids behind given ones, until a document ends.

    Where the context is full, its last half is read again, and the rest forgotten.
    """
    text, context = list(ids), decoder.architecture.context
    half = max(context // 2, 1)
    scores = decoder.prefill(text if len(text) <= context else text[-half:])
    for _ in range(count):
        token = sampler.sample(scores[0], position=len(text))
        if token == end:
            return
        text.append(token)
        yield token
        if decoder.lengths[0] < context:
            scores = decoder.decode([token])
        else:
            decoder.reset()
            scores = decoder.prefill(text[-half:])
