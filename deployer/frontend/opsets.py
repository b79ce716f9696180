"""Operators of ONNX by opset, expressed by those of today, and attributes that change no value."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import NodeProto, OperatorSetIdProto

from deployer.core.errors import UnsupportedOperator
from deployer.core.files.reading import own_toml
from deployer.core.ir import Node, TensorType
from deployer.core.operator import file_of, registry, sequence_optimizers, unsupported
from deployer.core.signatures import MICROSOFT, Extra, fault, has_body, schema_signature
from deployer.core.traits.file import FileSpec, Limiter
from deployer.core.traits.training import Optimizer
from deployer.operators.control import controls

# Attributes of files' nodes that cannot change a value, read from harmless_attributes.toml, which explains each.

EVERY = "every"
"""The table of all operators."""


@cache
def harmless(op: str) -> tuple[Extra, ...]:
    """The attributes that a node of that operator may have beside its form."""
    table = _table()
    rows = {**table.get(EVERY, {}), **table.get(op, {})}
    return tuple(
        Extra(name, tuple(row["kinds"]), row["reason"], values=tuple(row["values"]) if "values" in row else None)
        for name, row in rows.items()
    )


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    """Attributes by operator and name."""
    return own_toml(Path(__file__).with_name("harmless_attributes.toml"))


# The meaning of a file's nodes under the opset versions that the file imports.

CUSTOM = 0
"""The schema version of an operator whose `custom` form applies in place of an ONNX schema."""
Imports = Mapping[str, tuple[int, ...]]
"""The versions of each domain, ascending; the default domain's name is empty."""


def imports_of(opsets: Iterable[OperatorSetIdProto]) -> Imports:
    """The imports of a model or a function, which may import several versions of a domain."""
    by_domain: dict[str, set[int]] = {}
    for opset in opsets:
        by_domain.setdefault(domain_of(opset.domain), set()).add(opset.version)
    return {domain: tuple(sorted(versions)) for domain, versions in by_domain.items()}


def domain_of(name: str) -> str:
    """The domain's name; `ai.onnx` is a second name of the default domain, which is the empty one."""
    return "" if name == "ai.onnx" else name


def name_of(proto: NodeProto) -> str:
    """The operator's name here: with its domain before it where one of that domain is registered so.

    Operators of two domains may have one name; the registry has the second one's domain in its name.
    """
    qualified = f"{proto.domain}.{proto.op_type}"
    return qualified if qualified in registry() else proto.op_type


def is_control(proto: NodeProto) -> bool:
    """Whether a node's operator is one of ONNX's with graphs inside."""
    return domain_of(proto.domain) == "" and not proto.overload and proto.op_type in controls()


def schema_version(op: str, opset: int) -> int:
    """The version of ONNX's operator of that name in that version of the default domain; CUSTOM where it has none."""
    try:
        return int(onnx.defs.get_schema(op, opset, "").since_version)
    except onnx.defs.SchemaError:
        return CUSTOM


def versions_of(proto: NodeProto, node: Node, imports: Imports) -> tuple[int, ...]:
    """The schema versions of a node: one, or several if the file imports several versions of the default domain.

    Empty for an operator that neither the registry has nor ONNX as a function. Raises UnsupportedOperator where an
    imported version has no supported schema of the operator, and where the node does not match its schema.
    """
    operator = registry().get(node.op)
    if operator is None:
        _check_sequences(proto, node, imports)
        return _function_versions(proto, node, imports)
    file = file_of(operator)
    if not file.in_files:
        raise unsupported(node, "it is an internal operator of the compiler", "the operator that it belongs to")
    if proto.overload:
        raise unsupported(
            node, f"overload {proto.overload!r} does not belong to a function in the file", "a node without an overload"
        )
    opsets = imports.get("", ())
    _check_known(node, opsets if domain_of(proto.domain) == "" else ())
    schemas = {None: CUSTOM} if _is_custom(node, file, proto.domain, imports) else _schemas(node, file, opsets)
    for opset, version in schemas.items():
        signature = file.custom if version == CUSTOM else schema_signature(node.op, version)
        misfit = fault(proto, signature, (*harmless(operator.name), *file.extras)) if signature else None
        if misfit is not None:
            raise _refused(node, misfit[0], opset, opsets, misfit[1])
    return tuple(sorted(set(schemas.values())))


def _check_known(node: Node, opsets: Sequence[int]) -> None:
    """UnsupportedOperator for a version of the default domain that the onnx package does not have."""
    newest = onnx.defs.onnx_opset_version()
    for number in opsets:
        if not 1 <= number <= newest:
            raise _refused(node, "no such version is known", number, opsets, f"versions 1 to {newest}")


