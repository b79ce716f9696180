"""Recurrent layers of ONNX, RNN, LSTM and GRU: one product over X for all steps, then a recurrence or steps."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from deployer.core.ir import BIAS, START, WEIGHT, AttrValue, Node, TensorType
from deployer.core.operator import Array, Operator, mismatch, register, unsupported
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Training
from deployer.operators.base.operands import floats
from deployer.operators.recurrent.cells import (
    FUNCTIONS,
    GRU_GATES,
    LSTM_GATES,
    GRURecurrence,
    GRUStateRecurrence,
    LSTMRecurrence,
    RNNRecurrence,
)
from deployer.operators.recurrent.steps import ForwardSteps
from deployer.operators.recurrent.unrolled import (
    MAX_UNROLLED_STEPS,
    CellBuilder,
    CellSpec,
    Direction,
    Sizes,
    activations_of,
    add_masks,
    unrolled,
)

Names = Sequence[str]
DIRECTIONS: dict[str, tuple[int, ...]] = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}
"""Per value of `direction`, for each direction whether its steps run backwards in time."""
TIME_FIRST = 0
"""Value of `layout` with time as the first axis of X and Y."""
SWAPPED: tuple[int, ...] = (1, 0, 2)
LENGTHS = 4
"""Input position of sequence_lens."""
BIASES = 2
"""Number of bias vectors in B: that of W, then that of R."""


@dataclass(frozen=True)
class Weights:
    """Weights of a direction's steps: R, its bias and peepholes, as arrays or by name; None or empty if absent."""

    r: Any
    bias: Any
    peepholes: Any


