"""Fusion of gradients into accumulators: with one pass per update, a gradient is computed in its accumulator."""

from dataclasses import replace

from deployer.core.ir import Graph, Node, Program, Tensor
from deployer.core.operator import accumulator_of
from deployer.core.plan import Options
from deployer.core.traits.training import Accumulator


def apply(program: Program, options: Options) -> Program:
    """Give each gradient the memory of its accumulator and remove the node that accumulates.

    A gradient that is not a computed value, or that already lies in another accumulator, keeps that node.
    """
    if not options.updates_every_pass:
        return program
    tensors = dict(program.tensors)
    graphs = []
    for graph in program.graphs:
        nodes: list[Node] = []
        renamed: dict[str, str] = {}
        for before in graph.nodes:
            node = replace(before, inputs=tuple(renamed.get(name, name) for name in before.inputs))
            accumulator = accumulator_of(node)
            if accumulator is None or not _merged(tensors, graph, node, accumulator):
                nodes.append(node)
                continue
            (output,), gradient = node.outputs, node.inputs[accumulator.gradient]
            renamed[output] = gradient
            for name in _in_place(tensors, graph, output):
                tensors[name] = replace(tensors[name], storage=gradient)
        graphs.append(Graph(graph.name, tuple(nodes)))
    names = {name for graph in graphs for node in graph.nodes for name in (*node.inputs, *node.outputs) if name}
    names = {link for name in (*names, *program.outputs, *program.updated) for link in _chain(tensors, name)}
    tensors = {n: t for n, t in tensors.items() if t.role != "value" or n in names}
    return replace(program, tensors=tensors, graphs=tuple(graphs))


def _in_place(tensors: dict[str, Tensor], graph: Graph, name: str) -> list[str]:
    """The results of nodes that add to a value in place."""
    readers = (node for node in graph.nodes if name in node.inputs)
    return [result for node in readers for result in node.outputs if result and tensors[result].storage == name]


def _merged(tensors: dict[str, Tensor], graph: Graph, node: Node, accumulator: Accumulator) -> bool:
    """Move the gradient into the accumulator if possible; return whether it was.

    What goes on with the accumulator in place needs a gradient of its type.
    """
    buffer, gradient = node.inputs[accumulator.buffer], _root(tensors, node.inputs[accumulator.gradient])
    source, target = tensors[gradient], tensors[buffer]
    goes_on = _in_place(tensors, graph, node.outputs[0])
    if goes_on and tensors[node.inputs[accumulator.gradient]].type != target.type:
        return False
    if accumulator.continues and node.attr_int(accumulator.continues, 0):
        return False
    if source.role != "value" or source.type.bytes != target.type.bytes:
        return False
    tensors[gradient] = replace(source, storage=buffer)
    return True


def _root(tensors: dict[str, Tensor], name: str) -> str:
    return _chain(tensors, name)[-1]


def _chain(tensors: dict[str, Tensor], name: str) -> list[str]:
    """The tensor, the tensor whose memory it uses, and so on to the one that has memory of its own."""
    names = [name]
    while tensors[names[-1]].storage != names[-1]:
        names.append(tensors[names[-1]].storage)
    return names
