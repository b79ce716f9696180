"""Fusion of nodes that read the same values into one whose kernel has all their results in one walk.

A loss and its gradient are several small steps, each of which fetches its code and starts all cores. Operators say by
`multi_output_of` and `joint` what they can stand for. A result that nobody else reads is not kept.
"""

from collections.abc import Sequence
from dataclasses import replace

from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import Operator, execution_of, registry
from deployer.core.plan import Options, target_of
from deployer.core.traits.fusion import Fusion, Joint
from deployer.fusions.pair import is_private, is_unwritten


def apply(program: Program, options: Options) -> Program:
    """Fuse, for every operator that joins others, each node of the last of these with those it belongs to.

    Operators come in the order of their names: what one joins is not there for the next.
    """
    for operator in dict.fromkeys(registry().values()):
        fusion = operator.fusion
        for node in program.nodes if fusion and fusion.multi_output_of else ():
            if fusion and node.op == fusion.multi_output_of:
                program = _joined(program, options, node, operator, fusion)
    return program


def _joined(program: Program, options: Options, last: Node, operator: Operator, fusion: Fusion) -> Program:
    """The program with the joint node in the place of one of its parts. A node that `opt_out` names stays."""
    graph = next(g for g in program.graphs if last in g.nodes)
    near = [n for n in graph.nodes if n is not last and set(last.inputs) & {*n.inputs, *n.outputs} - {""}]
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    found = fusion.joint(last, near, types, target_of(options).kernel_model)
    return program if found is None else joined(program, options, operator, found, last)


def joined(program: Program, options: Options, operator: Operator, found: Joint, last: Node) -> Program:
    """The program with a node of the operator in the place of one of those that it stands for, `last` among them.

    It is unchanged where a value between these is read elsewhere, or where there is no place for the node.
    """
    graph = next(g for g in program.graphs if last in g.nodes)
    joint, others = found
    members = [n for n in graph.nodes if n is last or n in others]
    place = _place(program, graph, joint, members)
    if {n.name for n in members} & set(options.opt_out) or place is None:
        return program
    inner = {name for n in members for name in n.outputs if name} - set(joint.outputs)
    read = {name for n in program.nodes if n not in members for name in n.inputs}
    if inner & read or not all(is_private(program, name) for name in inner):
        return program
    joint = replace(joint, name="+".join(n.name for n in members), outputs=_kept(program, operator, joint, members))
    nodes = tuple(joint if n is place else n for n in graph.nodes if n is place or n not in members)
    gone = {name for n in members for name in n.outputs} - set(joint.outputs)
    tensors = {name: tensor for name, tensor in program.tensors.items() if name not in gone}
    graphs = tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs)
    return replace(program, tensors=tensors, graphs=graphs)


def _place(program: Program, graph: Graph, joint: Node, members: Sequence[Node]) -> Node | None:
    """The part in whose place the joint node stands; None where there is none.

    It is the first, if the operands are there by then and the memory of the results is free. Else it is the last, if
    nothing before that overwrites what the others read, or touches what they make.
    """
    first, *_, last = members
    passed = [n for n in graph.nodes[graph.nodes.index(first) : graph.nodes.index(last)] if n not in members]
    is_free = all(_is_free(program, passed, name) for name in joint.outputs if name)
    if is_free and all(is_unwritten(program, graph, first, last, name) for name in joint.inputs if name):
        return first
    others = [n for n in members if n is not last]
    touched = {program.storage(name) for n in passed for name in (*n.inputs, *n.outputs) if name}
    if touched & {program.storage(name) for n in others for name in n.outputs if name}:
        return None
    is_kept = all(is_unwritten(program, graph, n, last, name) for n in others for name in n.inputs if name)
    return last if is_kept else None


def _is_free(program: Program, passed: list[Node], name: str) -> bool:
    """Whether a result may be written before these nodes: its memory is its own, or an accumulator's that none uses."""
    storage = program.tensors[name].storage
    used = {program.storage(other) for n in passed for other in (*n.inputs, *n.outputs) if other}
    return storage == name or (program.tensors[storage].role == "accumulator" and storage not in used)


def _kept(program: Program, operator: Operator, joint: Node, members: list[Node]) -> tuple[str, ...]:
    """The outputs of the joint node, empty where the kernel can spare one that only parts of the node read."""
    read = {name for n in program.nodes if n not in members for name in n.inputs}
    optional = execution_of(operator).optional_outputs.values()
    outputs = [
        "" if place in optional and name not in read and name and is_private(program, name) else name
        for place, name in enumerate(joint.outputs)
    ]
    while not outputs[-1]:
        outputs.pop()
    return tuple(outputs)