class RecurrentLayer(Operator):
    """X, W, R[, B, sequence_lens, initial states] to Y and the last states; each is optional.

    W and R have `gates` rows per unit. `activations` are the functions that the recurrence supports, ONNX's default
    first. Other activations, clipping, coupled gates and peepholes are unrolled into nodes per step.
    """

    composite = True
    training = Training(learned={1: WEIGHT, 2: WEIGHT, 3: BIAS, 5: START, 6: START, 7: WEIGHT})
    gates: ClassVar[int]
    states: ClassVar[int] = 1
    peepholes: ClassVar[int] = 0
    """Rows of P per unit."""
    held: ClassVar[tuple[float, ...]] = ()
    """Gate inputs that keep the second state unchanged."""
    activations: ClassVar[tuple[tuple[str, ...], ...]]
    trials: ClassVar[tuple[Mapping[str, AttrValue], ...]] = ({},)
    """Attributes of samples."""
    rare: ClassVar[Mapping[str, AttrValue]]
    """Attributes of samples whose steps are unrolled."""
    written: ClassVar[tuple[Mapping[str, AttrValue], ...]] = ()
    """Further attributes for such samples, one set each."""
    file: ClassVar[FileSpec] = FileSpec(flags=("layout",))

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
        """Raise UnsupportedOperator for an unsupported direction, clip or activation."""
        direction = node.attr_str("direction", "forward")
        if direction not in DIRECTIONS:
            raise unsupported(node, f"its direction is {direction!r}", f"one of {', '.join(DIRECTIONS)}")
        if "clip" in node.attrs and not 0 < node.attr_float("clip", 0.0) < math.inf:
            raise unsupported(node, f"clip is {node.attrs['clip']}", "a number above 0, or none")
        self.specs(node)

    def specs(self, node: Node) -> list[CellSpec]:
        """Return the cell specification of each direction."""
        functions = activations_of(node, self.activations[0], len(self.reverses(node)))
        return [CellSpec(f, node.attr_float("clip", 0.0), bool(node.attr_int("input_forget", 0))) for f in functions]

    def has_recurrence(self, node: Node, spec: CellSpec) -> bool:
        """Whether the layer's recurrence supports this cell."""
        usual = [tuple(name.lower() for name in names) for names in self.activations]
        plain = tuple(f.name for f in spec.functions) in usual and not spec.clip and not spec.coupled
        return plain and not any(node.inputs[LENGTHS + self.states + 1 :])

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
        """Raise ShapeMismatch for an input of another type, and UnsupportedOperator for steps too many to write out."""
        rows, count, units = self.gates * sizes.units, sizes.directions, sizes.units
        shapes = [(count, rows, sizes.features), (count, rows, units), (count, BIASES * rows), (sizes.batch,)]
        expected = [TensorType("float32", shape) for shape in (*shapes, *[state] * self.states)]
        expected[LENGTHS - 1] = TensorType("int32", (sizes.batch,))
        expected.append(TensorType("float32", (count, self.peepholes * units)))
        for kind, wanted in zip(inputs[1:], expected, strict=False):
            if kind is not None and kind != wanted:
                raise mismatch(node, f"{kind} is not {wanted}", inputs)
        if node.attr_int("hidden_size", sizes.units) != sizes.units:
            raise mismatch(node, f"hidden_size is {node.attrs['hidden_size']}, R has {sizes.units} units", inputs)
        written = not all(self.has_recurrence(node, spec) for spec in self.specs(node))
        if written and sizes.time > MAX_UNROLLED_STEPS:
            why = f"it has {sizes.time} steps of a form that is written out step by step"
            usual = ", ".join(self.activations[0])
            raise unsupported(
                node, why, f"at most {MAX_UNROLLED_STEPS} steps; or {usual} without clip, input_forget and peepholes"
            )

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The steps one after the other, in each direction; behind its end a sequence keeps its state, with Y zero."""
        x, w, r, b, lengths, *more = (*inputs, *[None] * (LENGTHS + 2 + self.states))[: LENGTHS + 2 + self.states]
        assert x is not None
        assert w is not None
        assert r is not None
        *initial, peepholes = more
        swapped = node.attr_int("layout", TIME_FIRST) != TIME_FIRST
        x = x.swapaxes(0, 1) if swapped else x
        initial = [s if s is None or not swapped else s.swapaxes(0, 1) for s in initial]
        units, within = r.shape[2], _within(x, lengths)
        y = np.empty((len(x), len(w), x.shape[1], units), x.dtype)
        ends = []
        for d, (reverse, spec) in enumerate(zip(self.reverses(node), self.specs(node), strict=True)):
            states = [np.zeros((x.shape[1], units), x.dtype) if s is None else s[d] for s in initial]
            bias = np.zeros(BIASES * self.gates * units, x.dtype) if b is None else b[d]
            of_w, of_r = np.split(bias, BIASES)
            weights = Weights(r[d], of_r, None if peepholes is None else peepholes[d])
            for t in range(len(x))[:: -1 if reverse else 1]:
                new = self.cell(node, spec, x[t] @ w[d].T + of_w, states, weights)
                states = [np.where(within[t], a, b) for a, b in zip(new, states, strict=True)]
                y[t, d] = np.where(within[t], new[0], 0)
            ends.append([np.where(within[0], s, 0) for s in states])
        lasts = [np.stack(of_state) for of_state in zip(*ends, strict=True)]
        if swapped:
            y, lasts = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in lasts]
        return tuple(np.ascontiguousarray(v, x.dtype) for v in (y, *lasts))

    @abstractmethod
    def cell(self, node: Node, spec: CellSpec, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """The states after a step, in numpy: `x` is W X with its bias."""

    @abstractmethod
    def step(self, node: Node, spec: CellSpec, graph: CellBuilder, x: Names, states: Names, weights: Weights) -> Names:
        """Append a step's nodes; the names of the states after it.

        `x` are the gates of W X with the bias from `biases`, `weights` the result of `prepare_weights`.
        """

    def prepare_weights(self, node: Node, graph: CellBuilder, weights: Weights) -> Weights:
        """Weights in the layout that every step reads, computed once for all steps."""
        return weights

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """For each direction one product for all steps, and the steps; then the results of all directions joined."""
        graph = CellBuilder(node.name, self.sizes(node, inputs))
        sizes = graph.sizes
        names = [*node.inputs, *[""] * (LENGTHS + 2 + self.states - len(node.inputs))]
        swapped = node.attr_int("layout", TIME_FIRST) != TIME_FIRST
        if swapped:
            for i in (0, *range(LENGTHS + 1, LENGTHS + 1 + self.states)):
                names[i] = graph.emit("Transpose", (names[i],), perm=SWAPPED) if names[i] else ""
        if names[LENGTHS]:
            add_masks(graph, names[LENGTHS])
        rows = graph.emit("Reshape", names[:1], shape=(sizes.time * sizes.batch, sizes.features))
        wanted = tuple(map(bool, [*node.outputs, *[""] * (1 + self.states)][: 1 + self.states]))
        directions = [
            Direction(d, reverse, spec, wanted)
            for d, (reverse, spec) in enumerate(zip(self.reverses(node), self.specs(node), strict=True))
        ]
        results = [self._direction(node, graph, direction, (rows, *names[1:])) for direction in directions]
        for axis, output, of_directions in zip((1, 0, 0), node.outputs, zip(*results, strict=True), strict=False):
            if output:
                self._joined(graph, axis, of_directions, (output, swapped))
        return graph.nodes

    def _direction(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """The steps of a direction: Y[time, batch, unit] and the last states [batch, unit]."""
        rows, w, r, b, _, *initial, peepholes = names
        sizes, width = graph.sizes, self.gates * graph.sizes.units
        plain = self.has_recurrence(node, direction.spec)
        if plain and direction.reverse:
            rows = _mirrored_rows(graph, rows)

        def of_direction(name: str, *shape: int) -> str:
            if not name:
                return ""
            one = graph.slice_of(name, 0, direction.number, direction.number + 1) if sizes.directions > 1 else name
            return graph.emit("Reshape", (one,), shape=shape)

        weights = of_direction(w, width, sizes.features), of_direction(r, width, sizes.units)
        of_w, of_r = self.biases(node, graph, of_direction(b, BIASES, width))
        product = graph.emit("Gemm", (rows, weights[0], of_w) if of_w else (rows, weights[0]), transB=1)
        x = graph.emit("Reshape", (product,), shape=(sizes.time, sizes.batch, width))
        states = [of_direction(name, sizes.batch, sizes.units) for name in initial]
        if plain:
            steps = self._of_lengths if graph.masks else self.recurrence
            return steps(node, graph, direction, (x, weights[1], of_r, *states))
        own = self.prepare_weights(
            node, graph, Weights(weights[1], of_r, of_direction(peepholes, self.peepholes * sizes.units))
        )

        def step(of_step: str, before: Names) -> Names:
            gates = graph.gates(of_step, self.gates) if self.gates > 1 else [of_step]
            return self.step(node, direction.spec, graph, gates, before, own)

        return unrolled(graph, direction, x, states, step)

    def _of_lengths(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """A recurrence over sequences of several lengths, which go upwards: X was mirrored where they should not.

        Steps behind a sequence's end are done with the others, and their results are left out. The cell of an LSTM
        comes from the last step of all, so gates that are HELD carry it there.
        """
        assert graph.masks is not None
        masks, (x, *rest), (y_wanted, last_wanted, *cell_wanted) = graph.masks, names, direction.wanted
        if any(cell_wanted):
            x = graph.emit("Where", (masks.within, x, _held(graph, self.held)))
        inner = replace(direction, reverse=0, wanted=(True, False, *cell_wanted))
        y, _, *cells = self.recurrence(node, graph, inner, (x, *rest))
        last = ""
        if last_wanted:
            last = graph.emit("ReduceSum", (graph.masked(masks.last, y),), axes=(0,), keepdims=0)
        if y_wanted and direction.reverse:
            y = graph.emit("ReverseSequence", (y, masks.lengths), time_axis=0, batch_axis=1)
        y = graph.masked(masks.within, y) if y_wanted else ""
        if any(cell_wanted):
            some = graph.having(masks, 0)
            cells = [graph.masked(some, cell) for cell in cells]
        return [y, last, *cells]

    def biases(self, node: Node, graph: CellBuilder, bias: str) -> tuple[str, str]:
        """The bias of W and that of R, if the steps need it apart, from both [2, gates x units]; the first has both."""
        return (graph.emit("ReduceSum", (bias,), axes=(0,), keepdims=0) if bias else "", "")

    @abstractmethod
    def recurrence(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """Append the steps over W X, R, the bias of R and initial states; the names of Y and the last states."""

    def steps_of(
        self, graph: CellBuilder, direction: Direction, step: ForwardSteps, inputs: Names, **attrs: AttrValue
    ) -> list[str]:
        """Append the steps over these inputs; the names of what they have of Y and the last states.

        Their outputs are those, what a gradient reads, and the places of the state. What is not wanted is absent, but
        the cell of an LSTM, which the steps hand on where it is in the end.
        """
        stem = f"{graph.prefix}/{direction.number}"
        results = [f"{stem}/{i}" if i > 1 or wanted else "" for i, wanted in enumerate(direction.wanted)]
        absent = [""] * (len(step.pointers(writes=True)) - len(results) - 1)
        graph.several(step.name, inputs, (*results, *absent, f"{stem}/state"), reverse=direction.reverse, **attrs)
        return results

    def _joined(self, graph: CellBuilder, axis: int, names: Names, output: tuple[str, bool]) -> None:
        """A result of all directions along a new axis, in the layer's layout."""
        (name, swapped), sizes = output, graph.sizes
        shape = (sizes.batch, sizes.units)
        whole = (sizes.time, 1, *shape) if axis else (1, *shape)
        several = len(names) > 1
        shaped = [graph.emit("Reshape", (n,), "" if several or swapped else name, shape=whole) for n in names]
        joined = graph.emit("Concat", shaped, "" if swapped else name, axis=axis) if several else shaped[0]
        if swapped:
            graph.emit("Transpose", (joined,), name, perm=(2, 0, 1, 3) if axis else SWAPPED)


