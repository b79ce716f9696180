"""JSON schemas (draft 7) of files that hold dataclasses: the stable interface for other programs."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from deployer.core.artefact import IF_ANY, INFINITIES, VERSION

DRAFT = "http://json-schema.org/draft-07/schema#"
Schema = dict[str, Any]
SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}


def artefact_schema(kind: type) -> Schema:
    """The schema of an artefact's file, envelope and body, as `artefact.dumps` writes it."""
    types_of = _Types(tagged=True)
    body = types_of.schema(kind)
    envelope: dict[str, Schema] = {
        "kind": {"const": kind.__name__},
        "version": {"const": VERSION},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "body": body,
    }
    return {"$schema": DRAFT, "title": kind.__name__, **_object(envelope), "definitions": types_of.sorted()}


def record_schema(kind: type, more: Mapping[str, Schema]) -> Schema:
    """The schema of a file of `dataclasses.asdict` of that kind, with `more` members; NaN and infinities are texts."""
    types_of = _Types(tagged=False)
    members = types_of.members(kind) | dict(more)
    return {"$schema": DRAFT, "title": kind.__name__, **_object(members), "definitions": types_of.sorted()}


def _object(members: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    """An object that has all of these members but for the optional ones, and no others."""
    required = [name for name in members if name not in optional]
    return {"type": "object", "properties": dict(members), "required": required, "additionalProperties": False}


class _Types:
    """Schemas of annotated types; each dataclass is defined once, by its name."""

    def __init__(self, tagged: bool) -> None:
        self.tagged = tagged
        self.definitions: dict[str, Schema] = {}

    def sorted(self) -> dict[str, Schema]:
        """The definitions by name."""
        return dict(sorted(self.definitions.items()))

    def members(self, kind: type) -> dict[str, Schema]:
        """The schema of each field of a dataclass."""
        hints = typing.get_type_hints(kind)
        return {field.name: self.schema(hints[field.name]) for field in dataclasses.fields(kind)}

    def schema(self, kind: Any) -> Schema:
        """The schema of one type; TypeError for one that no file holds."""
        if kind is float:
            return self._real()
        if kind in SCALARS:
            return dict(SCALARS[kind])
        if kind is bytes:
            return _object({"_": {"const": "bytes"}, "base64": {"type": "string"}})
        if dataclasses.is_dataclass(kind):
            return self._defined(typing.cast(type, kind))
        schemas: dict[Any, Callable[[Any], Schema]] = {
            Union: lambda args: {"anyOf": [self.schema(arg) for arg in args]},
            types.UnionType: lambda args: {"anyOf": [self.schema(arg) for arg in args]},
            Literal: lambda args: {"enum": list(args)},
            dict: lambda args: {"type": "object", "additionalProperties": self.schema(args[1])},
            tuple: self._items,
        }
        if (origin := get_origin(kind)) not in schemas:
            raise TypeError(f"{kind} has no JSON schema")
        return schemas[origin](get_args(kind))

    def _items(self, args: Any) -> Schema:
        """A tuple: of any length with equal items, or one item of each type."""
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": self.schema(args[0])}
        items = [self.schema(arg) for arg in args]
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}

    def _real(self) -> Schema:
        """A number, or what stands for one that JSON does not have."""
        texts = list(INFINITIES)
        other = (
            _object({"_": {"const": "float"}, "text": {"enum": texts}}) if self.tagged else {"enum": [*texts, "nan"]}
        )
        return {"anyOf": [SCALARS[float], other]}

    def _defined(self, kind: type) -> Schema:
        """A reference to the definition of a dataclass."""
        name = kind.__name__
        if name not in self.definitions:
            self.definitions[name] = {}  # it may hold itself
            members = self.members(kind)
            optional = [f.name for f in dataclasses.fields(kind) if self.tagged and f.metadata.get(IF_ANY)]
            if self.tagged:
                members = {"_": {"const": name}, **members}
            self.definitions[name] = _object(members, optional)
        return {"$ref": f"#/definitions/{name}"}
