"""Norms by the root of a mean square that a module writes out, followed while it runs, so that each is traced as one.

A norm is a product of x with one over the root of the mean of its squares and a number; a scale behind it is a part of
it. What was computed on the way stays in the trace, where nobody reads it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Norm = Callable[[Tensor, Tensor, float], Tensor]
"""(x, scale, epsilon) -> the norm as one operator."""
ALIASES = ("to", "float", "type", "type_as", "contiguous")
PRODUCTS = ("mul", "__mul__", "__rmul__", "multiply")
QUOTIENTS = ("div", "__truediv__", "true_divide")
REFLECTED = ("__rtruediv__", "__rdiv__")
"""Python's names of a quotient whose second argument is on top."""
SUMS = ("add", "__add__", "__radd__")
POWERS = ("pow", "__pow__")


@dataclass(frozen=True)
class Fact:
    """A tensor's relation to x: its `kind`, over how many last axes, with which epsilon, at the versions of both."""

    kind: str
    tensor: Tensor
    x: Tensor
    axes: int = 0
    epsilon: float = 0.0
    versions: tuple[int, int] = (0, 0)

    @property
    def holds(self) -> bool:
        """Whether nobody has written to x or to the tensor since, and no hook changes the tensor's gradient."""
        return (self.tensor._version, self.x._version) == self.versions and not self.tensor._backward_hooks


@dataclass
class Norms:
    """Facts about the tensors of a trace, which are kept alive so that none takes another's place."""

    norm: Norm
    facts: dict[int, Fact] = field(default_factory=dict)

    def replaced(self, name: str, args: Sequence[Any]) -> Any:
        """Return what stands for a call, and NotImplemented where it ends no norm."""
        if len(args) != 2 or name not in (*PRODUCTS, *QUOTIENTS) or not all(isinstance(a, Tensor) for a in args):
            return NotImplemented
        pairs = [tuple(args)] if name in QUOTIENTS else [tuple(args), tuple(args[::-1])]
        for first, second in pairs:
            fact = self._fact(second)
            if fact is None:
                continue
            if fact.kind == ("root" if name in QUOTIENTS else "inverse") and self._same(first) is fact.x:
                return self._noted(fact, fact.x.new_ones(fact.x.shape[-fact.axes :]))
            is_scale = first.dtype == torch.float32 and first.shape == fact.x.shape[-fact.axes :]
            if fact.kind == "norm" and name in PRODUCTS and is_scale:
                return self.norm(fact.x, first, fact.epsilon)
        return NotImplemented

    def _noted(self, fact: Fact, scale: Tensor) -> Tensor:
        result = self.norm(fact.x, scale, fact.epsilon)
        self._note(result, "norm", fact.x, fact.axes, fact.epsilon)
        return result

    def see(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Note what the result of a call is."""
        if not isinstance(result, Tensor) or result.dtype != torch.float32 or not args:
            return
        tensors = [a for a in args if isinstance(a, Tensor)]
        numbers = [a for a in args if isinstance(a, int | float) and not isinstance(a, bool)]
        fact = self._fact(tensors[0]) if len(tensors) == 1 else None
        if name in ALIASES and tensors and tensors[0].dtype == result.dtype and result is not tensors[0]:
            self._note(result, "same", self._same(tensors[0]))
        elif (
            (name in POWERS and numbers == [2])
            or name == "square"
            or (name in PRODUCTS and len(tensors) == 2 and self._same(tensors[0]) is self._same(tensors[1]))
        ):
            self._note(result, "square", self._same(tensors[0]))
        elif fact is None:
            return
        elif name == "mean" and fact.kind == "square" and (axes := _last_axes(fact.x, args, kwargs)):
            self._note(result, "mean", fact.x, axes)
        elif name in SUMS and fact.kind == "mean" and len(numbers) == 1 and not kwargs:
            self._note(result, "above", fact.x, fact.axes, float(numbers[0]))
        elif fact.kind == "above" and (name == "rsqrt" or (name in POWERS and numbers == [-0.5])):
            self._note(result, "inverse", fact.x, fact.axes, fact.epsilon)
        elif fact.kind == "above" and (name == "sqrt" or (name in POWERS and numbers == [0.5])):
            self._note(result, "root", fact.x, fact.axes, fact.epsilon)
        elif fact.kind == "root" and (name == "reciprocal" or _is_one_over(name, args)):
            self._note(result, "inverse", fact.x, fact.axes, fact.epsilon)

    def _note(self, result: Tensor, kind: str, x: Tensor, axes: int = 0, epsilon: float = 0.0) -> None:
        if result.requires_grad == x.requires_grad:  # a tensor made without gradients stops those of a norm
            self.facts[id(result)] = Fact(kind, result, x, axes, epsilon, (result._version, x._version))

    def _fact(self, tensor: Tensor) -> Fact | None:
        known = self.facts.get(id(tensor))
        return known if known is not None and known.holds and known.kind != "same" else None

    def _same(self, tensor: Tensor) -> Tensor:
        """The tensor that this one is a copy of."""
        known = self.facts.get(id(tensor))
        return known.x if known is not None and known.kind == "same" and known.holds else tensor


def _is_one_over(name: str, args: Sequence[Any]) -> bool:
    """Whether it is a quotient with 1 on top."""
    top = args[-1] if name in REFLECTED else args[0]
    return name in (*QUOTIENTS, *REFLECTED) and len(args) == 2 and not isinstance(top, Tensor) and top == 1


def _last_axes(x: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Over how many last axes a mean goes that keeps them; 0 for another one."""
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    keeps = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    given = [dims] if isinstance(dims, int) else list(dims or ())
    axes = sorted(a % x.dim() for a in given)
    return len(axes) if keeps and axes == list(range(x.dim() - len(axes), x.dim())) and not kwargs.get("dtype") else 0
