"""Steps through time: one tile loop whose dim `time` is the loop over time, and their gradients."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Axis, Dim, Mirror, Operand, Whole
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.kernel import ArgValue, Const, CType, Extent, Kernel, Start, Stride, Work
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import Array, GradientBuilder, Operator, mismatch, operator_of, rng
from deployer.core.samples import Sample
from deployer.core.traits.file import FileSpec
from deployer.core.traits.training import Fans, Training
from deployer.operators.base.operands import floats, normal
from deployer.operators.base.views import reshape_to

DIMS = {"t": "time", "b": "batch", "k": "gate", "u": "unit"}
"""The dims by their letters in a layout."""
PLACES = {"p": 2, "q": 4}
"""Places of a state that takes turns in two of them, and with two more for what a step has of all its units besides."""
COMMON: dict[str, ArgValue] = {
    **{name: Extent(name) for name in ("time", "batch", "unit")},
    "start": Start("time"),
    "first_unit": Start("unit"),
}
"""Scalars that every kernel takes: lengths of the tile, its first step and its first unit."""
BY_GATE: dict[str, ArgValue] = {"gate": Extent("gate"), "first_gate": Start("gate")}
"""Scalars of a kernel by gate: how many the tile has, and its first."""


def is_strided(layout: str, axis: int) -> bool:
    """Whether the elements between neighbours along an axis depend on the tile: on what is cut behind it."""
    return not set(DIMS).isdisjoint(layout[axis + 1 :])


def recurrence_kernel(symbol: str, layout: Mapping[str, str], outputs: Sequence[str], *more: str) -> Kernel:
    """The kernel of a recurrence with that layout; `more` are further scalars."""
    strides = (f"{arg}_{c}" for arg, axes in layout.items() for i, c in enumerate(axes) if is_strided(axes, i))
    scalars: list[tuple[str, CType]] = [(n, "u32") for n in (*COMMON, "hidden", "mirrored", *strides, *more)]
    return Kernel(symbol, tuple((arg, "float32", arg in outputs) for arg in layout), tuple(scalars))


def optional_outputs(kernel: Kernel, needed: Sequence[str]) -> dict[str, int]:
    """The positions of outputs that a node may lack, by their pointers."""
    outputs = [name for name, _, is_output in kernel.pointers if is_output]
    return {name: position for position, name in enumerate(outputs) if name not in needed}


class Recurrence(Operator):
    """The steps of a layer in one direction, from the last one backwards where `reverse` is set.

    `layout` says per kernel pointer which axes its tensor has: t time, b sequences of the batch, g `gates` per unit,
    s `stored` numbers per unit, u units of a tile, h all units, p or q places of a state. In the tensor g and s are
    one axis with the one behind. Pointers are those of inputs, then of outputs; `needed` may not be absent.

    A step reads the state that the step before has left, in one of its two places, and writes the other, so a tile of
    one step may have some of the units. A tile of several has all of them, and a core keeps to its sequences. Steps
    whose gates wait for each other are `by_gate`: k of the layout is their gate in a tile, and a tile of one gate may
    have some of the units; what is not along them stays for all gates of a step.
    """

    kernel: ClassVar[Kernel]
    layout: ClassVar[dict[str, str]]
    needed: ClassVar[tuple[str, ...]]
    gates: ClassVar[int]
    stored: ClassVar[int] = 0
    functions: ClassVar[int]
    """Exponentials, tangents and the like, per unit and step."""
    by_gate = False
    """Whether a gate needs what another has made of all units of the step."""
    backwards = False
    """Whether the steps run against the layer's direction."""
    variants: ClassVar[tuple[Mapping[str, AttrValue], ...]] = ({},)
    """Attributes of samples besides the direction."""
    file: ClassVar[FileSpec] = FileSpec(flags=("reverse",))
    no_gradient = "it belongs to a backward pass"

    def pointers(self, writes: bool) -> list[str]:
        """Names of the inputs, or of the outputs."""
        return [name for name, _, is_output in self.kernel.pointers if is_output == writes]

    def padded(self, inputs: Sequence[Array | None]) -> list[Array | None]:
        """The inputs with None for each that is absent at the end."""
        return [*inputs, *[None] * (len(self.pointers(writes=False)) - len(inputs))]

    def place(self, arg: str) -> int:
        """The position of an input."""
        return self.pointers(writes=False).index(arg)

    @property
    def per_unit(self) -> dict[str, int]:
        """The lengths behind the letters of what there are several of for each unit."""
        return {"g": self.gates, "k": self.gates, "s": self.stored}

    def sizes(self, node: Node, inputs: Sequence[TensorType | None]) -> dict[str, int]:
        """The length behind each letter, from the first input, which has steps of gates."""
        first = floats(node, inputs, 1)[0]
        arg = self.pointers(writes=False)[0]
        blocks = self.per_unit[self.layout[arg][2]]
        if len(first.shape) != len(("time", "batch", "units")) or first.shape[2] % blocks:
            raise mismatch(node, f"its first input is not [time, batch, {blocks} x units]", inputs)
        time, batch, width = first.shape
        units = width // blocks
        return {"t": time, "b": batch, "u": units, "h": units, **PLACES, **self.per_unit}

    def shape(self, arg: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of a pointer's tensor."""
        shape: list[int] = []
        joined = 1
        for letter in self.layout[arg]:
            joined *= sizes[letter]
            if letter not in self.per_unit:
                shape.append(joined)
                joined = 1
        return tuple(shape)

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Each operand has the shape of its layout."""
        sizes = self.sizes(node, inputs)
        for arg, kind in zip(self.pointers(writes=False), [*inputs, *[None] * len(self.layout)], strict=False):
            expected = TensorType("float32", self.shape(arg, sizes))
            if kind is None and arg in self.needed:
                raise mismatch(node, f"its input {arg!r} is absent", inputs)
            if kind is not None and kind != expected:
                raise mismatch(node, f"its input {arg!r} is {kind}, not {expected}", inputs)
        for arg, name in zip(self.pointers(writes=True), self.outputs_of(node), strict=True):
            if not name and arg in self.needed:
                raise mismatch(node, f"its output {arg!r} is absent", inputs)
        return tuple(TensorType("float32", self.shape(arg, sizes)) for arg in self.pointers(writes=True))

    def outputs_of(self, node: Node) -> list[str]:
        """The node's outputs, one for each pointer."""
        count = len(self.pointers(writes=True))
        return [*node.outputs, *[""] * (count - len(node.outputs))]

    def steps(self, node: Node, count: int) -> range:
        """The indices of the steps in the order in which they are done."""
        return range(count)[:: -1 if self.mirrored(node) else 1]

    def mirrored(self, node: Node) -> bool:
        """Whether the steps are done from the last one backwards."""
        return bool(node.attr_int("reverse", 0)) != self.backwards

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """The sequences of a batch are parallel; steps, gates and units, each within the other, are in their order."""
        inputs = [types[name] if name else None for name in node.inputs]
        sizes = self.sizes(node, inputs)
        time = Mirror("time") if self.mirrored(node) else At("time")
        axes: dict[str, Axis] = {"t": time, **{letter: At(DIMS[letter]) for letter in "bku"}}
        outputs, listed = iter(self.outputs_of(node)), []
        names = iter([*node.inputs, *[""] * (len(self.layout) - len(node.inputs))])
        for arg, _, is_output in self.kernel.pointers:
            name = next(outputs) if is_output else next(names)
            if name:
                letters = self.layout[arg]
                view, maps = tuple(sizes[c] for c in letters), tuple(axes.get(c, Whole()) for c in letters)
                listed.append(Operand(arg, name, "out" if is_output else "in", view, maps))
        letters = "tku" if self.by_gate else "tu"
        steps = (Dim(DIMS[letter], sizes[letter], "reduction") for letter in letters)
        return Access((Dim("batch", sizes["b"]), *steps), tuple(listed))

    def constants(self, node: Node) -> dict[str, ArgValue]:
        """Kernel arguments of this operator alone."""
        return BY_GATE if self.by_gate else {}

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile, the layer, and strides, which are 0 for an absent operand."""
        present = {operand.arg for operand in access.operands}
        values = dict(COMMON)
        values |= {"steps": Const(access.dim("time").size), "hidden": Const(access.dim("unit").size)}
        values["mirrored"] = Const(int(self.mirrored(node)))
        for arg, letters in self.layout.items():
            for axis, letter in enumerate(letters):
                if is_strided(letters, axis):
                    values[f"{arg}_{letter}"] = Stride(arg, axis) if arg in present else Const(0)
        values |= self.constants(node)
        return {name: values[name] for name, _ in self.kernel.scalars}

    def work(self, node: Node, access: Access, tile: Mapping[str, int], model: KernelModel) -> Work:
        """Each unit is a product with the state per gate, and some functions; cores share units of one step or gate."""
        units = tile["time"] * tile["batch"] * tile["unit"]
        gates = tile["gate"] if self.by_gate else self.gates
        alone = tile["time"] == 1 and (gates == 1 or not self.by_gate)
        pieces = tile["batch"] * (tile["unit"] if alone else 1)
        products = units * gates * access.dim("unit").size
        return Work(products, units * self.functions * model.transcendental_elements * gates // self.gates, pieces)

    @abstractmethod
    def sample(self, label: str, shape: tuple[int, int, int], stated: bool, attrs: Mapping[str, AttrValue]) -> Sample:
        """A sample of so many steps, sequences and units, with states or without."""


def drawn(seed: str, shape: tuple[int, ...]) -> Array:
    """Normal values of half the deviation, by a name."""
    return normal(rng(sum(seed.encode())), *shape) * np.float32(0.5)


def state_or_zero(state: Array | None, x: Array, units: int) -> Array:
    """A state, or zeros where there is none, for X[time, batch, ...]."""
    return np.zeros((x.shape[1], units), x.dtype) if state is None else state


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, power, 1) / (1 + power), x.dtype)


def two_places(steps: Sequence[Array], initial: Array) -> Array:
    """Return the final content of a state's two slots: step n, from 0 on, writes slot (n + 1) mod 2."""
    values = [initial, *steps]
    last = len(values) - 1
    return np.stack([values[last - last % 2], values[last - 1 + last % 2]])


WEIGHTS = "r"
"""The kernel pointer of R, [gates x units, units]."""


def _training_form(node: Node, fresh: Callable[[str], str]) -> Node:
    """With what the gradient reads as outputs."""
    steps = operator_of(node)
    assert isinstance(steps, ForwardSteps)
    named = zip(steps.pointers(writes=True), steps.outputs_of(node), strict=True)
    outputs = [name or (fresh(f"{node.name}_{arg}") if arg in steps.saved else "") for arg, name in named]
    return replace(node, outputs=tuple(outputs))


def _fans(node: Node, types: Mapping[str, TensorType]) -> Mapping[int, Fans]:
    """R leads from the units of a step to all gates of the next."""
    steps = operator_of(node)
    assert isinstance(steps, ForwardSteps)
    position = steps.pointers(writes=False).index(WEIGHTS)
    gates, units = types[node.inputs[position]].shape
    return {position: Fans(units, gates)}


class ForwardSteps(Recurrence):
    """Steps of a layer: X, R and further inputs of a subclass to Y, the last state, and other outputs.

    The gradient reads the outputs `saved`; the first `results` outputs have a gradient.
    """

    saved: ClassVar[tuple[str, ...]]
    results: ClassVar[int] = 2
    states: ClassVar[tuple[str, ...]]
    """Initial states among the inputs."""
    no_gradient = ""
    training = Training(training_form=_training_form, fans=_fans)

    def kept(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> dict[str, str]:
        """Return the values that the gradient reads; recompute those that the node did not save.

        Raise NotDifferentiable for gradients of other outputs than the first ones.
        """
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
        reshape_to(b, sliced(b, steps, 0, first, first + 1), (batch, width), flat)
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


def sliced(b: GradientBuilder, name: str, axis: int, begin: int, end: int) -> str:
    """Elements from begin to end along an axis."""
    bounds = [b.constant(label, np.array([n])) for label, n in (("start", begin), ("end", end), ("axis", axis))]
    result = b.temp("part")
    b.emit("Slice", (name, *bounds), (result,))
    return result


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
        """Build a sample of the values that the forward steps saved, and gradients of all results or of Y alone."""
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
