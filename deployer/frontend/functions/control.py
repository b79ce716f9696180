"""Nodes with graphs inside, as the nodes of those graphs that are computed."""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

from onnx import GraphProto, TensorProto

from deployer.core.errors import DeployerWarning, GraphProblem
from deployer.core.ir import Node
from deployer.core.limits import too_large
from deployer.core.operator import file_of, registry, unsupported
from deployer.frontend.functions.bodies import BodyNode, Scope, body_nodes_of
from deployer.frontend.model_parts import LONGEST_PREFIX, copies, graphs_of
from deployer.frontend.node_checks import check_elements, refusing_malformed
from deployer.frontend.opsets import Imports
from deployer.frontend.reader import tensor_constant
from deployer.operators.control import Control, Expansion, Inner, controls

MOST_INNER = 4096
"""How often graphs inside of nodes are written out in one model: turns of nested loops multiply."""


def control_nodes(node: Node, scope: Scope) -> Iterator[BodyNode]:
    """The parts that stand for a node with graphs inside; each has to be read before the next one is asked for.

    Raises UnsupportedOperator where what is computed depends on the model's inputs, GraphProblem for a faulty graph.
    """
    proto, imports = scope.graphs[node.name]
    graphs = graphs_of(proto)
    explicit = replace(node, inputs=node.inputs[: len(proto.input)])
    operator = controls()[node.op]
    known = {name: scope.elements[name] for name in explicit.inputs if name in scope.elements}
    floats = (name for name in explicit.inputs if name in scope.types and scope.types[name].dtype == "float32")
    check_elements(explicit, operator.versions[-1:], known | dict.fromkeys(floats, int(TensorProto.FLOAT)))
    _check_ends(explicit, graphs, operator)
    expansion = operator.expand(explicit, {name: len(graph.output) for name, graph in graphs.items()}, scope)
    results: tuple[str, ...] | None = None
    missing = set(filter(None, node.outputs))
    while True:
        try:
            item = _next(node, expansion, results)
        except StopIteration as end:
            if missing:
                given = ", ".join(f"{name} {len(graph.output)}" for name, graph in graphs.items())
                why = f"no graph inside gives its output {min(missing)!r}; values that they give: {given}"
                raise unsupported(node, why, "graphs with as many outputs as the node") from None
            if node.name in scope.own:
                scope.notes.setdefault(node.name, DeployerWarning(f"node {node.name!r} ({node.op}): {end.value}"))
            return
        results = ()
        if isinstance(item, Inner):
            results = yield from _graph(node, graphs[item.graph], item, imports, scope)
        else:
            missing.difference_update(item.outputs)
            versions = file_of(registry()[item.op]).versions[-1:] if item.inputs else ()
            yield BodyNode(replace(item, name=scope.nodes.fresh(item.name)), bools=False, versions=versions)


def _check_ends(node: Node, graphs: Mapping[str, GraphProto], operator: Control) -> None:
    """UnsupportedOperator unless the node has the operator's graphs, and these the values that it gives and reads: also
    of a graph that is not computed, which has no meaning otherwise.
    """
    with refusing_malformed(node):
        ends = operator.ends(node)
    for name, (takes, gives) in ends.items():
        if name not in graphs:
            raise unsupported(node, f"it has no graph {name!r}", "a graph for each that the operator has")
        graph = graphs[name]
        if len(graph.input) != takes:
            why = f"its graph {name!r} takes {len(graph.input)} values and is given {takes}"
            raise unsupported(node, why, "a graph with as many inputs")
        if len(graph.output) < gives:
            why = f"its graph {name!r} gives {len(graph.output)} values, of which {gives} are read"
            raise unsupported(node, why, "a graph with as many outputs")


def _next(node: Node, expansion: Expansion, results: tuple[str, ...] | None) -> Inner | Node:
    with refusing_malformed(node):
        return next(expansion) if results is None else expansion.send(results)


def _graph(
    node: Node, graph: GraphProto, call: Inner, imports: Imports, scope: Scope
) -> Generator[BodyNode, None, tuple[str, ...]]:
    """The parts of a graph for one turn; ends with the names of its results."""
    scope.iterations += 1
    if scope.iterations > MOST_INNER:
        raise too_large(node, "graphs inside of nodes are written out more often than", MOST_INNER)
    produced = [value.name for value in (*graph.input, *graph.initializer)]
    produced += [name for inner in graph.node for name in inner.output if name]
    twice = sorted(name for name, count in Counter(produced).items() if count > 1)
    if twice:
        raise GraphProblem(f"graph {call.graph!r} of node {node.name!r} has two producers of {twice[0]!r}")
    prefix = f"{node.name[:LONGEST_PREFIX]}/{call.graph}"
    values: dict[str, str] = {"": "", **dict(zip((value.name for value in graph.input), call.inputs, strict=True))}
    for tensor in graph.initializer:
        name = values[tensor.name] = scope.fresh(f"{prefix}/{tensor.name}")
        constant = tensor_constant(name, tensor)
        yield BodyNode(Node(name, "", (), (name,)), tensor.data_type == TensorProto.BOOL, constant=constant)
    own = {name for inner in graph.node for name in inner.output} - {""}

    def value(name: str) -> str:
        if name not in values:
            values[name] = scope.fresh(f"{prefix}/{name}") if name in own else name
        return values[name]

    protos = copies(graph.node, prefix, value, scope.values)
    results = tuple(value(result.name) for result in graph.output)
    made = {value(name) for name in own}
    for item in body_nodes_of(node, protos, results, imports, scope):
        early = sorted(made & set(item.node.inputs))
        if early:
            raise GraphProblem(
                f"graph {call.graph!r} of node {node.name!r} is not in order",
                [("node", item.node.name), ("reads", early[0])],
                "each node after the nodes that compute its inputs",
            )
        made -= set(item.node.outputs)
        yield item
    return results
