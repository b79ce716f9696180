"""Functions of single elements: absolute value, rounding, remainders, roots and the error function."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from deployer.core.ir import AttrValue, Node, TensorType
from deployer.core.operator import Array, GradientBuilder, register, unsupported
from deployer.core.signatures import CONSUMED, Signature
from deployer.core.traits.file import FileSpec
from deployer.core.traits.fusion import Fusion
from deployer.core.traits.numerics import Numerics
from deployer.expressions.derivative import ZERO
from deployer.expressions.formula import Attr, Input, choose
from deployer.expressions.tree import call
from deployer.operators.base.elementwise import equal_shapes
from deployer.operators.base.elementwise_dsl import DY, A, B, BroadcastElementwise, Pointwise, X, Y, elementwise
from deployer.operators.base.operands import arrays, floats
from deployer.operators.elementwise.arithmetic import Sum


@elementwise
class Abs(Pointwise):
    """Y = |X|. Elementwise; at 0 the slope is 0, as PyTorch's."""

    name = "Abs"
    numerics = Numerics(overflow="any")
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("abs", X)
    non_differentiable: ClassVar = {"x": (ZERO,)}
    integers = True


@elementwise
class Ceil(Pointwise):
    """The smallest whole number that is not below X. Elementwise; the slope is 0."""

    name = "Ceil"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("ceil", X)
    non_differentiable: ClassVar = {"x": (call("round", X),)}
    spread = 3.0


@elementwise
class Divided(Pointwise):
    """X divided by a number that is known; Mean is lowered to it. Elementwise."""

    name = "Divided"
    file = FileSpec(custom=Signature((1, 1), (1, 1), {"by": "FLOAT"}))
    formula = X / Attr("by")
    defaults: ClassVar = {"by": 1.0}
    trials = ({"by": 3.0},)


@elementwise
class Erf(Pointwise):
    """The error function. Elementwise."""

    name = "Erf"
    file = FileSpec(versions=(9, 13))
    formula = call("erf", X)


@elementwise
class Floor(Pointwise):
    """The largest whole number that is not above X. Elementwise; the slope is 0."""

    name = "Floor"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("floor", X)
    non_differentiable: ClassVar = {"x": (call("round", X),)}
    spread = 3.0


LEFT = call("rem", A, B)
OTHER_SIGN = call("xor", LEFT < 0.0, B < 0.0)


@elementwise
class FloorMod(BroadcastElementwise):
    """The remainder of A by B with the sign of B: A - B floor(A / B).

    Elementwise over floats: the remainder, and B more where its sign is not B's.
    """

    name = "FloorMod"
    file = FileSpec(custom=Signature((2, 2), (1, 1)))
    operands = (A, B)
    formula = choose(call("and", OTHER_SIGN, call("not", call("equal", LEFT, 0.0))), LEFT + B, LEFT)
    non_differentiable: ClassVar = {
        "a": (call("floor", A / B) * B, call("ceil", A / B) * B),
        "b": (A / call("round", A / B),),
    }

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Dividends on both sides of several divisors, which are at a distance from zero."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x * 3 if operand == A else x + np.copysign(np.float32(0.5), x), np.float32)


