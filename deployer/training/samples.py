"""The arrays of a new case: samples from a seed or a file, and archives with reproducible bytes."""

import io
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deployer.core.errors import DatasetMismatch, DeployerWarning, OptionProblem, Warn, python_warning
from deployer.core.files.arrays import read_npz
from deployer.core.ir import DTYPES, Node, Program, TensorType
from deployer.core.operator import Array, numerics_of
from deployer.frontend.data_numbers import check_finite, narrowed
from deployer.frontend.dataset import FLUSH, MEAN, RATES, Dataset
from deployer.running.output import replace_file
from deployer.training.batches import fitted_samples, taken_arrays, tell_unread
from deployer.training.order import Order, Samples
from deployer.training.tables import Request, Taken, check_column, is_table, read_table

Passes = tuple[dict[str, Array], ...]
"""The data inputs of each pass, by name."""
_EPOCH = (1980, 1, 1, 0, 0, 0)

Bounds = tuple[float, float]
BYTES = {name: (np.iinfo(name).min, np.iinfo(name).max + 1) for name, size in DTYPES.items() if size == 1}
"""The least number of each type of 8 bits, and the one behind the largest."""


def draw(
    inputs: Mapping[str, TensorType],
    ends: Mapping[str, int],
    count: int,
    seed: int,
    bounds: Mapping[str, Bounds] | None = None,
) -> Passes:
    """Floats that are standard normal, or uniform between `bounds`, and uniform integers from 0 to
    the one before `ends`, or all that a type of 8 bits has.

    Raises OptionProblem for an integer input without an end.
    """
    bounds = bounds or {}
    for name, kind in inputs.items():
        if name not in ends and kind.dtype != "float32" and kind.dtype not in BYTES:
            raise OptionProblem(
                f"there are no sample values for the integer input {name!r}",
                [("type", str(kind))],
                "give the samples with --data",
            )
    generator = np.random.default_rng(seed)
    return tuple(
        {
            name: generator.integers(0, ends[name], kind.shape)
            if name in ends
            else generator.integers(*BYTES[kind.dtype], kind.shape)
            if kind.dtype in BYTES
            else generator.uniform(*bounds[name], kind.shape).astype(np.float32)
            if name in bounds
            else generator.standard_normal(kind.shape).astype(np.float32)
            for name, kind in inputs.items()
        }
        for _ in range(count)
    )


def index_ends(nodes: Iterable[Node], types: Mapping[str, TensorType], root: Callable[[str], str]) -> dict[str, int]:
    """For each value by which nodes choose, as by ids of rows, the number behind the last choice of all of them.

    `root` leads from a view to its source.
    """
    ends: dict[str, int] = {}
    for node in nodes:
        indices = numerics_of(node).indices(node, types)
        if indices:
            name, end = root(indices.input), min(indices.sizes, default=indices.least + indices.count)
            ends[name] = min(end, ends.get(name, end))
    return ends


