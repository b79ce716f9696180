"""The folder of a language model: architecture and tokenizer, weights, and the forward model that has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import read_json
from deployer.core.operator import Array
from deployer.core.safe_text import json_text
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.lm.adapters.files import read_adapter
from deployer.lm.adapters.low_rank import LowRank
from deployer.lm.architecture import Architecture, read_architecture
from deployer.lm.graph import model_bytes
from deployer.lm.model import forward_model, shapes
from deployer.lm.weights import initial_weights
from deployer.running import output
from deployer.text.bpe import ByteTokenizer
from deployer.text.tokenizer import Tokenizer
from deployer.text.tokenizer_files import read_tokenizer

RECORD, TOKENIZER, MODEL, WEIGHTS = "lm.json", "tokenizer.json", "model.onnx", "weights.safetensors"
"""The files: the architecture, the tokenizer, the forward model, its weights by name."""
FORMAT, VERSION = "deployer language model", 1
BYTES = "bytes"
"""The name of the tokenizer whose ids are bytes."""
HINT = "`deployer lm new` makes one"


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A language model in its folder; with `adapters` their weights are among the others."""

    folder: Path
    architecture: Architecture
    tokenizer: Tokenizer
    weights: Mapping[str, Array]
    adapters: LowRank | None = None

    @property
    def model(self) -> Path:
        """The file of the forward model."""
        return self.folder / MODEL


def new_model(
    folder: Path, fields: Mapping[str, Any], tokenizer: Tokenizer, seed: int, force: bool = False
) -> LanguageModel:
    """Make a folder for fields of an architecture, whose `vocab` is by default that of the tokenizer.

    OptionProblem for fields that are wrong, a vocabulary smaller than the tokenizer's, and files that are not ours.
    """
    architecture = read_architecture({"vocab": tokenizer.vocab, **fields})
    _check_vocabulary(architecture, tokenizer)
    made = LanguageModel(folder, architecture, tokenizer, initial_weights(architecture, seed))
    record = {"format": FORMAT, "version": VERSION, "seed": seed, "architecture": architecture.record}
    names = (RECORD, TOKENIZER, MODEL, WEIGHTS)
    with output.opened(folder, names, force):
        with output.scratch(folder) as place:
            tokenizer.save(place / TOKENIZER)
            files: dict[str, str | bytes] = {RECORD: json_text(record), TOKENIZER: (place / TOKENIZER).read_bytes()}
        output.write(folder, files | _weight_files(made), force)
    return made


def read_model(folder: Path, adapter: Path | None = None) -> LanguageModel:
    """The language model of a folder, with an adapter that lies in another one.

    FileProblem for files that are missing, damaged, or do not belong together.
    """
    place = folder / RECORD
    record = read_json(place, f"the record of a language model: {HINT}", HINT)
    if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("version") != VERSION:
        raise FileProblem(f"{place} is no record of a language model of version {VERSION}", hint=HINT)
    fields = record.get("architecture")
    if not isinstance(fields, dict):
        raise FileProblem(f"{place} has no architecture", hint=HINT)
    architecture, tokenizer = read_architecture(fields, str(place)), read_tokenizer(folder / TOKENIZER)
    _check_vocabulary(architecture, tokenizer)
    arrays, expected = read_safetensors(folder / WEIGHTS)[0], shapes(architecture)
    found = {name: array.shape for name, array in arrays.items() if array.dtype == np.float32}
    if found != expected:
        wrong = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))[0]
        facts = [("in the file", str(found.get(wrong, "none"))), ("expected", str(expected.get(wrong, "none")))]
        raise FileProblem(f"{folder / WEIGHTS} does not fit {place}: {wrong}", facts, HINT)
    if adapter is None:
        return LanguageModel(folder, architecture, tokenizer, arrays)
    saved = read_adapter(adapter, expected)
    return LanguageModel(folder, architecture, tokenizer, {**arrays, **saved.weights}, saved.adapters)


def write_weights(model: LanguageModel, weights: Mapping[str, Array]) -> None:
    """Write other weights, and the forward model with them, to the folder."""
    with output.opened(model.folder, (MODEL, WEIGHTS)):
        output.write(
            model.folder, _weight_files(LanguageModel(model.folder, model.architecture, model.tokenizer, weights))
        )


def chosen_tokenizer(text: str) -> Tokenizer:
    """The tokenizer of bytes by that name, else that of a file."""
    return ByteTokenizer() if text == BYTES else read_tokenizer(Path(text))


def _weight_files(model: LanguageModel) -> dict[str, str | bytes]:
    ordered = {name: np.asarray(model.weights[name], np.float32) for name in shapes(model.architecture)}
    return {WEIGHTS: safetensors_bytes(ordered), MODEL: model_bytes(forward_model(model.architecture, ordered))}


def _check_vocabulary(architecture: Architecture, tokenizer: Tokenizer) -> None:
    if architecture.vocab < tokenizer.vocab:
        facts = [("vocab", str(architecture.vocab)), ("ids of the tokenizer", str(tokenizer.vocab))]
        hint = f"vocab={tokenizer.vocab} or more, or another tokenizer"
        raise OptionProblem("the tokenizer has ids outside of the model's vocabulary", facts, hint)
