"""Sources of samples, and what a pass is fed with."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem, Warn, python_warning
from deployer.core.files.arrays import read_npy, read_npz
from deployer.core.ir import Program, TensorType
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array
from deployer.fitting.data.images import read_images
from deployer.fitting.safetensors import read_safetensors
from deployer.frontend.data_numbers import loss_counts
from deployer.lr_schedules.windows import Updates, mean_shares
from deployer.training.batches import fitted_samples, taken_arrays, tell_unread
from deployer.training.order import Order, Samples
from deployer.training.tables import Request, Taken, is_table, read_table

# Sample sources: archives, arrays, tables of text, folders of images, and arbitrary iterables.


@dataclass(frozen=True, eq=False)
class ReadArrays:
    """Arrays in the order of the inputs, target last, and the record of their source."""

    arrays: tuple[Array, ...]
    taken: Taken | None = None


Source = Path | str | Mapping[str, Any] | Sequence[Any] | Iterable[Any] | ReadArrays
"""A file or a folder of images, its path as a text, arrays by name, arrays in the order of the inputs with the target
last, or an iterable of such batches."""
NO_REQUEST = Request()
Columns = dict[str, Array]
ARRAY = ".npy"
"""The suffix of a file of one array, whose target is in another."""


def read_samples(
    source: Source,
    types: Mapping[str, TensorType],
    place: str = "data",
    target: Path | None = None,
    request: Request = NO_REQUEST,
    warn: Warn = python_warning,
    targets: Collection[str] | None = None,
) -> Samples:
    """The samples of a source for data inputs of these types, target last; `warn` gets those of arrays without use.

    A folder is one of images, as `read_images` has it, a table as `read_table` has it; everything else as `read_source`
    and `fitted_samples` have it. The request's classes name the labels from 0 on, for a folder those that there may be.
    `targets` are the data inputs that a loss takes, by default the last of several.
    """
    classes, path = request.classes, Path(source) if isinstance(source, str | Path) else None
    place = place if path is None else str(path)
    if target is None and path is not None and path.is_dir():
        columns, classes = read_images(path, types, classes)
        samples = fitted_samples(columns, types, place)
        taken = replace(taken_arrays(types, samples.count, targets), kind="images")
    elif target is None and path is not None and is_table(path):
        table = read_table(path, types, request)
        samples, taken, classes = fitted_samples(table.columns, types, place), table.taken, table.classes
    else:
        samples = fitted_samples(read_source(source, list(types), place, target, warn), types, place)
        known = source.taken if isinstance(source, ReadArrays) else None
        taken = known or taken_arrays(types, samples.count, targets)
    return replace(samples, classes=classes, taken=taken)


def read_source(
    source: Source,
    names: Sequence[str],
    place: str = "data",
    target: Path | None = None,
    warn: Warn = python_warning,
) -> Columns:
    """The arrays of a source by the names of data inputs, target last in `names`.

    A `.npy` is the only input, and `target` the file with its target. An iterable is read once, to its end.
    `warn` gets a warning for arrays of other names.
    Raises FileProblem and DatasetMismatch, OptionProblem for a `target` beside anything else.
    """
    source = Path(source) if isinstance(source, str) else source
    source = source.arrays if isinstance(source, ReadArrays) else source
    if target is not None and not (isinstance(source, Path) and source.suffix.lower() == ARRAY):
        raise OptionProblem(f"{target} has no effect: {place} has its target itself", hint=f"with one {ARRAY} alone")
    if isinstance(source, Path | Mapping):
        columns = _file(source, names, target) if isinstance(source, Path) else _columns(source)
        tell_unread(columns, names, place, warn)
        return columns
    if isinstance(source, list | tuple) and all(_is_array(x) for x in source):
        if len(source) != len(names):
            facts = [("arrays", str(len(source))), ("needed", ", ".join(names))]
            raise DatasetMismatch(f"{place} has another number of arrays than the model takes", facts, "one for each")
        return {name: to_array(value) for name, value in zip(names, source, strict=True)}
    return _drained(source, names, place, warn)


def _columns(source: Mapping[str, Any]) -> Columns:
    return {str(name): to_array(value) for name, value in source.items()}


def to_array(values: Any) -> Array:
    """A numpy array of what is one, or can tell its numbers: tensors of PyTorch, lists."""
    array = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DatasetMismatch(f"data of type {array.dtype} are not numbers", hint="arrays of numbers")
    return array


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _file(path: Path, names: Sequence[str], target: Path | None) -> Columns:
    kind = path.suffix.lower()
    if kind not in (ARRAY, ".npz", ".safetensors"):
        raise FileProblem(
            f"{path} is not a file of samples", hint="an .npz, .npy, .csv or .safetensors file, or a folder of images"
        )
    if kind in (".npz", ".safetensors"):
        return read_npz(path, "the path of the samples") if kind == ".npz" else read_safetensors(path)[0]
    if len(names) > 2:
        facts = [("inputs", ", ".join(names[:-1]))]
        raise DatasetMismatch(f"{path} is one array, and the model has several inputs", facts, "an .npz with all")
    arrays = {names[0]: read_npy(path)}
    if target is not None:
        arrays[names[-1]] = read_npy(target)
    return arrays


def _drained(source: Iterable[Any], names: Sequence[str], place: str, warn: Warn) -> Columns:
    """All batches of an iterable, one behind another; each is a mapping by name, or has an array per name."""
    chunks: dict[str, list[Array]] = {name: [] for name in names}
    size = 0
    for number, item in enumerate(source):
        if not number and isinstance(item, Mapping):
            tell_unread(map(str, item), names, place, warn)
        values = [item[name] for name in names if name in item] if isinstance(item, Mapping) else list(item)
        if len(values) != len(names):
            facts = [("expected", ", ".join(names)), ("found", f"{len(values)} arrays")]
            raise DatasetMismatch(f"batch {number} of {place} has other arrays than the model", facts)
        for name, value in zip(names, values, strict=True):
            chunks[name].append(to_array(value))
            size += chunks[name][-1].nbytes
        if size > ARCHIVE_BYTES:
            facts = [("batches", str(number + 1)), ("at most", f"{ARCHIVE_BYTES} B")]
            raise DatasetMismatch(f"{place} exceeds the memory limit of samples", facts, "fewer samples")
    if not size:
        raise DatasetMismatch(f"{place} gives no samples", hint="batches of inputs and target")
    return {name: np.concatenate(arrays) for name, arrays in chunks.items()}


# Input data of the passes of a run over epochs: ordered samples, and each pass's share in its update.


@dataclass(frozen=True, eq=False)
class Feed:
    """Program inputs of each pass of a run: samples in an order, and in a mean the `share` of the pass.

    A share is one float behind the data inputs of a sample: what the labels of the pass that count are of those of
    its update, whose gradient then is that of one batch of all its samples.
    """

    samples: Samples
    order: Order
    updates: Updates
    program: Program
    share: TensorType | None = None

    def bare(self, index: int) -> tuple[Array, ...]:
        """The data inputs of the pass of that index, whose share counts as 1."""
        return (*self.samples.of(self.order.indices(index)), *self.whole)

    @property
    def whole(self) -> tuple[Array, ...]:
        """The share of a pass that is an update alone, if it has one."""
        return () if self.share is None else (np.ones(self.share.shape, np.float32),)

    def passes(self, first: int, last: int) -> Sequence[tuple[Array, ...]]:
        """The data inputs of the passes from `first` to the one before `last`."""
        rows = [self.bare(index) for index in range(first, last)]
        if self.share is None:
            return rows
        shares = dict(self._shares(first, last))
        whole = self.whole[0]
        return [(*row[:-1], whole * np.float32(shares[index])) for index, row in enumerate(rows, first)]

    def _shares(self, first: int, last: int) -> Iterator[tuple[int, float]]:
        """The share of each pass of the updates that these passes are in, in float64."""
        at = self.updates.window(first).start
        while at < last:
            window = self.updates.window(at)
            counts = loss_counts(self.program, map(self.bare, window))
            yield from zip(window, mean_shares(counts, len(window), len(window)), strict=True)
            at = window.stop
