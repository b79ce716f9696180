"""A folder with ONNX Runtime's own training artifacts as a case: graphs, initial parameters, data, expected results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch
from deployer.core.files.arrays import Arrays, read_npz
from deployer.core.ir import Program, TensorType
from deployer.core.operator import Array
from deployer.frontend.dataset import Dataset, check_run, check_sample_classes, fitted
from deployer.frontend.graph_inputs import BUFFER_SUFFIX
from deployer.frontend.parse import read_graphs
from deployer.frontend.prepare import NO_AXES, Axes
from deployer.frontend.raw_graph import RawGraph, Source
from deployer.frontend.reader import read_initializers
from deployer.frontend.runtime.checkpoint import read_checkpoint
from deployer.frontend.runtime.renewal import with_renewal

TRAIN, OPTIMIZER, EVAL, CHECKPOINT = "training_model.onnx", "optimizer_model.onnx", "eval_model.onnx", "checkpoint"
DATA, EXPECTED, LOSS = "data.npz", "expected.npz", "loss"


def is_runtime_case(folder: Path) -> bool:
    """Whether the folder holds artifacts of ONNX Runtime, and is no training folder of the other layout."""
    return (folder / TRAIN).is_file() and not (folder / "network.onnx").exists()


def read_runtime_graphs(folder: Path, axes: Axes = NO_AXES) -> Source:
    """Both graphs, with running statistics that follow the data; FileProblem where one is missing or damaged."""
    source = read_graphs(folder / TRAIN, folder / OPTIMIZER, axes)
    return replace(source, main=with_renewal(_with_buffers(source.main)))


def _with_buffers(train: RawGraph) -> RawGraph:
    """The graph whose accumulators are of their weights' types, where the file leaves their shapes open."""
    types = {item.name: item.declared for item in train.inputs}
    known = {name + BUFFER_SUFFIX: declared for name, declared in types.items()}
    inputs = (i if i.declared.static else replace(i, declared=known.get(i.name, i.declared)) for i in train.inputs)
    return replace(train, inputs=tuple(inputs))


def is_read(name: str) -> bool:
    """Whether a file of that name would be read, or written by ONNX Runtime, in such a folder."""
    return name == CHECKPOINT or Path(name).suffix in (".npz", ".onnx")


def _sources(folder: Path) -> list[Path]:
    """The files that may hold parameters: the checkpoint, and other archives and models than the known ones."""
    reserved = {TRAIN, OPTIMIZER, EVAL, DATA, EXPECTED}
    others = (path for pattern in ("*.npz", "*.onnx") for path in sorted(folder.glob(pattern)))
    return [path for path in (folder / CHECKPOINT, *others) if path.name not in reserved and path.is_file()]


@dataclass(frozen=True, eq=False)
class Parameters:
    """The initial parameters that the files of a case hold: arrays by name, and the file of each.

    `data_inputs` is how many of the training graph's first inputs are no parameters.
    """

    folder: Path
    sources: tuple[Path, ...]
    arrays: Arrays
    files: Mapping[str, Path]
    data_inputs: int

    def fitted(self, program: Program) -> Arrays:
        """Those of the program, in its types; DatasetMismatch where one is missing or of another type."""
        parameters: Arrays = {}
        for name in (name for name in program.weights if program.tensors[name].data is None):
            kind = program.tensors[name].type
            if name not in self.files:
                held = ", ".join(path.name for path in self.sources)
                raise DatasetMismatch(
                    f"no file in {self.folder} holds parameter {name!r}",
                    [("expected", str(kind)), ("files read", held or "none")],
                    f"put {CHECKPOINT}, the forward model, or an npz with the parameters by name there",
                )
            parameters[name] = fitted(self.arrays, name, kind, name, self.files[name])
        return parameters


def read_parameters(folder: Path, train: RawGraph) -> Parameters:
    """Read the parameters from all files of the folder.

    DatasetMismatch where two hold different values, or an archive holds what is no input; FileProblem where a file is
    damaged.
    """
    names = [item.name for item in train.inputs if not item.name.endswith(BUFFER_SUFFIX)]
    sources = _sources(folder)
    arrays: Arrays = {}
    files: dict[str, Path] = {}
    for path in sources:
        for name, array in _held(path, names).items():
            if name in arrays and not _same(arrays[name], array):
                first = files[name]
                raise DatasetMismatch(
                    f"{first} and {path} hold different values of parameter {name!r}",
                    [(first.name, _shown(arrays[name])), (path.name, _shown(array))],
                    "move the file that does not hold the initial parameters out of the folder",
                )
            arrays.setdefault(name, array)
            files.setdefault(name, path)
    buffers = {item.name.removesuffix(BUFFER_SUFFIX) for item in train.inputs if item.name not in names}
    count = next((i for i, name in enumerate(names) if name in arrays or name in buffers), len(names))
    return Parameters(folder, tuple(sources), arrays, files, count)


