"""Checkpoints: all that a run needs to go on with the same bits, in one file that carries its own digest.

The file is of the safetensors format: the state's arrays and all losses so far; its metadata has the run's place, what
it was made from, and a digest over everything else.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from deployer.core.artefact import from_jsonable
from deployer.core.errors import FileProblem, OptionProblem
from deployer.core.files.reading import damage, parse_json
from deployer.core.operator import Array
from deployer.core.safe_text import json_line
from deployer.fitting.history import EpochRow
from deployer.fitting.safetensors import read_safetensors, safetensors_bytes

FORMAT = "deployer checkpoint 2"
LOSSES, STATE = "losses", "state/"
"""The name of the losses' array, and what stands before the names of storages."""


@dataclass(frozen=True, eq=False)
class CheckpointPlace:
    """Progress of a run: passes made, the loss of each, the program's state by storage, and rows of epochs.

    `best` is the best value of the monitored metric so far (None before the first), reached in epoch `best_epoch`.
    `ended` says why the run is over before its last pass; empty while it is not.
    The order of the samples of an epoch follows from the seed and the epoch's number, so nothing is kept of it.
    """

    passes: int = 0
    losses: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    state: Mapping[str, Array] = field(default_factory=dict)
    rows: tuple[EpochRow, ...] = ()
    best: float | None = None
    best_epoch: int = 0
    ended: str = ""


def checkpoint_bytes(place: CheckpointPlace, origin: Mapping[str, str]) -> bytes:
    """The bytes of a checkpoint; `origin` says by name what the run is made from (model, data, options)."""
    arrays = {LOSSES: place.losses, **{STATE + name: array for name, array in place.state.items()}}
    record = {f.name: getattr(place, f.name) for f in fields(place) if f.name not in ("losses", "state", "rows")}
    record["rows"] = [asdict(row) for row in place.rows]
    metadata = {"format": FORMAT, "origin": json_line(dict(origin)), "place": json_line(record)}
    return safetensors_bytes(arrays, {**metadata, "digest": _digest(arrays, metadata)})


def read_checkpoint(
    path: Path, origin: Mapping[str, str] | None, like: Mapping[str, Array] | None = None
) -> CheckpointPlace:
    """The place of a file that a run of this origin wrote, whose state has the names and types of `like`, if given.

    Without an `origin` it may be any run's.

    FileProblem where it is damaged or no checkpoint, OptionProblem where it belongs to another run: what differs is
    named. Nothing is changed.
    """
    arrays, metadata = read_safetensors(path)
    if metadata.get("format") != FORMAT:
        facts = [("format", metadata.get("format", "none")), ("known", FORMAT)]
        raise FileProblem(
            f"{path} is not a checkpoint of this version", facts, "a file that this version's `deployer fit` wrote"
        )
    signed = {name: text for name, text in metadata.items() if name != "digest"}
    if metadata.get("digest") != _digest(arrays, signed):
        raise FileProblem(f"{path} is damaged: its content has another digest", hint="an earlier copy of it")
    with damage(f"{path} is not a checkpoint", "an earlier copy of it, or a new run"):
        theirs = from_jsonable(dict[str, str], parse_json(metadata["origin"]))
        record = from_jsonable(dict[str, Any], parse_json(metadata["place"], nonfinite=True))
        if origin is not None:
            _check_origin(path, theirs, origin)
        state = {name.removeprefix(STATE): array for name, array in arrays.items() if name.startswith(STATE)}
        if like is not None:
            _check_state(path, state, like)
        rows = tuple(_typed(EpochRow, row) for row in from_jsonable(tuple[Any, ...], record.pop("rows")))
        place = CheckpointPlace(**_typed_fields(CheckpointPlace, record), losses=arrays[LOSSES], state=state, rows=rows)
    if place.losses.shape != (place.passes,) or place.losses.dtype != np.float32:
        facts = [("losses", str(place.losses.shape)), ("passes", str(place.passes))]
        raise FileProblem(f"{path} is not a checkpoint", facts, "an earlier copy of it, or a new run")
    return place


def _typed(kind: type[EpochRow], row: Any) -> EpochRow:
    """A row of a table; TypeError or ValueError where a field is missing or of another type."""
    return kind(**_typed_fields(kind, from_jsonable(dict[str, Any], row)))


def _typed_fields(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass in the types that they have."""
    hints = get_type_hints(kind)
    return {name: from_jsonable(hints[name], value) for name, value in record.items()}


LABELS = {"rule": "task", "order": "sample order"}
"""Names of parts of an origin in messages, if other than their keys."""
MODELS = {"model", "evaluated"}
"""Parts of an origin that differ where a run is to go on from its trained weights in the model."""


def _check_origin(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    differing = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
    if differing:
        facts = [
            fact for name in differing for fact in _differences(name, ours.get(name, "none"), theirs.get(name, "none"))
        ]
        named = ", ".join(LABELS.get(name, name) for name in differing)
        weights = " with the weights that the run began with (the checkpoint has the trained ones)"
        same = f"the model{weights if MODELS.issuperset(differing) else ', data and options that it was made with'}"
        raise OptionProblem(
            f"{path} belongs to another run: {named} differ{'s' * (len(differing) == 1)}",
            facts,
            f"{same}, or another -o",
        )


def _differences(name: str, ours: str, theirs: Any) -> list[tuple[str, str]]:
    """List the differences of two origin texts: differing members of JSON records, else the whole texts."""
    mine, other = _parsed(ours), _parsed(theirs)
    if not (isinstance(mine, dict) and isinstance(other, dict)):
        return [(name, f"{ours}, in the file {theirs}")]
    keys = [key for key in sorted({*mine, *other}) if mine.get(key) != other.get(key)]
    return [(key, f"{json_line(mine.get(key))}, in the file {json_line(other.get(key))}") for key in keys]


def _parsed(text: Any) -> Any:
    """The record in JSON that a text is, or the text."""
    try:
        return parse_json(text, nonfinite=True)
    except (ValueError, TypeError):
        return text


def _check_state(path: Path, state: Mapping[str, Array], like: Mapping[str, Array]) -> None:
    kinds = {name: (array.dtype, array.shape) for name, array in like.items()}
    if {name: (array.dtype, array.shape) for name, array in state.items()} != kinds:
        odd = sorted({*state} ^ {*like})[:4]
        raise OptionProblem(f"{path} belongs to another program", [("tensors", ", ".join(odd) or "of other types")])


def _digest(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    total = hashlib.sha256(json_line(dict(sorted(metadata.items()))).encode())
    for name, array in sorted(arrays.items()):
        total.update(json_line([name, str(array.dtype), list(array.shape)]).encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
