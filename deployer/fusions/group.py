"""Fusion of nodes side by side, such as products of the same values, into one step where that takes fewer cycles.

Each step starts all cores, and fetches code and operands that others have just had. Operators say by `group_of` and
`grouped` what they can stand for. A step whose smallest useful tile fills more than half of the innermost level is left
out, since there it would have to be cut finer than those that it replaces.
"""

import math
from collections.abc import Mapping

from deployer.core.access import box_shape
from deployer.core.ir import Node, Program, TensorType
from deployer.core.level import L_INNER
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.plan import Options, target_of
from deployer.core.target import Target
from deployer.core.traits.fusion import Fusion
from deployer.fusions.attention import whole_cycles
from deployer.fusions.joint import joined

AFTER = ("accumulate", "addend", "attention", "factor", "finish", "joint", "layout", "mask", "rotation", "weight_step")
"""What other rewrites make of a node by itself comes first."""


def apply(program: Program, options: Options) -> Program:
    """Group nodes of every operator that others can stand for, as long as there are some."""
    for operator in dict.fromkeys(registry().values()):
        fusion = operator.fusion
        for node in program.nodes if fusion and fusion.group_of else ():
            if fusion and node.op == fusion.group_of and node in program.nodes:
                program = _grouped(program, options, node, operator, fusion)
    return program


def _grouped(program: Program, options: Options, node: Node, operator: Operator, fusion: Fusion) -> Program:
    """The program with the node and others as one; unchanged where there are none or that does not pay."""
    graph = next(g for g in program.graphs if node in g.nodes)
    near = [n for n in graph.nodes if n is not node and set(node.inputs) & {*n.inputs, *n.outputs} - {""}]
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    found = fusion.grouped(node, near, types)
    if found is None:
        return program
    target = target_of(options)
    joint, others = found
    alone = sum(_cycles(n, types, target) for n in (node, *others))
    if not _has_room(joint, types, target) or _cycles(joint, types, target) >= alone:
        return program
    grouped = joined(program, options, operator, found, node)
    is_whole = any(n.outputs == joint.outputs for n in grouped.nodes)  # a result that nobody reads is a group's as well
    return grouped if is_whole else program


def _has_room(joint: Node, types: Mapping[str, TensorType], target: Target) -> bool:
    """Whether a tile of one block leaves half of the innermost level free."""
    operator = operator_of(joint)
    access, kernel = operator.access(joint, types), operator.kernel
    assert kernel is not None, f"{joint.op} has no kernel"
    tile = {d.name: d.rounded(min(target.kernel_model.block, d.size)) for d in access.dims}
    size = sum(math.prod(box_shape(o, tile)) * kernel.element_bytes(o.arg) for o in access.operands)
    return 2 * size <= target.levels[L_INNER].budget


def _cycles(node: Node, types: Mapping[str, TensorType], target: Target) -> int:
    """Cycles of a step by its kernel on whole operands, or by their transfers if these take longer."""
    access = operator_of(node).access(node, types)
    kernel, moved = whole_cycles(node, access, target), 0
    for hop in target.hops[:1]:
        for operand in access.operands:
            channel = hop.outward if operand.writes else hop.inward
            moved += int(channel.cycles(types[operand.tensor].bytes, 1))
    return target.step + max(kernel, moved)