def _held(path: Path, names: Sequence[str]) -> Arrays:
    """The parameters in a file: an archive holds nothing else, a model and a checkpoint may."""
    if path.suffix == ".onnx":
        return read_initializers(path, names)
    if path.name == CHECKPOINT:
        arrays = read_checkpoint(path)
        return {name: arrays[name] for name in names if name in arrays}
    arrays = read_npz(path)
    _check_names(path, arrays, names)
    return arrays


def _check_names(path: Path, arrays: Arrays, names: Sequence[str]) -> None:
    """DatasetMismatch where an archive holds an array that nothing in the case has the name of."""
    for name in arrays:
        if name not in names:
            listing = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
            facts = [("found", _shown(arrays[name])), (f"the {len(names)} known names", listing)]
            raise DatasetMismatch(f"{path} holds {name!r}, which is not known", facts, "rename it, or leave it out")


def _same(left: Array, right: Array) -> bool:
    return left.shape == right.shape and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


def _shown(array: Array) -> str:
    """dtype, shape and the first elements."""
    values = ", ".join(f"{value:.9g}" for value in array.reshape(-1)[:3].tolist())
    return f"{array.dtype}{list(array.shape)} {values}{', ...' if array.size > 3 else ''}"


def load_runtime(
    parameters: Parameters,
    program: Program,
    n_steps: int | None = None,
    n_accum: int | None = None,
    flush: bool = False,
) -> Dataset:
    """The numbers of a case: data.npz has the passes, expected.npz, if it is there, their results.

    `n_steps` replaces the number of passes, `n_accum` is that of passes per update, 1 by default; expected.npz is of a
    run with that many. With `flush` passes that are left have an update of their own. Raises FileProblem where a file
    is missing or damaged, DatasetMismatch where arrays do not fit.
    """
    data, expected = parameters.folder / DATA, parameters.folder / EXPECTED
    arrays = _data(program, data)
    passes = len(next(iter(arrays.values()), ()))
    batches, accum = passes if n_steps is None else n_steps, 1 if n_accum is None else n_accum
    check_run(program, batches, accum, f"{passes} passes in {DATA}", flush)
    weights = parameters.fitted(program)
    samples = tuple(tuple(arrays[name][k] for name in program.data) for k in range(passes))
    check_sample_classes(program, samples, data)
    losses, finals = _results(program, expected, passes) if expected.exists() else ((), {})
    finals = finals if batches == passes and not (flush and batches % accum) else {}
    return Dataset(samples, weights, batches, accum, losses[:batches], finals, flush=flush)


def _data(program: Program, path: Path) -> Arrays:
    """An array per data input in the program's type, all with as many passes along the first axis."""
    arrays = read_npz(path, "an array per data input there, passes along the first axis")
    _check_names(path, arrays, program.data)
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if min(counts.values(), default=1) < 1 or len(set(counts.values())) > 1:
        facts = [(name, _shown(array)) for name, array in arrays.items()]
        raise DatasetMismatch(
            f"{path} has {' and '.join(f'{count} passes of {name!r}' for name, count in counts.items())}",
            facts,
            "as many passes of each data input along the first axis, at least one",
        )
    passes = next(iter(counts.values()), 1)
    types = {name: program.tensors[name].type for name in program.data}
    return {
        name: fitted(arrays, name, TensorType(kind.dtype, (passes, *kind.shape)), name, path)
        for name, kind in types.items()
    }


def _results(program: Program, path: Path, passes: int) -> tuple[tuple[float, ...], Arrays]:
    """The losses, and final values of weights; each array may be absent."""
    arrays = read_npz(path)
    _check_names(path, arrays, [LOSS, *program.weights])
    losses: tuple[float, ...] = ()
    if LOSS in arrays:
        values = fitted(arrays, LOSS, TensorType("float32", (passes,)), LOSS, path)
        losses = tuple(float(value) for value in values)
    names = [name for name in program.weights if name in arrays]
    return losses, {name: fitted(arrays, name, program.tensors[name].type, name, path) for name in names}
