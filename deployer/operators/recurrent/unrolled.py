"""Unrolled steps of a recurrent layer, as nodes of their own, for variants that no recurrence supports.

Activations of any kind, clipped sums, coupled gates and peepholes are nodes between the products.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.ir import Node
from deployer.core.operator import Array, unsupported
from deployer.operators.base.operands import Construction
from deployer.operators.recurrent.steps import sigmoid


@dataclass(frozen=True)
class Sizes:
    """Steps, sequences, features of X, units, and directions."""

    time: int
    batch: int
    features: int
    units: int
    directions: int


@dataclass(frozen=True)
class Masks:
    """Lengths of sequences, and masks [time, batch, 1] of the steps within them, and of their last steps."""

    lengths: str
    column: str
    within: str
    last: str


@dataclass
class CellBuilder(Construction):
    """Builder of the nodes of a layer; it has `masks` if the layer has sequence lengths."""

    sizes: Sizes
    masks: Masks | None = None

    def slice_of(self, name: str, axis: int, begin: int, end: int) -> str:
        """Elements from begin to end along an axis."""
        return self.emit("Slice", (name,), starts=(begin,), ends=(end,), axes=(axis,), steps=(1,))

    def gates(self, name: str, count: int, axis: int = 1) -> list[str]:
        """Split an axis into its gates."""
        names = [f"{name}/{i}" for i in range(count)]
        self.several("Split", (name,), names, axis=axis, split=(self.sizes.units,) * count)
        return names

    def steps(self, first: int, count: int) -> str:
        """A constant: the integers from `first` on, as [time, 1, 1]."""
        plain = self.emit("Constant", (), value_ints=tuple(range(first, first + count)))
        return self.emit("Reshape", (plain,), shape=(count, 1, 1))

    def having(self, masks: Masks, step: int) -> str:
        """Append which sequences [batch, 1] have the step of that number."""
        number = self.emit("Constant", (), value_int=step)
        return self.emit("SequenceMask", (number, masks.column), steps=self.sizes.time)

    def masked(self, mask: str, name: str) -> str:
        """A value where a mask is true, else zeros."""
        return self.emit("Where", (mask, name, self.number(0.0)))


def add_masks(graph: CellBuilder, lengths: str) -> None:
    """Append the masks of a layer."""
    sizes = graph.sizes
    column = graph.emit("Reshape", (lengths,), shape=(sizes.batch, 1))
    within = graph.emit("SequenceMask", (graph.steps(0, sizes.time), column))
    last = graph.emit("And", (within, graph.emit("Equal", (graph.steps(1, sizes.time), column))))
    graph.masks = Masks(lengths, column, within, last)


MAX_UNROLLED_STEPS = 1024
"""Largest number of steps that are unrolled."""
Function = Callable[[Array, float, float], Array]


@dataclass(frozen=True)
class Kind:
    """Activation function of ONNX: the operator of that name, and the defaults of its attributes.

    A default of None means that a node has to say the number; `takes` are the attributes that there are.
    """

    function: Function
    operator: str
    takes: Mapping[str, float | None]


ALPHA, BETA = "alpha", "beta"
_OWN: Mapping[str, float | None] = {ALPHA: None, BETA: None}
KINDS: Mapping[str, Kind] = {
    "relu": Kind(lambda x, a, b: np.maximum(x, 0), "Relu", {}),
    "tanh": Kind(lambda x, a, b: np.tanh(x), "Tanh", {}),
    "sigmoid": Kind(lambda x, a, b: sigmoid(x), "Sigmoid", {}),
    "affine": Kind(lambda x, a, b: a * x + b, "", _OWN),
    "leakyrelu": Kind(lambda x, a, b: np.where(x < 0, a * x, x), "LeakyRelu", {ALPHA: 0.01}),
    "thresholdedrelu": Kind(lambda x, a, b: np.where(x > a, x, 0), "ThresholdedRelu", {ALPHA: 1.0}),
    "scaledtanh": Kind(lambda x, a, b: a * np.tanh(b * x), "Tanh", _OWN),
    "hardsigmoid": Kind(lambda x, a, b: np.clip(a * x + b, 0, 1), "HardSigmoid", {ALPHA: 0.2, BETA: 0.5}),
    "elu": Kind(lambda x, a, b: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x), "Elu", {ALPHA: 1.0}),
    "softsign": Kind(lambda x, a, b: x / (1 + np.abs(x)), "Softsign", {}),
    "softplus": Kind(lambda x, a, b: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), "Softplus", {}),
}
"""By ONNX's names in small letters, which is how names are compared."""


