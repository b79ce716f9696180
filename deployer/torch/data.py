"""Training samples of a module: arrays, iterables of batches or single samples, files, folders of images."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

from deployer.core.errors import DatasetMismatch, Warn
from deployer.core.ir import TensorType
from deployer.core.operator import Array, losses
from deployer.core.traits.training import Loss
from deployer.fitting.data.images import image_shape, read_images
from deployer.fitting.data.sources import ReadArrays, read_source, to_array
from deployer.frontend.data_numbers import narrowed
from deployer.torch.loss_choice import ANY, NONE, ONE
from deployer.torch.objectives import arguments_of, takes_any_number
from deployer.torch.samples.conversion import flat
from deployer.training.batches import taken_arrays, tell_unread
from deployer.training.tables import TARGETS, Request, Taken, is_table, read_table

COLLATED = 256
"""Samples of a data set that are put together at a time."""
WEIGHTS = ("sample_weight", "sample_weights", "weight", "weights")
"""Names of a mapping's weights of samples, for a loss by name."""
SAMPLES = "a tuple (x, y), batches of these, a Dataset, a file, or a folder of images"


@dataclass(frozen=True)
class Columns:
    """Inputs of a module, then the targets of its loss, samples along the first axis; `classes` names the labels.

    `inputs` and `targets` are the names of both; with `keywords` the module's arguments have those of the inputs.
    `taken` says what they were in the source. With `weighted` the last array has a weight for each sample. `bools` are
    the names of those that were bools, which are integers here.
    """

    arrays: list[Array]
    classes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    keywords: bool = False
    taken: Taken | None = None
    weighted: bool = False
    bools: frozenset[str] = frozenset()

    def with_weights(self, weights: Any) -> "Columns":
        """The same with a weight for each sample behind the target; DatasetMismatch for another number of them."""
        array, count = _array(weights, WEIGHTS[0]), len(self.arrays[0])
        if self.weighted or len(array) != count:
            found = "the data have weights already" if self.weighted else f"{len(array)} weights, and {count} samples"
            raise DatasetMismatch(f"sample_weight does not fit: {found}", hint="one weight for each sample")
        targets = (*self.targets, WEIGHTS[0])
        return replace(self, arrays=[*self.arrays, array], targets=targets, weighted=True)

    def source(self, arrays: list[Array]) -> ReadArrays:
        """The arrays for `fit`, in the types of its model."""
        return ReadArrays(tuple(arrays), self.taken)


def read_columns(
    data: Any,
    module: nn.Module,
    warn: Warn,
    like: Columns | None = None,
    *,
    targets: str = ONE,
    loss: str = "",
    target_column: str = "",
) -> Columns:
    """The samples of `data` as arrays, floats in float32 and integers in int64.

    A folder is one of images, as `read_images` has it, gray where its first image is and else of three channels; a file
    or a mapping has arrays by the names of the module's arguments and `labels` or `target`, and so may batches. A data
    set, which has a length and gives a sample for a number, or a loader of one, is read once, in its order. A table is
    as `read_table` has it, with class numbers as its target unless `loss` takes floats. `like` are the samples that are
    trained, where others are read for validation.
    `targets` says how many arrays are the loss's and not the module's: ONE, behind which weights of the samples may be;
    NONE; or ANY, the last one of a tuple, and of a mapping all that are no arguments.
    DatasetMismatch for data that are no arrays, beside what reading raises.
    """
    data, called, classes = flat(data), _Called(module, targets), like.classes if like else ()
    known = tuple(str(name) for name in getattr(data, "classes", None) or ())
    if isinstance(data, str | Path):
        path = Path(data)
        if is_table(path):
            return _table(path, called, loss, Request(target_column, classes, like.taken if like else None))
        if path.is_dir():
            types = {"images": TensorType("float32", (1, *image_shape(path))), "labels": TensorType("int32", (1,))}
            columns, known = read_images(path, types, classes)
        else:
            names = [*_needed(called), "labels"]  # those of an archive are looked up below
            columns = _named(read_source(path, names, "data", None, lambda _: None), called, str(path), warn)
    elif isinstance(data, Mapping):
        columns = {name: to_array(x) for name, x in _named(data, called, "data", warn).items()}
    elif hasattr(data, "shape"):
        raise DatasetMismatch("data has no labels or target", hint=f"{SAMPLES}; (x, x) for an autoencoder")
    elif isinstance(data, list | tuple) and all(hasattr(x, "shape") for x in data):
        columns = {str(i): to_array(x) for i, x in enumerate(data)}
    else:
        samples = gives_samples(data)
        batches = DataLoader(data, COLLATED, collate_fn=collated) if samples else data
        columns = _batches(batches, called, warn)
    given = [to_array(x) for x in columns.values()]
    arrays = [_array(x, i) for i, x in enumerate(given)]
    named = _named_columns(called, list(columns), arrays, known)
    by_name = zip((*named.inputs, *named.targets), given, strict=True)
    named = replace(named, bools=frozenset(name for name, x in by_name if x.dtype.kind == "b"))
    has_names = isinstance(data, str | Path | Mapping)
    return replace(named, taken=taken_arrays(columns, len(arrays[0]), named.targets)) if has_names else named


def _table(path: Path, called: "_Called", loss: str, request: Request) -> Columns:
    """The samples of a table, whose columns but the target's are the module's only argument."""
    operator = losses().get(loss)
    declared = operator.role(Loss) if operator else None
    is_float = declared is not None and declared.class_axis is None
    inputs = {name: TensorType("float32", (1,)) for name in _needed(called)}
    table = read_table(path, {**inputs, "": TensorType("float32" if is_float else "int32", (1,))}, request)
    arrays = [_array(x, i) for i, x in enumerate(table.columns.values())]
    return Columns(arrays, table.classes, tuple(inputs), ("target",), taken=table.taken)


