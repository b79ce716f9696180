"""Files by which a library goes on from a run: graphs, the state, the first samples, and the forward pass in use."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.artefact import from_jsonable
from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.files.arrays import read_npz
from deployer.core.files.reading import content_of, damage, parse_json, real_path
from deployer.core.ir import Program
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array, operator_of
from deployer.core.safe_text import json_text
from deployer.core.traits.training import Optimizer
from deployer.firmware.pages import MOST_BYTES
from deployer.firmware.prediction import Predictor
from deployer.fitting.checkpoint import CheckpointPlace, read_checkpoint
from deployer.frontend import check, parse
from deployer.frontend.dataset import Dataset, with_shares
from deployer.pipeline import Case
from deployer.training.samples import npz_bytes
from deployer.verify.program import verify_program

TRAIN, OPTIMIZER = GRAPHS = "train.onnx", "optimizer.onnx"
CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
RECORD, SAMPLES = "run.json", "samples.npz"
PREDICT = re.compile(r"predict_([1-9][0-9]{0,8})\.onnx")
"""Forward passes in evaluation mode, by their batch."""
WEIGHTS = ("best", "last")
"""States of a run that a library can begin with."""
FEW = 4
"""Passes of the example, unless an update takes more."""
AGAIN = "a folder that this version's `deployer fit` or `deployer.torch.train(..., folder=...)` wrote"


@dataclass(frozen=True)
class RunRecord:
    """Facts about a run that its graphs do not have.

    `accumulate` passes make an update, `data` inputs come with each pass, `share` is the number of the one that is the
    share of a pass, from 1 on (0: there is none). `weights` maps names in the training graph to those in the model.
    `validated` says whether the best state is that of validation samples.
    """

    accumulate: int
    data: int
    share: int
    weights: dict[str, str] = field(default_factory=dict)
    validated: bool = False
    version: int = 1


@dataclass(frozen=True, eq=False)
class RunCase:
    """A run as a case that begins with its state, and its forward passes in evaluation mode by their batch.

    `names` maps names of weights in the model to those in the training graph.
    """

    case: Case
    batch: int
    predictors: Mapping[int, Predictor]
    names: Mapping[str, str] = field(default_factory=dict)

    def predictor(self, batch: int | None) -> Predictor | None:
        """The forward pass for a batch, by default of one sample; None where the training graph has to serve."""
        if batch is None:
            return self.predictors.get(1) or next(iter(self.predictors.values()), None)
        if batch in self.predictors:
            return self.predictors[batch]
        if not self.predictors and batch == self.batch:
            return None
        known = sorted(self.predictors) or [self.batch]
        facts = [("batch", str(batch)), ("known", ", ".join(map(str, known)))]
        raise OptionProblem(
            f"{self.case.directory} has no forward pass for batches of {batch}", facts, "one of these batches"
        )


def example_passes(passes: int, accumulate: int, sample: Callable[[int], Sequence[Array]]) -> list[Sequence[Array]]:
    """The samples of the first passes: a few, in whole updates where they are not too large."""
    wanted = min(passes, accumulate * -(-FEW // accumulate))
    rows, size = list[Sequence[Array]](), 0
    for index in range(wanted):
        row = sample(index)
        size += sum(array.nbytes for array in row)
        if rows and size > MOST_BYTES:
            break
        rows.append(row)
    return rows


def record_files(record: RunRecord, rows: Sequence[Sequence[Array]]) -> dict[str, bytes]:
    """The record and the samples of the first passes as files."""
    arrays = {f"s{k}_{i}": array for k, row in enumerate(rows) for i, array in enumerate(row)}
    return {RECORD: json_text(asdict(record)).encode(), SAMPLES: npz_bytes(arrays)}


def is_run(folder: Path) -> bool:
    """Whether a folder has the files of a run."""
    return (folder / RECORD).is_file() and (folder / TRAIN).is_file()


def run_files(folder: Path) -> dict[str, bytes]:
    """The files of a run that a library is made from."""
    names = [*GRAPHS, CHECKPOINT, BEST, RECORD, SAMPLES]
    names += [path.name for path in sorted(folder.glob("predict_*.onnx")) if PREDICT.fullmatch(path.name)]
    return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def case_of_files(files: Mapping[str, bytes], title: str, weights: str = "", optimizer_state: bool = True) -> RunCase:
    """The run whose files these are, as `read_run` reads it; `title` is what it is called."""
    with tempfile.TemporaryDirectory(prefix="deployer-") as scratch:
        folder = Path(scratch) / title
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return read_run(folder, weights, optimizer_state)


def read_run(folder: Path, weights: str = "", optimizer_state: bool = True) -> RunCase:
    """The run of a folder, as a case that begins with its `weights`: those of the "best" epoch or of the "last" pass.

    By default they are the best ones of a run with validation samples, and else the last ones. Without
    `optimizer_state` the optimizer begins anew. FileProblem where a file is missing or damaged, DatasetMismatch where
    files belong to different runs.
    """
    if weights not in ("", *WEIGHTS):
        raise OptionProblem(f"weights is {weights!r}", hint=f"one of {', '.join(WEIGHTS)}")
    record = _read_record(folder / RECORD)
    source = parse.read_graphs(folder / TRAIN, folder / OPTIMIZER)
    program = check.check_program(source, data_inputs=record.data, warn=lambda warning: None)
    verify_program(program)
    place = _read_state(folder, weights or WEIGHTS[not record.validated])
    state = _initial(folder, program, place.state, optimizer_state)
    dataset = _dataset(folder, program, record, state)
    case = Case(real_path(folder), program, dataset, {}, {}, "the run's state", (), source.main)
    shape = program.tensors[program.data[0]].type.shape if program.data else ()
    names = {old: new for new, old in record.weights.items()}
    return RunCase(case, shape[0] if shape else 1, dict(sorted(_predictors(folder, names))), names)


def _read_record(path: Path) -> RunRecord:
    content = content_of(path, ARCHIVE_BYTES, AGAIN, AGAIN)
    with damage(f"{path} is not the record of a run", AGAIN):
        given = from_jsonable(dict[str, Any], parse_json(content))
        names = from_jsonable(dict[str, str], given["weights"])
        passes, data, share, version = (
            from_jsonable(int, given[name]) for name in ("accumulate", "data", "share", "version")
        )
        record = RunRecord(passes, data, share, names, from_jsonable(bool, given["validated"]), version)
        if version != RunRecord.version or passes < 1 or not 0 <= share <= data:
            raise ValueError("numbers out of range")
    return record


def _read_state(folder: Path, weights: str) -> CheckpointPlace:
    """The state after the best epoch or the last pass."""
    best = folder / BEST
    path = best if weights == WEIGHTS[0] and best.is_file() else folder / CHECKPOINT
    if not path.is_file():
        raise FileProblem(f"{path} does not exist", hint=AGAIN)
    return read_checkpoint(path, None)


def _initial(folder: Path, program: Program, state: Mapping[str, Array], optimizer_state: bool) -> dict[str, Array]:
    """The first contents of a library: weights and what else lasts, by storage."""
    fresh = set() if optimizer_state else set(_optimizer_tensors(program))
    known = {name: array for name, array in state.items() if name in program.weights and name not in fresh}
    needed = [name for name in program.weights if program.tensors[name].data is None]
    wrong = [name for name in needed if name not in known]
    wrong += [name for name, array in known.items() if array.shape != program.tensors[name].type.shape]
    if wrong:
        facts = [("tensors", ", ".join(sorted(wrong)[:4]))]
        raise DatasetMismatch(f"{folder}: the state belongs to another training graph", facts, AGAIN)
    return known


def _optimizer_tensors(program: Program) -> Iterator[str]:
    """The storages that the optimizer keeps between updates."""
    for node in program.graphs[-1].nodes:
        declared = operator_of(node).role(Optimizer)
        for place in declared.states if declared else ():
            yield program.storage(node.inputs[place])


def _dataset(folder: Path, program: Program, record: RunRecord, state: dict[str, Array]) -> Dataset:
    """The first passes with this state."""
    path = folder / SAMPLES
    arrays = read_npz(path, AGAIN)
    count = len(arrays) // max(len(program.data), 1)
    rows = list[tuple[Array, ...]]()
    for k in range(count):
        row = [arrays.get(f"s{k}_{i}") for i in range(len(program.data))]
        kinds = [program.tensors[name].type for name in program.data]
        for name, array, kind in zip(program.data, row, kinds, strict=True):
            if array is None or array.shape != kind.shape:
                found = "none" if array is None else str(list(array.shape))
                facts = [("expected", str(kind)), ("found", found)]
                raise DatasetMismatch(f"{path}: sample {k} does not fit {name!r}", facts, AGAIN)
        rows.append(tuple(np.asarray(a, kind.dtype) for a, kind in zip(row, kinds, strict=True)))
    if not rows:
        raise FileProblem(f"{path} has no samples", hint=AGAIN)
    left = count % record.accumulate != 0
    dataset = Dataset(tuple(rows), state, count, record.accumulate, (), {}, flush=left)
    return with_shares(dataset, program, record.share, path) if record.share else dataset


def _predictors(folder: Path, names: Mapping[str, str]) -> Iterator[tuple[int, Predictor]]:
    for path in folder.glob("predict_*.onnx"):
        found = PREDICT.fullmatch(path.name)
        if found:
            yield int(found[1]), Predictor(parse.read_graphs(path, None).main, names)
