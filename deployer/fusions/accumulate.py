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
        for node in graph.nodes:
            accumulator = accumulator_of(node)
            if accumulator is None or not _merged(tensors, node, accumulator):
                nodes.append(node)
        graphs.append(Graph(graph.name, tuple(nodes)))
    names = {name for graph in graphs for node in graph.nodes for name in (*node.inputs, *node.outputs) if name}
    names = {link for name in (*names, *program.outputs, *program.updated) for link in _chain(tensors, name)}
    tensors = {n: t for n, t in tensors.items() if t.role != "value" or n in names}
    return replace(program, tensors=tensors, graphs=tuple(graphs))


def _merged(tensors: dict[str, Tensor], node: Node, accumulator: Accumulator) -> bool:
    """Move the gradient into the accumulator if possible; return whether it was."""
    buffer, gradient = node.inputs[accumulator.buffer], _root(tensors, node.inputs[accumulator.gradient])
    source, target = tensors[gradient], tensors[buffer]
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
