"""Fusion of a multiplication by a number into the producer of the other factor, if its kernel has a factor.

The kernel multiplies its complete result before anything is added to it, and rounds as a step of its own would. Where
it has a factor already, the two become one if that can change no bit.
"""

import math
from dataclasses import replace
from functools import partial

from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.core.traits.training import FLOAT32_MAX
from deployer.fusions.pair import Pairing, absorb, is_plain


def apply(program: Program, options: Options) -> Program:
    """Fuse every node that is a multiple of one of its two inputs into the producer of that input."""
    for op in sorted({node.op for node in program.nodes if multiple_of(program, node)}):
        for place in (0, 1):
            program = absorb(program, options, op, partial(_join, place), Pairing(place, elementwise=True))
    return program


def _join(place: int, program: Program, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer with the consumer's factor in its own; None where its kernel has none, or the consumer."""
    multiple, fusion = multiple_of(program, consumer), operator_of(producer).fusion
    attribute = fusion.epilogue_scale if fusion else ""
    if multiple is None or multiple[0] != place or not attribute or not is_plain(producer):
        return None
    factor = joint_factor(producer.attr_float(attribute, 1.0), multiple[1])
    return None if factor is None else replace(producer, attrs={**producer.attrs, attribute: factor})


def multiple_of(program: Program, node: Node) -> tuple[int, float] | None:
    """The input of which the node is a multiple, and the factor, a float known at compile time; None without one."""
    fusion = operator_of(node).fusion
    if fusion is None:
        return None
    roots = {i: program.tensors[program.storage(name)] for i, name in enumerate(node.inputs) if name}
    constants = {i: t for i, t in roots.items() if t.role == "constant" and t.type.size == 1}
    numbers = {i: float(t.array.reshape(())) for i, t in constants.items() if t.type.dtype == "float32"}
    return fusion.multiple(numbers)


def joint_factor(first: float, second: float) -> float | None:
    """The factor that gives the bits of a product with `first` and then with `second`; None without one.

    A factor of 1 or -1 rounds nothing. Nor does a power of two that is larger, but where it overflows: then so does the
    joint product, if the other factor makes nothing smaller. A smaller power may round what has no normal form.
    """
    product = first * second
    if not abs(product) <= FLOAT32_MAX:
        return None
    doubles = abs(math.frexp(first)[0]) == 0.5 and min(abs(first), abs(second)) >= 1
    return product if doubles or 1 in (abs(first), abs(second)) else None
