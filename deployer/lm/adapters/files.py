"""Files of adapters, as Hugging Face's PEFT has them: adapter_config.json, and adapter_model.safetensors beside it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import read_json
from deployer.core.operator import Array
from deployer.core.safe_text import json_text, shortened
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes
from deployer.lm.adapters.low_rank import DOWN, LowRank, linear_layers
from deployer.running import output

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
"""Prefix that PEFT gives to the names of the base model."""
KIND = "LORA"
READ = ("peft_type", "r", "lora_alpha", "lora_dropout", "target_modules")
"""Fields of the record that are read."""
IDLE = frozenset(
    {
        *("auto_mapping", "base_model_name_or_path", "corda_config", "eva_config", "inference_mode"),
        *("init_lora_weights", "loftq_config", "lora_ga_config", "megatron_core", "peft_version"),
        *("qalora_group_size", "revision", "task_type"),
    }
)
"""Fields that say nothing of what a trained adapter computes."""
OFF = ("none",)
"""Values of other fields that leave the adapter as it is, beside those that are empty or zero."""
TYPES = ("float32", "float16")
"""Types of weights that float32 holds."""
NAME = 100
"""Characters of a name or a value in a message."""
HINT = "`deployer lm train FOLDER --text FILE --lora REGEX --adapter DIR` makes one"
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class SavedAdapter:
    """Adapters of a model, and their weights by the names of the model."""

    adapters: LowRank
    weights: Mapping[str, Array]


def write_adapter(folder: Path, saved: SavedAdapter, model: Shapes, force: bool = False) -> None:
    """Write both files; `model` has the shapes of the base model. OptionProblem where other programs' files are."""
    adapters = saved.adapters
    alpha = int(adapters.alpha) if adapters.alpha.is_integer() else adapters.alpha
    record = {
        "base_model_name_or_path": None,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": alpha,
        "lora_dropout": adapters.dropout,
        "modules_to_save": None,
        "peft_type": KIND,
        "r": adapters.rank,
        "target_modules": _targets(adapters, model),
        "task_type": "CAUSAL_LM",
    }
    arrays = {f"{PREFIX}{name}": np.asarray(saved.weights[name], np.float32) for name in adapters.shapes(model)}
    files: dict[str, str | bytes] = {
        CONFIG: json_text(record),
        WEIGHTS: safetensors_bytes(arrays, {"format": "pt"}),
    }
    with output.opened(folder, tuple(files), force):
        output.write(folder, files, force)


def read_adapter(folder: Path, model: Shapes) -> SavedAdapter:
    """The adapter of a folder, for a base model with these shapes; FileProblem where it does not fit.

    Where the record has an expression instead of a list of layers, the layers are those that have weights in the file.
    """
    path, record = folder / WEIGHTS, _read_record(folder / CONFIG)
    arrays = {name.removeprefix(PREFIX): array for name, array in read_safetensors(path)[0].items()}
    adapters = _adapters(folder / CONFIG, record, arrays, model)
    expected, found = adapters.shapes(model), {name: array.shape for name, array in arrays.items()}
    names = sorted(found.keys() | expected.keys())
    wrong = [name for name in names if found.get(name) != expected.get(name)]
    if wrong:
        name = wrong[0]
        facts = [
            ("in the file", _shape(found.get(name))),
            (f"expected with rank {adapters.rank}", _shape(expected.get(name))),
        ]
        facts.append(("tensors that differ", f"{len(wrong)} of {len(names)}"))
        hint = f"an adapter that was trained on this model, with the {CONFIG} of its own"
        raise FileProblem(f"{path} does not fit the model and its {CONFIG}: {shortened(name, NAME)}", facts, hint)
    for name in expected:
        if arrays[name].dtype.name not in TYPES:
            facts = [("type", arrays[name].dtype.name), ("possible", ", ".join(TYPES))]
            raise FileProblem(f"{path}: {name} has another type", facts, "the same weights as float32")
        if not np.isfinite(arrays[name]).all():
            facts = [("elements", f"{(~np.isfinite(arrays[name])).sum()} of {arrays[name].size}")]
            raise FileProblem(f"{path}: {name} has infinite elements or NaN", facts, HINT)
    return SavedAdapter(adapters, {name: arrays[name].astype(np.float32) for name in expected})


def _read_record(path: Path) -> dict[str, Any]:
    """The fields of a record; FileProblem for one that means what there is not here."""
    record = read_json(path, "no record of an adapter in JSON", HINT)
    kind = record.get("peft_type") if isinstance(record, dict) else None
    if not isinstance(record, dict) or kind != KIND:
        facts = [("peft_type", shortened(repr(kind), NAME)), ("known", KIND)]
        raise FileProblem(f"{path} is no record of an adapter of low rank", facts, HINT)
    for name, value in record.items():
        if name not in (*READ, *IDLE) and value and value not in OFF:
            facts = [("found", shortened(repr(value), NAME))]
            hint = f"an adapter without {shortened(name, NAME)}"
            raise FileProblem(
                f"{path}: {shortened(name, NAME)} changes what is computed, and is not known", facts, hint
            )
    return record


def _adapters(path: Path, record: Mapping[str, Any], arrays: Mapping[str, Array], model: Shapes) -> LowRank:
    """The adapters of a record, beside layers of the model; FileProblem where numbers or layers are none."""
    numbers: dict[str, Any] = {name: record.get(name) for name in ("r", "lora_alpha")}
    numbers["lora_dropout"] = record.get("lora_dropout", 0)
    targets, texts = record.get("target_modules"), [(name, shortened(repr(n), NAME)) for name, n in numbers.items()]
    if type(numbers["r"]) is not int or any(type(number) not in (int, float) for number in numbers.values()):
        raise FileProblem(f"{path}: rank, alpha or dropout is no number", texts, HINT)
    if isinstance(targets, list) and all(isinstance(target, str) for target in targets):
        ends = targets
    elif isinstance(targets, str):
        ends = [name.removesuffix(f".{DOWN}") for name in arrays if name.endswith(f".{DOWN}")]
    else:
        facts = [("target_modules", shortened(repr(targets), NAME))]
        raise FileProblem(f"{path}: target_modules names no layers", facts, "a list of names, such as q_proj")
    rank, alpha, dropout = numbers.values()
    try:
        adapters = LowRank(_pattern(ends), rank, float(alpha), float(dropout))
    except OptionProblem as problem:
        raise FileProblem(f"{path}: {problem.cause}", texts, HINT) from None
    if not any(map(adapters.is_adapted, linear_layers(model))):
        facts = [("target_modules", shortened(repr(targets), NAME))]
        hint = "an adapter that was trained on this model"
        raise FileProblem(f"{path}: none of its layers is a linear layer of the model", facts, hint)
    return adapters


def _pattern(ends: Sequence[str]) -> str:
    """The expression that finds the layers that PEFT finds by ends of their names."""
    return rf"(?:^|\.)(?:{'|'.join(map(re.escape, ends))})$"


def _targets(adapters: LowRank, model: Shapes) -> list[str]:
    """The adapted layers as PEFT lists them: by last words where these find the same layers, else by whole names."""
    layers = adapters.layers(model)
    ends = sorted({layer.rpartition(".")[2] for layer in layers})
    short = replace(adapters, pattern=_pattern(ends))
    return ends if short.layers(model) == layers else list(layers)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else str(list(shape))
