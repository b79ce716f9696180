"""Reading and continuing texts by generated C: prefill in chunks, and decoding token by token over caches."""

import ctypes
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, InternalError
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.fitting.engine import FitEvaluator, evaluated_program
from deployer.fitting.in_process import StepLibrary
from deployer.fitting.segments import build_segment
from deployer.frontend import parse
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import Architecture
from deployer.lm.cached import cache_names, cached_model, check_sizes
from deployer.lm.graph import save_model
from deployer.lm.model import LOGITS, parameter_shapes

CHUNK = 16
"""Tokens of each sequence that prefill reads at once, unless told otherwise."""
Weights = Mapping[str, Array]


def cached_program(
    architecture: Architecture,
    weights: Weights,
    chunk: int = 1,
    sequences: int = 1,
    selects: bool = False,
    adapters: LowRank | None = None,
) -> Program:
    """The program of `cached_model`, whose parameters are weights that may change."""
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        path = Path(scratch) / "cached.onnx"
        save_model(cached_model(architecture, weights, chunk, sequences, selects, adapters), path)
        return evaluated_program(parse.read_graphs(path, None).main, list(parameter_shapes(architecture, adapters)))


class _Chunks:
    """A program for chunks of one length, in this process."""

    def __init__(self, decoder: "Decoder", chunk: int) -> None:
        a, self.chunk, self.selects = decoder.architecture, chunk, chunk > 1
        program = cached_program(a, decoder.weights, chunk, decoder.sequences, self.selects, decoder.adapters)
        options = Options(native().name, cores=decoder.cores)
        with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
            self.library = StepLibrary(program, options, Path(scratch) / "code")
        self.library.load(decoder.weights)
        self.logits = self.library.tensors[self.library.plan.storage_of[LOGITS]].reshape(decoder.sequences, a.vocab)
        names = [name for layer in range(a.layers) for name in cache_names(layer)]
        self.caches = [self.library.tensors[name] for name in names]

    def run(self, ids: Array, begin: Array, last: Array) -> Array:
        """The scores [sequences, vocab] of the token `last` of each sequence's ids [sequences, chunk]."""
        library = self.library
        given = [np.ascontiguousarray(x, np.int64) for x in (ids, begin, *([last] if self.selects else []))]
        pointers = (ctypes.c_void_p * len(given))(*(x.ctypes.data for x in given))
        if library.run(ctypes.addressof(pointers), 0, 0, ctypes.addressof(library.loss)):
            raise InternalError("the library refuses a number that its program takes")
        return self.logits.copy()


