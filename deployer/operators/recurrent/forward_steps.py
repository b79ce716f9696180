"""Recurrences that are differentiated: what their gradients read, and the gradients that are ordinary products."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, GradientBuilder, Sample
from deployer.operators.recurrent.recurrence import Recurrence, drawn
from deployer.operators.view import reshape_to


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

    def kept(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> dict[str, str]:
        """What the gradient reads, computed again where the node did not save it; errors for other gradients."""
        if any(douts[self.results :]):
            raise NotDifferentiable(f"node {node.name!r} ({node.op}): only its first outputs have a gradient")
        named = dict(zip(self.pointers(writes=True), self.outputs_of(node), strict=True))
        if not all(named[arg] for arg in self.saved):
            named = {arg: b.temp(arg) if arg in (*self.saved, *self.needed) else "" for arg in named}
            b.emit(node.op, node.inputs, tuple(named.values()), **node.attrs)
        return {arg: named[arg] for arg in self.saved}

    def weights_gradient(self, b: GradientBuilder, steps: str, before: str, target: str) -> None:
        """dR: the gradients of the gates times the states before their steps, summed over all steps."""
        left, right = rows(b, steps, "step_rows"), rows(b, before, "state_rows")
        b.emit("Gemm", (left, right), (target,), transA=1, beta=0.0)

    def first_gradient(self, node: Node, b: GradientBuilder, steps: str, target: str, more: str = "") -> None:
        """The gradient of the initial state: what arrives at the first step through R, and `more`."""
        time, batch, width = b.type(steps).shape
        first = self.steps(node, time)[0]
        bounds = [b.constant(label, np.array([n])) for label, n in (("start", first), ("end", first + 1), ("axis", 0))]
        step, flat = b.temp("first_step"), b.temp("first_rows")
        b.emit("Slice", (steps, *bounds), (step,))
        reshape_to(b, step, (batch, width), flat)
        b.emit("Gemm", (flat, node.inputs[1], more)[: 3 if more else 2], (target,), beta=float(bool(more)))

    def drawn_inputs(self, shape: tuple[int, int, int], stated: bool) -> dict[str, Array | None]:
        """Values of the inputs by pointer, for so many steps, sequences and units."""
        time, batch, units = shape
        sizes = {"t": time, "b": batch, "u": units, "h": units, "p": 2, "g": self.gates, "s": self.stored}
        values: dict[str, Array | None] = {}
        for arg in self.pointers(writes=False):
            scale = np.float32(1 / np.sqrt(units) if arg == "r" else 1)
            present = stated or arg not in self.states
            values[arg] = drawn(f"{self.name}{arg}", self.shape(arg, sizes)) * scale if present else None
        return values

    def sample(
        self, label: str, shape: tuple[int, int, int], stated: bool, attrs: Mapping[str, AttrValue]
    ) -> Sample:
        """All outputs."""
        inputs = tuple(self.drawn_inputs(shape, stated).values())
        return Sample(label, inputs, dict(attrs), len(self.pointers(writes=True)), onnx=False)


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

    def sample(
        self, label: str, shape: tuple[int, int, int], stated: bool, attrs: Mapping[str, AttrValue]
    ) -> Sample:
        """What the forward steps saved, and gradients of their results: of all, or of Y alone."""
        given = self.forward.drawn_inputs(shape, stated)
        node = Node(label, self.forward.name, tuple(given), (), dict(attrs))
        results = self.forward.reference(node, list(given.values()))
        named = {**given, **dict(zip(self.forward.pointers(writes=True), results, strict=True))}
        inputs: list[Array | None] = []
        for arg in self.pointers(writes=False):
            of = arg.removeprefix("d")
            value = named[arg] if arg in named else None
            if arg not in named and (stated or of == "y"):
                like = named[of]
                assert like is not None
                value = drawn(arg, like.shape)
            inputs.append(value)
        return Sample(label, tuple(inputs), dict(attrs), len(self.pointers(writes=True)), onnx=False)