def _within(x: Array, lengths: Array | None) -> Array:
    """Return the mask [time, batch, 1] of steps that are within their sequences."""
    numbers = np.arange(len(x)).reshape(-1, 1, 1)
    return numbers < (len(x) if lengths is None else lengths.reshape(-1, 1)) | np.zeros((x.shape[1], 1), int)


def _mirrored_rows(graph: CellBuilder, rows: str) -> str:
    """X as rows with each sequence backwards, where there are lengths; else a recurrence goes backwards itself."""
    sizes, masks = graph.sizes, graph.masks
    if masks is None:
        return rows
    x = graph.emit("Reshape", (rows,), shape=(sizes.time, sizes.batch, sizes.features))
    mirrored = graph.emit("ReverseSequence", (x, masks.lengths), time_axis=0, batch_axis=1)
    return graph.emit("Reshape", (mirrored,), shape=(sizes.time * sizes.batch, sizes.features))


def _held(graph: CellBuilder, gates: Sequence[float]) -> str:
    """A constant [gates x units] with the same input for all units of a gate."""
    tall = graph.emit("Reshape", (graph.emit("Constant", (), value_floats=tuple(gates)),), shape=(len(gates), 1))
    return graph.emit("Reshape", (graph.emit("Expand", (tall,), shape=(len(gates), graph.sizes.units)),), shape=(-1,))


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in SWAPPED)


