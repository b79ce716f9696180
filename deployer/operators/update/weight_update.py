"""What optimizers of weight, gradient and states of one type share: all but their formula."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Optimizer, Setting
from deployer.core.forms import Form
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    CType,
    Extent,
    Kernel,
    Sample,
    Work,
    mismatch,
    rng,
    unsupported,
)
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal, operands

RATE = Setting("lr", "learning rate", 0.01)
DECAY = Setting("weight-decay", "share of the weight that is added to its gradient", 0.0)
MOMENTUM = Setting("momentum", "share of the last step that goes on", 0.0, most=1.0)
EPS = Setting("eps", "what is added to the root of the gradient's mean square", 1e-8, ends="()")

COUNT = "count"
"""The pointer of a kernel that reads the number of the update."""
ONE_LESS = "one_less_"
"""Before the name of a share, what it leaves of one."""


def update_kernel(
    symbol: str, states: Sequence[str], settings: Sequence[Setting], means: Sequence[str] = (), count: bool = False
) -> Kernel:
    """Pointers are weight, gradient, states and the count; scalars the length, the rate, and a number per setting.

    A share that a moving mean keeps, one of `means`, comes with what it leaves, too.
    """
    pointers = [("w", "float32", True), ("g", "float32", False), *((name, "float32", True) for name in states)]
    pointers += [(COUNT, "int32", False)] if count else []
    scalars: list[tuple[str, CType]] = [("n", "u32"), (RATE.place, "f32")]
    scalars += [(s.place, "u32" if s.integer else "f32") for s in settings]
    return Kernel(symbol, tuple(pointers), (*scalars, *((ONE_LESS + name, "f32") for name in means)))


def update_form(optimizer: Optimizer) -> Form:
    """The form of a node: every setting is an attribute, and all but gradient and count are updated."""
    states, counted = len(optimizer.states), int(optimizer.count is not None)
    inputs, outputs = 2 + states + counted, 1 + states
    kinds = {RATE.place: RATE.kind, **{s.place: s.kind for s in optimizer.settings}}
    return Form((inputs, inputs), (outputs, outputs), kinds)


class WeightUpdate(Flat):
    """Weight, gradient, states and, where it is declared, the number of the update; a subclass has the formula."""

    optimizer: ClassVar[Optimizer]
    no_gradient = "it is an optimizer"
    cost: ClassVar[int] = 1
    """Operations per element."""
    given: ClassVar[Mapping[str, AttrValue]] = {}
    """Attributes of a sample, all of which differ from the defaults."""

    @abstractmethod
    def step(self, node: Node, w: Array, g: Array, states: Sequence[Array], count: int) -> tuple[Array, ...]:
        """The updated weight and states."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Weight and states, of the gradient's type; the count is one integer."""
        declared = self.optimizer
        floats = 2 + len(declared.states)
        present = operands(node, inputs, floats + (declared.count is not None))
        if any(t != present[0] for t in present[:floats]):
            raise mismatch(node, "weight, gradient and states differ in type", inputs)
        for kind in present[floats:]:
            if kind.dtype != "int32" or kind.size != 1:
                raise mismatch(node, "the number of the update is not one integer", inputs)
        for setting in declared.settings:
            if not setting.fits(setting.of(node)):
                name = setting.place
                raise unsupported(node, f"{name} is {setting.of(node):g}", f"{name} in {setting.range}")
        return (present[0], *present[2:floats])

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The updated weight and states."""
        w, g, *rest = arrays(inputs, len(inputs))
        states = rest[: len(self.optimizer.states)]
        count = int(rest[-1].reshape(())) if self.optimizer.count is not None else 0
        return tuple(np.asarray(x, w.dtype) for x in self.step(node, w, g, states, count))

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat parallel dim, and the count beside it."""
        size = types[node.inputs[0]].size
        listed = [
            Operand(arg, name, "inout" if is_output else "in", (size,), (At("n"),))
            for (arg, _, is_output), name in zip(self.kernel.pointers, node.inputs, strict=True)
        ]
        listed = [replace(o, view=(1,), axes=(Broadcast(),)) if o.arg == COUNT else o for o in listed]
        return Access((Dim("n", size),), tuple(listed))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, the rate, the settings, and what shares leave."""
        numbers = {s.place: s.of(node) for s in (RATE, *self.optimizer.settings)}
        numbers |= {ONE_LESS + name: 1 - share for name, share in numbers.items()}
        return {"n": Extent("n"), **{name: Const(numbers[name]) for name, _ in self.kernel.scalars[1:]}}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """`cost` operations per element."""
        return Work(macs=0, elements=tile["n"] * self.cost, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Defaults in the first update, given numbers in the first and in a later one, and a first step from zeros."""
        r = rng(50)
        outputs = 1 + len(self.optimizer.states)
        for label, count, attrs in (("default", 1, {}), ("first", 1, self.given), ("later", 1000, self.given)):
            w, g, *states = (normal(r, 5, 7) for _ in range(1 + outputs))
            counts = [] if self.optimizer.count is None else [np.array([count], np.int32)]
            yield Sample(label, (w, g, *map(np.square, states), *counts), dict(attrs), outputs, onnx=False)
