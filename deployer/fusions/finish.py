"""Fusion of an operator into the producer of its input, if the producer's kernel can apply it to its own result.

Relu needs only the producer's result, and its gradient needs only Y, so nobody reads the value before Relu. The
gradient of Relu is fused into the node that computes dY, whose kernel then reads Y when its own result is complete; the
gradient of a maximum behind a Relu reads Y itself.
"""

from dataclasses import replace
from functools import partial

from deployer.core.declarations import ACTIVATION, Finish
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of, registry
from deployer.core.plan import Options
from deployer.fusions.pair import absorb, has_input, is_unwritten


def apply(program: Program, options: Options) -> Program:
    """Fuse every operator that declares a `finish`, in the order of their names."""
    for name, operator in registry().items():
        if operator.finish is not None:
            program = absorb(program, options, name, partial(_join, program, operator.finish))
    return program


def _join(program: Program, finish: Finish, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer with the consumer's name as an attribute, or with its operand as an input; None without either."""
    operator = operator_of(producer)
    scalars = {name for name, _ in operator.kernel.scalars} if operator.kernel else set()
    if finish.scalar in scalars and ACTIVATION not in producer.attrs:
        return replace(producer, attrs={**producer.attrs, ACTIVATION: consumer.op})
    if finish.pointer in operator.own:
        place, attribute = operator.own[finish.pointer]
        is_own = consumer.inputs[finish.operand] == producer.inputs[place] and attribute not in producer.attrs
        return replace(producer, attrs={**producer.attrs, attribute: 1}) if is_own else None
    if finish.pointer not in operator.pointed or has_input(producer, operator.pointed[finish.pointer]):
        return None
    position, operand = operator.pointed[finish.pointer], consumer.inputs[finish.operand]
    if not is_unwritten(program, graph, producer, consumer, operand):
        return None
    return replace(producer, inputs=(*producer.inputs, *[""] * (position - len(producer.inputs)), operand))