@register
class Mean(Sum):
    """The mean of any number of operands with numpy broadcasting.

    The sum from left to right, divided by the number of operands.
    """

    name = "Mean"
    file = FileSpec(versions=(8, 13), older={1: equal_shapes, 6: equal_shapes})

    def infer(self, node: Node, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """The broadcast shape of all operands."""
        floats(node, inputs, max(len(inputs), 1))
        return super().infer(node, inputs)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """((A + B) + C + ...) / n."""
        (total,) = super().reference(node, inputs)
        return (np.asarray(total / total.dtype.type(len(node.inputs))),)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """dY / n for each, summed over the axes it was broadcast along."""
        share = b.temp("share")
        b.emit("Divided", (douts[0],), (share,), by=float(len(node.inputs)))
        super().gradient(node, (share,), b)

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """A Sum, and its division."""
        total = f"{node.outputs[0]}/total"
        count = float(len(node.inputs))
        return [
            Node(f"{node.name}/total", "Sum", node.inputs, (total,)),
            Node(node.name, "Divided", (total,), node.outputs, {"by": count}),
        ]


@elementwise
class Mod(BroadcastElementwise):
    """The remainder of A by B, with the sign of A where `fmod` is 1, else with that of B.

    Elementwise; before version 28 ONNX demands `fmod` 1 of floats, and FloorMod is what they have without it.
    """

    name = "Mod"
    operands = (A, B)
    formula = call("rem", A, B)
    non_differentiable: ClassVar = {"a": (call("round", A / B) * B,), "b": (A / call("round", A / B),)}
    integers = True
    at_run_time = "IntegerMod"
    file = FileSpec(versions=(10, 13, 28), flags=("fmod",))

    def lower(self, node: Node, inputs: Sequence[TensorType | None]) -> list[Node] | None:
        """FloorMod for floats without `fmod`."""
        (y,) = self.infer(node, inputs)
        if y.dtype == "float32" and not node.attr_int("fmod", 0):
            return [Node(node.name, "FloorMod", node.inputs, node.outputs)]
        return super().lower(node, inputs)

    def gradient(self, node: Node, douts: Sequence[str], b: GradientBuilder) -> None:
        """That of the remainder, or of FloorMod."""
        if node.attr_int("fmod", 0):
            super().gradient(node, douts, b)
        else:
            FloorMod().gradient(node, douts, b)

    def reference(self, node: Node, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
        """numpy's; UnsupportedOperator where an integer is divided by zero."""
        a, b = arrays(inputs, 2)
        if a.dtype.kind != "f" and (b == 0).any():
            raise unsupported(node, "an integer is divided by zero", "other constants, or floats")
        if not node.attr_int("fmod", 0):
            return (np.asarray(np.mod(a, b)),)
        return super().reference(node, inputs)

    def sample_attributes(self) -> Iterator[tuple[str, dict[str, AttrValue]]]:
        """Yield the attributes of floats."""
        yield "", {"fmod": 1}

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Dividends on both sides of several divisors, which are at a distance from zero."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x * 3 if operand == A else x + np.copysign(np.float32(0.5), x), np.float32)


@elementwise
class Neg(Pointwise):
    """Y = -X. Elementwise."""

    name = "Neg"
    numerics = Numerics(overflow="any")
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    fusion = Fusion(signs=(-1,))
    formula = -X
    integers = True


@elementwise
class Reciprocal(Pointwise):
    """Y = 1 / X. Elementwise; the slope is -Y^2."""

    name = "Reciprocal"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = 1.0 / X
    derivatives: ClassVar = {"x": -(DY * (Y * Y))}

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Both signs, at a distance from 0."""
        x = super().drawn(generator, operand, shape)
        return np.asarray(x + np.copysign(np.float32(0.5), x), np.float32)


@elementwise
class Round(Pointwise):
    """The nearest whole number, of two the even one. Elementwise; the slope is 0."""

    name = "Round"
    file = FileSpec(versions=(11, 22))
    formula = call("round", X)
    non_differentiable: ClassVar = {"x": (call("floor", X) + 0.5,)}
    spread = 3.0


@elementwise
class Sign(Pointwise):
    """Y = 1, -1 or 0. Elementwise; NaN stays NaN. The slope is 0."""

    name = "Sign"
    file = FileSpec(versions=(9, 13))
    formula = choose(X > 0.0, 1.0, choose(X < 0.0, -1.0, X))
    derivatives: ClassVar = {"x": ZERO}
    non_differentiable: ClassVar = {"x": (ZERO,)}
    integers = True


@elementwise
class Sqrt(Pointwise):
    """The square root; NaN of what is negative. Elementwise."""

    name = "Sqrt"
    file = FileSpec(versions=(6, 13), older={1: CONSUMED})
    formula = call("sqrt", X)

    def drawn(self, generator: np.random.Generator, operand: Input, shape: tuple[int, ...]) -> Array:
        """Positive values on both sides of 1."""
        return np.exp(super().drawn(generator, operand, shape))


@elementwise
class Truncate(Pointwise):
    """Floats as integers, towards zero: what Cast to int32 is at run time.

    Elementwise; what is beyond int32 becomes its nearest, and NaN 0. ONNX leaves both open.
    """

    name = "Truncate"
    formula = call("to_int", X)
    non_differentiable: ClassVar = {"x": (call("round", X),)}
    no_gradient = "it is constant wherever it has a derivative"
