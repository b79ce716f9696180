"""The samples that a module is trained on: arrays, what gives batches or single samples, files, folders of images."""

import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

from deployer.core.errors import DatasetMismatch, Warn
from deployer.core.ir import TensorType
from deployer.core.operator import Array, losses
from deployer.fitting.images import image_shape, read_images
from deployer.fitting.sources import read_source, to_array
from deployer.frontend.data_numbers import narrowed
from deployer.training.batches import tell_unread

COLLATED = 256
"""Samples of a data set that are put together at a time."""
SAMPLES = "a tuple (x, y), batches of these, a Dataset, a file, or a folder of images"


@dataclass(frozen=True)
class Columns:
    """A module's inputs and the labels or target last, samples along the first axis; `classes` names the labels."""

    arrays: list[Array]
    classes: tuple[str, ...] = ()


def read_columns(data: Any, module: nn.Module, warn: Warn, classes: Sequence[str] = ()) -> Columns:
    """The samples of `data` as arrays, floats in float32 and integers in int64.

    A folder is one of images, as `read_images` has it, gray where its first image is and else of three channels; a file
    or a mapping has arrays by the names of the module's arguments and `labels` or `target`, and so may batches. A data
    set, which has a length and gives a sample for a number, or a loader of one, is read once, in its order.
    DatasetMismatch for data that are no arrays, beside what reading raises.
    """
    known = tuple(str(name) for name in getattr(data, "classes", None) or ())
    if isinstance(data, str | Path):
        path = Path(data)
        if path.is_dir():
            types = {"images": TensorType("float32", (1, *image_shape(path))), "labels": TensorType("int32", (1,))}
            columns, known = read_images(path, types, classes)
        else:
            names = [*_needed(module), "labels"]  # of a table, whose target is called that, or is its last column
            columns = _named(read_source(path, names, "data", None, lambda _: None), module, str(path), warn)
    elif isinstance(data, Mapping):
        columns = {name: to_array(x) for name, x in _named(data, module, "data", warn).items()}
    elif hasattr(data, "shape"):
        raise DatasetMismatch("data has no labels or target", hint=SAMPLES)
    elif isinstance(data, list | tuple) and all(hasattr(x, "shape") for x in data):
        columns = {str(i): to_array(x) for i, x in enumerate(data)}
    else:
        samples = _gives_samples(data)
        batches = DataLoader(data, COLLATED, collate_fn=_collated) if samples else data
        columns = _batches(batches, module, warn)
    return Columns([_array(x, i) for i, x in enumerate(columns.values())], known)


def _gives_samples(data: Any) -> bool:
    """Whether the data are single samples and no batches: a Dataset, or what can be asked for a sample by number."""
    by_number = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return isinstance(data, Dataset) or (by_number and not isinstance(data, list | tuple))


def _collated(samples: list[Any]) -> Any:
    """Samples as a batch; DatasetMismatch for what is no tensor, such as pictures, and for different shapes."""
    try:
        return default_collate(samples)
    except TypeError as error:
        cause, hint = "the data set gives what is no tensor and no number", "tensors, such as torchvision's ToTensor()"
        raise DatasetMismatch(cause, _facts(error), f"a transform that gives {hint}") from None
    except (RuntimeError, KeyError) as error:
        cause, hint = "samples of the data set cannot be put together", "samples of one shape"
        raise DatasetMismatch(cause, _facts(error), f"a transform that gives {hint}") from None


def _facts(error: Exception) -> list[tuple[str, str]]:
    return [("cause", " ".join(str(error).split())[:200])]


def _batches(data: Any, module: nn.Module, warn: Warn) -> dict[str, Array]:
    """All batches, one behind another; they are tuples, or mappings by the names of arguments."""
    if not isinstance(data, Iterable):
        raise DatasetMismatch(f"data of type {type(data).__name__} gives no samples", hint=SAMPLES)
    batches = iter(data)
    first = list(itertools.islice(batches, 1))  # a generator is read once
    if first and isinstance(first[0], Mapping):
        names = tuple(_named(dict.fromkeys(map(str, first[0])), module, "a batch of data", warn))
    else:
        names = tuple(map(str, range(len(first[0]) if first else 0)))
    return read_source(itertools.chain(first, batches), names, "data", None, lambda _: None)


def _arguments(module: nn.Module) -> dict[str, bool]:
    """The arguments of a module's forward pass that have a name, in their order, and whether it needs each."""
    arguments = inspect.signature(module.forward).parameters.values()
    return {a.name: a.default is a.empty for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)}


def _needed(module: nn.Module) -> list[str]:
    return [name for name, is_needed in _arguments(module).items() if is_needed]


def _named(columns: Mapping[str, Any], module: nn.Module, place: str, warn: Warn) -> dict[str, Any]:
    """The columns in the order of the module's arguments, target last.

    DatasetMismatch where one that has no default is missing, or the target; `warn` is told of others.
    """
    targets = {op.loss.target for op in losses().values() if op.loss}
    target = [name for name in columns if name in targets]
    needed = _needed(module)
    if not columns.keys() >= set(needed) or len(target) != 1:
        facts = [("needed", f"{', '.join(needed)}, and one of {', '.join(sorted(targets))}")]
        facts += [("found", ", ".join(columns) or "nothing")]
        raise DatasetMismatch(f"{place} has not the arrays that the module takes", facts, "arrays of these names")
    names = [*(name for name in _arguments(module) if name in columns), *target]
    tell_unread(columns, names, place, warn)
    return {name: columns[name] for name in names}


def _array(values: Any, index: int) -> Array:
    """Floats as float32 and integers as int64; DatasetMismatch for one number, and for numbers beyond float32."""
    array = to_array(values)
    place, facts = f"data: array {index}", [("found", f"{array.dtype}{list(array.shape)}")]
    if not array.ndim:
        raise DatasetMismatch(f"{place} is one number", facts, "arrays, samples along their first axis")
    return narrowed(array, "float32", place, facts) if array.dtype.kind == "f" else array.astype("int64")
