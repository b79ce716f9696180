"""An operator in the one whose result it reads, where that one's kernel can finish its own result so.

Relu reads no more than the result, and its gradient reads Y alone, so the value before Relu is nobody's; the gradient
of Relu goes where dY is computed, which reads Y where its own result is complete.
"""

from dataclasses import replace
from functools import partial

from deployer.core.declarations import ACTIVATION, Finish
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of, registry
from deployer.core.plan import Options
from deployer.fusions.pair import absorb


def apply(program: Program, options: Options) -> Program:
    """Every operator that says how a kernel applies it, in the order of their names."""
    for name, operator in registry().items():
        if operator.finish is not None:
            program = absorb(program, options, name, partial(_join, program, operator.finish))
    return program


def _join(program: Program, finish: Finish, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    """The producer with what its kernel takes: the name as an attribute, or the operand behind a pointer."""
    operator = operator_of(producer)
    scalars = {name for name, _ in operator.kernel.scalars} if operator.kernel else set()
    if finish.scalar in scalars and ACTIVATION not in producer.attrs:
        return replace(producer, attrs={**producer.attrs, ACTIVATION: consumer.op})
    if finish.pointer not in operator.pointed or _has_input(producer, operator.pointed[finish.pointer]):
        return None
    position, operand = operator.pointed[finish.pointer], consumer.inputs[finish.operand]
    if not _is_available(program, graph, producer, consumer, operand):
        return None
    return replace(producer, inputs=(*producer.inputs, *[""] * (position - len(producer.inputs)), operand))


def _has_input(node: Node, position: int) -> bool:
    return len(node.inputs) > position and bool(node.inputs[position])


def _is_available(program: Program, graph: Graph, producer: Node, consumer: Node, operand: str) -> bool:
    """Whether the operand has been computed before the producer, and is not overwritten before the consumer."""
    place, end = graph.nodes.index(producer), graph.nodes.index(consumer)
    root = program.storage(operand)
    writers = [i for i, n in enumerate(graph.nodes) for name in n.outputs if name and program.storage(name) == root]
    return not any(place <= i < end for i in writers)
