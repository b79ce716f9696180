"""The form of a node in a file: how many inputs and outputs it may have, and which attributes of which kinds.

The form of an operator that ONNX knows comes from ONNX's schema; other operators declare theirs in their own file.
Rules, which operators share, turn nodes of older versions into today's form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal

import onnx
from onnx import AttributeProto, NodeProto, TensorProto

from deployer.core.ir import Node, TensorType

Range = tuple[int, int]
_FIELDS = {
    **{"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "SPARSE_TENSOR": "sparse_tensor"},
    **{"FLOATS": "floats", "INTS": "ints", "STRINGS": "strings", "TENSORS": "tensors", "GRAPHS": "graphs"},
    **{"TYPE_PROTO": "tp", "TYPE_PROTOS": "type_protos", "SPARSE_TENSORS": "sparse_tensors"},
}
"""The field of an attribute that holds a value of each kind."""
_NOTES = {"name", "type", "doc_string", "ref_attr_name"}


@dataclass(frozen=True)
class Form:
    """Least and most inputs and outputs, and the kind of each attribute, as ONNX names kinds (`INT`, `FLOATS`, ...)."""

    inputs: Range
    outputs: Range
    attributes: Mapping[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Extra:
    """An attribute that a file may hold although the operator's form does not have it.

    `instead_of` is the position of the input with the same meaning in the form, or -1; a node may not have both.
    """

    attribute: str
    kinds: tuple[str, ...]
    reason: str
    instead_of: int = -1


NOTE = Extra("description", ("STRING",), "a note of the exporter, which no operator reads")
"""The extra that every node may have; an operator declares any other that it accepts."""
_AXES = "exporters of training graphs write it as an attribute, a number or a list, under newer opsets too"
LATE_AXES = Extra("axes", ("INT", "INTS"), _AXES, instead_of=1)
"""The extra of operators whose newer versions take the axes as an input."""
MICROSOFT = "com.microsoft"
"""The domain of operators that training exporters use and ONNX does not define."""


@cache
def schema_form(op: str, version: int) -> Form:
    """The form of ONNX's operator of that name, which the default domain got at that version."""
    schema = onnx.defs.get_schema(op, version, "")
    return Form(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        {name: str(attribute.type).rpartition(".")[2] for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
    )


@cache
def has_body(op: str, version: int) -> bool:
    """Whether ONNX's operator of that name and version is a function, with a body of other operators."""
    schema: Any = onnx.defs.get_schema(op, version, "")  # the stub of its type does not know functions
    return bool(schema.has_function or schema.has_context_dependent_function)


def fault(proto: NodeProto, form: Form, accepted: Sequence[Extra] = ()) -> tuple[str, str] | None:
    """What the node has and neither the form nor an accepted extra allows, and what they allow; None if all fits."""
    attributes = [attribute.name for attribute in proto.attribute]
    extras = {extra.attribute: extra for extra in (NOTE, *accepted) if extra.attribute in attributes}
    least = min([form.inputs[0], *(extra.instead_of for extra in extras.values() if extra.instead_of > 0)])
    counts = (proto.input, (least, form.inputs[1]), "input"), (proto.output, form.outputs, "output")
    for names, (least, most), kind in counts:
        count = max((i for i, name in enumerate(names, 1) if name), default=0)
        if count > most:
            return f"it has {count} {kind}s", f"at most {most} {kind}s"
        if len(names) < least:
            return f"it has {len(names)} {kind}s", f"at least {least} {kind}s"
    for attribute in proto.attribute:
        if attributes.count(attribute.name) > 1:
            return (
                f"attribute {attribute.name!r} is there {attributes.count(attribute.name)} times",
                "each attribute once",
            )
        problem = _attribute_fault(proto, attribute, form, extras.get(attribute.name))
        if problem is not None:
            return problem
    missing = sorted(form.required - set(attributes))
    return (f"attribute {missing[0]!r} is absent", "the attribute with a value") if missing else None


def _attribute_fault(
    proto: NodeProto, attribute: AttributeProto, form: Form, extra: Extra | None
) -> tuple[str, str] | None:
    name = attribute.name
    kinds = (form.attributes[name],) if name in form.attributes else ()
    if extra is not None:
        kinds = (*kinds, *(kind for kind in extra.kinds if kind not in kinds))
    if not kinds:
        return f"attribute {name!r} is unknown", f"one of {', '.join(sorted(form.attributes)) or 'no attributes'}"
    if attribute.ref_attr_name:
        why = f"attribute {name!r} refers to attribute {attribute.ref_attr_name!r} of a function, and is in none"
        return why, "a value of its own"
    kind_numbers = AttributeProto.AttributeType.values()
    kind = AttributeProto.AttributeType.Name(attribute.type) if attribute.type in kind_numbers else str(attribute.type)
    if kind not in kinds:
        return f"attribute {name!r} is of kind {kind}", f"kind {' or '.join(kinds)}"
    fields = {entry.name for entry, _ in attribute.ListFields()} - _NOTES
    if not fields <= {_FIELDS[kind]}:
        why = f"attribute {name!r} of kind {kind} also holds a value of another kind"
        return why, f"field {_FIELDS[kind]!r} alone"
    if extra is not None and len(proto.input) > extra.instead_of > 0 and proto.input[extra.instead_of]:
        return f"{name!r} is an attribute and input {extra.instead_of} as well", "one of both"
    return None


_BOOL = "tensor(bool)"


@dataclass(frozen=True)
class TypeNames:
    """ONNX's names of the types of an operator's inputs and outputs; equal names mean equal types.

    The last input's name is that of all further ones. `bools` are names of types that are bools in any case.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    bools: frozenset[str]

    def elements(self, node: Node, known: Mapping[str, int]) -> dict[str, int]:
        """ONNX's element types of the node's outputs by name, as the schema, an input or `to` says them."""
        padded = (*self.inputs, *self.inputs[-1:] * max(len(node.inputs) - len(self.inputs), 0))
        found = {name: known[x] for name, x in zip(padded, node.inputs, strict=False) if x in known}
        found |= dict.fromkeys(self.bools, TensorProto.BOOL)
        to = node.attrs.get("to")
        named = {name: to for name in self.outputs if isinstance(to, int) and name not in self.inputs}
        found = named | found
        return {x: found[name] for name, x in zip(self.outputs, node.outputs, strict=False) if x and name in found}


@cache
def type_names(op: str, version: int) -> TypeNames:
    """The names of types in ONNX's schema of that operator and version."""
    schema = onnx.defs.get_schema(op, version, "")
    inputs, outputs = (tuple(x.type_str for x in formal) for formal in (schema.inputs, schema.outputs))
    bools = {t.type_param_str for t in schema.type_constraints if list(t.allowed_type_strs) == [_BOOL]}
    return TypeNames(inputs, outputs, frozenset({_BOOL, *bools}))


Overflow = Literal["none", "unsigned", "any"]
"""The integer types of ONNX that results may be outside of: none of them, those without a sign, or any."""


class IntegerRange:
    """The part of an operator that says which integer types its results may overflow; by default none.

    `overflow` says it for every node of the operator; one whose attributes decide has an `overflow_of` of its own.
    `wraps` says that it brings integers back into a type of `bits` bits, `signed` or not.
    """

    overflow: ClassVar[Overflow] = "none"
    wraps: ClassVar[bool] = False

    def overflow_of(self, node: Node) -> Overflow:
        """The types that results of this node may overflow."""
        return self.overflow


Rule = Callable[[Node, Sequence[TensorType | None]], list[Node]]
"""Turns a node of an older version, with its inputs' types, into nodes of today's operators with the same outputs."""


def without(node: Node, *names: str) -> Node:
    """The node without these attributes."""
    return replace(node, attrs={name: value for name, value in node.attrs.items() if name not in names})


def same_meaning(*unread: str) -> Rule:
    """The rule of a version that differs by attributes which change no value."""
    return lambda node, types: [without(node, *unread)]


CONSUMED = same_meaning("consumed_inputs")
"""Version 1 of many operators has an attribute about memory, which was never read."""