def _function_versions(proto: NodeProto, node: Node, imports: Imports) -> tuple[int, ...]:
    """The schema versions of a node whose operator is a function of ONNX, or has graphs inside; empty for others."""
    opsets = imports.get("", ()) if domain_of(proto.domain) == "" and not proto.overload else ()
    _check_known(node, opsets)
    schemas = {opset: schema_version(node.op, opset) for opset in opsets}
    if is_control(proto):
        for opset, version in schemas.items():
            if version not in controls()[node.op].versions:
                known = ", ".join(map(str, controls()[node.op].versions))
                why = f"version {version} of the operator is not known"
                raise _refused(node, why, opset, opsets, f"one of {known}")
    elif not all(version != CUSTOM and has_body(node.op, version) for version in schemas.values()):
        return ()
    for opset, version in schemas.items():
        misfit = fault(proto, schema_signature(node.op, version))
        if misfit is not None:
            raise _refused(node, misfit[0], opset, opsets, misfit[1])
    return tuple(sorted(set(schemas.values())))


def limiters() -> dict[str, Limiter]:
    """Declarations of operators that limit all gradients together, by the name of the node over their sequence."""
    return {file.limiter.name: file.limiter for op in registry().values() if (file := op.file) and file.limiter}


def _check_sequences(proto: NodeProto, node: Node, imports: Imports) -> None:
    """UnsupportedOperator where an optimizer, or a limit, over sequences is not of its form."""
    operator = sequence_optimizers().get(proto.op_type)
    declared = operator.role(Optimizer) if operator else None
    sequences = declared.sequences if declared else limiters().get(proto.op_type)
    if sequences is None:
        return
    domain = domain_of(proto.domain)
    if domain not in ("", MICROSOFT) or any(version != 1 for version in imports.get(MICROSOFT, ())):
        raise unsupported(
            node, f"domain {domain!r} has no such operator that is known here", f"version 1 of {MICROSOFT}"
        )
    wrong = fault(proto, sequences.signature)
    if wrong is not None:
        raise unsupported(node, *wrong)


def _is_custom(node: Node, file: FileSpec, domain: str, imports: Imports) -> bool:
    """Whether the node's operator has a `custom` form in the node's domain, or no ONNX version at all."""
    name, home = domain_of(domain), file.domain or MICROSOFT
    if name == home and file.custom is not None:
        unknown = [version for version in imports.get(name, (1,)) if version != 1]
        if unknown:
            raise unsupported(node, f"version {unknown[0]} of domain {name} is not known", f"version 1 of {name}")
        return True
    if name:
        nearest = "the default domain" + (f" or {home}" if file.custom is not None else "")
        raise unsupported(node, f"domain {name!r} has no such operator that is known here", nearest)
    return not file.versions


def _schemas(node: Node, file: FileSpec, opsets: Sequence[int]) -> dict[int | None, int]:
    """The version of the node's operator in each imported version of the default domain."""
    if not opsets:
        raise unsupported(node, "the file imports no version of the default domain", "an opset_import that names one")
    versions = sorted({*file.versions, *file.older})
    nearest = f"a version of the default domain that has version {' or '.join(map(str, versions))} of {node.op}"
    schemas: dict[int | None, int] = {}
    for opset in opsets:
        version = schema_version(node.op, opset)
        if version == CUSTOM and file.custom is None:
            raise _refused(node, "it has no such operator", opset, opsets, nearest)
        if version != CUSTOM and version not in versions:
            raise _refused(node, f"version {version} of the operator is not known", opset, opsets, nearest)
        schemas[opset] = version
    return schemas


def _refused(node: Node, why: str, opset: int | None, opsets: Sequence[int], nearest: str) -> UnsupportedOperator:
    """The error for a node under one import, which names all of them."""
    if opset is None:
        return unsupported(node, why, nearest)
    several = f", of {', '.join(map(str, opsets))} that the file imports" if len(opsets) > 1 else ""
    return unsupported(node, f"under version {opset} of the default domain{several}: {why}", nearest)


def current_form(node: Node, versions: Sequence[int], types: Sequence[TensorType | None]) -> list[Node]:
    """The node in the newest form of its operator, the one that `infer` and `reference` take, or equivalent nodes.

    `versions` are the schema versions of the node, none for one that the compiler made. Raises UnsupportedOperator
    where there is no such form, or where the forms of two versions differ.
    """
    file = file_of(registry()[node.op])
    rewritten = [
        [node] if version == CUSTOM or version in file.versions else file.older[version](node, types)
        for version in versions
    ]
    if any(nodes != rewritten[0] for nodes in rewritten[1:]):
        listing = " and ".join(map(str, versions))
        raise unsupported(
            node,
            f"it means one thing in version {versions[0]} of the operator and another in version {versions[-1]}",
            f"an opset_import that names one version of the default domain, not several with versions {listing} of it",
        )
    return rewritten[0] if rewritten else [node]
