"""Recurrences that are differentiated: what their gradients read, and the gradients that are ordinary products."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.declarations import Fans
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, Sample
from deployer.operators.recurrent.steps.recurrence import PLACES, Recurrence, drawn
from deployer.operators.view import reshape_to

WEIGHTS = "r"
"""The kernel pointer of R, [gates x units, units]."""


class ForwardSteps(Recurrence):
    """The steps of a layer: X, R and what a subclass has besides, to Y, the last state, and others.

    The gradient reads the outputs `saved`; the first `results` outputs have a gradient.
    """

    saved: ClassVar[tuple[str, ...]]
    results: ClassVar[int] = 2
    states: ClassVar[tuple[str, ...]]
    """Initial states among the inputs."""
    no_gradient = ""

    def training_form(self, node: Node, fresh: Callable[[str], str]) -> Node:
        """With what the gradient reads as outputs."""
        named = zip(self.pointers(writes=True), self.outputs_of(node), strict=True)
        outputs = [name or (fresh(f"{node.name}_{arg}") if arg in self.saved else "") for arg, name in named]
        return replace(node, outputs=tuple(outputs))

    def fans(self, node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
        """R leads from the units of a step to all gates of the next."""
        position = self.pointers(writes=False).index(WEIGHTS)
        gates, units = types[node.inputs[position]].shape
        return {position: Fans(units, gates)}

    def kept(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> dict[str, str]:
        """What the gradient reads, computed again where the node did not save it; errors for other gradients."""
        if any(douts[self.results :]):
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only its first outputs have a gradient")
        named = dict(zip(self.pointers(writes=True), self.outputs_of(node), strict=True))
        if not all(named[arg] for arg in self.saved):
            given = {arg for arg, name in named.items() if name} | {*self.saved}
            named = {arg: b.temp(arg) if arg in given else "" for arg in named}
            b.emit(node.op, node.inputs, tuple(named.values()), **node.attrs)
        return {arg: named[arg] for arg in self.saved}

    def weights_gradient(self, b: GradientBuilder, steps: str, before: str, target: str) -> None:
        """dR: the gradients of the gates times the states before their steps, summed over all steps."""
        left, right = rows(b, steps, "step_rows"), rows(b, before, "state_rows")
        b.emit("Gemm", (left, right), (target,), transA=1, beta=0.0)

    def first_step(self, node: Node, b: GradientBuilder, steps: str) -> str:
        """The gradients [batch, gates x units] at the step that was done first."""
        time, batch, width = b.type(steps).shape
        first, flat = self.steps(node, time)[0], b.temp("first_rows")
        reshape_to(b, part_of(b, steps, 0, first, first + 1), (batch, width), flat)
        return flat

    def drawn_inputs(self, shape: tuple[int, int, int], stated: bool) -> dict[str, Array | None]:
        """Values of the inputs by pointer, for so many steps, sequences and units."""
        time, batch, units = shape
        sizes = {"t": time, "b": batch, "u": units, "h": units, **PLACES, **self.per_unit}
        values: dict[str, Array | None] = {}
        for arg in self.pointers(writes=False):
            scale = np.float32(1 / np.sqrt(units) if arg == WEIGHTS else 1)
            present = stated or arg not in self.states
            values[arg] = drawn(f"{self.name}{arg}", self.shape(arg, sizes)) * scale if present else None
        return values

    def sample(self, label: str, shape: tuple[int, int, int], stated: bool, attrs: Mapping[str, AttrValue]) -> Sample:
        """All outputs."""
        inputs = tuple(self.drawn_inputs(shape, stated).values())
        return Sample(label, inputs, dict(attrs), len(self.pointers(writes=True)), onnx=False)


def part_of(b: GradientBuilder, name: str, axis: int, begin: int, end: int) -> str:
    """Elements from begin to end along an axis."""
    bounds = [b.constant(label, np.array([n])) for label, n in (("start", begin), ("end", end), ("axis", axis))]
    part = b.temp("part")
    b.emit("Slice", (name, *bounds), (part,))
    return part


def rows(b: GradientBuilder, name: str, label: str) -> str:
    """A sequence [time, batch, features] as the rows of one matrix."""
    time, batch, width = b.type(name).shape
    flat = b.temp(label)
    reshape_to(b, name, (time * batch, width), flat)
    return flat


class BackwardSteps(Recurrence):
    """The gradient of the steps of `forward`, from its last step back to its first."""

    forward: ClassVar[ForwardSteps]
    backwards = True

    def sample(self, label: str, shape: tuple[int, int, int], stated: bool, attrs: Mapping[str, AttrValue]) -> Sample:
        """What the forward steps saved, and gradients of their results: of all, or of Y alone."""
        given = self.forward.drawn_inputs(shape, stated)
        node = Node(label, self.forward.name, tuple(given), (), dict(attrs))
        results = self.forward.reference(node, list(given.values()))
        named = {**given, **dict(zip(self.forward.pointers(writes=True), results, strict=True))}
        inputs: list[Array | None] = []
        for arg in self.pointers(writes=False):
            of = arg.removeprefix("d")
            value = named.get(arg)
            if arg not in named and (stated or of == "y"):
                like = named[of]
                assert like is not None
                value = drawn(arg, like.shape)
            inputs.append(value)
        return Sample(label, tuple(inputs), dict(attrs), len(self.pointers(writes=True)), onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Those of several steps: the first one has no product."""
        yield from (sample for sample in super().sweep() if sample.inputs[0] is not None and len(sample.inputs[0]) > 1)
