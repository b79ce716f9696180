"""Running statistics in ONNX Runtime's training graphs, whose norms renew them in place."""

from dataclasses import replace

from deployer.core.ir import GraphNames, Node
from deployer.core.operator import operator_of, registry, training_of
from deployer.frontend.graph_sort import topological
from deployer.frontend.raw_graph import RawGraph


def with_renewal(graph: RawGraph) -> RawGraph:
    """Split each node that renews graph inputs in place from the node that does so.

    ONNX Runtime gives the outputs the memory of the inputs, which are parameters of its module. Where several nodes
    renew one of them, each goes on from what the one before it left, and everything else reads it before.
    """
    places = {item.name for item in graph.inputs} - graph.constants.keys()
    names = GraphNames({*places, *graph.constants, *(o for node in graph.nodes for o in node.outputs)})
    nodes, current = [], dict[str, str]()
    for node in topological(graph) if any(map(_renews, graph.nodes)) else ():
        tracked = training_of(node).renewing(node, names.fresh) if node.op in registry() else None
        renewed = operator_of(tracked.update).inplace if tracked else {}
        if tracked is None or not {tracked.update.inputs[source] for source in renewed.values()} <= places:
            nodes.append(node)
            continue
        inputs = list(tracked.update.inputs)
        for output, source in renewed.items():
            root = inputs[source]
            inputs[source] = current.get(root, root)
            current[root] = tracked.update.outputs[output]
        nodes += [tracked.node, replace(tracked.update, inputs=tuple(inputs))]
    ops = {node.name: node.op for node in graph.nodes}
    changed = {node.name for node in nodes if ops.get(node.name) != node.op}
    versions = {name: known for name, known in graph.versions.items() if name not in changed}
    return replace(graph, nodes=tuple(nodes), versions=versions) if current else graph


def _renews(node: Node) -> bool:
    """Whether a node may renew inputs in place."""
    return node.op in registry() and training_of(node).renewing(node, lambda name: name) is not None
