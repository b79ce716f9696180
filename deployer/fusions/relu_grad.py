"""The gradient of Relu in the operator that computes its dY, which reads Y where its own result is complete."""

from dataclasses import replace

from deployer.core.activation import TakesGate, gate_of
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.fusions.pair import absorb


def apply(program: Program, options: Options) -> Program:
    """Give Y to producers that know what to do with it, and drop the ReluGrad."""
    return absorb(program, options, "ReluGrad", lambda *parts: _join(program, *parts))


def _join(program: Program, graph: Graph, producer: Node, consumer: Node) -> Node | None:
    operator, gate = operator_of(producer), consumer.inputs[1]
    if not isinstance(operator, TakesGate) or gate_of(producer, operator.gate_input):
        return None
    if not _is_there(program, graph, producer, consumer, gate):
        return None
    inputs = (*producer.inputs, *[""] * (operator.gate_input - len(producer.inputs)), gate)
    return replace(producer, inputs=inputs)


def _is_there(program: Program, graph: Graph, producer: Node, consumer: Node, gate: str) -> bool:
    """Whether Y has been computed before the producer, and is not overwritten before the consumer."""
    place, end = graph.nodes.index(producer), graph.nodes.index(consumer)
    root = program.storage(gate)
    written = [i for i, n in enumerate(graph.nodes) for name in n.outputs if name and program.storage(name) == root]
    return not any(place <= i < end for i in written)
