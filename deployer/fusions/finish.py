"""Epilogue fusion: an operator joins the producer of its input, if that kernel can apply it to its own result.

Relu needs only the producer's result, and its gradient needs only Y, so nobody reads the value before Relu. The
gradient of Relu is fused into the node that computes dY, whose kernel then reads Y when its own result is complete; the
gradient of a maximum behind a Relu reads Y itself.
"""

from dataclasses import replace
from functools import partial

from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of, registry
from deployer.core.plan import Options
from deployer.core.traits.fusion import ACTIVATION, Epilogue
from deployer.fusions.pair import Pairing, absorb, has_input, is_unwritten

ELEMENTWISE = Pairing(elementwise=True)


def apply(program: Program, options: Options) -> Program:
    """Fuse every operator that declares a `epilogue`, in the order of their names."""
    for name, operator in registry().items():
        if operator.fusion is not None and operator.fusion.epilogue is not None:
            program = absorb(program, options, name, partial(_join, operator.fusion.epilogue), ELEMENTWISE)
    return program


def _join(epilogue: Epilogue, program: Program, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer with the consumer's name as an attribute, or with its operand as an input; None without either."""
    operator = operator_of(producer)
    scalars = {name for name, _ in operator.kernel.scalars} if operator.kernel else set()
    if epilogue.scalar in scalars and ACTIVATION not in producer.attrs:
        return replace(producer, attrs={**producer.attrs, ACTIVATION: consumer.op})
    if operator.fusion is None:
        return None
    if epilogue.pointer in operator.fusion.reused:
        place, attribute = operator.fusion.reused[epilogue.pointer]
        is_own = consumer.inputs[epilogue.operand] == producer.inputs[place] and attribute not in producer.attrs
        return replace(producer, attrs={**producer.attrs, attribute: 1}) if is_own else None
    position = operator.fusion.epilogue_operands.get(epilogue.pointer)
    if position is None or has_input(producer, position):
        return None
    operand = consumer.inputs[epilogue.operand]
    if not is_unwritten(program, graph, producer, consumer, operand):
        return None
    return replace(producer, inputs=(*producer.inputs, *[""] * (position - len(producer.inputs)), operand))
