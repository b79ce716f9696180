"""Signature of a node in a file: counts of inputs and outputs, and the names and kinds of attributes.

The form of an operator that ONNX knows comes from ONNX's schema; other operators declare theirs in their own file.
Rules, which operators share, turn nodes of older versions into today's form.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

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
class Signature:
    """Least and most inputs and outputs, and the kind of each attribute, as ONNX names kinds (`INT`, `FLOATS`, ...).

    `required` are attributes that a node has, `needed` the positions of inputs that have a name in any node; where
    `rest` is not -1, all from that position on have one, too.
    """

    inputs: Range
    outputs: Range
    attributes: Mapping[str, str] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    needed: frozenset[int] = frozenset()
    rest: int = -1


@dataclass(frozen=True)
class Extra:
    """An attribute that a file may hold although the operator's form does not have it.

    `instead_of` is the position of the input with the same meaning in the form, or -1; a node may not have both. Where
    `values` are given, the attribute has one of them.
    """

    attribute: str
    kinds: tuple[str, ...]
    reason: str
    instead_of: int = -1
    values: tuple[int | float | str, ...] | None = None


NOTE = Extra("description", ("STRING",), "a note of the exporter, which no operator reads")
"""The extra that every node may have; an operator declares any other that it accepts."""
_AXES = "exporters of training graphs write it as an attribute, a number or a list, under newer opsets too"
LATE_AXES = Extra("axes", ("INT", "INTS"), _AXES, instead_of=1)
"""The extra of operators whose newer versions take the axes as an input."""
MICROSOFT = "com.microsoft"
"""The domain of operators that training exporters use and ONNX does not define."""


@cache
def schema_signature(op: str, version: int) -> Signature:
    """The form of ONNX's operator of that name, which the default domain got at that version."""
    schema = onnx.defs.get_schema(op, version, "")
    kinds = onnx.defs.OpSchema.FormalParameterOption
    return Signature(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        {name: str(attribute.type).rpartition(".")[2] for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
        frozenset(i for i, x in enumerate(schema.inputs) if x.option == kinds.Single),
        next((i for i, x in enumerate(schema.inputs) if x.option == kinds.Variadic), -1),
    )


@cache
def has_body(op: str, version: int) -> bool:
    """Whether ONNX's operator of that name and version is a function, with a body of other operators."""
    schema: Any = onnx.defs.get_schema(op, version, "")  # the stub of its type does not know functions
    return bool(schema.has_function or schema.has_context_dependent_function)


def fault(proto: NodeProto, signature: Signature, accepted: Sequence[Extra] = ()) -> tuple[str, str] | None:
    """Return the node's first deviation from the signature, and what is allowed instead; None if it conforms.

    `accepted` are extras of the signature.
    """
    attributes = [attribute.name for attribute in proto.attribute]
    extras = {extra.attribute: extra for extra in (NOTE, *accepted) if extra.attribute in attributes}
    least = min([signature.inputs[0], *(extra.instead_of for extra in extras.values() if extra.instead_of > 0)])
    counts = (proto.input, (least, signature.inputs[1]), "input"), (proto.output, signature.outputs, "output")
    for names, (least, most), kind in counts:
        count = max((i for i, name in enumerate(names, 1) if name), default=0)
        if count > most:
            return f"it has {count} {kind}s", f"at most {most} {kind}s"
        if len(names) < least:
            return f"it has {len(names)} {kind}s", f"at least {least} {kind}s"
    instead = {extra.instead_of for extra in extras.values()}
    for position, name in enumerate(proto.input):
        if not name and (position in signature.needed - instead or 0 <= signature.rest <= position):
            return f"its input {position} has no name", "a name for each input that is not optional"
    for attribute in proto.attribute:
        if attributes.count(attribute.name) > 1:
            return (
                f"attribute {attribute.name!r} is given {attributes.count(attribute.name)} times",
                "each attribute once",
            )
        problem = _attribute_fault(proto, attribute, signature, extras.get(attribute.name))
        if problem is not None:
            return problem
    missing = sorted(signature.required - set(attributes))
    return (f"attribute {missing[0]!r} is absent", "the attribute with a value") if missing else None


def _kind(attribute: AttributeProto) -> str:
    numbers = AttributeProto.AttributeType.values()
    return AttributeProto.AttributeType.Name(attribute.type) if attribute.type in numbers else str(attribute.type)


def value_fault(attribute: AttributeProto, kinds: Sequence[str]) -> tuple[str, str] | None:
    """Why an attribute says nothing of these kinds, or two things, and the way out; None where it says one."""
    kind = _kind(attribute)
    if kind not in kinds:
        return f"attribute {attribute.name!r} is of kind {kind}", f"kind {' or '.join(kinds)}"
    fields = {entry.name for entry, _ in attribute.ListFields()} - _NOTES
    if fields <= {_FIELDS.get(kind)}:
        return None
    why = f"attribute {attribute.name!r} of kind {kind} also holds a value of another kind"
    return why, f"field {_FIELDS.get(kind)!r} alone"


def _attribute_fault(
    proto: NodeProto, attribute: AttributeProto, signature: Signature, extra: Extra | None
) -> tuple[str, str] | None:
    name = attribute.name
    kinds = (signature.attributes[name],) if name in signature.attributes else ()
    if extra is not None:
        kinds = (*kinds, *(kind for kind in extra.kinds if kind not in kinds))
    if not kinds:
        return f"attribute {name!r} is unknown", f"one of {', '.join(sorted(signature.attributes)) or 'no attributes'}"
    if attribute.ref_attr_name:
        why = f"attribute {name!r} refers to attribute {attribute.ref_attr_name!r} of a function, and is in none"
        return why, "a value of its own"
    problem = value_fault(attribute, kinds)
    if problem is not None:
        return problem
    if extra is not None and extra.values is not None and name not in signature.attributes:
        value = onnx.helper.get_attribute_value(attribute)
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        if value not in extra.values:
            listing = " or ".join(map(repr, extra.values))
            return f"attribute {name!r} is unknown, and {value!r} could change a value", f"{listing}, or no {name!r}"
    if extra is not None and len(proto.input) > extra.instead_of > 0 and proto.input[extra.instead_of]:
        return f"{name!r} is an attribute and input {extra.instead_of} as well", "one of both"
    return None


_RESULTS: dict[str, int] = {"tensor(bool)": TensorProto.BOOL, "tensor(int64)": TensorProto.INT32}
"""The integer types that outputs have in any case; those of int64 are lengths and positions, which fit int32."""
_ONE_ON_TARGETS: dict[int, int] = {
    **dict.fromkeys((TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16), int(TensorProto.FLOAT)),
    TensorProto.INT32: TensorProto.INT64,
}


def family(element: int) -> int:
    """An ONNX element type, one for all floats and one for int32 and int64: a target has one width of each."""
    return _ONE_ON_TARGETS.get(element, element)


@dataclass(frozen=True)
class TypeNames:
    """ONNX's names of the types of an operator's inputs and outputs; equal names mean equal types.

    The last input's name is that of all further ones. `allowed` has the families of element types that a name may stand
    for, `fixed` the element type of a name that stands for one in any case. A name in `mixed` may stand for several at
    once.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fixed: Mapping[str, int]
    allowed: Mapping[str, frozenset[int]]
    mixed: frozenset[str]

    def elements(self, node: Node, known: Mapping[str, int]) -> dict[str, int]:
        """ONNX's element types of the node's outputs by name, as the schema, an input or `to` says them."""
        found = {name: known[x] for name, x in zip(self._padded(node), node.inputs, strict=False) if x in known}
        found |= self.fixed
        to = node.attrs.get("to")
        named = {name: to for name in self.outputs if isinstance(to, int) and name not in self.inputs}
        found = named | found
        return {x: found[name] for name, x in zip(self.outputs, node.outputs, strict=False) if x and name in found}

    def fault(self, node: Node, known: Mapping[str, int]) -> tuple[str, str] | None:
        """Return the first input whose element type the schema forbids, and the allowed types; None if there is none.

        Bools are the integers 0 and 1 on a target, and may stand for integers where any number may: in no list of axes,
        lengths or places, which are integers alone.
        """
        bound: dict[str, tuple[str, int]] = {}
        for position, (name, value) in enumerate(zip(self._padded(node), node.inputs, strict=False)):
            if value not in known or name not in self.allowed:
                continue
            kind, allowed = family(known[value]), self.allowed[name]
            if kind == TensorProto.BOOL and kind not in allowed and TensorProto.FLOAT in allowed:
                kind = TensorProto.INT64
            if kind not in allowed:
                listing = " or ".join(map(_element_name, sorted(allowed)))
                return f"its input {position} ({value!r}) is of type {_element_name(known[value])}", f"type {listing}"
            first, other = bound.setdefault(name, (value, kind))
            if other != kind and name not in self.mixed:
                kinds = f"{_element_name(known[first])} and {_element_name(known[value])}"
                return f"its inputs {first!r} and {value!r} are of types {kinds}", "one type"
        return None

    def _padded(self, node: Node) -> tuple[str, ...]:
        return (*self.inputs, *self.inputs[-1:] * max(len(node.inputs) - len(self.inputs), 0))


def _element_name(element: int) -> str:
    return str(TensorProto.DataType.Name(element))


@cache
def type_names(op: str, version: int) -> TypeNames:
    """The names of types in ONNX's schema of that operator and version."""
    schema = onnx.defs.get_schema(op, version, "")
    inputs, outputs = (tuple(x.type_str for x in formal) for formal in (schema.inputs, schema.outputs))
    allowed = {t.type_param_str: _families(t.allowed_type_strs) for t in schema.type_constraints}
    allowed |= {name: _families([name]) for name in {*inputs, *outputs} - allowed.keys()}
    alone = {t.type_param_str: t.allowed_type_strs[0] for t in schema.type_constraints if len(t.allowed_type_strs) == 1}
    alone |= {name: name for name in (*inputs, *outputs) if name in _RESULTS}
    fixed = {name: _RESULTS[kind] for name, kind in alone.items() if kind in _RESULTS}
    mixed = {x.type_str for x in schema.inputs if not x.is_homogeneous}
    return TypeNames(inputs, outputs, fixed, allowed, frozenset(mixed))


def _families(names: Iterable[str]) -> frozenset[int]:
    """The families of the element types of tensors among ONNX's names of types."""
    elements = (name.removeprefix("tensor(").removesuffix(")").upper() for name in names if name.startswith("tensor("))
    return frozenset(family(TensorProto.DataType.Value(element)) for element in elements)


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