class Decoder:
    """A language model that reads texts and says what comes next, for several sequences at once.

    Keys and values of the tokens that were read stay in caches for `context` tokens of each of `sequences`. Prefill
    reads `chunk` tokens of each at a time; scores have the same bits for any chunk, for tokens one by one, and in
    training. `lengths` are the numbers of tokens read. With `adapters` their weights are among the others, and `load`
    swaps them.
    """

    def __init__(
        self,
        architecture: Architecture,
        weights: Weights,
        sequences: int = 1,
        chunk: int = CHUNK,
        cores: int | None = None,
        adapters: LowRank | None = None,
    ) -> None:
        """Raise OptionProblem for numbers below 1, or a chunk beyond the context."""
        check_sizes(architecture, sequences, chunk)
        self.architecture, self.sequences, self.chunk, self.cores = architecture, sequences, chunk, cores
        self.adapters, names = adapters, parameter_shapes(architecture, adapters)
        self.weights = {name: np.asarray(weights[name], np.float32) for name in names}
        self.lengths = np.zeros(sequences, np.int64)
        self._current: _Chunks | None = None

    @cached_property
    def _single(self) -> _Chunks:
        return _Chunks(self, 1)

    @cached_property
    def _many(self) -> _Chunks:
        return _Chunks(self, self.chunk)

    def load(self, weights: Weights) -> None:
        """Take other weights, by default those that there are; what was read before is forgotten."""
        self.weights = {name: np.asarray(weights.get(name, own), np.float32) for name, own in self.weights.items()}
        for name in ("_single", "_many"):
            if name in self.__dict__:
                self.__dict__[name].library.load(self.weights)
        self.reset()

    def reset(self, sequence: int | None = None) -> None:
        """Forget what was read of a sequence, or of all."""
        self.lengths[slice(None) if sequence is None else sequence] = 0

    def prefill(self, ids: Sequence[int] | Sequence[Sequence[int]]) -> Array:
        """Read tokens of each sequence; the scores [sequences, vocab] of what follows them, zeros where there are none.

        With one sequence `ids` may be its tokens. DatasetMismatch for ids that are none of the vocabulary, and for more
        tokens than a sequence has room for; nothing is read then.
        """
        texts = self._checked(ids)
        scores = np.zeros((self.sequences, self.architecture.vocab), np.float32)
        longest = max(map(len, texts), default=0)
        size = self.chunk if longest > 1 else 1
        for at in range(0, longest, size):
            parts = [text[at : at + size] for text in texts]
            counts = np.array(list(map(len, parts)))
            rows = np.zeros((self.sequences, size), np.int64)
            for row, part in zip(rows, parts, strict=True):
                row[: len(part)] = part
            found = self._run(size, rows, np.maximum(counts - 1, 0))
            scores[counts > 0] = found[counts > 0]
            self.lengths += counts
        return scores

    def decode(self, ids: Sequence[int]) -> Array:
        """Read one token of each sequence; the scores [sequences, vocab] of the next. Errors are those of `prefill`."""
        return self.prefill([[int(number)] for number in ids])

    def _checked(self, ids: Sequence[int] | Sequence[Sequence[int]]) -> list[list[int]]:
        given = [[x] if isinstance(x, int | np.integer) else list(x) for x in ids]
        is_one = all(isinstance(x, int | np.integer) for x in ids)
        texts = [[int(x[0]) for x in given]] if is_one else [[int(x) for x in text] for text in given]
        if len(texts) != self.sequences:
            hint = f"a list of ids for each of {self.sequences}"
            raise DatasetMismatch(f"there are ids of {len(texts)} sequences, not of {self.sequences}", hint=hint)
        a = self.architecture
        for number, text in enumerate(texts):
            check_ids(text, a.vocab, f"sequence {number}")
            if self.lengths[number] + len(text) > a.context:
                facts = [("read", str(self.lengths[number])), ("more", str(len(text))), ("context", str(a.context))]
                hint = "reset, or a model with a longer context"
                raise DatasetMismatch(f"sequence {number} has no room for {len(text)} tokens", facts, hint)
        return texts

    def _run(self, size: int, ids: Array, last: Array) -> Array:
        chunks = self._single if size == 1 else self._many
        if self._current is not None and self._current is not chunks:
            read = slice(self.lengths.max())  # rows behind those that were read are never seen
            for own, other in zip(chunks.caches, self._current.caches, strict=True):
                own[:, :, read] = other[:, :, read]
        self._current = chunks
        return chunks.run(ids, self.lengths, last)


def check_ids(ids: Sequence[int], vocab: int, place: str) -> None:
    """DatasetMismatch where one of the ids is none of the vocabulary."""
    wrong = next((i for i, number in enumerate(ids) if not 0 <= number < vocab), None)
    if wrong is not None:
        facts = [("found", str(ids[wrong])), ("vocabulary", f"ids 0 to {vocab - 1}")]
        raise DatasetMismatch(f"token {wrong} of {place} is no id", facts, "the tokenizer that the model has")


def replayed(
    architecture: Architecture,
    weights: Weights,
    ids: Sequence[int],
    options: Options,
    folder: Path,
    force: bool = False,
) -> Array:
    """The scores [tokens, vocab] of what follows each token of a text, decoded token by token by a target's program.

    The program is built in a folder and runs once. Errors are those of a run.
    """
    check_ids(ids, architecture.vocab, "the text")
    program = cached_program(architecture, weights)
    plan = build_segment(program, options, folder, force)
    passes = [[np.array([[number]], np.int32), np.array([at], np.int32)] for at, number in enumerate(ids)]
    given = {name: np.asarray(weights[name], np.float32) for name in parameter_shapes(architecture)}
    return FitEvaluator(program, plan, folder).outputs(given, passes).reshape(len(ids), architecture.vocab)
