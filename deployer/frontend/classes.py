"""Class labels: whether those that a loss reads are classes."""

from collections.abc import Mapping

from deployer.core.errors import DatasetMismatch
from deployer.core.ir import Node, Program
from deployer.core.operator import Array, operator_of


def check_classes(program: Program, values: Mapping[str, Array], place: str) -> None:
    """DatasetMismatch where a label in `values`, graph inputs or constants by name, is no class of what it labels.

    Labels are found through views. `place` begins the message: where the values come from.
    """
    for node in program.nodes:
        pair = operator_of(node).labels(node)
        name = program.storage(pair[0]) if pair else ""
        if pair and name in values:
            classes = program.tensors[pair[1]].type.shape[1]
            check_labels(node, values[name], classes, f"{place} {name!r}")


def check_labels(node: Node, labels: Array, classes: int, place: str) -> None:
    """DatasetMismatch where a label that the node does not ignore is not from 0 to `classes` - 1."""
    bad = (labels < 0) | (labels >= classes)
    if "ignore_index" in node.attrs:
        bad &= labels != node.attr_int("ignore_index", 0)
    if bad.any():
        raise DatasetMismatch(
            f"{place} holds label {labels[bad].reshape(-1)[0]}, outside the classes",
            [("classes", f"0 to {classes - 1}"), ("read by", f"node {node.name!r} ({node.op})")],
            "renumber the labels, or set ignore_index",
        )
