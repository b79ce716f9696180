"""Two nodes made one: a value that only the next node reads never reaches memory."""

from collections.abc import Callable
from dataclasses import replace

from deployer.core.ir import Graph, Node, Program
from deployer.core.plan import Options

Join = Callable[[Graph, Node, Node], Node | None]
"""The producer as it is with the consumer in it, or None where the two stay apart; names and outputs are set here."""


def absorb(program: Program, options: Options, op: str, join: Join) -> Program:
    """Move each node of that op into the producer of its first input, where `join` has a form for both.

    The value between has to be computed memory of its own with one reader, and the result memory of its own or an
    accumulator, of the same type; a node that an option names stays as it is. The joint node stands at the producer's
    place, under both names.
    """
    for graph in program.graphs:
        for consumer in graph.nodes:
            if consumer.op == op:
                program = _absorbed(program, options, graph.name, consumer, join)
    return program


def _absorbed(program: Program, options: Options, graph_name: str, consumer: Node, join: Join) -> Program:
    graph = next(g for g in program.graphs if g.name == graph_name)
    value, result = consumer.inputs[0], consumer.outputs[0]
    producer = next((n for n in graph.nodes if n.outputs == (value,)), None)
    if producer is None or {producer.name, consumer.name} & set(options.opt_out):
        return program
    between, after = program.tensors[value], program.tensors[result]
    if not _is_private(program, value, consumer) or after.type != between.type:
        return program
    if after.storage != result and program.tensors[after.storage].role != "accumulator":
        return program
    joint = join(graph, producer, consumer)
    if joint is None:
        return program
    joint = replace(joint, name=f"{producer.name}+{consumer.name}", outputs=consumer.outputs)
    nodes = tuple(joint if n is producer else n for n in graph.nodes if n is not consumer)
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != value}
    graphs = tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs)
    return replace(program, tensors=tensors, graphs=graphs)


def _is_private(program: Program, value: str, reader: Node) -> bool:
    """Whether a value is memory of its own that nobody sees but one node, and that once."""
    tensor = program.tensors[value]
    views = [t for t in program.tensors.values() if t.name != value and t.storage == value]
    reads = [name for node in program.nodes for name in node.inputs if name == value]
    outlives = value in program.outputs or value in program.updated
    return tensor.role == "value" and tensor.storage == value and not views and not outlives and reads == [value]
