"""Parts of a model file other than nodes: functions replace their calls, unsupported parts raise GraphProblem."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from deployer.core.errors import GraphProblem
from deployer.core.ir import GraphNames
from deployer.core.operator import registry
from deployer.core.signatures import MICROSOFT
from deployer.frontend.opsets import Imports, domain_of, imports_of

MOST_NODES = 100_000
"""Largest number of nodes after all functions have replaced their calls; nested calls grow it exponentially."""
MOST_BYTES = 1 << 28
"""Largest number of bytes of these nodes, attributes of calls included."""
LONGEST_PREFIX = 120
"""Largest number of characters of a call's name in the names of its function's values."""
Key = tuple[str, str, str]
Call = tuple[NodeProto, Imports]
"""A node, and the imports under which it is to be read: those of the model, or of the function it comes from."""


def check_ignored_fields(model: ModelProto) -> None:
    """Raise GraphProblem for a part of the file that the compiler would ignore."""
    graph = model.graph
    if not model.opset_import:
        raise GraphProblem("the file imports no version of any domain", hint="an opset_import of the exporter's opset")
    fields = (
        ("sparse initializers", [t.values.name for t in graph.sparse_initializer], "store them as dense initializers"),
        ("quantization annotations", [a.tensor_name for a in graph.quantization_annotation], "export in float32"),
        (
            "initializers without name",
            [f"the one at {i}" for i, t in enumerate(graph.initializer) if not t.name],
            "name them; in ONNX an empty name stands for what is left out",
        ),
        ("training_info", [t.algorithm.name for t in model.training_info], "export the training graph itself"),
    )
    for field, names, hint in fields:
        if names:
            listing = ", ".join(name or "without name" for name in names[:6])
            raise GraphProblem(f"the file has {field}, which are not read", [(f"all {len(names)}", listing)], hint)


def inlined(model: ModelProto) -> list[Call]:
    """The graph's nodes in file order, each call of one of the file's functions replaced by the function's nodes.

    Raises GraphProblem where a function calls itself, is defined twice, does not fit a call or grows too large.
    """
    imports = imports_of(model.opset_import)
    if not model.functions:
        return [(node, imports) for node in model.graph.node]
    functions = _functions(model.functions)
    names = ValueNames({n for node in model.graph.node for n in (*reads(node), *node.output)})
    _check_size(model, functions)
    names.reserved |= {v.name for v in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    nodes: list[Call] = []
    waiting: list[Call] = [(node, imports) for node in reversed(model.graph.node)]
    while waiting:
        node, node_imports = waiting.pop()
        function = functions.get(_key(node))
        if function is None:
            nodes.append((node, node_imports))
            continue
        body = _inner_imports(function, model)
        waiting.extend((inner, body) for inner in reversed(expansion(node, function, names)))
    return nodes


def _inner_imports(function: FunctionProto, model: ModelProto) -> Imports:
    """The imports of a function's nodes: its own and, of the same domains, the model's.

    ONNX's rule for `opset_import` of functions: versions may differ, and each node has the same schema under both.
    """
    both = imports_of([*function.opset_import, *model.opset_import])
    return {domain: both[domain] for domain in imports_of(function.opset_import)}


@dataclass
class ValueNames(GraphNames):
    """The names of a graph's values, and the bytes of all nodes that its functions have become."""

    spent: int = 0


def _functions(protos: Iterable[FunctionProto]) -> Mapping[Key, FunctionProto]:
    functions: dict[Key, FunctionProto] = {}
    for function in protos:
        key = (domain_of(function.domain), function.name, function.overload)
        if key in functions:
            raise GraphProblem(f"function {function.name!r} is defined twice", [("domain", key[0])], "keep one of both")
        if key[0] in ("", MICROSOFT) and function.name in registry():
            cause = f"function {function.name!r} has the name of an operator"
            raise GraphProblem(cause, [("domain", key[0] or "default")], "another name, or another domain")
        for kind, names in (("input", function.input), ("output", [*function.input, *function.output])):
            if len(set(names)) < len(names):
                raise GraphProblem(f"function {function.name!r} has an {kind} twice", hint="a name for each")
        functions[key] = function
    return functions