def drawn_inputs(program: Program) -> dict[str, Array]:
    """Numbers for the inputs of an inference program: normal ones, and integers from those that may choose.

    OptionProblem for an integer input of which nothing says how large it may be.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    ends = index_ends(program.nodes, types, program.storage)
    [sample] = draw({name: types[name] for name in program.data}, ends, 1, 0)
    return {name: values.astype(types[name].dtype) for name, values in sample.items()}


@dataclass(frozen=True)
class GivenSamples:
    """Data inputs of each pass from a source, the record of the columns or arrays read, and the names of classes.

    `samples` are the same before they were put into batches, if they were.
    """

    passes: Passes
    taken: Taken
    classes: tuple[str, ...] = ()
    samples: Samples | None = None

    def place(self, number: int, name: str, index: Sequence[int]) -> str:
        """The place in the source of a number of a pass."""
        if self.samples is None:
            return f"{name}{[number, *index]}"
        kind, array = self.samples.types[name], self.samples.arrays[name]
        flat = int(np.ravel_multi_index(tuple(index), kind.shape)) if kind.shape else 0
        row, *rest = map(int, np.unravel_index(flat, (self.samples.batch, *array.shape[1:])))
        row = (number * self.samples.batch + row) % self.samples.count
        return self.samples.place(name, (row, *rest))


def read_samples(
    inputs: Mapping[str, TensorType],
    data: Path | Mapping[str, Array],
    warn: Warn = python_warning,
    column: str = "",
    targets: Collection[str] | None = None,
) -> GivenSamples:
    """The data inputs of passes from a table, an npz archive or arrays: one per data input, by name.

    A table is as `read_table` has it, `column` its target's heading if it is not one of the usual ones. In arrays the
    first axis counts passes, where the others are the input's; else samples, as `fitted_samples` has it. Samples are
    put into batches in their order. The first ones fill up the last batch; `warn` is told of that, and of arrays that
    no input takes. `targets` are the data inputs that a loss takes, by default the last of several.
    Raises FileProblem, and DatasetMismatch where names, shapes, dtypes, counts or numbers do not fit.
    """
    check_column(column, data)
    place = str(data) if isinstance(data, Path) else "data"
    if isinstance(data, Path) and is_table(data):
        table = read_table(data, inputs, Request(column))
        samples = replace(fitted_samples(table.columns, inputs, place), classes=table.classes, taken=table.taken)
        return GivenSamples(_batches(samples, place, warn), table.taken, table.classes, samples)
    arrays = read_npz(data) if isinstance(data, Path) else dict(data)
    tell_unread(arrays, inputs, place, warn)
    if all(name in arrays and _counts_passes(arrays[name], kind) for name, kind in inputs.items()):
        passes = _passes(inputs, arrays, place)
        return GivenSamples(passes, taken_arrays(inputs, len(passes), targets))
    samples = fitted_samples(arrays, inputs, place)
    return GivenSamples(_batches(samples, place, warn), taken_arrays(inputs, samples.count, targets), samples=samples)


def _batches(samples: Samples, place: str, warn: Warn) -> Passes:
    """The samples in batches in their order; `warn` is told of what fills up the last one."""
    order = Order(samples.count, samples.batch, shuffled=False)
    if order.left:
        cause = f"{place}: {samples.count} samples are not a multiple of the batch size {samples.batch}"
        fact = f"{order.left} of {samples.batch} samples; filled up with the first samples"
        warn(DeployerWarning(cause, [("the last batch", fact)], "a number of samples that the batch divides"))
    passes = (dict(zip(samples.types, values, strict=True)) for values in samples.in_order())
    return tuple(
        {n: a.astype(np.int64) if a.dtype.kind in "biu" else a for n, a in values.items()} for values in passes
    )


def _counts_passes(array: Array, kind: TensorType) -> bool:
    """Whether the array has an axis, which is not empty, before the axes of the input."""
    return array.ndim > 0 and len(array) > 0 and array.shape[1:] == kind.shape


def _passes(inputs: Mapping[str, TensorType], arrays: Mapping[str, Array], place: str) -> Passes:
    """Those of arrays that have an input's whole shape behind the first axis."""
    listing = ", ".join(f"{k} {a.dtype}{list(a.shape)}" for k, a in arrays.items())
    for name, kind in inputs.items():
        if arrays[name].dtype.kind not in ("f" if kind.dtype == "float32" else "biu"):
            raise DatasetMismatch(
                f"{place} has no samples for {name!r}",
                [("expected", f"{name} {kind.dtype}[samples, {list(kind.shape)}]"), ("found", listing)],
                "one array per data input, under its name, with the samples along the first axis",
            )
    counts = {name: len(arrays[name]) for name in inputs}
    if len(set(counts.values())) > 1:
        raise DatasetMismatch(
            f"{place} has different numbers of samples", [("samples", str(counts))], "one each per data input"
        )
    numbers = {n: _numbers(arrays[n], kind, f"{place}: {n!r}") for n, kind in inputs.items()}
    count = next(iter(counts.values()), 0)
    return tuple({n: numbers[n][s] for n in inputs} for s in range(count))


def _numbers(array: Array, kind: TensorType, place: str) -> Array:
    """Finite floats in float32, and integers in int64 that fit int32."""
    narrow = narrowed(array, kind.dtype, place, [("expected", str(kind))])
    check_finite(narrow, place)
    return narrow if kind.dtype == "float32" else narrow.astype(np.int64)


def input_arrays(samples: Passes, dataset: Dataset) -> dict[str, Array]:
    """The content of inputs.npz: data, weights and the flag in graph order, further samples, meta data."""
    weights = dataset.weights
    first = [*samples[0].values(), *weights.values(), np.array([True])]
    arrays = {f"arr_{i:04d}": array for i, array in enumerate(first)}
    for k, sample in enumerate(samples[1:], 1):
        arrays |= {f"mb{k}_arr_{i:04d}": array for i, array in enumerate(sample.values())}
    meta = {"data_size": len(samples), "n_batches": dataset.n_batches, "n_accum": dataset.n_accum}
    arrays |= {f"meta_{key}": np.array([number], np.int32) for key, number in meta.items()}
    arrays |= {MEAN: np.array([dataset.share_at + 1], np.int32)} if dataset.shares else {}
    arrays |= {FLUSH: np.array([1], np.int32)} if dataset.flush else {}
    return arrays | ({RATES: dataset.rates} if dataset.rates.size else {})


def as_dataset(samples: Passes, weights: dict[str, Array], n_batches: int, n_accum: int) -> Dataset:
    """The samples and weights as a dataset without expected results."""
    narrow = [{n: a.astype(np.int32) if a.dtype.kind in "iu" else a for n, a in s.items()} for s in samples]
    return Dataset(tuple(tuple(s.values()) for s in narrow), weights, n_batches, n_accum, (), {})


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The bytes of an npz archive with a fixed time stamp and arrays of any name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())
    return content.getvalue()


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an npz archive to exactly this path; a failure leaves no partial file."""
    replace_file(path, npz_bytes(arrays))
