"""Fusion of an update and the producer of its gradient, so that the gradient needs no memory.

Where both are in one graph, an operator that `fused_update` an optimizer's formula to its own result takes the place of
the update. Of pass and update in one graph, the producer may be the product that makes the gradient: all that reads the
weight of the pass comes before it. In any graph of updates, it may be what clips the gradient by one number for all.
Where a gradient is read by anything else, or is the sum of several passes or of several uses of a weight, nothing
changes.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from deployer.core.access import box_shape
from deployer.core.ir import Graph, Node, Program
from deployer.core.level import L_INNER
from deployer.core.operator import operator_of, registry
from deployer.core.plan import Options, target_of
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.training import Optimizer
from deployer.fusions.pair import is_unwritten

AFTER = ("accumulate", "addend", "factor", "finish", "layout", "update")
"""A gradient is as its producer finishes it, and an update reads it in the graph that makes it."""


def apply(program: Program, options: Options) -> Program:
    """Fuse every update that an operator has a joint form of into the producer of its gradient."""
    fusions = [operator.fusion for operator in registry().values() if operator.fusion and operator.fusion.fused_update]
    for update in program.nodes:
        for fusion in fusions:
            if fusion.fused_update == update.op:
                program = _joined(program, options, update, fusion)
    return program


def _joined(program: Program, options: Options, update: Node, fusion: Fusion) -> Program:
    """The program with the update and the producer of its gradient as one node; unchanged where they cannot be one."""
    declared = operator_of(update).role(Optimizer)
    graph = next((g for g in program.graphs if update in g.nodes), None)
    if declared is None or graph is None:
        return program
    gradient = update.inputs[declared.gradient]
    producer = _sole_producer(program, graph, update, gradient)
    if producer is None or {producer.name, update.name} & set(options.opt_out):
        return program
    if not _may_wait(program, graph, producer, update, declared):
        return program
    joint = fusion.updating(producer, update, {name: tensor.type for name, tensor in program.tensors.items()})
    if joint is None:
        return program
    joint = replace(joint, name=f"{producer.name}+{update.name}", outputs=update.outputs)
    if not _pays(program, options, joint):
        return program
    nodes = tuple(joint if node is update else node for node in graph.nodes if node is not producer)
    gone = set(_sharing(program, gradient))
    return replace(
        program,
        tensors={name: tensor for name, tensor in program.tensors.items() if name not in gone},
        accumulators=tuple(name for name in program.accumulators if name not in gone),
        graphs=tuple(Graph(g.name, nodes) if g is graph else g for g in program.graphs),
    )


def _sole_producer(program: Program, graph: Graph, update: Node, gradient: str) -> Node | None:
    """The one node that writes the gradient's memory, if the update alone reads it and reads it once."""
    shared = set(_sharing(program, gradient))
    root = program.tensors[program.storage(gradient)]
    if root.role not in ("value", "accumulator") or shared & {*program.outputs, *program.updated}:
        return None
    writers = [node for node in program.nodes if shared & set(node.outputs)]
    reads = [(node, name) for node in program.nodes for name in node.inputs if name in shared]
    if len(writers) != 1 or len(writers[0].outputs) != 1 or reads != [(update, gradient)]:
        return None
    return writers[0] if writers[0] in graph.nodes else None


def _may_wait(program: Program, graph: Graph, producer: Node, update: Node, declared: Optimizer) -> bool:
    """Whether the producer may run where the update does: nothing overwrites what it reads, and it reads no weight."""
    reads = [name for name in producer.inputs if name]
    weight = program.storage(update.inputs[declared.weight])
    if weight in {program.storage(name) for name in reads}:
        return False
    return all(is_unwritten(program, graph, producer, update, name) for name in reads)


def _pays(program: Program, options: Options, joint: Node) -> bool:
    """Whether the joint step is worth it: always for gradients without sums, which take as long with it as without.

    A sum that no tile may cut decides the tiles, and the weight that waits for it needs room in the innermost level.
    That is about what a step of its own costs, unless weights and gradients may be spilled, and more where the weight
    is small. A tile of one block has to leave half of the innermost level free.
    """
    operator, target = operator_of(joint), target_of(options)
    model = target.kernel_model
    access = operator.access(joint, {name: tensor.type for name, tensor in program.tensors.items()})
    if all(d.kind == "parallel" for d in access.dims):
        return True
    updated = sum(program.tensors[name].type.bytes for name in joint.outputs)
    if options.outermost == target.usual.name or updated <= model.small_update_bytes:
        return False
    assert operator.kernel is not None, f"{joint.op} has no kernel"
    tile = {d.name: min(d.rounded(model.block), d.size) if d.kind == "parallel" else d.size for d in access.dims}
    boxes = ((o, math.prod(box_shape(o, tile))) for o in access.operands)
    size = sum(count * operator.kernel.element_bytes(o.arg) for o, count in boxes)
    return 2 * size <= target.levels[L_INNER].budget


def _sharing(program: Program, name: str) -> Iterator[str]:
    """The tensors in the memory of that one, itself among them."""
    root = program.storage(name)
    return (other for other in program.tensors if program.storage(other) == root)
