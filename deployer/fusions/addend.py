"""Fusion of an addition into the producer of one operand, if the producer's kernel can add the other to its result.

That is how a bias or a residual branch reaches a product, and a gradient that of another branch. The kernel adds when
its own result is complete, and rounds as a step of its own would.
"""

import itertools
from dataclasses import replace
from functools import partial

from deployer.core.errors import UnsupportedOperator
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of, registry
from deployer.core.plan import Options
from deployer.core.traits.fusion import EpilogueBias
from deployer.fusions.pair import Pairing, absorb, is_plain, is_unwritten

AFTER = ("factor",)
"""A product that a number multiplies can still add, but one that adds is multiplied no more."""


def apply(program: Program, options: Options) -> Program:
    """Fuse every sum of two, into the producer of its first input, or else into that of its second.

    Where what that adds is not there at its time, it is computed later, at the time of the sum.
    """
    for name in (name for name, operator in registry().items() if operator.fusion and operator.fusion.is_sum):
        for is_late, place in itertools.product((False, True), (0, 1)):
            how = Pairing(place, is_late, elementwise=True)
            program = absorb(program, options, name, partial(_join, how), how)
    return program


def _join(how: Pairing, program: Program, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer with the consumer's other input as its addend; None where its kernel cannot add that."""
    operator, other = operator_of(producer), consumer.inputs[1 - how.place]
    epilogue_bias = operator.fusion.epilogue_bias if operator.fusion else None
    if epilogue_bias is None or len(consumer.inputs) > 2 or consumer.attrs:
        return None
    if not is_plain(producer):
        return None
    if not how.is_late and not is_unwritten(program, graph, producer, consumer, other):
        return None
    joint = _with_addend(producer, epilogue_bias, other)
    try:
        operator.access(joint, {name: tensor.type for name, tensor in program.tensors.items()})
    except UnsupportedOperator:
        return None
    return joint


def _with_addend(producer: Node, epilogue_bias: EpilogueBias, other: str) -> Node:
    """The producer that adds `other` once; an absent addend may have had any factor."""
    inputs = (*producer.inputs, *[""] * (epilogue_bias.position - len(producer.inputs)))[: epilogue_bias.position]
    attrs = {name: value for name, value in producer.attrs.items() if name != epilogue_bias.factor}
    return replace(producer, inputs=(*inputs, other), attrs=attrs)
