"""Fusion of the products and the softmax of attention into steps that keep whole rows of scores in the innermost level.

The scores, their softmax and the gradients of both are never in memory: the steps of the backward pass compute them
again. Operators say by `region_of` and `region` what they replace. Where rows do not fit, or the steps take longer by
the cost model and memory holds the scores, the nodes stay; not so where only the steps have the order of sums that is
asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from deployer.core.cost import kernel_cycles
from deployer.core.ir import Graph, Node, Program, Tensor, TensorType
from deployer.core.level import L_HOME, L_INNER
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.plan import Options, target_of
from deployer.core.target import Target
from deployer.core.traits.fusion import Region
from deployer.kernel_variants.costs import whole_work


def apply(program: Program, options: Options) -> Program:
    """Replace every region of every operator that has some, where that is quicker."""
    for operator in dict.fromkeys(registry().values()):
        if operator.fusion and operator.fusion.region_of:
            for node in [n for n in program.nodes if n.op == operator.fusion.region_of]:
                program = _replaced(program, options, node, operator)
    return program


def _replaced(program: Program, options: Options, node: Node, operator: Operator) -> Program:
    graph = next((g for g in program.graphs if node in g.nodes), None)
    if graph is None or operator.fusion is None:
        return program
    target = target_of(options)
    budget = target.levels[L_INNER].budget
    found = operator.fusion.region(program, graph, node, budget, target.cores, options.canonical_batch)
    if found is None or {n.name for n in found.removed} & set(options.opt_out):
        return program
    types = {**{name: tensor.type for name, tensor in program.tensors.items()}, **found.types}
    room = next(level.budget for level in target.levels if level.name == options.outermost)
    chosen = found.needed or largest_step(found.removed, types) > room or is_quicker(found, types, target)
    return _with_region(program, graph, found) if chosen else program


def largest_step(nodes: Iterable[Node], types: Mapping[str, TensorType]) -> int:
    """Bytes of all operands of the node that has most; matrices of scores may be more than any level holds."""
    return max(sum(types[name].bytes for name in (*node.inputs, *node.outputs) if name) for node in nodes)


def is_quicker(found: Region, types: Mapping[str, TensorType], target: Target) -> bool:
    """Whether the new nodes of a region take fewer cycles than those that they replace."""
    added = [node for group in found.added.values() for node in group]
    return _cycles(added, types, target) < _cycles(found.removed, types, target)


def _cycles(nodes: Iterable[Node], types: Mapping[str, TensorType], target: Target) -> int:
    """Cycles of kernels on whole operands, of steps, and of the transfers of operands that no level holds at once."""
    total = 0
    for node in nodes:
        access = operator_of(node).access(node, types)
        total += target.step + kernel_cycles(target, *whole_work(node, access, target))
        sizes = {o.arg: types[o.tensor].bytes for o in access.operands}
        for level, hop in zip((L_INNER, L_HOME), target.hops, strict=False):
            budget = target.levels[level].budget
            for operand in access.operands:
                size = sizes[operand.arg]
                channel = hop.outward if operand.writes else hop.inward
                if (sum(sizes.values()) if level == L_INNER else size) > budget:
                    total += int(channel.cycles(size, 1))
    return total


def _with_region(program: Program, graph: Graph, found: Region) -> Program:
    """The program with the new nodes, whose values have memory of their own."""
    gone = {n.name for n in found.removed}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += found.added.get(node.name, ())
        nodes += [] if node.name in gone else [node]
    tensors = dict(program.tensors)
    for name, kind in found.types.items():
        tensors[name] = Tensor(name, kind, "value", name)
    for source, view in found.viewed.items():
        for other in [t for t in tensors.values() if t.storage == source and t.name != view]:
            tensors[other.name] = replace(other, storage=view)
    for result, value in found.over.items():
        for other in [t for t in tensors.values() if t.storage == result]:
            tensors[other.name] = replace(other, storage=program.storage(value))
    graphs = tuple(Graph(g.name, tuple(nodes)) if g is graph else g for g in program.graphs)
    joint = replace(program, tensors=tensors, graphs=graphs)
    return replace(joint, tensors=_used(program, joint, found))


def _used(before: Program, joint: Program, found: Region) -> dict[str, Tensor]:
    """The tensors without values of the region, and views of its operands, that nothing reads any more."""
    touched = {before.storage(n) for node in found.removed for n in (*node.inputs, *node.outputs) if n}
    named = {n for node in joint.nodes for n in (*node.inputs, *node.outputs) if n}
    kept = {n for name in named for n in _stored(joint, name)} | {*joint.outputs, *joint.updated}
    of_region = {n for n, t in before.tensors.items() if t.role == "value" and before.storage(n) in touched}
    return {n: t for n, t in joint.tensors.items() if n in kept or n not in of_region}


def _stored(program: Program, name: str) -> Iterator[str]:
    """The value, and each one that it is a view of, up to the memory itself."""
    yield name
    while (storage := program.tensors[name].storage) != name:
        yield (name := storage)
