"""Relu in the operator whose result it reads: its gradient reads Y alone, so the value before it is nobody's."""

from dataclasses import replace

from deployer.core.activation import ACTIVATION, RELU, TakesRelu, has_relu
from deployer.core.ir import Graph, Node, Program
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.fusions.pair import absorb


def apply(program: Program, options: Options) -> Program:
    """Set the attribute on producers that know it, and drop the Relu."""
    return absorb(program, options, RELU, _join)


def _join(graph: Graph, producer: Node, consumer: Node) -> Node | None:
    if not isinstance(operator_of(producer), TakesRelu) or has_relu(producer):
        return None
    return replace(producer, attrs={**producer.attrs, ACTIVATION: RELU})
