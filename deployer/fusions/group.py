"""Fusion of nodes side by side, such as products of the same values, into one step unless that takes more cycles.

Each step has code and arguments, and fetches operands that others have just had; on a single level nothing is fetched.
Operators say by `group_of` and `grouped` what they can stand for.
"""

import math
from collections.abc import Mapping, Sequence

from deployer.core.access import box_shape
from deployer.core.cost import cold_start, kernel_cycles
from deployer.core.ir import Node, Program, TensorType
from deployer.core.level import L_INNER
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.plan import Options, target_of
from deployer.core.target import Target
from deployer.core.traits.fusion import Fusion
from deployer.fusions.joint import joined
from deployer.fusions.views import alike_named
from deployer.kernel_variants.costs import whole_work

AFTER = ("accumulate", "addend", "attention", "factor", "finish", "joint", "layout", "mask", "rotation", "weight_step")
"""Rewrites that change a node by itself, or with a neighbour of another kind, come first."""

COST_ERROR_MILLI = 30
"""Error of predicted cycles, in thousandths: within it two forms count as equally quick, and fewer steps decide."""


def apply(program: Program, options: Options) -> Program:
    """Group nodes of every operator that others can stand for, where there are levels to fetch operands from."""
    if not target_of(options).hops:
        return program
    before, program = program, alike_named(program)
    named = program
    for operator in dict.fromkeys(registry().values()):
        fusion = operator.fusion
        for node in program.nodes if fusion and fusion.group_of else ():
            if fusion and node.op == fusion.group_of and node in program.nodes:
                program = _grouped(program, options, node, operator, fusion)
    return before if program is named else program


def _grouped(program: Program, options: Options, node: Node, operator: Operator, fusion: Fusion) -> Program:
    """The program with the node and others as one; unchanged where there are none or that does not pay."""
    graph = next(g for g in program.graphs if node in g.nodes)
    near = [n for n in graph.nodes if n is not node and set(node.inputs) & {*n.inputs, *n.outputs} - {""}]
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    found = fusion.grouped(node, near, types)
    if found is None:
        return program
    joint, others = found
    if not _pays(joint, [node, *others], types, target_of(options)):
        return program
    grouped = joined(program, options, operator, found, node)
    is_whole = any(n.outputs == joint.outputs for n in grouped.nodes)  # a result that nobody reads is a group's as well
    return grouped if is_whole else program


def _pays(joint: Node, parts: Sequence[Node], types: Mapping[str, TensorType], target: Target) -> bool:
    """Whether a node is as quick as those that it stands for, and its smallest useful tile takes at most half a level.

    These run the same code after each other, which is fetched once. Where all operands lie in the innermost level, they
    share a start of the cores as well.
    """
    operator = operator_of(joint)
    access, kernel = operator.access(joint, types), operator.kernel
    assert kernel is not None, f"{joint.op} has no kernel"
    budget = target.levels[L_INNER].budget
    tile = {d.name: d.rounded(min(target.kernel_model.block, d.size)) for d in access.dims}
    if 2 * sum(math.prod(box_shape(o, tile)) * kernel.element_bytes(o.arg) for o in access.operands) > budget:
        return False
    start = target.step + target.dispatch
    is_resident = sum(types[name].bytes for name in {n for x in parts for n in (*x.inputs, *x.outputs) if n}) <= budget
    found = [_cycles(part, types, target) for part in parts]
    alone = sum(warm for warm, _ in found) + max(cold for _, cold in found) - is_resident * start * (len(parts) - 1)
    return sum(_cycles(joint, types, target)) * 1000 <= alone * (1000 + COST_ERROR_MILLI)


def _cycles(node: Node, types: Mapping[str, TensorType], target: Target) -> tuple[int, int]:
    """Cycles of a step by its kernel on whole operands, or by their transfers if these take longer; and of its code."""
    access = operator_of(node).access(node, types)
    costed, moved = whole_work(node, access, target), 0
    for hop in target.hops[: L_INNER + 1]:
        for operand in access.operands:
            channel = hop.outward if operand.writes else hop.inward
            moved += int(channel.cycles(types[operand.tensor].bytes, 1))
    return target.step + max(kernel_cycles(target, *costed), moved), cold_start(target, *costed)