def _named_columns(module: "_Called", names: list[str], arrays: list[Array], classes: tuple[str, ...]) -> Columns:
    """The columns with the names of arguments; those of a tuple are numbers, and go to the arguments in order."""
    keywords = bool(names) and not names[0].isdigit()
    if keywords:
        known = module.arguments if names != ["images", "labels"] else {"images": True}
        weighted = module.targets == ONE and names[-1] in WEIGHTS and len(names) > 2
        behind = names[-1 - weighted :] if module.targets == ONE else []
        inputs = [n for n in names if n in known and n not in behind]
        own = not set(inputs) <= module.arguments.keys()
        targets = tuple(n for n in names if n not in inputs)
        return Columns(arrays, classes, tuple(inputs), targets, not own, weighted=weighted)
    weighted = module.targets == ONE and not module.takes_any and len(names) == len(module.arguments) + 2
    count = len(names) - (0 if module.targets == NONE else 1 + weighted)
    inputs = [*module.arguments, *(f"input_{i}" for i in range(len(module.arguments), count))][:count]
    targets = ("target", WEIGHTS[0])[: len(names) - count]
    return Columns(arrays, classes, tuple(inputs), targets, weighted=weighted)


def gives_samples(data: Any) -> bool:
    """Whether the data are single samples and no batches: a Dataset, or what can be asked for a sample by number."""
    by_number = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    return isinstance(data, Dataset) or (by_number and not isinstance(data, list | tuple))


def collated(samples: list[Any]) -> Any:
    """Samples as a batch; DatasetMismatch for what is no tensor, such as pictures, and for different shapes."""
    try:
        return default_collate(samples)
    except TypeError as error:
        cause, hint = (
            "the data set yields neither a tensor nor a number",
            "tensors, such as torchvision's ToTensor()",
        )
        raise DatasetMismatch(cause, _facts(error), f"a transform that gives {hint}") from None
    except (RuntimeError, KeyError) as error:
        cause, hint = "samples of the data set cannot be put together", "samples of one shape"
        raise DatasetMismatch(cause, _facts(error), f"a transform that gives {hint}") from None


def _facts(error: Exception) -> list[tuple[str, str]]:
    return [("cause", " ".join(str(error).split())[:200])]


def _batches(data: Any, module: "_Called", warn: Warn) -> dict[str, Array]:
    """All batches, one behind another; they are tuples, or mappings by the names of arguments."""
    if not isinstance(data, Iterable):
        raise DatasetMismatch(f"data of type {type(data).__name__} gives no samples", hint=SAMPLES)
    batches = map(flat, data)
    first = list(itertools.islice(batches, 1))  # a generator is read once
    if first and isinstance(first[0], Mapping):
        names = tuple(_named(dict.fromkeys(map(str, first[0])), module, "a batch of data", warn))
    else:
        names = tuple(map(str, range(len(first[0]) if first else 0)))
    return read_source(itertools.chain(first, batches), names, "data", None, lambda _: None)


class _Called:
    """Signature of a module: its arguments in order, whether each is required, and the loss's `targets`."""

    def __init__(self, module: nn.Module, targets: str) -> None:
        self.arguments, self.targets = arguments_of(module), targets
        self.takes_any = takes_any_number(module)


def _needed(module: _Called) -> list[str]:
    return [name for name, is_needed in module.arguments.items() if is_needed]


def _named(columns: Mapping[str, Any], module: "_Called", place: str, warn: Warn) -> dict[str, Any]:
    """The columns in the order of the module's arguments, target last.

    DatasetMismatch where one that has no default is missing, or the target; `warn` is told of others.
    """
    targets = {found.target for op in losses().values() if (found := op.role(Loss))}
    needed, rest = _needed(module), [name for name in columns if name not in module.arguments]
    target, weights = rest, list[str]()
    if module.targets == ONE:
        weights = [name for name in rest if name in WEIGHTS][:1]
        left = [name for name in rest if name not in weights]
        usual = [[n for n in columns if n in targets], [n for n in left if n.lower() in TARGETS], left]
        target = next((names for names in usual if names), [])
    counts = {ONE: len(target) == 1, NONE: True, ANY: bool(rest)}
    target = [] if module.targets == NONE else target
    if not columns.keys() >= set(needed) or not counts[module.targets]:
        wanted = {ONE: f", and one of {', '.join(sorted(targets))}", NONE: "", ANY: ", and what the loss takes"}
        facts = [("needed", f"{', '.join(needed)}{wanted[module.targets]}")]
        facts += [("found", ", ".join(columns) or "nothing")]
        raise DatasetMismatch(f"{place} lacks arrays of the module", facts, "arrays of these names")
    names = [*(name for name in module.arguments if name in columns and name not in target), *target, *weights]
    tell_unread(columns, names, place, warn)
    return {name: columns[name] for name in names}


def _array(values: Any, index: int | str) -> Array:
    """Floats as float32 and integers as int64; DatasetMismatch for one number, and for numbers beyond float32."""
    array = to_array(values)
    place = index if isinstance(index, str) else f"data: array {index}"
    facts = [("found", f"{array.dtype}{list(array.shape)}")]
    if not array.ndim:
        raise DatasetMismatch(f"{place} is one number", facts, "arrays, samples along their first axis")
    return narrowed(array, "float32", place, facts) if array.dtype.kind == "f" else array.astype("int64")
