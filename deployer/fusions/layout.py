"""Fusion of a transpose into the kernels that read its result or make its input, by other strides.

A product of attention heads reads and writes them where they lie between all features of a token. Nothing is copied,
and every number is computed as before, so no bit differs.
"""

from dataclasses import replace

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.fusions.pair import Pairing, absorb, is_private, is_read_once, is_unwritten

AFTER = ("finish", "rotation")
"""What is fused by then belongs to the result as it is computed; nothing is fused to one in another order."""
HEADS = (0, 2, 1, 3)
"""The order of axes between samples, tokens, heads and elements, and samples, heads, tokens and elements."""
RESULTS = Pairing(retypes=True, any_result=True)


def apply(program: Program, options: Options) -> Program:
    """Fuse every permutation into all its readers, or else into the producer of its input."""
    for node in program.nodes:
        if (fusion := operator_of(node).fusion) and fusion.is_rotation:
            program = _by_token(program, options, node)
    for graph in program.graphs:
        for node in graph.nodes:
            if _order(program, node):
                program = _read_through(program, options, graph.name, node)
    for op in sorted({node.op for node in program.nodes if _order(program, node)}):
        program = absorb(program, options, op, _join, RESULTS)
    return program


def _by_token(program: Program, options: Options, node: Node) -> Program:
    """The program whose rotation of heads next to a permutation from or to tokens turns these, not heads.

    The permutation is then on the other side, where kernels of attention read through it or write as it would.
    """
    graph = next(g for g in program.graphs if node in g.nodes)
    (x, *tables), (y,), tensors = node.inputs, node.outputs, program.tensors
    kind, rows = tensors[x].type, tensors[tables[0]].type.shape[0]
    if len(kind.shape) != len(HEADS) or kind.shape[2] != rows or node.attr_int("inner", 1) != 1:
        return program
    if node.attr_int("outer", 1) != kind.shape[0] * kind.shape[1]:
        return program
    maker = next((n for n in graph.nodes if n.outputs == (x,)), None)
    readers = [n for n in program.nodes if y in n.inputs]
    turned = TensorType(kind.dtype, tuple(kind.shape[axis] for axis in HEADS))
    between = f"{y}/by_token"
    if between in tensors or node.name in options.opt_out:
        return program
    attrs = {**node.attrs, "outer": kind.shape[0], "inner": kind.shape[1]}
    is_behind = maker is not None and _order(program, maker) == HEADS and is_read_once(program, x)
    if maker and is_behind and is_unwritten(program, graph, maker, node, maker.inputs[0]):
        other, gone = maker, x
        new = (
            replace(node, inputs=(maker.inputs[0], *tables), outputs=(between,), attrs=attrs),
            replace(maker, inputs=(between,), outputs=(y,)),
        )
    elif len(readers) == 1 and _order(program, readers[0]) == HEADS and is_read_once(program, y):
        (other,), gone = readers, y
        if other not in graph.nodes or tensors[other.outputs[0]].storage != other.outputs[0]:
            return program
        new = (
            replace(other, inputs=(x,), outputs=(between,)),
            replace(node, inputs=(between, *tables), outputs=other.outputs, attrs=attrs),
        )
    else:
        return program
    if other.name in options.opt_out:
        return program
    nodes = tuple(m for n in graph.nodes if n is not other for m in (new if n is node else (n,)))
    kept = {n: t for n, t in tensors.items() if n != gone} | {between: Tensor(between, turned, "value", between)}
    graphs = tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs)
    return replace(program, tensors=kept, graphs=graphs)


def _order(program: Program, node: Node) -> tuple[int, ...] | None:
    """The order in which the node has the axes of its input, if it does no more."""
    if len(node.inputs) != 1:
        return None
    fusion = operator_of(node).fusion
    return fusion.permutation(node, len(program.tensors[node.inputs[0]].type.shape)) if fusion else None


def _join(program: Program, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer whose result is stored as the consumer has it; None where its kernel cannot."""
    fusion, order = operator_of(producer).fusion, _order(program, consumer)
    place = producer.outputs.index(consumer.inputs[0])
    attribute = fusion.result_orders.get(place, "") if fusion else ""
    if not attribute or attribute in producer.attrs or order is None:
        return None
    joint = replace(producer, attrs={**producer.attrs, attribute: order})
    return joint if _is_possible(program, joint) else None


def _is_possible(program: Program, joint: Node) -> bool:
    try:
        operator_of(joint).access(joint, {name: tensor.type for name, tensor in program.tensors.items()})
    except (UnsupportedOperator, ShapeMismatch):
        return False
    return True


def _read_through(program: Program, options: Options, graph_name: str, node: Node) -> Program:
    """The program without the permutation, if each of its readers can read its input instead, which lasts that long."""
    graph = next(g for g in program.graphs if g.name == graph_name)
    value, source, order = node.outputs[0], node.inputs[0], _order(program, node)
    readers = [n for n in graph.nodes if value in n.inputs]
    elsewhere = [n for g in program.graphs if g is not graph for n in g.nodes if value in n.inputs]
    if not readers or elsewhere or not is_private(program, value) or order is None:
        return program
    if {node.name, *(reader.name for reader in readers)} & set(options.opt_out):
        return program
    if not is_unwritten(program, graph, node, readers[-1], source):
        return program
    joint = {reader.name: _reading(reader, node, order) for reader in readers}
    if not all(new and _is_possible(program, new) for new in joint.values()):
        return program
    nodes = tuple(joint.get(n.name) or n for n in graph.nodes if n is not node)
    tensors = {name: tensor for name, tensor in program.tensors.items() if name != value}
    graphs = tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs)
    return replace(program, tensors=tensors, graphs=graphs)


def _reading(reader: Node, node: Node, order: tuple[int, ...]) -> Node | None:
    """The reader that reads the permutation's input in that order; None where one of its inputs has none to set."""
    fusion = operator_of(reader).fusion
    attributes = fusion.orders if fusion else {}
    places = [i for i, name in enumerate(reader.inputs) if name == node.outputs[0]]
    if any(place not in attributes or attributes[place] in reader.attrs for place in places):
        return None
    inputs = tuple(node.inputs[0] if i in places else name for i, name in enumerate(reader.inputs))
    attrs = {**reader.attrs, **{attributes[place]: order for place in places}}
    return replace(reader, name=f"{node.name}+{reader.name}", inputs=inputs, attrs=attrs)
