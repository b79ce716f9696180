"""Fusion of a sum, and of a product with a number, into the operator behind them, if one does all of it in one walk.

That is how attention makes shares of its scores: they are scaled, a mask is added, and each row becomes a softmax. What
the product before them can take has been taken by then: a number as its factor, a mask as what it adds.
"""

from dataclasses import replace
from functools import partial

from deployer.core.errors import ShapeMismatch, UnsupportedOperator
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.plan import Options
from deployer.core.traits.fusion import Preparation
from deployer.fusions.factor import multiple_of
from deployer.fusions.pair import Pairing, absorb, is_plain

AFTER = ("addend", "factor", "finish", "layout")
"""A product takes a factor and a sum for less than what comes behind it."""
LATE = Pairing(is_late=True)


def apply(program: Program, options: Options) -> Program:
    """Fuse, for every operator that prepares another, the sum into its input, then the product with a number."""
    for operator in dict.fromkeys(registry().values()):
        if operator.fusion is None or (prologue := operator.fusion.prologue) is None:
            continue
        program = absorb(program, options, prologue.op, partial(_masked, operator, prologue), LATE)
        for op in (operator.name, prologue.op):
            program = absorb(program, options, op, partial(_scaled, operator, prologue), LATE)
    return program


def _masked(
    operator: Operator, prologue: Preparation, program: Program, graph: Graph, producer: Node, consumer: Node
) -> Node | None:
    """The consumer that adds what the producer did; None where that is no sum, or one that its kernel cannot add."""
    fusion = operator_of(producer).fusion
    if fusion is None or not fusion.is_sum or not is_plain(producer):
        return None
    if len(producer.inputs) != 2 or producer.attrs:
        return None
    kind = program.tensors[producer.outputs[0]].type
    first = _first(program, producer)
    if program.tensors[producer.inputs[first]].type != kind:
        return None
    inputs = (producer.inputs[first], *[""] * (prologue.epilogue_bias - 1), producer.inputs[1 - first])
    return _possible(program, replace(consumer, op=operator.name, inputs=inputs))


def _first(program: Program, total: Node) -> int:
    """Return the index of the sum's masked operand: the larger one, or of equal ones the computed one."""
    sizes = [program.tensors[name].type.size for name in total.inputs]
    constants = [program.tensors[program.storage(name)].role == "constant" for name in total.inputs]
    return int(sizes[1] > sizes[0] or (sizes[1] == sizes[0] and constants[0] and not constants[1]))


def _scaled(
    operator: Operator, prologue: Preparation, program: Program, graph: Graph, producer: Node, consumer: Node
) -> Node | None:
    """The consumer that multiplies by the number; None where the producer is no such product, or it has a factor."""
    found = multiple_of(program, producer)
    if found is None or not is_plain(producer) or prologue.factor in consumer.attrs:
        return None
    place, factor = found
    if program.tensors[producer.inputs[place]].type != program.tensors[producer.outputs[0]].type:
        return None
    inputs = (producer.inputs[place], *consumer.inputs[1:])
    attrs = {**consumer.attrs, prologue.factor: factor}
    return _possible(program, replace(consumer, op=operator.name, inputs=inputs, attrs=attrs))


def _possible(program: Program, joint: Node) -> Node | None:
    """The node, if its kernel can compute it."""
    operator, types = operator_of(joint), {name: tensor.type for name, tensor in program.tensors.items()}
    try:
        operator.infer(joint, [types[name] if name else None for name in joint.inputs])
        operator.access(joint, types)
    except (ShapeMismatch, UnsupportedOperator):
        return None
    return joint
