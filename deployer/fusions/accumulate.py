"""With one pass per update a gradient is computed in its accumulator: overwriting it is all accumulation does."""

from dataclasses import replace

from deployer.ir import Graph, Node, Program, Tensor
from deployer.plan import Options
from deployer.source import ACCUMULATE


def apply(program: Program, options: Options) -> Program:
    """Give each gradient the memory of its accumulator and drop the copying node.

    A gradient that is no computed value, or that already lies in another accumulator, keeps its copy.
    """
    if options.accumulate != 1:
        return program
    tensors = dict(program.tensors)
    graphs = []
    for graph in program.graphs:
        kept: list[Node] = []
        for node in graph.nodes:
            if node.op != ACCUMULATE or not _merged(tensors, node):
                kept.append(node)
        graphs.append(Graph(graph.name, tuple(kept)))
    used = {name for graph in graphs for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    used |= {_root(tensors, name) for name in used if name} | set(program.outputs)
    for name in [n for n, t in tensors.items() if t.role == "value" and n not in used]:
        if not any(t.storage == name for n, t in tensors.items() if n != name and n in used):
            del tensors[name]
    return replace(program, tensors=tensors, graphs=tuple(graphs))


def _merged(tensors: dict[str, Tensor], node: Node) -> bool:
    """Move the gradient into the accumulator where that is possible; whether it was."""
    buffer, gradient = node.inputs[0], _root(tensors, node.inputs[1])
    source, target = tensors[gradient], tensors[buffer]
    if source.role != "value" or source.type.bytes != target.type.bytes:
        return False
    tensors[gradient] = replace(source, storage=buffer)
    return True


def _root(tensors: dict[str, Tensor], name: str) -> str:
    while tensors[name].storage != name:
        name = tensors[name].storage
    return name
