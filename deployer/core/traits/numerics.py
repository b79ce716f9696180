"""Numerical properties of an operator: decision boundaries, ranges of integers, operands with limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from deployer.core.ir import Node, TensorType


@dataclass(frozen=True, eq=False)
class DecisionBoundaries:
    """Decision boundaries: elements of an input that select a branch by their side: gate, clip, win a window.

    `elements` are flat indices, `margins` the distances to the boundary, `flipped` the nearest values beyond it.
    A boundary that is another element has its index in `competitors`; without these it is a constant.
    """

    operand: int
    elements: npt.NDArray[Any]
    margins: npt.NDArray[Any]
    flipped: npt.NDArray[Any]
    competitors: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class Indices:
    """An integer input whose numbers choose among `count`, from `least` on; `ignored` is allowed too, unless None.

    `word` is what a number is called, `among` what it chooses from, `hint` a way out where it is outside.
    """

    input: str
    count: int
    least: int = 0
    ignored: int | None = None
    word: str = "label"
    among: str = "classes"
    hint: str = "renumber the labels, or set ignore_index"
    sizes: tuple[int, ...] = ()  # rows for each number along the last axis; `count` is that of the largest


@dataclass(frozen=True)
class Centre:
    """Positions of a mean, its inverse deviation, and the rest: the part of the mean that its rounding lost.

    A float32 mean is off by its rounding, so (X - mean) inv_std is off by the same number all over: the rest is to be
    added. The places are those of outputs where the operator `makes` them, which it does always, else those of inputs:
    one that reads a mean and its deviation from a node that makes them is given the rest as well.
    """

    mean: int
    inv_std: int
    rest: int
    makes: bool = False


Overflow = Literal["none", "unsigned", "any"]
"""The integer types of ONNX that results may be outside of: none of them, those without a sign, or any."""


Operands = Sequence[npt.NDArray[Any] | None]


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Trait: numbers that an operator takes, decides by, or makes beyond a type. Default: none.

    `decision_boundaries` returns, for a node and its inputs, those of input elements where the function jumps; an
    operator of a backward pass that decides by the same element as one of the forward pass has none itself. `bounded`
    are the numbers between which the elements of an input lie, by position. `indices` returns, for a node and types,
    the input that chooses by number. `counted` returns the divisor of the mean loss that the node computes, if that
    depends on labels; its inputs are the operands that are data or constants, in any shape. `divisors` are kernel
    pointers that a tile reads beyond its own part for nothing but such a divisor. `centre` says that the operator has a
    mean that is two floats.

    `overflow` are the integer types of ONNX that results may be outside of, or returns them for a node. `wraps` says
    that the operator brings integers back into a type of `bits` bits, `signed` or not.
    """

    decision_boundaries: Callable[[Node, Operands], tuple[DecisionBoundaries, ...]] = lambda node, inputs: ()
    bounded: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    indices: Callable[[Node, Mapping[str, TensorType]], Indices | None] = lambda node, types: None
    counted: Callable[[Node, Operands], float | None] = lambda node, inputs: None
    divisors: tuple[str, ...] = ()
    centre: Centre | None = None
    overflow: Overflow | Callable[[Node], Overflow] = "none"
    wraps: bool = False

    @property
    def decides(self) -> bool:
        """Whether the result jumps somewhere, so that rounding of an operand may change it by more than rounding."""
        return self.decision_boundaries is not NO_NUMERICS.decision_boundaries

    def overflow_of(self, node: Node) -> Overflow:
        """The integer types that results of this node may be outside of."""
        return self.overflow(node) if callable(self.overflow) else self.overflow


NO_NUMERICS = Numerics()
"""The numerical properties of an operator that declares none."""
