"""What losses share that are a sum of terms over all elements divided by a count, and what their gradients share.

The kernel of a loss may have the gradient as a second result: while a core adds the terms, others make the slopes.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from deployer.core.access import Access, At, Broadcast, Dim, Operand
from deployer.core.declarations import Setting, Sums
from deployer.core.errors import NotDifferentiable
from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import (
    ArgValue,
    Array,
    Const,
    CType,
    Extent,
    First,
    GradientBuilder,
    Kernel,
    Last,
    Sample,
    Work,
    registry,
    rng,
    unsupported,
)
from deployer.operators.arithmetic.mul import Mul
from deployer.operators.carry import CARRY, CARRY_SCALARS, carry_args, carry_operands
from deployer.operators.elementwise import Flat
from deployer.operators.inputs import arrays, normal

SHAPES = (("vector", (37,)), ("batch", (3, 1, 13)), ("one", (1,)), ("long", (5, 67)))
"""Shapes of samples, the last of them summed in several blocks."""
UNIT = (0.0, 1.0)
"""Where probabilities lie."""
SLOPES = "dpred"
"""The kernel pointer of the gradient."""


def loss_kernel(symbol: str, *numbers: str) -> Kernel:
    """The kernel of a loss on `mean_loss_f32.h`, whose term and slope take further numbers."""
    scalars: list[tuple[str, CType]] = [("n", "u32"), ("first", "u32"), ("last", "u32"), *CARRY_SCALARS]
    scalars += [(name, "f32") for name in ("count", "share", *numbers)]
    inputs, results = ("pred", "target"), ("y", SLOPES)
    pointers = (*((name, "float32", False) for name in inputs), *((name, "float32", True) for name in results), CARRY)
    return Kernel(symbol, pointers, tuple(scalars))


def grad_kernel(symbol: str, *numbers: str) -> Kernel:
    """The kernel of its gradient."""
    scalars: list[tuple[str, CType]] = [("n", "u32"), *((name, "f32") for name in ("scale", *numbers))]
    pointers = (("pred", "float32", False), ("target", "float32", False), ("dpred", "float32", True))
    return Kernel(symbol, pointers, tuple(scalars))


def check_settings(node: Node, settings: Sequence[Setting]) -> None:
    """Raise UnsupportedOperator for an attribute that is out of its range."""
    for setting in settings:
        if not setting.fits(setting.of(node)):
            name = setting.place
            raise unsupported(node, f"{name} is {setting.of(node):g}", f"{name} in {setting.range}")


class MeanLoss(Flat):
    """pred and target have one shape; the loss is a scalar, a sum over all elements divided by `divisor`.

    The gradient is `grad`, an operator with the attributes of the loss; it is that of the target with the opposite sign
    if the loss depends on their difference alone. A node may have that of pred as a second output.
    """

    domain = ""
    sums = Sums(("n",), results=2)
    spared: ClassVar[dict[str, int]] = {SLOPES: 1}
    grad: ClassVar[str]
    differs: ClassVar[bool] = False
    """Whether the loss depends on the difference of both inputs alone."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    given: ClassVar[Mapping[str, AttrValue]] = {}
    """Attributes of samples that differ from the defaults."""
    cost: ClassVar[int] = 1
    """Operations per element."""

    def __init_subclass__(cls) -> None:
        """A node of the loss can stand for one of its gradient too."""
        super().__init_subclass__()
        cls.joins = cls.grad

    def joint(
        self, node: Node, near: Sequence[Node], types: Mapping[str, TensorType]
    ) -> tuple[Node, Sequence[Node]] | None:
        """The loss of the same operands, by the same attributes, with the gradient as its second output."""
        for loss in near:
            same = loss.op == self.name and loss.inputs == node.inputs and not _slopes(loss)
            if same and self.slope_attrs(loss) == self.slope_attrs(node):
                return replace(loss, outputs=(loss.outputs[0], node.outputs[0], *loss.outputs[2:])), [loss]
        return None

    @abstractmethod
    def terms(self, node: Node, pred: Array, target: Array) -> Array:
        """The term of each element."""

    def divisor(self, node: Node, size: int) -> int:
        """What the sum over so many elements is divided by: their number."""
        return size

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """A scalar, and the type of pred."""
        (pred,) = super().infer(node, inputs)
        check_settings(node, self.settings)
        return (TensorType("float32", ()), pred)[: max(len(node.outputs), 1)]

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The sum of all terms, divided by the count, and the gradient where the node has it."""
        pred, target = arrays(inputs, 2)
        total = self.terms(node, pred, target).sum(dtype=pred.dtype)
        loss = np.asarray(total / pred.dtype.type(self.divisor(node, pred.size)), dtype=pred.dtype)
        return (loss, *(self._gradient.reference(node, inputs) if _slopes(node) else ()))

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """The slope of each term divided by the count, times dloss where one arrives."""
        for index in (0, 1):
            if not b.needs_grad(index):
                continue
            if index and not self.differs:
                raise NotDifferentiable(f"node {node.name!r} ({self.name}) has no gradient for its target")
            out = b.temp("slope") if douts[0] else b.grad(index)
            b.emit(self.grad, (node.inputs[index], node.inputs[1 - index]), (out,), **self.slope_attrs(node))
            if douts[0]:
                b.emit(Mul.name, (out, douts[0]), (b.grad(index),))

    def slope_attrs(self, node: Node) -> dict[str, AttrValue]:
        """Attributes of the gradient's node."""
        return {setting.place: setting.of(node) for setting in self.settings}

    def numbers(self, node: Node) -> dict[str, float]:
        """The further numbers of the kernel's term."""
        return {setting.place: setting.of(node) for setting in self.settings}

    @property
    def _gradient(self) -> "MeanLossGrad":
        operator = registry()[self.grad]
        assert isinstance(operator, MeanLossGrad)
        return operator

    def access(self, node: Node, types: Mapping[str, TensorType]) -> Access:
        """One flat reduction dim."""
        size = types[node.inputs[0]].size
        pred, target = (Operand(a, node.inputs[i], "in", (size,), (At("n"),)) for i, a in enumerate(("pred", "target")))
        y = Operand("y", node.outputs[0], "out", (1,), (Broadcast(),))
        slopes = (Operand(SLOPES, _slopes(node), "out", (size,), (At("n"),)),) if _slopes(node) else ()
        carried = carry_operands(node, self.kernel, self.sums, y)
        return Access((Dim("n", size, "reduction"),), (pred, target, y, *slopes, *carried))

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, whether it is first or last in the sum, the divisor, the gradient's factor, and further
        numbers.
        """
        numbers = {**self._gradient.numbers(node), **self.numbers(node)}
        return {
            "n": Extent("n"),
            "first": First(),
            "last": Last(),
            **carry_args(self.sums, access),
            "count": Const(float(self.divisor(node, access.dim("n").size))),
            "share": Const(self._gradient.share(node, access.dim("n").size)),
            **{name: Const(number) for name, number in numbers.items()},
        }

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """`cost` operations and an addition per element, all on one core; slopes, a form of their own, on others."""
        return Work(macs=0, elements=tile["n"] * (1 + self.cost), parallel=1, form=self.form(access))

    def form(self, access: Access) -> str:
        """The form of the kernel's work."""
        return SLOPES if any(o.arg == SLOPES for o in access.operands) else ""

    def drawn(self, r: np.random.Generator, *shape: int) -> tuple[Array, Array]:
        """A prediction and a target."""
        return normal(r, *shape), normal(r, *shape)

    def samples(self) -> Iterator[Sample]:
        """A vector, a batch, a single element, a long sum; other attributes than the defaults; with the gradient."""
        r = rng(55)
        for label, shape in SHAPES:
            yield Sample(label, self.drawn(r, *shape), onnx=False)
        if self.given:
            yield Sample("given", self.drawn(r, 3, 13), dict(self.given), onnx=False)
            yield Sample("given_long", self.drawn(r, 5, 67), dict(self.given), onnx=False)
        yield Sample("slopes", self.drawn(r, 3, 13), dict(self.given), 2, onnx=False)
        yield Sample("slopes_long", self.drawn(r, 5, 67), dict(self.given), 2, onnx=False)

    def sweep(self) -> Iterator[Sample]:
        """Vectors, without the gradient and with it."""
        for sample in super().sweep():
            yield sample
            yield replace(sample, label=f"{sample.label} slopes", outputs=2)