@register
class RNN(RecurrentLayer):
    """The plain recurrent layer, by tanh or relu, in one direction or two. h' = f(W X + R h + biases)."""

    name = "RNN"
    file = replace(RecurrentLayer.file, versions=(7, 14, 22))
    gates = 1
    activations = tuple((name,) for name in FUNCTIONS)
    rare: ClassVar = {"activations": ("Softplus", "Elu"), "activation_alpha": (0.5,)}

    def cell(self, node: Node, spec: CellSpec, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """f(x + R h + bias)."""
        return [spec.of(0, x + states[0] @ weights.r.T + weights.bias)]

    def step(self, node: Node, spec: CellSpec, graph: CellBuilder, x: Names, states: Names, weights: Weights) -> Names:
        """The same in nodes."""
        return [spec.emit(graph, 0, graph.emit("Gemm", (states[0], weights.r, *x), transB=1))]

    def recurrence(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """RNNRecurrence."""
        [activation] = direction.spec.functions
        [name] = (name for name in FUNCTIONS if name.lower() == activation.name)
        x, r, _, h = names
        return self.steps_of(graph, direction, RNNRecurrence(), (x, r, h), activation=name)


SATURATED = 1e30
"""Gate input at which sigmoid is exactly 1, and exactly 0 at its negative, whatever product is added."""


@register
class LSTM(RecurrentLayer):
    """Long short-term memory, in one direction or two. Gates input, output, forget, cell; two states, h and c."""

    name = "LSTM"
    gates = len(LSTM_GATES)
    states = 2
    activations = (("Sigmoid", "Tanh", "Tanh"),)
    peepholes = len(LSTM_GATES) - 1
    held = (-SATURATED, 0.0, SATURATED, 0.0)
    file = FileSpec(versions=(7, 14, 22), flags=("layout", "input_forget"))
    rare: ClassVar = {
        "activations": ("HardSigmoid", "Softsign", "LeakyRelu", "Sigmoid", "ScaledTanh", "Affine"),
        "activation_alpha": (0.25, 0.125, 1.5, 0.5),
        "activation_beta": (0.375, 0.75, 0.0625),
    }
    written = ({"input_forget": 1},)

    def cell(self, node: Node, spec: CellSpec, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """c' = f c + i g, h' = o act(c'); peepholes of i and f are on c, that of o is on c'."""
        h, c = states
        i, o, f, g = np.split(x + h @ weights.r.T + weights.bias, len(LSTM_GATES), axis=1)
        of_i, of_o, of_f = (0, 0, 0) if weights.peepholes is None else np.split(weights.peepholes, self.peepholes)
        i = spec.of(0, i + of_i * c)
        f = 1 - i if spec.coupled else spec.of(0, f + of_f * c)
        c = f * c + i * spec.of(1, g)
        return [np.asarray(spec.of(0, o + of_o * c) * spec.of(2, c)), np.asarray(c)]

    def prepare_weights(self, node: Node, graph: CellBuilder, weights: Weights) -> Weights:
        """Peepholes of each gate by themselves."""
        return replace(
            weights, peepholes=graph.gates(weights.peepholes, self.peepholes, 0) if weights.peepholes else ()
        )

    def step(self, node: Node, spec: CellSpec, graph: CellBuilder, x: Names, states: Names, weights: Weights) -> Names:
        """The same in nodes."""
        h, c = states
        sums = graph.gates(graph.emit("Gemm", (h, weights.r), transB=1), len(LSTM_GATES))
        i, o, f, g = (graph.emit("Add", pair) for pair in zip(x, sums, strict=True))
        of_i, of_o, of_f = weights.peepholes or ("", "", "")

        def gate(total: str, peephole: str, cell: str) -> str:
            seen = graph.emit("Add", (total, graph.emit("Mul", (cell, peephole)))) if peephole else total
            return spec.emit(graph, 0, seen)

        i = gate(i, of_i, c)
        f = graph.emit("Sub", (graph.number(1.0), i)) if spec.coupled else gate(f, of_f, c)
        kept, added = graph.emit("Mul", (f, c)), graph.emit("Mul", (i, spec.emit(graph, 1, g)))
        c = graph.emit("Add", (kept, added))
        return [graph.emit("Mul", (gate(o, of_o, c), spec.emit(graph, 2, c))), c]

    def recurrence(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """LSTMRecurrence; c of the end is always one of its results, as the steps hand it on there."""
        x, r, _, h, c = names
        return self.steps_of(graph, direction, LSTMRecurrence(), (x, r, h, c))


AFTER = "linear_before_reset"
"""ONNX's attribute: whether the reset gate is on the product with the state, as in PyTorch, or on the state itself."""


def is_after(node: Node) -> bool:
    """Whether the reset gate is on the product."""
    return bool(node.attr_int(AFTER, 0))


@register
class GRU(RecurrentLayer):
    """Gated recurrent units, in one direction or two.

    Gates update, reset, hidden; where `linear_before_reset` is set, the reset gate is on R h, else on h.
    """

    name = "GRU"
    gates = len(GRU_GATES)
    activations = (("Sigmoid", "Tanh"),)
    file = FileSpec(versions=(7, 14, 22), flags=("layout", AFTER))
    trials = ({}, {AFTER: 1})
    rare: ClassVar = {
        "activations": ("HardSigmoid", "Elu", "Sigmoid", "ThresholdedRelu"),
        "activation_alpha": (0.25, 0.5, 0.125),
    }

    def cell(self, node: Node, spec: CellSpec, x: Array, states: Sequence[Array], weights: Weights) -> list[Array]:
        """h' = (1 - z) n + z h."""
        [h] = states
        (x_z, x_r, x_n), (r_z, r_r, r_n), (b_z, b_r, b_n) = (
            np.split(v, len(GRU_GATES), axis=axis) for v, axis in ((x, 1), (weights.r, 0), (weights.bias, 0))
        )
        z, reset = spec.of(0, x_z + h @ r_z.T + b_z), spec.of(0, x_r + h @ r_r.T + b_r)
        product = reset * (h @ r_n.T + b_n) if is_after(node) else (reset * h) @ r_n.T + b_n
        return [np.asarray((1 - z) * spec.of(1, x_n + product) + z * h)]

    def prepare_weights(self, node: Node, graph: CellBuilder, weights: Weights) -> Weights:
        """R of both gates and R of the hidden one, where the reset gate is on the state."""
        if is_after(node):
            return weights
        units = graph.sizes.units
        ends = (0, 2 * units, len(GRU_GATES) * units)
        return replace(weights, r=[graph.slice_of(weights.r, 0, begin, end) for begin, end in pairwise(ends)])

    def step(self, node: Node, spec: CellSpec, graph: CellBuilder, x: Names, states: Names, weights: Weights) -> Names:
        """The same in nodes; h' = n + z (h - n)."""
        [h], (x_z, x_r, x_n) = states, x
        if is_after(node):
            bias = (weights.bias,) if weights.bias else ()
            r_z, r_r, r_n = graph.gates(graph.emit("Gemm", (h, weights.r, *bias), transB=1), len(GRU_GATES))
        else:
            r_z, r_r = graph.gates(graph.emit("Gemm", (h, weights.r[0]), transB=1), len(GRU_GATES) - 1)
        z, reset = (spec.emit(graph, 0, graph.emit("Add", pair)) for pair in ((x_z, r_z), (x_r, r_r)))
        if is_after(node):
            total = graph.emit("Add", (x_n, graph.emit("Mul", (reset, r_n))))
        else:
            total = graph.emit("Gemm", (graph.emit("Mul", (reset, h)), weights.r[1], x_n), transB=1)
        n = spec.emit(graph, 1, total)
        return [graph.emit("Add", (n, graph.emit("Mul", (z, graph.emit("Sub", (h, n))))))]

    def biases(self, node: Node, graph: CellBuilder, bias: str) -> tuple[str, str]:
        """Apart where the reset gate is on the product with its bias."""
        if not bias or not is_after(node):
            return super().biases(node, graph, bias)
        halves = [graph.slice_of(bias, 0, i, i + 1) for i in range(BIASES)]
        of_w, of_r = (graph.emit("Reshape", (name,), shape=(-1,)) for name in halves)
        return of_w, of_r

    def recurrence(self, node: Node, graph: CellBuilder, direction: Direction, names: Names) -> list[str]:
        """By where the reset gate is."""
        x, r, bias, h = names
        if is_after(node):
            return self.steps_of(graph, direction, GRURecurrence(), (x, r, bias, h))
        return self.steps_of(graph, direction, GRUStateRecurrence(), (x, r, h))
