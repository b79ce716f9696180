"""Running statistics of a model: state besides its parameters, updated in place from pass to pass."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from deployer.core.ir import GraphNames, Node, TensorType
from deployer.core.operator import operator_of, registry, training_of, unsupported
from deployer.frontend.graph_sort import topological
from deployer.frontend.prepare import without_draws
from deployer.frontend.raw_graph import RawGraph
from deployer.training.forward import Forward
from deployer.training.onnx_writer import node_proto


@dataclass(frozen=True)
class Running:
    """Nodes that update running statistics, and the initializers that they update, in the order of the nodes."""

    nodes: tuple[Node, ...] = ()
    states: tuple[str, ...] = ()


def evaluation_form(graph: RawGraph, renewed: Collection[str] = ()) -> RawGraph:
    """The graph of a model as it is used once trained: nothing is dropped, and what runs is read and not renewed.

    `renewed` is what nodes renew in place that the graph does not have, as a training graph may beside its model.
    UnsupportedOperator where a node would read statistics that no pass renews.
    """
    roots: dict[str, str] = {}
    nodes = []
    for node in topological(without_draws(graph)):
        node = replace(node, inputs=tuple(roots.get(name, name) for name in node.inputs))
        used, stands = training_of(node).evaluated(node, renewed) if node.op in registry() else (node, {})
        lost = [name for name in stands.values() if name not in graph.constants and name not in renewed]
        if lost:
            why = f"no pass renews {lost[0]!r}, which is not an initializer, and evaluation would read it"
            raise unsupported(node, why, "initializers as running statistics, or no validation")
        roots |= {output: source for output, source in stands.items() if output}
        nodes.append(used)
    return replace(graph, nodes=tuple(nodes))


def with_running(model: Forward, types: Mapping[str, TensorType], names: GraphNames) -> tuple[Forward, Running]:
    """The model with nodes that leave what runs to others, and these others.

    Where several nodes renew one initializer, each goes on with what the one before it left. `model` is in the form
    that its gradients read.
    """
    nodes, updates, current = [], list[Node](), dict[str, str]()
    roots = {name: name for name in model.raw.constants}
    for node in model.raw.nodes:
        tracked = training_of(node).tracked(node, types)
        places = operator_of(tracked.update).inplace if tracked else {}
        if tracked is None or not all(tracked.update.inputs[i] in roots for i in places.values()):
            nodes.append(node)
            continue
        inputs, outputs = list(tracked.update.inputs), list(tracked.update.outputs)
        for output, source in places.items():
            root = roots[inputs[source]]
            inputs[source] = current.get(root, root)
            outputs[output] = outputs[output] or names.fresh(f"{root}_updated")
            current[root], roots[outputs[output]] = outputs[output], root
        nodes.append(replace(tracked.node, inputs=tuple(roots.get(name, name) for name in tracked.node.inputs)))
        updates.append(replace(tracked.update, inputs=tuple(inputs), outputs=tuple(outputs)))
    protos = {new.name: node_proto(new) for old, new in zip(model.raw.nodes, nodes, strict=True) if new != old}
    changed = replace(model, raw=replace(model.raw, nodes=tuple(nodes)), protos=model.protos | protos)
    return changed, Running(tuple(updates), tuple(current))