@dataclass(frozen=True)
class Activation:
    """A function with its numbers."""

    name: str
    numbers: tuple[tuple[str, float], ...] = ()

    def of(self, x: Array) -> Array:
        """The function in numpy."""
        numbers = {ALPHA: 1.0, BETA: 0.0} | dict(self.numbers)
        alpha, beta = (x.dtype.type(numbers[name]) for name in (ALPHA, BETA))
        return np.asarray(KINDS[self.name].function(x, alpha, beta), x.dtype)

    def emit(self, graph: CellBuilder, x: str) -> str:
        """Append the function; ScaledTanh and Affine are no operators of ONNX."""
        kind, numbers = KINDS[self.name], dict(self.numbers)
        if kind.takes is not _OWN:
            return graph.emit(kind.operator, (x,), output="", **numbers)
        alpha, beta = (graph.number(numbers[name]) for name in (ALPHA, BETA))
        if kind.operator:
            inner = graph.emit(kind.operator, (graph.emit("Mul", (x, beta)),))
            return graph.emit("Mul", (inner, alpha))
        return graph.emit("Add", (graph.emit("Mul", (x, alpha)), beta))


@dataclass(frozen=True)
class CellSpec:
    """Cell specification of a direction: activations, the bound of their inputs, and coupling of gates.

    With `coupled` the forget gate is one minus the input gate.
    """

    functions: tuple[Activation, ...]
    clip: float = 0.0
    coupled: bool = False

    def of(self, index: int, x: Array) -> Array:
        """An activation in numpy, of the clipped input."""
        return self.functions[index].of(np.clip(x, -self.clip, self.clip) if self.clip else x)

    def emit(self, graph: CellBuilder, index: int, x: str) -> str:
        """Append an activation, and the clip before it."""
        return self.functions[index].emit(
            graph, graph.emit("Clip", (x,), min=-self.clip, max=self.clip) if self.clip else x
        )


def activations_of(node: Node, usual: Sequence[str], directions: int) -> list[tuple[Activation, ...]]:
    """The activations of each direction, with their numbers; UnsupportedOperator where ONNX has no such function.

    Numbers are for those functions that take one, in order, and a default is for the rest.
    """
    given = node.attr_texts("activations", ()) or tuple(usual) * directions
    names = [name.lower() for name in given]
    if len(names) != len(usual) * directions or not set(names) <= KINDS.keys():
        count = f"{len(usual)} for each direction"
        raise unsupported(node, f"its activations are {', '.join(given)}", f"{count}, of {', '.join(KINDS)}")
    numbers = {word: _numbers(node, names, word) for word in (ALPHA, BETA)}
    chosen = [
        Activation(name, tuple((word, numbers[word][i]) for word in (ALPHA, BETA) if word in KINDS[name].takes))
        for i, name in enumerate(names)
    ]
    return [tuple(chosen[i : i + len(usual)]) for i in range(0, len(chosen), len(usual))]


def _numbers(node: Node, names: Sequence[str], word: str) -> dict[int, float]:
    """The number of each function that takes one, by its place."""
    attribute = f"activation_{word}"
    given, takers = list(node.attr_floats(attribute, ())), [i for i, n in enumerate(names) if word in KINDS[n].takes]
    if len(given) > len(takers):
        why = f"{attribute} has {len(given)} numbers, and {len(takers)} of its activations take one"
        raise unsupported(node, why, "a number for each function that takes one")
    values: dict[int, float] = {}
    for place, index in enumerate(takers):
        value = given[place] if place < len(given) else KINDS[names[index]].takes[word]
        if value is None:
            raise unsupported(node, f"{names[index]} has no {word}", f"{attribute} with a number for it")
        values[index] = float(np.float32(value))
    return values


@dataclass(frozen=True)
class Direction:
    """Direction of a layer: its number, whether its steps run backwards, its cell, and which outputs are wanted.

    The outputs are Y and the last states.
    """

    number: int
    reverse: int
    spec: CellSpec
    wanted: tuple[bool, ...]


Step = Callable[[str, Sequence[str]], Sequence[str]]
"""Build one step: from the step's W X and the states before it to the states after it."""


def unrolled(graph: CellBuilder, direction: Direction, x: str, states: Sequence[str], step: Step) -> list[str]:
    """Append the steps over x[time, batch, gates x units]; the names of Y[time, batch, unit] and the last states.

    Behind its end a sequence keeps its states, and Y is zero there; one without steps ends in zeros.
    """
    sizes, masks = graph.sizes, graph.masks
    width, zero = (sizes.batch, sizes.units), ""
    if not all(states):
        zero = graph.emit("Expand", (graph.number(0.0),), shape=width)
    now, rows = [state or zero for state in states], dict[int, str]()
    for t in range(sizes.time)[:: -1 if direction.reverse else 1]:
        of_step = graph.emit("Reshape", (graph.slice_of(x, 0, t, t + 1),), shape=(sizes.batch, -1))
        new = list(step(of_step, now))
        if masks is not None:
            within = graph.having(masks, t)
            new = [graph.emit("Where", (within, a, b)) for a, b in zip(new, now, strict=True)]
        now, rows[t] = new, graph.emit("Reshape", (new[0],), shape=(1, *width))
    y = graph.emit("Concat", [rows[t] for t in range(sizes.time)], axis=0)
    if masks is None:
        return [y, *now]
    some = graph.having(masks, 0)
    return [graph.masked(masks.within, y), *(graph.masked(some, state) for state in now)]
