"""Class labels: a check that each label that a loss reads is one of its classes."""

from collections.abc import Mapping

from deployer.core.errors import DatasetMismatch
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of


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
