"""Losses of training graphs whose only output is the logarithms of probabilities, from which the gradient follows."""

from dataclasses import replace

from deployer.core.files.roles import SoleOutput
from deployer.core.ir import GraphNames, Node
from deployer.core.operator import registry
from deployer.frontend.raw_graph import RawGraph


def with_losses(graph: RawGraph) -> RawGraph:
    """The graph with the loss as first output of such nodes, and in the place of their output as one of the graph."""
    values = {*graph.constants, *(item.name for item in graph.inputs), *(o for n in graph.nodes for o in n.outputs)}
    names = GraphNames(values)
    nodes, losses = [], dict[str, str]()
    for node in graph.nodes:
        declared = registry()[node.op].sole_output if node.op in registry() else None
        named = [name for name in node.outputs if name]
        if declared is not None and len(named) == 1 and _is_sole(graph, node, named[0], declared):
            losses[named[0]] = names.fresh(f"{node.name}_loss")
            between = [""] * (declared.position - 1)
            node = replace(node, outputs=(losses[named[0]], *between, named[0]))
        nodes.append(node)
    if not losses:
        return graph
    outputs = tuple(losses.get(name, name) for name in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _is_sole(graph: RawGraph, node: Node, name: str, declared: SoleOutput) -> bool:
    """Whether a node's only output is the one of the declaration, by its place, a reader or its declared shape."""
    if node.outputs.index(name) == declared.position:
        return True
    if any(other.op == declared.reader and name in other.inputs for other in graph.nodes):
        return True
    shapes = [graph.declared[value].shape if value in graph.declared else None for value in (name, node.inputs[0])]
    return shapes[0] is not None and shapes[0] == shapes[1] and len(shapes[0]) > 1