class MeanLossGrad(Flat):
    """The gradient of such a loss with respect to pred, for a loss gradient of one."""

    domain = ""
    no_gradient = "it belongs to a backward pass"
    of: ClassVar[type[MeanLoss]]
    """The loss, whose settings, divisor and samples this has."""

    @abstractmethod
    def slopes(self, node: Node, pred: Array, target: Array) -> Array:
        """The slope of each term."""

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The type of pred."""
        check_settings(node, self.of.settings)
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """The slopes, divided by the count."""
        pred, target = arrays(inputs, 2)
        count = pred.dtype.type(self.of().divisor(node, pred.size))
        return (np.asarray(self.slopes(node, pred, target) / count, dtype=pred.dtype),)

    def numbers(self, node: Node) -> dict[str, float]:
        """The kernel's further numbers."""
        return {}

    def factor(self, node: Node) -> float:
        """What the kernel's slopes are multiplied by, besides the count."""
        return 1.0

    def share(self, node: Node, size: int) -> float:
        """What slopes over so many elements are multiplied by, given the gradient's node or the loss's."""
        return self.factor(node) / self.of().divisor(node, size)

    def args(self, node: Node, access: Access) -> dict[str, ArgValue]:
        """The tile's length, a factor that has the count of the whole tensor, and further numbers."""
        scale = self.share(node, access.dim("n").size)
        numbers = {name: Const(number) for name, number in self.numbers(node).items()}
        return {"n": Extent("n"), "scale": Const(scale), **numbers}

    def work(self, node: Node, access: Access, tile: Mapping[str, int]) -> Work:
        """As many operations per element as the loss has."""
        return Work(macs=0, elements=tile["n"] * self.of.cost, parallel=tile["n"])

    def samples(self) -> Iterator[Sample]:
        """Those of the loss without its gradient."""
        yield from (sample for sample in self.of().samples() if sample.outputs == 1)


def _slopes(node: Node) -> str:
    """The name of the gradient among the outputs of a loss, empty without one."""
    return node.outputs[1] if len(node.outputs) > 1 else ""
