"""Declared operators of any number of operands: a chain of those of two, from left to right."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from deployer.core.ir import Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample, mismatch, rng
from deployer.operators.declared import DY, Declared, Spread, Y
from deployer.operators.inputs import normal


class Chained(Spread):
    """A declared operator of two operands whose node may have more of them, or one."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        if not inputs or inputs[0] is None:
            raise mismatch(node, "has no operands", inputs)
        result = inputs[0]
        for other in inputs[1:]:
            (result,) = super().infer(node, (result, other))
        return (result,)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """f(f(A, B), C), ..."""
        result, *others = (x for x in inputs if x is not None)
        for other in others:
            (result,) = super().reference(node, (result, other))
        return (np.asarray(result),)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """None for two operands, which the kernel takes; a chain for more, an Identity for one."""
        first, *others = node.inputs
        if len(others) == 1:
            return super().lower(node, inputs)
        if not others:
            return [replace(node, op="Identity")]
        nodes = []
        for number, other in enumerate(others, 1):
            last = number == len(others)
            out = node.outputs[0] if last else f"{node.outputs[0]}/link{number}"
            nodes.append(Node(node.name if last else f"{node.name}/link{number}", node.op, (first, other), (out,)))
            first = out
        return nodes

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """From the last link to the first; what the links before gave is computed again."""
        if len(node.inputs) == 1:
            b.reduce_to(douts[0], b.type(node.inputs[0]).shape, b.grad(0))
            return
        firsts = [node.inputs[0]]
        for name in node.inputs[1:-1]:
            firsts.append(b.temp("link"))
            b.emit(self.name, (firsts[-2], name), (firsts[-1],))
        dy, result = douts[0], node.outputs[0]
        for place in range(len(firsts) - 1, -1, -1):
            names = (firsts[place], node.inputs[place + 1])
            sources = dict(zip((x.name for x in self.operands), names, strict=True)) | {Y.name: result}
            before, after = (self.backward[x.name] for x in self.operands)
            if b.needs_grad(place + 1):
                self._link(after, {**sources, DY.name: dy}, names[1], b.grad(place + 1), b)
            if place and any(b.needs_grad(index) for index in range(place + 1)):
                further = b.temp("further")
                self._link(before, {**sources, DY.name: dy}, names[0], further, b)
                dy, result = further, names[0]
            elif b.needs_grad(0):
                self._link(before, {**sources, DY.name: dy}, names[0], b.grad(0), b)

    def _link(
        self, rule: type[Declared] | None, sources: dict[str, str], operand: str, out: str, b: GradientBuilder
    ) -> None:
        """The gradient of an operand of one link."""
        assert rule is not None
        whole = b.temp("each")
        b.emit(rule.name, [sources[x.name] for x in rule.operands], (whole,))
        b.reduce_to(whole, b.type(operand).shape, out)

    def samples(self) -> Iterator[Sample]:
        """Two operands, equal ones among them, one, and four."""
        yield from super().samples()
        if self.declared_by:
            return
        r = rng(sum(self.name.encode()))
        a = normal(r, 5, 7)
        yield Sample("one", (a,))
        yield Sample("four", (normal(r, 5, 1), a, normal(r), normal(r, 1, 7)))
