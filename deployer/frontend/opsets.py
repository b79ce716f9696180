"""What the nodes of a file mean under the versions of the domains that the file imports."""

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import NodeProto, OperatorSetIdProto

from deployer.core.errors import UnsupportedOperator
from deployer.core.forms import MICROSOFT, fault, schema_form
from deployer.core.ir import Node, TensorType
from deployer.core.operator import Operator, registry, unsupported

CUSTOM = 0
"""Stands for a schema version where the operator's own `custom` form holds, not one of ONNX."""
Imports = Mapping[str, tuple[int, ...]]
"""The versions of each domain, ascending; the default domain's name is empty."""


def imports_of(opsets: Iterable[OperatorSetIdProto]) -> Imports:
    """The imports of a model or a function; a domain may be there several times."""
    found: dict[str, set[int]] = {}
    for opset in opsets:
        found.setdefault(domain_of(opset.domain), set()).add(opset.version)
    return {domain: tuple(sorted(versions)) for domain, versions in found.items()}


def domain_of(name: str) -> str:
    """The domain's name; `ai.onnx` is another of the default domain."""
    return "" if name == "ai.onnx" else name


def schema_version(op: str, opset: int) -> int:
    """The version of ONNX's operator of that name in that version of the default domain; CUSTOM where it has none."""
    try:
        return int(onnx.defs.get_schema(op, opset, "").since_version)
    except onnx.defs.SchemaError:
        return CUSTOM


def versions_of(proto: NodeProto, node: Node, imports: Imports) -> tuple[int, ...]:
    """The schema versions by which the node is to be read: one for all imports, or several where these differ.

    Empty for an operator that does not exist here. Raises UnsupportedOperator where an import has no such operator or
    one that is not known here, and where the node is not of the operator's form.
    """
    operator = registry().get(proto.op_type)
    if operator is None:
        return ()
    if operator.custom is None and not operator.versions:
        raise unsupported(node, "it is a step that only the compiler makes", "the operator that it is a step of")
    if proto.overload:
        raise unsupported(node, f"overload {proto.overload!r} is of no function in the file", "a node without overload")
    given = imports.get("", ())
    newest = onnx.defs.onnx_opset_version()
    for asked in given if domain_of(proto.domain) == "" else ():
        if not 1 <= asked <= newest:
            raise _refused(node, "no such version is known", asked, given, f"versions 1 to {newest}")
    found = {None: CUSTOM} if _is_custom(node, operator, proto.domain, imports) else _schemas(node, operator, given)
    for opset, version in found.items():
        form = operator.custom if version == CUSTOM else schema_form(node.op, version)
        wrong = fault(proto, form, operator.extras) if form else None
        if wrong is not None:
            raise _refused(node, wrong[0], opset, given, wrong[1])
    return tuple(sorted(set(found.values())))


def _is_custom(node: Node, operator: Operator, domain: str, imports: Imports) -> bool:
    """Whether the node is in its operator's own domain, or of an operator that ONNX does not have in any version."""
    name, own = domain_of(domain), operator.domain or MICROSOFT
    if name == own and operator.custom is not None:
        wrong = [version for version in imports.get(name, (1,)) if version != 1]
        if wrong:
            raise unsupported(node, f"version {wrong[0]} of domain {name} is not known", f"version 1 of {name}")
        return True
    if name:
        known = "the default domain" + (f" or {own}" if operator.custom is not None else "")
        raise unsupported(node, f"domain {name!r} has no such operator that is known here", known)
    return not operator.versions


def _schemas(node: Node, operator: Operator, opsets: Sequence[int]) -> dict[int | None, int]:
    """The version of the node's operator in each imported version of the default domain."""
    if not opsets:
        raise unsupported(node, "the file imports no version of the default domain", "an opset_import that names one")
    known = sorted({*operator.versions, *operator.older})
    shown = f"a version of the default domain that has version {' or '.join(map(str, known))} of {node.op}"
    found: dict[int | None, int] = {}
    for opset in opsets:
        version = schema_version(node.op, opset)
        if version == CUSTOM and operator.custom is None:
            raise _refused(node, "it has no such operator", opset, opsets, shown)
        if version != CUSTOM and version not in known:
            raise _refused(node, f"version {version} of the operator is not known", opset, opsets, shown)
        found[opset] = version
    return found


def _refused(node: Node, why: str, opset: int | None, opsets: Sequence[int], nearest: str) -> UnsupportedOperator:
    """The error for a node under one import, which names all of them."""
    if opset is None:
        return unsupported(node, why, nearest)
    several = f", of {', '.join(map(str, opsets))} that the file imports" if len(opsets) > 1 else ""
    return unsupported(node, f"under version {opset} of the default domain{several}: {why}", nearest)


def todays_form(node: Node, versions: Sequence[int], types: Sequence[TensorType | None]) -> list[Node]:
    """The node as its operator's `infer` and `reference` have it, or nodes that mean the same.

    `versions` are the schema versions by which the file has it, none for a node that the compiler made. Raises
    UnsupportedOperator where it has no such form, or another one for each version.
    """
    operator = registry()[node.op]
    found = [
        [node] if version == CUSTOM or version in operator.versions else operator.older[version](node, types)
        for version in versions
    ]
    if any(nodes != found[0] for nodes in found[1:]):
        shown = " and ".join(map(str, versions))
        raise unsupported(
            node,
            f"it means one thing in version {versions[0]} of the operator and another in version {versions[-1]}",
            f"an opset_import that names one version of the default domain, not several with versions {shown} of it",
        )
    return found[0] if found else [node]
