"""The numbers that a case may hold: finite ones, in the range of their element type, and labels that are classes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from deployer.core.declarations import Indices
from deployer.core.errors import DatasetMismatch
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of

_INT32 = np.iinfo(np.int32)


def narrowed(array: Array, dtype: str, place: str, facts: Sequence[tuple[str, str]]) -> Array:
    """The array as float32 or int32; raises DatasetMismatch for a number beyond that type."""
    if dtype == "float32":
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        far = np.isfinite(array) & ~np.isfinite(narrow)
    else:
        narrow = array.astype(np.int32)
        far = np.zeros(array.shape, bool) if array.dtype == bool else (array < _INT32.min) | (array > _INT32.max)
    if far.any():
        value = str(array[far].reshape(-1)[0])
        raise DatasetMismatch(f"{place} holds {value}, beyond {dtype}", facts, "scale the data, or renumber the labels")
    return narrow


def check_finite(array: Array, place: str) -> None:
    """Raise DatasetMismatch for NaN or infinity in an array, with the index of the first."""
    wild = np.argwhere(~np.isfinite(array))
    if len(wild):
        at = tuple(int(i) for i in wild[0])
        raise DatasetMismatch(
            f"{place} holds {array[at]} at {list(at)}",
            [("not finite", f"{len(wild)} of {array.size} numbers")],
            "correct the data or leave it out, or export the case again",
        )


def check_classes(program: Program, values: Mapping[str, Array], place: str) -> None:
    """Raise DatasetMismatch for a number in `values` that chooses, as a label does, and is outside of what there is.

    The same for a number that is outside of what an operator declares as the bounds of that input. `values` holds graph
    inputs or constants by name; a node may read them through views. `place` names their source at the start of the
    message.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in program.nodes:
        indices = operator_of(node).indices(node, types)
        name = program.storage(indices.input) if indices else ""
        if indices and name in values:
            check_indices(node, indices, values[name], f"{place} {name!r}")
        for index, bounds in operator_of(node).bounded.items():
            name = program.storage(node.inputs[index])
            if name in values:
                _check_bounds(node, values[name], bounds, f"{place} {name!r}")


def loss_counts(program: Program, samples: Iterable[Sequence[Array]]) -> Iterator[float | None]:
    """What the mean of each sample's loss is divided by, None where no value of it has a say in that.

    It is the loss that the program ends with; samples are the data inputs in order.
    """
    end = program.storage(program.outputs[0])
    node = next((n for n in program.graphs[0].nodes if end in map(program.storage, filter(None, n.outputs))), None)
    read = [program.storage(name) if name else "" for name in node.inputs] if node else []
    fixed = {n: program.tensors[n].array for n in read if n and program.tensors[n].role == "constant"}
    for sample in samples:
        known = fixed | dict(zip(program.data, sample, strict=True))
        yield operator_of(node).counted(node, [known.get(name) for name in read]) if node else None


def check_counts(program: Program, samples: Iterable[Sequence[Array]], place: str) -> None:
    """Raise DatasetMismatch where no label of a sample counts, so that the mean of its loss is 0 / 0.

    `place` is what stands before the number of the sample in the message. Where values have no say in the mean, no more
    than the first sample is looked at.
    """
    for k, count in enumerate(loss_counts(program, samples)):
        if count is None:
            return
        if not count > 0:
            raise _uncounted(program, f"{place} {k}", count)


def check_total(program: Program, samples: Iterable[Sequence[Array]], place: str) -> None:
    """Raise DatasetMismatch where no label of all samples counts, so that the mean of their loss is 0 / 0.

    `place` is what they are called in the message.
    """
    for count in loss_counts(program, samples):
        if count is None or count > 0:
            return
    raise _uncounted(program, place, 0)


def _uncounted(program: Program, place: str, count: float) -> DatasetMismatch:
    facts = [("counted", f"{count:g}"), ("loss", program.outputs[0])]
    hint = "leave out what has none, or put it together with others in one batch"
    return DatasetMismatch(f"{place} has no label that counts, and the mean of its loss is 0 / 0", facts, hint)


def _check_bounds(node: Node, array: Array, bounds: tuple[float, float], place: str) -> None:
    """Raise DatasetMismatch for a number outside of the bounds of the input that it is for."""
    outside = np.argwhere(~((array >= bounds[0]) & (array <= bounds[1])))
    if len(outside):
        at = tuple(int(i) for i in outside[0])
        raise DatasetMismatch(
            f"{place} holds {array[at]} at {list(at)}, which is not from {bounds[0]:g} to {bounds[1]:g}",
            [("outside", f"{len(outside)} of {array.size}"), ("read by", f"node {node.name!r} ({node.op})")],
            "scale the data, or choose another loss",
        )


def check_indices(node: Node, indices: Indices, values: Array, place: str) -> None:
    """Raise DatasetMismatch for a number outside of those that choose, unless it is the one to ignore."""
    end = indices.least + indices.count
    bad = (values < indices.least) | (values >= end)
    if indices.ignored is not None:
        bad &= values != indices.ignored
    if bad.any():
        raise DatasetMismatch(
            f"{place} holds {indices.word} {values[bad].reshape(-1)[0]}, outside the {indices.among}",
            [(indices.among, f"{indices.least} to {end - 1}"), ("read by", f"node {node.name!r} ({node.op})")],
            indices.hint,
        )