def _check_size(model: ModelProto, functions: Mapping[Key, FunctionProto]) -> None:
    """Raise GraphProblem where a function calls itself, or the calls expand to more than MOST_NODES nodes."""
    calls = {key: [callee for n in f.node if (callee := _key(n)) in functions] for key, f in functions.items()}
    sizes: dict[Key, int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():
            sizes[key] = min(len(functions[key].node) + sum(sizes[callee] for callee in calls[key]), MOST_NODES + 1)
    except CycleError as error:
        cycle = " -> ".join(name for _, name, _ in reversed(error.args[1]))
        raise GraphProblem("a function calls itself", [("calls", cycle)], "write the loop out") from None
    if sum(sizes.get(_key(node), 0) for node in model.graph.node) > MOST_NODES:
        raise _too_large(f"{MOST_NODES} nodes")


def _too_large(size: str) -> GraphProblem:
    cause = f"the file's functions grow to more than {size} where they are called"
    return GraphProblem(cause, hint="fewer calls of functions by functions, and data in initializers")


def _key(node: NodeProto) -> Key:
    return (domain_of(node.domain), node.op_type, node.overload)


def expansion(call: NodeProto, function: FunctionProto, names: ValueNames) -> list[NodeProto]:
    """The function's nodes with the values and attributes of the call."""
    place = f"node {call.name!r} ({call.op_type})"
    for kind, arguments, formal in (("input", call.input, function.input), ("output", call.output, function.output)):
        if len(arguments) > len(formal):
            cause = f"{place} has {len(arguments)} {kind}s, the function of that name {len(formal)}"
            raise GraphProblem(cause, [("function", ", ".join(formal) or "none")], "leave the others out")
    defaults = {attribute.name: attribute for attribute in function.attribute_proto}
    declared = {*function.attribute, *defaults}
    attributes = {attribute.name: attribute for attribute in call.attribute}
    unknown = sorted(set(attributes) - declared)
    if unknown or len(attributes) < len(call.attribute):
        cause = f"{place} has attribute {unknown[0]!r}" if unknown else f"{place} has an attribute twice"
        raise GraphProblem(cause, [("function", ", ".join(sorted(declared)) or "no attributes")], "leave it out")
    values = dict.fromkeys((*function.input, ""), "")
    values |= dict(zip(function.input, call.input, strict=False))
    values |= {formal: actual for formal, actual in zip(function.output, call.output, strict=False) if actual}
    prefix = (call.name or f"{call.op_type}_{next((o for o in call.output if o), 'none')}")[:LONGEST_PREFIX]

    def value(name: str) -> str:
        if name not in values:
            values[name] = names.fresh(f"{prefix}/{name}")
        return values[name]

    return copies(function.node, prefix, value, names, defaults | attributes, declared)


def copies(
    nodes: Iterable[NodeProto],
    prefix: str,
    value: Callable[[str], str],
    names: ValueNames,
    attributes: Mapping[str, AttributeProto] = MappingProxyType({}),
    declared: Collection[str] = (),
) -> list[NodeProto]:
    """Copies of nodes inside of another one, with names of their own, and values under those that `value` gives."""
    copied = []
    for node in nodes:
        copied.append(_inner(node, prefix, value, attributes, declared))
        names.spent += copied[-1].ByteSize()
        if names.spent > MOST_BYTES:
            raise _too_large(f"{MOST_BYTES} bytes")
    return copied


def graphs_of(node: NodeProto) -> dict[str, GraphProto]:
    """The graphs inside of a node by the names of its attributes."""
    return {attribute.name: attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH}


def reads(node: NodeProto) -> tuple[str, ...]:
    """The node's inputs, and behind them values from around it that the graphs inside of it read."""
    return (*node.input, *dict.fromkeys(name for graph in graphs_of(node).values() for name in _captured(graph)))


def _captured(graph: GraphProto) -> list[str]:
    """The values that a graph reads and does not make."""
    own = {"", *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    read = (*(name for node in graph.node for name in reads(node)), *(value.name for value in graph.output))
    return [name for name in read if name not in own]


def _inner(
    node: NodeProto,
    prefix: str,
    value: Callable[[str], str],
    attributes: Mapping[str, AttributeProto],
    declared: Collection[str],
) -> NodeProto:
    """A copy of a node for one call, without attributes that refer to one that the call does not have."""
    inner = NodeProto()
    inner.CopyFrom(node)
    inner.name = f"{prefix}/{node.name}" if node.name else ""
    inner.input[:] = map(value, node.input)
    inner.output[:] = map(value, node.output)
    del inner.attribute[:]
    for attribute in node.attribute:
        source = attribute.ref_attr_name
        if source in declared and source not in attributes:
            continue
        copy = inner.attribute.add()
        copy.CopyFrom(attributes[source] if source in declared else attribute)
        copy.name = attribute.name
        if copy.type == AttributeProto.GRAPH:
            _rename(copy.g, value, attributes, declared)
    return inner


def _rename(
    graph: GraphProto, value: Callable[[str], str], attributes: Mapping[str, AttributeProto], declared: Collection[str]
) -> None:
    """Give what a graph reads from around it the names that `value` says, and nodes the attributes of the call."""
    captured = set(_captured(graph))

    def renamed(name: str) -> str:
        return value(name) if name in captured else name

    nodes = [_inner(node, "", renamed, attributes, declared) for node in graph.node]
    for node, inner in zip(graph.node, nodes, strict=True):
        inner.name = node.name
    del graph.node[:]
    graph.node.extend(nodes)
    for result in graph.output:
        result.name = renamed(result.name)
