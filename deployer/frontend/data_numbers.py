"""The numbers that a case may hold: finite ones, in the range of their element type, and labels that are classes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from deployer.core.errors import DatasetMismatch
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, numerics_of
from deployer.core.traits.numerics import Indices

Place = Callable[[tuple[int, ...]], str]
"""From the index of a number in an array to its place for people."""


def narrowed(array: Array, dtype: str, place: str, facts: Sequence[tuple[str, str]]) -> Array:
    """The array in an element type of targets; raises DatasetMismatch for a number beyond that type."""
    if dtype == "float32":
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        far = np.isfinite(array) & ~np.isfinite(narrow)
    else:
        narrow, ends = array.astype(dtype), np.iinfo(dtype)
        far = np.zeros(array.shape, bool) if array.dtype == bool else (array < ends.min) | (array > ends.max)
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


Where = Callable[[str, tuple[int, ...]], str]
"""From the name of a data input and the index of a number in its array to the number's place for people."""


def indexed(name: str, index: tuple[int, ...]) -> str:
    """The place of a number as its index."""
    return f"{name}{list(index)}"


def check_classes(
    program: Program, values: Mapping[str, Array], place: str, where: Where = indexed, from_front: bool = False
) -> None:
    """Raise DatasetMismatch for a number in `values` that chooses, as a label does, and is outside of what there is.

    The same for a number that is outside of what an operator declares as the bounds of that input. `values` holds graph
    inputs or constants by name; a node may read them through views. `place` names their source at the start of the
    message, `where` says where in it a number is. With `from_front` a negative number is refused, too, that is read as
    nothing but the number of a row of the model's own parameters: ONNX counts it from the end, but whoever trains a
    table means none.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node, indices, table in choices_by(program, values, from_front):
        name = program.storage(indices.input)
        facts = [("table", f"{table!r}, {types[table]}")] if table else []
        check_indices(node, indices, values[name], f"{place} {name!r}", partial(where, name), facts)
    for node in program.nodes:
        for index, bounds in numerics_of(node).bounded.items():
            name = program.storage(node.inputs[index])
            if name in values:
                _check_bounds(node, values[name], bounds, f"{place} {name!r}", partial(where, name))


def choices_by(
    program: Program, names: Collection[str], from_front: bool = False
) -> Iterator[tuple[Node, Indices, str]]:
    """Yield the nodes that choose by numbers of graph inputs of these names, with the numbers that there are.

    The text is the parameter that is chosen from, or empty; `from_front` is as in `check_classes`.
    """
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for node in program.nodes:
        indices = numerics_of(node).indices(node, types)
        name = program.storage(indices.input) if indices else ""
        if indices is None or name not in names:
            continue
        table = _own_table(program, node, indices)
        alone = from_front and table and _chooses_alone(program, name)
        yield node, _counted_from_front(indices) if alone else indices, table


def _own_table(program: Program, node: Node, indices: Indices) -> str:
    """The parameter, trained or not, of which a node takes rows by numbers, also by way of numbers of rows; or none."""
    tables = [program.storage(name) for name in node.inputs if name and name != indices.input]
    own = next((name for name in tables if program.tensors[name].role in ("weight", "constant")), "")
    if own or not indices.sizes:
        return own
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    made = {program.storage(name) for name in node.outputs if name}
    for user in program.nodes:
        further = numerics_of(user).indices(user, types)
        if further and not further.sizes and program.storage(further.input) in made:
            return _own_table(program, user, further)
    return ""


def _chooses_alone(program: Program, name: str) -> bool:
    """Whether a data input is read for nothing but numbers by which nodes choose, also through views."""
    types = {n: tensor.type for n, tensor in program.tensors.items()}
    for node in program.nodes:
        read = [n for n in node.inputs if n and program.storage(n) == name]
        if not read or all(program.storage(n) == name for n in node.outputs if n):
            continue
        indices = numerics_of(node).indices(node, types)
        if indices is None or read != [indices.input]:
            return False
    return True


def _counted_from_front(indices: Indices) -> Indices:
    rows = indices.least + indices.count
    hint = "numbers of rows from 0 on; a negative one is not a row of a table that is trained"
    return replace(indices, least=0, count=rows, hint=hint)


def loss_counts(program: Program, samples: Iterable[Sequence[Array]]) -> Iterator[float | None]:
    """Yield the divisor of each sample's mean loss; None if no value of the sample affects it.

    It is the loss that the program ends with; samples are the data inputs in order.
    """
    end = program.storage(program.outputs[0])
    node = next((n for n in program.graphs[0].nodes if end in map(program.storage, filter(None, n.outputs))), None)
    read = [program.storage(name) if name else "" for name in node.inputs] if node else []
    fixed = {n: program.tensors[n].array for n in read if n and program.tensors[n].role == "constant"}
    for sample in samples:
        known = fixed | dict(zip(program.data, sample, strict=True))
        yield numerics_of(node).counted(node, [known.get(name) for name in read]) if node else None


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
    hint = "leave out such batches, or combine them with others in one batch"
    return DatasetMismatch(f"{place} has no counted label, and the mean of its loss is 0 / 0", facts, hint)


def _check_bounds(node: Node, array: Array, bounds: tuple[float, float], place: str, where: Place) -> None:
    """Raise DatasetMismatch for a number outside of the bounds of the input that it is for."""
    outside = np.argwhere(~((array >= bounds[0]) & (array <= bounds[1])))
    if len(outside):
        at = tuple(int(i) for i in outside[0])
        raise DatasetMismatch(
            f"{place} holds {array[at]} at {where(at)}, which is not from {bounds[0]:g} to {bounds[1]:g}",
            [("outside", f"{len(outside)} of {array.size}"), ("read by", f"node {node.name!r} ({node.op})")],
            "scale the data, or choose another loss",
        )


def check_indices(
    node: Node,
    indices: Indices,
    values: Array,
    place: str,
    where: Place = lambda at: str(list(at)),
    facts: Sequence[tuple[str, str]] = (),
) -> None:
    """Raise DatasetMismatch for a number outside of those that choose, unless it is the one to ignore.

    `where` says where a number is, by its index, and `facts` what else is known of what it chooses from.
    """
    ends = np.resize(indices.sizes or indices.least + indices.count, values.size).reshape(values.shape)
    starts = -ends if indices.sizes and indices.least < 0 else np.full_like(ends, indices.least)
    bad = (values < starts) | (values >= ends)
    if indices.ignored is not None:
        bad &= values != indices.ignored
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        listed = [(indices.among, f"{starts[at]} to {ends[at] - 1}"), *facts, ("at", where(at))]
        raise DatasetMismatch(
            f"{place} holds {indices.word} {values[at]}, outside the {indices.among}",
            [*listed, ("read by", f"node {node.name!r} ({node.op})")],
            indices.hint,
        )
