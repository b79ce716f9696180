"""Nodes that draw random numbers: their keys, and the number of the pass, which a program counts."""

from dataclasses import dataclass, replace

from deployer.core.ir import Node
from deployer.core.operator import registry, unsupported, update_counter
from deployer.frontend.node_checks import form_of
from deployer.frontend.opsets import current_form
from deployer.frontend.raw_graph import ElementwiseFormula, FileInput, RawGraph

SEED, STREAM = "seed", "stream"
PASS = "pass"
"""The graph input with the number of the pass; its value in the pass that runs has COUNTED behind the name."""
COUNTED = "_counted"
_STREAMS = 1 << 32


@dataclass(frozen=True)
class GraphDraws:
    """Of the nodes of a graph that may draw random numbers, those that do, and the others."""

    drawing: tuple[Node, ...]
    idle: tuple[Node, ...]


def find_draws(graph: RawGraph) -> GraphDraws:
    """The nodes in the order of the file."""
    arrays = {name: constant.array for name, constant in graph.constants.items()}
    able = [node for node in graph.nodes if node.op in registry() and registry()[node.op].passes is not None]

    def draws(node: Node) -> bool:
        with form_of(node):
            form, *_ = current_form(node, graph.versions.get(node.name, ()), [None] * len(node.inputs))
            return registry()[form.op].draws(form, arrays)

    drawing = tuple(node for node in able if draws(node))
    return GraphDraws(drawing, tuple(node for node in able if node not in drawing))


def _uncounted(graph: RawGraph) -> list[Node]:
    """The nodes that draw and have no number of the pass."""
    drawing = find_draws(graph).drawing
    return [node for node in drawing if not any(node.inputs[registry()[node.op].passes or 0 :])]


def with_keys(graph: RawGraph, seed: int = 0) -> RawGraph:
    """The graph with a seed and a stream for each node that draws and has none; no two get the same stream.

    Nodes of a file that have the same key draw the same, as those of a backward pass do.
    """
    drawing = {node.name for node in find_draws(graph).drawing}
    taken = {node.attrs[STREAM] for node in graph.nodes if node.name in drawing and STREAM in node.attrs}
    free = (number for number in range(_STREAMS) if number not in taken)
    nodes = []
    for node in graph.nodes:
        if node.name in drawing:
            given = {SEED: seed, **node.attrs}
            node = replace(node, attrs=given if STREAM in given else {**given, STREAM: next(free)})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def check_drawless(graph: RawGraph) -> None:
    """UnsupportedOperator where an inference graph draws."""
    for node in _uncounted(graph):
        why = "it drops elements at random, and nothing counts passes in an inference graph"
        raise unsupported(node, why, "training_mode false, or ratio 0")


def without_draws(graph: RawGraph) -> RawGraph:
    """The graph with nodes that draw nothing in place of those that do."""
    drawing = {node.name for node in find_draws(graph).drawing}
    nodes = (registry()[n.op].drawless(n) if n.name in drawing else n for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def with_passes(graph: RawGraph) -> RawGraph:
    """The graph with the number of the pass for all nodes that draw, and a node that counts it; else the same graph."""
    drawing = {node.name for node in _uncounted(graph)}
    if not drawing:
        return graph
    keyed = with_keys(graph)
    name, counted = _names(graph)
    counter = update_counter()
    assert counter.counter is not None
    operands = ["" if i != counter.counter.operand else name for i in range(counter.counter.operand + 1)]
    results = ["" if i not in counter.inplace else counted for i in range(max(counter.inplace) + 1)]
    count = Node(f"{name}/count", counter.name, tuple(operands), tuple(results))
    nodes = [_with_count(node, counted) if node.name in drawing else node for node in keyed.nodes]
    inputs = (*graph.inputs, FileInput(name, ElementwiseFormula("int32", (1,))))
    return replace(keyed, nodes=(count, *nodes), inputs=inputs)


def _with_count(node: Node, counted: str) -> Node:
    position = registry()[node.op].passes
    assert position is not None
    inputs = [*node.inputs, *[""] * (position + 1 - len(node.inputs))]
    inputs[position] = counted
    return replace(node, inputs=tuple(inputs))


def _names(graph: RawGraph) -> tuple[str, str]:
    """Names that the graph does not have."""
    reserved = {*graph.constants, *(item.name for item in graph.inputs), *(n for x in graph.nodes for n in x.outputs)}
    name = PASS
    while not reserved.isdisjoint((name, name + COUNTED)):
        name += "_"
    return name, name + COUNTED
