"""Fusion of two nodes into one, so that a value that only the second reads never reaches memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.core.traits.fusion import ACTIVATION
from deployer.fusions.views import before_view

Join = Callable[[Program, Graph, Node, Node], Node | None]
"""Returns the producer with the consumer fused into it, or None; the caller sets its name and outputs."""


@dataclass(frozen=True)
class Pairing:
    """Rules for two nodes that become one: the consumer's input that is the value between them, and what may differ.

    If it `is_late`, the joint node replaces the consumer instead of the producer: then nothing between them may
    overwrite what the producer reads. The result has the value's type unless it `retypes`. If the consumer is
    `elementwise`, a view may lie between the two. The value is the only result of its producer, or `any_result` of it.
    """

    place: int = 0
    is_late: bool = False
    retypes: bool = False
    elementwise: bool = False
    any_result: bool = False


def absorb(program: Program, options: Options, op: str, join: Join, how: Pairing) -> Program:
    """Fuse each node of operator `op` into the producer of one of its inputs, if `join` returns a joint node.

    The value between the two must be computed, have memory of its own and a single reader; the result must have memory
    of its own or of an accumulator. A node that `opt_out` names stays. The joint node has both names.
    """
    for graph in program.graphs:
        for consumer in graph.nodes:
            if consumer.op == op:
                program = _absorbed(program, options, graph.name, consumer, join, how)
    return program


def _absorbed(program: Program, options: Options, graph_name: str, consumer: Node, join: Join, how: Pairing) -> Program:
    moved = before_view(program, consumer, how.place) if how.elementwise else None
    if moved is not None:
        joined = _joined(moved[0], options, graph_name, moved[1], join, how)
        return program if joined is moved[0] else joined
    return _joined(program, options, graph_name, consumer, join, how)


def _joined(program: Program, options: Options, graph_name: str, consumer: Node, join: Join, how: Pairing) -> Program:
    graph = next(g for g in program.graphs if g.name == graph_name)
    value, result = consumer.inputs[how.place], consumer.outputs[0]
    producer = next((n for n in graph.nodes if value in n.outputs), None)
    if producer is None or (producer.outputs != (value,) and not how.any_result):
        return program
    if {producer.name, consumer.name} & set(options.opt_out):
        return program
    between, after = program.tensors[value], program.tensors[result]
    if not is_read_once(program, value) or (after.type != between.type and not how.retypes):
        return program
    if after.storage != result and program.tensors[after.storage].role != "accumulator":
        return program
    reads = [name for name in producer.inputs if name]
    if how.is_late and not all(is_unwritten(program, graph, producer, consumer, name) for name in reads):
        return program
    joint = join(program, graph, producer, consumer)
    if joint is None:
        return program
    outputs = tuple(result if name == value else name for name in producer.outputs)
    joint = replace(joint, name=f"{producer.name}+{consumer.name}", outputs=outputs)
    left, right = (producer, consumer) if how.is_late else (consumer, producer)
    nodes = tuple(joint if n is right else n for n in graph.nodes if n is not left)
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != value}
    graphs = tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs)
    return replace(program, tensors=tensors, graphs=graphs)


def is_private(program: Program, value: str) -> bool:
    """Whether a value has memory of its own that only nodes see which read it by its name."""
    tensor = program.tensors[value]
    views = [t for t in program.tensors.values() if t.name != value and t.storage == value]
    outlives = value in program.outputs or value in program.updated
    return tensor.role == "value" and tensor.storage == value and not views and not outlives


def is_read_once(program: Program, value: str) -> bool:
    """Whether a value is private, and one node reads it, once."""
    reads = [name for node in program.nodes for name in node.inputs if name == value]
    return is_private(program, value) and reads == [value]


def has_input(node: Node, position: int) -> bool:
    """Whether the node has an input at that position."""
    return len(node.inputs) > position and bool(node.inputs[position])


def is_plain(producer: Node) -> bool:
    """Whether the kernel does nothing to its complete result but multiply it: no sum, activation or gate is fused."""
    fusion = operator_of(producer).fusion
    if ACTIVATION in producer.attrs or fusion is None:
        return ACTIVATION not in producer.attrs
    added = {fusion.epilogue_bias.position} if fusion.epilogue_bias else set()
    gated = any(producer.attr_int(attribute, 0) for _, attribute in fusion.reused.values())
    return not gated and not any(
        has_input(producer, position) for position in {*fusion.epilogue_operands.values(), *added}
    )


def is_unwritten(program: Program, graph: Graph, first: Node, last: Node, operand: str) -> bool:
    """Whether no node from the first on, up to the last, writes the operand."""
    place, end = graph.nodes.index(first), graph.nodes.index(last)
    root = program.storage(operand)
    writers = [i for i, n in enumerate(graph.nodes) for name in n.outputs if name and program.storage(name) == root]
    return not any(place <= i < end for i in writers)
