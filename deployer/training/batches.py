"""Samples from columns: the same number for each data input, taken from batches or to be batched."""

from collections.abc import Collection, Iterable, Mapping

from deployer.core.errors import DatasetMismatch, DeployerWarning, Warn
from deployer.core.ir import TensorType
from deployer.core.operator import Array
from deployer.core.safe_text import listed
from deployer.frontend.data_numbers import check_finite, narrowed
from deployer.training.order import Samples
from deployer.training.tables import Taken


def tell_unread(columns: Iterable[str], names: Iterable[str], place: str, warn: Warn) -> None:
    """Warn of columns that no data input of these names takes: they may be there by another name than was meant."""
    wanted = tuple(names)
    spare = [repr(name) for name in columns if name not in wanted]
    if spare:
        facts = [("not read", listed(spare)), ("read", listed(wanted))]
        warn(DeployerWarning(f"{place} holds arrays that the model does not take", facts, "leave them out"))


def fitted_samples(columns: Mapping[str, Array], types: Mapping[str, TensorType], place: str = "data") -> Samples:
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
        if array is None or shaped is None or array.dtype.kind not in ("f" if kind.dtype == "float32" else "biu"):
            facts = [("expected", f"{name} {kind.dtype}[samples, {_per_sample(kind, batch)}]")]
            facts += [("of a batch", str(list(kind.shape))), ("found", listing)]
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


def taken_arrays(names: Iterable[str], count: int, targets: Collection[str] | None = None) -> Taken:
    """Choose arrays of so many samples by the names of data inputs.

    `targets` are by default the last of several.
    """
    names = list(names)
    targets = names[1:][-1:] if targets is None else targets
    inputs = tuple(name for name in names if name not in targets)
    return Taken("arrays", count, inputs, next((name for name in names if name in targets), ""))


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
