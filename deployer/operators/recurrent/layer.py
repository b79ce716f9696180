"""What ONNX's recurrent layers share: attributes, directions, and what is done for all steps at once."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, Sample, mismatch, unsupported
from deployer.operators.inputs import floats
from deployer.operators.recurrent.forward_steps import ForwardSteps
from deployer.operators.recurrent.recurrence import drawn

DIRECTIONS: dict[str, tuple[int, ...]] = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
"""For each direction of a layer, whether its steps are done from the last one backwards."""
TIME_FIRST = 0
SWAPPED: tuple[int, ...] = (1, 0, 2)
REFUSED = ("clip", "activation_alpha", "activation_beta")
"""Attributes that no form here has."""
LENGTHS = 4
"""The position of sequence_lens."""
BIASES = 2
"""The bias of W and the bias of R, one behind the other."""


@dataclass(frozen=True)
class Sizes:
    """Steps, sequences, features of X, units, and directions."""

    time: int
    batch: int
    features: int
    units: int
    directions: int


@dataclass
class Parts:
    """Nodes under construction; a value in between has the name of its node."""

    prefix: str
    nodes: list[Node] = field(default_factory=list)

    def several(self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: AttrValue) -> None:
        """Append a node with these outputs."""
        name = f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(name, op, tuple(inputs), tuple(outputs), attrs))

    def emit(self, op: str, inputs: Sequence[str], output: str = "", **attrs: AttrValue) -> str:
        """Append a node; returns its output."""
        output = output or f"{self.prefix}/{op.lower()}{len(self.nodes)}"
        self.several(op, inputs, (output,), **attrs)
        return output

    def part(self, name: str, axis: int, begin: int, end: int) -> str:
        """Elements from begin to end along an axis."""
        return self.emit("Slice", (name,), starts=(begin,), ends=(end,), axes=(axis,), steps=(1,))


class RecurrentLayer(Operator):
    """X, W, R[, B, sequence_lens, initial states] to Y and the last states; each is optional.

    W and R have `gates` rows per unit. `activations` are the functions that a direction may have, the usual ones first.
    """

    composite = True
    gates: ClassVar[int]
    states: ClassVar[int] = 1
    activations: ClassVar[tuple[tuple[str, ...], ...]]
    trials: ClassVar[tuple[Mapping[str, AttrValue], ...]] = ({},)
    """Attributes of samples."""
    flags: ClassVar[tuple[str, ...]] = ("layout",)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Y[time, direction, batch, unit] and the last states [direction, batch, unit], or batch first."""
        self._check_attributes(node)
        sizes = self.sizes(node, inputs)
        state: tuple[int, ...] = (sizes.directions, sizes.batch, sizes.units)
        y: tuple[int, ...] = (sizes.time, *state)
        if node.attr_int("layout", TIME_FIRST) != TIME_FIRST:
            state, y = _swapped(state), (sizes.batch, sizes.time, sizes.directions, sizes.units)
        self._check_shapes(node, inputs, sizes, state)
        return (TensorType("float32", y), *[TensorType("float32", state)] * self.states)

    def _check_attributes(self, node: Node) -> None:
        """Raise UnsupportedOperator for an attribute, or a value of one, that has no form here."""
        for name in REFUSED:
            if node.attrs.get(name, ()) != ():
                raise unsupported(node, f"it has {name}", f"a layer without {name}")
        direction = node.attr_str("direction", "forward")
        if direction not in DIRECTIONS:
            raise unsupported(node, f"its direction is {direction!r}", f"one of {', '.join(DIRECTIONS)}")
        for index in range(len(DIRECTIONS[direction])):
            self.functions(node, index)

    def functions(self, node: Node, direction: int) -> tuple[str, ...]:
        """The activations of a direction; UnsupportedOperator where they are not among those of the layer."""
        usual, count = self.activations[0], len(self.activations[0])
        given = node.attr_texts("activations", ())
        chosen = tuple(name.capitalize() for name in given[direction * count : (direction + 1) * count])
        if given and (chosen not in self.activations or len(given) != count * len(self.reverses(node))):
            choices = " or ".join(", ".join(names) for names in self.activations)
            raise unsupported(node, f"its activations are {', '.join(given)}", f"{choices} for each direction")
        return chosen if given else usual

    def reverses(self, node: Node) -> tuple[int, ...]:
        """For each direction, whether its steps are done from the last one backwards."""
        return DIRECTIONS[node.attr_str("direction", "forward")]

    def sizes(self, node: Node, inputs: Sequence[TensorType | None]) -> Sizes:
        """The layer's sizes, from X and R."""
        x, _, r = floats(node, inputs, 3)
        if len(x.shape) != len(r.shape) or len(x.shape) != len(("time", "batch", "features")):
            raise mismatch(node, "X or R has not three axes", inputs)
        first, second, features = x.shape
        swapped = node.attr_int("layout", TIME_FIRST) != TIME_FIRST
        time, batch = (second, first) if swapped else (first, second)
        return Sizes(time, batch, features, r.shape[2], len(self.reverses(node)))

    def _check_shapes(
        self, node: Node, inputs: Sequence[TensorType | None], sizes: Sizes, state: tuple[int, ...]
    ) -> None:
        """Raise ShapeMismatch for an input of another shape, and UnsupportedOperator for one that has no form here."""
        if len(inputs) > LENGTHS and inputs[LENGTHS] is not None:
            raise unsupported(node, "it has sequence_lens", "sequences of one length, without that input")
        if len(inputs) > LENGTHS + self.states + 1:
            raise unsupported(node, "it has peepholes, the input P", "an LSTM without that input")
        rows, count = self.gates * sizes.units, sizes.directions
        shapes = [(count, rows, sizes.features), (count, rows, sizes.units), (count, BIASES * rows), (), state, state]
        for kind, shape in zip(inputs[1:], shapes, strict=False):
            if kind is not None and kind != TensorType("float32", shape):
                raise mismatch(node, f"{kind} is not float32{list(shape)}", inputs)
        if node.attr_int("hidden_size", sizes.units) != sizes.units:
            raise mismatch(node, f"hidden_size is {node.attrs['hidden_size']}, R has {sizes.units} units", inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, in each direction."""
        x, w, r, b, _, *initial = (*inputs, *[None] * (LENGTHS + 1 + self.states))[: LENGTHS + 1 + self.states]
        assert x is not None
        assert w is not None
        assert r is not None
        swapped = node.attr_int("layout", TIME_FIRST) != TIME_FIRST
        x = x.swapaxes(0, 1) if swapped else x
        initial = [s if s is None or not swapped else s.swapaxes(0, 1) for s in initial]
        units = r.shape[2]
        y = np.empty((len(x), len(w), x.shape[1], units), x.dtype)
        ends = []
        for d, reverse in enumerate(self.reverses(node)):
            states = [np.zeros((x.shape[1], units), x.dtype) if s is None else s[d] for s in initial]
            bias = np.zeros(BIASES * self.gates * units, x.dtype) if b is None else b[d]
            of_w, of_r = np.split(bias, BIASES)
            for t in range(len(x))[:: -1 if reverse else 1]:
                states = self.cell(node, d, x[t] @ w[d].T + of_w, states, r[d], of_r)
                y[t, d] = states[0]
            ends.append(states)
        lasts = [np.stack(of_state) for of_state in zip(*ends, strict=True)]
        if swapped:
            y, lasts = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in lasts]
        return tuple(np.ascontiguousarray(v, x.dtype) for v in (y, *lasts))

    @abstractmethod
    def cell(self, node: Node, direction: int, x: Array, states: Sequence[Array], r: Array, bias: Array) -> list[Array]:
        """The states after a step, in numpy: `x` is W X with its bias, `bias` that of R."""

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """For each direction one product for all steps, and the steps; what they give side by side."""
        sizes, parts = self.sizes(node, inputs), Parts(node.name)
        names = [*node.inputs, *[""] * (LENGTHS + 1 + self.states - len(node.inputs))]
        swapped = node.attr_int("layout", TIME_FIRST) != TIME_FIRST
        if swapped:
            for i in (0, *range(LENGTHS + 1, len(names))):
                names[i] = parts.emit("Transpose", (names[i],), perm=SWAPPED) if names[i] else ""
        rows = parts.emit("Reshape", names[:1], shape=(sizes.time * sizes.batch, sizes.features))
        results = [self._direction(node, parts, sizes, d, (rows, *names[1:])) for d in range(sizes.directions)]
        for axis, output, of_directions in zip((1, 0, 0), node.outputs, zip(*results, strict=True), strict=False):
            if output:
                self._joined(parts, sizes, axis, of_directions, (output, swapped))
        return parts.nodes

    def _direction(self, node: Node, parts: Parts, sizes: Sizes, d: int, names: Sequence[str]) -> list[str]:
        """The steps of a direction: Y[time, batch, unit] and the last states [batch, unit]."""
        rows, w, r, b, _, *initial = names
        width = self.gates * sizes.units

        def of_direction(name: str, *shape: int) -> str:
            if not name:
                return ""
            one = parts.part(name, 0, d, d + 1) if sizes.directions > 1 else name
            return parts.emit("Reshape", (one,), shape=shape)

        weights = of_direction(w, width, sizes.features), of_direction(r, width, sizes.units)
        of_w, of_r = self.biases(node, parts, of_direction(b, BIASES, width))
        product = parts.emit("Gemm", (rows, weights[0], of_w) if of_w else (rows, weights[0]), transB=1)
        x = parts.emit("Reshape", (product,), shape=(sizes.time, sizes.batch, width))
        states = [of_direction(name, sizes.batch, sizes.units) for name in initial]
        return self.recurrence(node, parts, d, (x, weights[1], of_r, *states))

    def biases(self, node: Node, parts: Parts, bias: str) -> tuple[str, str]:
        """The bias of W and that of R, if the steps need it apart, from both [2, gates x units]; the first has both."""
        return (parts.emit("ReduceSum", (bias,), axes=(0,), keepdims=0) if bias else "", "")

    @abstractmethod
    def recurrence(self, node: Node, parts: Parts, direction: int, names: Sequence[str]) -> list[str]:
        """Append the steps over W X, R, the bias of R and initial states; the names of Y and the last states."""

    def steps_of(
        self, node: Node, parts: Parts, direction: int, step: ForwardSteps, inputs: Sequence[str], **attrs: AttrValue
    ) -> list[str]:
        """Append the steps over these inputs; the names of what they have of Y and the last states.

        Their outputs are those, what a gradient reads, and the places of the state. What the node does not want is
        absent, but the cell of an LSTM, which the steps hand on where it is in the end.
        """
        stem, count = f"{parts.prefix}/{direction}", 1 + self.states
        wanted = [*node.outputs, *[""] * count]
        results = [f"{stem}/{i}" if i > 1 or wanted[i] else "" for i in range(count)]
        absent = [""] * (len(step.pointers(writes=True)) - count - 1)
        reverse = self.reverses(node)[direction]
        parts.several(step.name, inputs, (*results, *absent, f"{stem}/state"), reverse=reverse, **attrs)
        return results

    def _joined(self, parts: Parts, sizes: Sizes, axis: int, names: Sequence[str], output: tuple[str, bool]) -> None:
        """A result of all directions along a new axis, in the layer's layout."""
        name, swapped = output
        shape = (sizes.batch, sizes.units)
        whole = (sizes.time, 1, *shape) if axis else (1, *shape)
        several = len(names) > 1
        shaped = [parts.emit("Reshape", (n,), "" if several or swapped else name, shape=whole) for n in names]
        joined = parts.emit("Concat", shaped, "" if swapped else name, axis=axis) if several else shaped[0]
        if swapped:
            parts.emit("Transpose", (joined,), name, perm=(2, 0, 1, 3) if axis else SWAPPED)

    def samples(self) -> Iterator[Sample]:
        """All directions and layouts, with bias and states or without; other functions and attributes in two forms."""
        forms: list[tuple[str, bool, dict[str, AttrValue]]] = [("plain", False, {}), ("stated", True, {})]
        forms += [(name, True, {"direction": name}) for name in ("reverse", "bidirectional")]
        forms += [("batch_first", True, {"layout": 1, "direction": name}) for name in ("reverse", "bidirectional")]
        others = [form for form in forms if form[0] in ("stated", "bidirectional")]
        for number, (names, trial) in enumerate(product(self.activations, self.trials)):
            yield from self._of_forms(others if number else forms, names, trial)

    def _of_forms(
        self,
        forms: Sequence[tuple[str, bool, dict[str, AttrValue]]],
        names: tuple[str, ...],
        trial: Mapping[str, AttrValue],
    ) -> Iterator[Sample]:
        """Samples of these forms, a label, whether all inputs are there, and attributes."""
        for label, full, attrs in forms:
            count = len(DIRECTIONS[str(attrs.get("direction", "forward"))])
            chosen: dict[str, AttrValue] = {**attrs, **trial, "hidden_size": 4}
            if names != self.activations[0]:
                chosen["activations"] = names * count
            yield self._of_samples("_".join([label, names[-1].lower(), str(count), *trial]), full, chosen)

    def _of_samples(self, label: str, full: bool, attrs: dict[str, AttrValue]) -> Sample:
        """Five steps, three sequences, two features, four units; ONNX Runtime does not know batches first."""
        count, units, swapped = len(DIRECTIONS[str(attrs.get("direction", "forward"))]), 4, "layout" in attrs
        rows, state = self.gates * units, (3, count, units) if swapped else (count, 3, units)
        x, w, r, b, *states = (
            drawn(f"{self.name}{label}{i}", shape)
            for i, shape in enumerate(
                ((3, 5, 2) if swapped else (5, 3, 2), (count, rows, 2), (count, rows, units), (count, BIASES * rows))
                + (state,) * self.states
            )
        )
        inputs = (x, w, r, b, None, *states) if full else (x, w, r)
        return Sample(label, inputs, attrs, 1 + self.states, onnx=not swapped)


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in SWAPPED)
