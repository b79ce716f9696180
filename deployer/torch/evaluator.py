"""A captured step in numpy, by the operators' references, with the module's own numbers in float64."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deployer.core.errors import InternalError
from deployer.core.ir import Node
from deployer.core.operator import Array, operator_of, training_of
from deployer.frontend.resolve import Resolved, static_form
from deployer.torch.step import CapturedStep


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The results of a step: the loss, the gradient of each trained parameter, and each buffer that it writes."""

    loss: float
    gradients: dict[str, Array]
    states: dict[str, Array]


@dataclass(eq=False)
class Evaluator:
    """Runs a step of the same graph again and again."""

    step: CapturedStep

    @cached_property
    def _nodes(self) -> list[Node]:
        """The nodes with static inputs as attributes."""
        constants = {n: a for n, a in self.step.constants.items() if n not in self.step.gradients}
        state = Resolved(dict(self.step.types), constants)
        return [static_form(state, replace(n, op=operator_of(n).name), operator_of(n)) for n in self.step.nodes]

    def run(self, data: Mapping[str, Array], passes: int = 1, given: Mapping[str, Array] | None = None) -> Evaluation:
        """The step on data inputs by name, with other values of parameters and buffers where they are `given`.

        `passes` is the number of the pass, from 1 on, from which random numbers follow.
        """
        step = self.step
        values: dict[str, Any] = {**step.constants, **(given or {}), **data}
        with np.errstate(all="ignore"):
            for node in self._nodes:
                self._run(node, values, passes)
        gradients = {n: np.asarray(values[source]) for n, source in step.gradients.items()}
        states = {n: np.asarray(values[source]) for n, source in step.states.items()}
        return Evaluation(float(np.asarray(values[step.loss]).reshape(())), gradients, states)

    def _run(self, node: Node, values: dict[str, Any], passes: int) -> None:
        operator = operator_of(node)
        operands = [_operand(values[n]) if n else None for n in node.inputs]
        if (place := training_of(node).passes) is not None:
            operands += [None] * (place + 1 - len(operands))
            operands[place] = np.array([passes], np.int32)
        results = operator.reference(node, operands)
        for name, value in zip(node.outputs, results, strict=False):
            if not name:
                continue
            kind = self.step.types[name]
            array = np.asarray(value)
            if array.size != kind.size:
                raise InternalError(f"{node.name} ({node.op}) gives {array.shape}, not {kind}")
            values[name] = array.reshape(kind.shape)


def _operand(array: Any) -> Array:
    """An operand as references take it: floats in float64, integers and truths as integers."""
    value = np.asarray(array)
    if value.dtype.kind == "f":
        return value.astype(np.float64, copy=False)
    return value.astype(np.int64, copy=False)
