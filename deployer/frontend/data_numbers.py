"""The numbers that a case may hold: finite ones, in the range of their element type, and labels that are classes."""

from collections.abc import Mapping, Sequence

import numpy as np

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
    """Raise DatasetMismatch for a label in `values` that is outside the classes of the loss that reads it.

    `values` holds graph inputs or constants by name; a loss may read them through views. `place` names their source at
    the start of the message.
    """
    for node in program.nodes:
        pair = operator_of(node).labels(node)
        name = program.storage(pair[0]) if pair else ""
        if pair and name in values:
            classes = program.tensors[pair[1]].type.shape[1]
            check_labels(node, values[name], classes, f"{place} {name!r}")


def check_labels(node: Node, labels: Array, classes: int, place: str) -> None:
    """Raise DatasetMismatch for a label outside 0..`classes` - 1, unless it is the node's `ignore_index`."""
    bad = (labels < 0) | (labels >= classes)
    if "ignore_index" in node.attrs:
        bad &= labels != node.attr_int("ignore_index", 0)
    if bad.any():
        raise DatasetMismatch(
            f"{place} holds label {labels[bad].reshape(-1)[0]}, outside the classes",
            [("classes", f"0 to {classes - 1}"), ("read by", f"node {node.name!r} ({node.op})")],
            "renumber the labels, or set ignore_index",
        )
