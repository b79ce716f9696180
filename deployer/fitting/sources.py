"""Where samples come from: archives, arrays, tables of text, folders of images, and whatever can be iterated."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deployer.core.errors import DatasetMismatch, FileProblem, OptionProblem
from deployer.core.ir import TensorType
from deployer.core.limits import ARCHIVE_BYTES
from deployer.core.operator import Array
from deployer.fitting.images import read_images
from deployer.fitting.order import Samples
from deployer.fitting.safetensors import read_safetensors
from deployer.frontend.archive import read_npz
from deployer.frontend.data_numbers import check_finite, narrowed

Source = Path | str | Mapping[str, Any] | Sequence[Any] | Iterable[Any]
"""A file or a folder of images, its path as a text, arrays by name, arrays in the order of the inputs with the target
last, or an iterable of such batches."""
Columns = dict[str, Array]
ARRAY = ".npy"
"""The suffix of a file of one array, whose target is in another."""


def read_samples(
    source: Source,
    types: Mapping[str, TensorType],
    place: str = "data",
    target: Path | None = None,
    classes: Sequence[str] = (),
) -> Samples:
    """The samples of a source for data inputs of these types, target last.

    A folder is one of images, as `read_images` has it, with these `classes`; everything else as `read_source` and
    `fitted_samples` have it.
    """
    folder = Path(source) if isinstance(source, str | Path) else None
    if target is None and folder is not None and folder.is_dir():
        columns, names = read_images(folder, types, classes)
        return replace(fitted_samples(columns, types, place), classes=names)
    return fitted_samples(read_source(source, list(types), place, target), types, place)


def read_source(source: Source, names: Sequence[str], place: str = "data", target: Path | None = None) -> Columns:
    """The arrays of a source by the names of data inputs, target last in `names`.

    A `.csv` has a row per sample: the column of the target's name, else the last one, is the target, the others are the
    only input. A `.npy` is the only input, and `target` the file with its target. An iterable is read once, to its end.
    Raises FileProblem and DatasetMismatch, OptionProblem for a `target` beside anything else.
    """
    source = Path(source) if isinstance(source, str) else source
    if target is not None and not (isinstance(source, Path) and source.suffix.lower() == ARRAY):
        raise OptionProblem(f"{target} has no effect: {place} has its target itself", hint=f"with one {ARRAY} alone")
    if isinstance(source, Path):
        return _file(source, names, target)
    if isinstance(source, Mapping):
        return {str(name): to_array(value) for name, value in source.items()}
    if isinstance(source, list | tuple) and all(_is_array(x) for x in source):
        if len(source) != len(names):
            facts = [("arrays", str(len(source))), ("needed", ", ".join(names))]
            raise DatasetMismatch(f"{place} has another number of arrays than the model takes", facts, "one for each")
        return {name: to_array(value) for name, value in zip(names, source, strict=True)}
    return _drained(source, names, place)


def to_array(values: Any) -> Array:
    """A numpy array of what is one, or can tell its numbers: tensors of PyTorch, lists."""
    array = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DatasetMismatch(f"data of type {array.dtype} are no numbers", hint="arrays of numbers")
    return array


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _file(path: Path, names: Sequence[str], target: Path | None) -> Columns:
    kind = path.suffix.lower()
    if kind not in (ARRAY, ".npz", ".csv", ".safetensors"):
        raise FileProblem(
            f"{path} is no file of samples", hint="an .npz, .npy, .csv or .safetensors file, or a folder of images"
        )
    if kind in (".npz", ".safetensors"):
        return read_npz(path, "the path of the samples") if kind == ".npz" else read_safetensors(path)[0]
    if len(names) > 2:
        facts = [("inputs", ", ".join(names[:-1]))]
        raise DatasetMismatch(f"{path} is one array, and the model has several inputs", facts, "an .npz with all")
    if kind == ".csv":
        return _table(path, names)
    arrays = {names[0]: _npy(path)}
    if target is not None:
        arrays[names[-1]] = _npy(target)
    return arrays


def _npy(path: Path) -> Array:
    """The array of a file; FileProblem where it is missing, damaged, too large or holds no numbers."""
    if not path.is_file():
        raise FileProblem(f"{path} does not exist", hint="the path of an .npy file")
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError) as error:
        facts = [("cause", " ".join(str(error).split())[:200])]
        raise FileProblem(f"{path} is truncated or no .npy array of numbers", facts, "write it again") from None
    if array.dtype.kind not in "fiub" or array.nbytes > ARCHIVE_BYTES:
        facts = [("found", f"{array.dtype}{list(array.shape)}"), ("at most", f"{ARCHIVE_BYTES} B")]
        raise FileProblem(f"{path} holds no array of numbers of that size", facts)
    return np.array(array)


def _table(path: Path, names: Sequence[str]) -> Columns:
    """The columns of a CSV file, whose first line may name them."""
    if not path.is_file():
        raise FileProblem(f"{path} does not exist", hint="the path of a .csv file")
    if path.stat().st_size > ARCHIVE_BYTES:
        raise FileProblem(f"{path} is too large", [("at most", f"{ARCHIVE_BYTES} B")], "an .npz of the same numbers")
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = [row for row in csv.reader(file) if row]
    heading = rows.pop(0) if rows and not all(map(_is_number, rows[0])) else []
    for number, row in enumerate(rows, 1 + bool(heading)):
        if len(row) != len(rows[0]) or len(row) < 2 or not all(map(_is_number, row)):
            facts = [("row", ", ".join(row)[:100]), ("columns", str(len(rows[0])))]
            raise FileProblem(f"{path}: row {number} is no row of as many numbers as the first", facts)
    if not rows:
        raise FileProblem(f"{path} holds no rows of numbers", hint="a row per sample, a column per number")
    table = np.array(rows, np.float64)
    at = heading.index(names[-1]) if names[-1] in heading else table.shape[1] - 1
    labels = table[:, at]
    whole = bool((labels == np.floor(labels)).all())
    return {names[0]: np.delete(table, at, axis=1), names[-1]: labels.astype(np.int64) if whole else labels}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _drained(source: Iterable[Any], names: Sequence[str], place: str) -> Columns:
    """All batches of an iterable, one behind another; each is a mapping by name, or has an array per name."""
    parts: dict[str, list[Array]] = {name: [] for name in names}
    size = 0
    for number, item in enumerate(source):
        values = [item[name] for name in names if name in item] if isinstance(item, Mapping) else list(item)
        if len(values) != len(names):
            facts = [("expected", ", ".join(names)), ("found", f"{len(values)} arrays")]
            raise DatasetMismatch(f"batch {number} of {place} has other arrays than the model", facts)
        for name, value in zip(names, values, strict=True):
            parts[name].append(to_array(value))
            size += parts[name][-1].nbytes
        if size > ARCHIVE_BYTES:
            facts = [("batches", str(number + 1)), ("at most", f"{ARCHIVE_BYTES} B")]
            raise DatasetMismatch(f"{place} is larger than what is held in memory", facts, "fewer samples")
    if not size:
        raise DatasetMismatch(f"{place} gives no samples", hint="batches of inputs and target")
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def fitted_samples(columns: Columns, types: Mapping[str, TensorType], place: str = "data") -> Samples:
    """The columns that the data inputs take, in the numbers of their types, as so many samples of each.

    A batch of the first input has as many samples as its first axis is long. A sample of an input has the shape of the
    input without that axis, axes of one element aside; where that axis is a multiple of the batch, its share of it.
    Arrays of whole batches, with an axis for them in front, are taken apart. DatasetMismatch for everything else.
    """
    first = next(iter(types.values()))
    batch = first.shape[0] if first.shape else 1
    listing = ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in columns.items()) or "nothing"
    arrays = {}
    for name, kind in types.items():
        array = columns.get(name)
        shaped = None if array is None else _shaped(array, kind, batch)
        if array is None or shaped is None or array.dtype.kind not in ("f" if kind.dtype == "float32" else "iu"):
            facts = [("expected", f"{name} {kind.dtype}[samples, {_per_sample(kind, batch)}]"), ("found", listing)]
            hint = "an array per data input, under its name, with the samples along the first axis"
            raise DatasetMismatch(f"{place} has no samples for {name!r}", facts, hint)
        narrow = narrowed(shaped, kind.dtype, f"{place}: {name!r}", [("expected", str(kind))])
        check_finite(narrow, f"{place}: {name!r}")
        arrays[name] = narrow
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1 or not all(counts.values()):
        raise DatasetMismatch(
            f"{place} has different numbers of samples", [("samples", str(counts))], "as many of each"
        )
    return Samples(types, arrays, batch)


def _per_sample(kind: TensorType, batch: int) -> str:
    return ", ".join(map(str, _sample_shape(kind, batch) or kind.shape)) or "nothing more"


def _sample_shape(kind: TensorType, batch: int) -> tuple[int, ...] | None:
    """The shape of a sample: the input's without the batch; None where the batch does not divide the first axis."""
    head = kind.shape[0] if kind.shape else 1
    if head % batch:
        return None
    return (head // batch, *kind.shape[1:]) if head > batch else kind.shape[1:]


def _shaped(array: Array, kind: TensorType, batch: int) -> Array | None:
    """The array with a sample's shape behind the first axis; None where it has another."""
    shape = _sample_shape(kind, batch)
    if shape is None or not array.ndim or not array.size:
        return None
    if array.shape[1:] == kind.shape and array.shape[1:] != shape:
        return array.reshape(-1, *shape)
    own, theirs = ([n for n in s if n != 1] for s in (array.shape[1:], shape))
    return array.reshape(len(array), *shape) if own == theirs else None
