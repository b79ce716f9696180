"""Which values are ONNX's bools: here they are integers like others, and a function's body may differ for them."""

from collections.abc import Collection, Iterator, Sequence

import onnx
from onnx import TensorProto

from deployer.core.ir import Node

BOOL = {"tensor(bool)"}


def truths(node: Node, versions: Sequence[int], known: Collection[str]) -> Iterator[str]:
    """The node's outputs that are bools, if those of its inputs are that are `known`; by its schema of ONNX.

    An output is one where the schema says so, where it has the type of an input that is one, or by attribute `to`.
    """
    if not versions or not versions[0]:
        return
    schema = onnx.defs.get_schema(node.op, versions[0], "")
    always = {t.type_param_str for t in schema.type_constraints if set(t.allowed_type_strs) == BOOL} | BOOL
    types = {kind: name in known for kind, name in _typed(schema.inputs, node.inputs)}
    for kind, name in _typed(schema.outputs, node.outputs):
        if kind in always or types.get(kind, node.attrs.get("to") == TensorProto.BOOL):
            yield name


def _typed(formal: Sequence[onnx.defs.OpSchema.FormalParameter], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The type, as the schema names it, and the name of each value that is there; the last formal one may repeat."""
    for position, name in enumerate(names):
        if name and formal:
            yield formal[min(position, len(formal) - 1)].type_str, name
