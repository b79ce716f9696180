"""Rounding of a running mean, by what its sum adds up: of values that cancel little is left but their rounding.

A mean of n values is off by units of the mean of their magnitudes, sum |x| / n, however small it is itself.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deployer.core.ir import Node, Program
from deployer.core.operator import Array, numerics_of, operator_of
from deployer.verify.reference import Memory
from deployer.verify.tolerances import TOLERANCES


@dataclass(frozen=True, eq=False)
class MeanRounding:
    """Finds what the rounding of means does to statistics, the tensors of `changed` that they are added to."""

    program: Program
    changed: frozenset[str]
    units: dict[str, Array] = field(default_factory=dict)
    found: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def readers(self) -> dict[str, dict[int, str]]:
        """Nodes that add a mean to what a pass changes, with the places of their means."""
        made = set[str]()
        for node in self.program.graphs[0].nodes:
            centre = numerics_of(node).centre
            if centre is not None and centre.makes:
                made.add(node.outputs[centre.mean])
        rows = {}
        for node in self.program.graphs[0].nodes if made else ():
            means = {place: name for place, name in enumerate(node.inputs) if name in made}
            if means and any(self.program.layout(name)[0] in self.changed for name in node.outputs if name):
                rows[node.name] = means
        return rows

    def look(self, node: Node, memory: Memory) -> None:
        """Note what a node, which is about to run, sums, or what the rounding of its means does to its results."""
        centre = numerics_of(node).centre
        if centre is not None and centre.makes:
            self._sum(node, centre.mean, memory)
        elif node.name in self.readers:
            self._add(node, memory)

    def _sum(self, node: Node, mean: int, memory: Memory) -> None:
        """The operator's mean of magnitudes is what a unit of its sum is a share of."""
        values, *more = memory.operands(node)
        assert values is not None
        sizes = operator_of(node).reference(node, [np.abs(values), *more])[mean]
        self.units[node.outputs[mean]] = TOLERANCES.summed * np.asarray(sizes)

    def _add(self, node: Node, memory: Memory) -> None:
        """Compare the results of means that are a unit larger, or smaller."""
        operands = memory.operands(node)
        operator = operator_of(node)
        plain = operator.reference(node, operands)
        for sign in (-1, 1):
            shifted = list(operands)
            for place, name in self.readers[node.name].items():
                value = operands[place]
                assert value is not None
                shifted[place] = value + sign * self.units[name]
            for name, near, value in zip(node.outputs, operator.reference(node, shifted), plain, strict=False):
                root = self.program.layout(name)[0] if name else ""
                if root in self.changed:
                    off = np.nan_to_num(np.abs(near - value), nan=0.0, posinf=0.0).reshape(-1)
                    self.found[root] = np.fmax(self.found.get(root, 0.0), off)
