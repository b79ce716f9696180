"""Functions of single elements that a module writes out, followed while it runs, so that each is traced as one.

A tensor that is computed from x by arithmetic with numbers and by one curve, such as tanh, is known by its values at
some points. All of these are analytic, so one that has the values of a known function there is that function.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

Values = npt.NDArray[np.float64]
POINTS: Values = np.sin(np.arange(1.0, 65.0)) * np.linspace(0.05, 6.0, 64)
"""Points of both signs, near zero and where the functions are flat."""
TOLERANCE = 1e-11
"""A digit less than the check against PyTorch allows, so that a constant of eight digits is not taken for the exact."""

REFLECTED = ("__rsub__", "__rtruediv__", "__rdiv__", "__rpow__")
ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("add", "__add__", "__radd__"), np.add),
    **dict.fromkeys(("sub", "__sub__", "__rsub__", "subtract"), np.subtract),
    **dict.fromkeys(("mul", "__mul__", "__rmul__", "multiply"), np.multiply),
    **dict.fromkeys(("div", "__truediv__", "true_divide", "__rtruediv__", "__rdiv__"), np.divide),
    **dict.fromkeys(("pow", "__pow__"), np.power),
}
PRODUCTS = (np.multiply, np.divide)
"""How a known function ends."""
CURVES: Mapping[str, Callable[[Values], Values]] = {"tanh": np.tanh, "erf": np.vectorize(math.erf, otypes=[float])}
PLAIN: Mapping[str, Callable[[Values], Values]] = {"neg": np.negative, "__neg__": np.negative, "square": np.square}


@dataclass(frozen=True)
class Sampled:
    """A tensor's values where x has those of POINTS, how many curves they took, and the versions of both."""

    tensor: Tensor
    x: Tensor
    values: Values
    curves: int
    versions: tuple[int, int]

    @property
    def holds(self) -> bool:
        """Whether nobody has written to either since, and no hook changes the tensor's gradient."""
        return (self.tensor._version, self.x._version) == self.versions and not self.tensor._backward_hooks


FUNCTIONS: tuple[tuple[Values, Callable[[Tensor], Tensor]], ...] = (
    (
        0.5 * POINTS * (1 + np.tanh(math.sqrt(2 / math.pi) * (POINTS + 0.044715 * POINTS**3))),
        lambda x: functional.gelu(x, approximate="tanh"),
    ),
    (0.5 * POINTS * (1 + CURVES["erf"](POINTS / math.sqrt(2))), functional.gelu),
)
"""Values of functions that are one operator, and these."""


@dataclass
class WrittenFunctions:
    """Facts about the tensors of a trace, which are kept alive so that none takes another's place."""

    known: dict[int, Sampled] = field(default_factory=dict)

    def see(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """Note what a call's result is, and return it, or the known function in its place."""
        if kwargs or not isinstance(result, Tensor) or result.dtype != torch.float32:
            return result
        tensors = [a for a in args if isinstance(a, Tensor)]
        numbers = [a for a in args if isinstance(a, int | float) and not isinstance(a, bool)]
        if (
            not tensors
            or len(tensors) + len(numbers) != len(args)
            or any(t.shape != result.shape or t.dtype != result.dtype for t in tensors)
        ):
            return result
        for x in self._sources(tensors):
            found = self._values(name, args, x)
            if found is None:
                continue
            values, curves = found
            if curves == 1 and ARITHMETIC.get(name) in PRODUCTS:
                for expected, function in FUNCTIONS:
                    if np.allclose(values, expected, rtol=TOLERANCE, atol=TOLERANCE):
                        return function(x)
            if result.requires_grad == x.requires_grad:  # a tensor made without gradients stops those of x
                self.known[id(result)] = Sampled(result, x, values, curves, (result._version, x._version))
            break
        return result

    def _sources(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Of what the tensors may be functions: of what one of them is one, else of one itself."""
        found = [known.x for t in tensors if (known := self._of(t)) is not None]
        return [*found, tensors[0]]

    def _of(self, tensor: Tensor) -> Sampled | None:
        known = self.known.get(id(tensor))
        return known if known is not None and known.holds else None

    def _values(self, name: str, args: Sequence[Any], x: Tensor) -> tuple[Values, int] | None:
        """The values of a call at the points of x, and their curves; None of another call or of other tensors."""
        operands: list[Any] = []
        curves = 0
        for argument in args:
            known = self._of(argument) if isinstance(argument, Tensor) else None
            if argument is x:
                operands.append(POINTS)
            elif not isinstance(argument, Tensor):
                operands.append(float(argument))
            elif known is not None and known.x is x:
                operands.append(known.values)
                curves += known.curves
            else:
                return None
        with np.errstate(all="ignore"):
            if name in ARITHMETIC and len(operands) == 2:
                operands = operands[::-1] if name in REFLECTED else operands
                values = ARITHMETIC[name](*operands)
            elif len(operands) == 1 and (name in CURVES or name in PLAIN):
                values = {**CURVES, **PLAIN}[name](operands[0])
            else:
                return None
        return (values, curves + (name in CURVES)) if np.isfinite(values).all() else None
