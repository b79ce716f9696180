"""Random numbers of a module, from the counter-based generator of the generated program.

Every operator that draws gets the next stream of one seed. While a step is traced it becomes an operator of ours that
knows its stream; while the module runs eagerly it gets the numbers that the program will draw in that pass. So both
compute with the same numbers, and no generator of PyTorch's is touched.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from deployer.core.errors import UnsupportedOperator
from deployer.operators.base.philox import drawn
from deployer.operators.elementwise.random import threshold

LIBRARY = "deployer"
"""The namespace of operators that a traced graph has besides ATen's."""
UNIFORM_BITS = 24
"""Bits of a uniform number: as many as float32 holds exactly."""


@torch.library.custom_op(f"{LIBRARY}::uniform", mutates_args=())
def uniform(size: Sequence[int], stream: int) -> Tensor:
    """Numbers from 0 to below 1."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@uniform.register_fake
def _(size: Sequence[int], stream: int) -> Tensor:
    return torch.empty(list(size), dtype=torch.float32)


@torch.library.custom_op(f"{LIBRARY}::keep", mutates_args=())
def keep(size: Sequence[int], share: float, stream: int) -> Tensor:
    """1 with a probability of `share`, else 0."""
    raise NotImplementedError("it is traced, and computed by the program alone")


@keep.register_fake
def _(size: Sequence[int], share: float, stream: int) -> Tensor:
    return torch.empty(list(size), dtype=torch.float32)


class Draws(TorchDispatchMode):
    """Replaces operators that draw random numbers by those of a subclass.

    Unless it `drops`, every element is kept, as if dropout were not there.
    """

    def __init__(self, drops: bool = True) -> None:
        super().__init__()
        self.streams, self.drops = 0, drops

    def next_stream(self) -> int:
        """The number of the next stream."""
        self.streams += 1
        return self.streams - 1

    def uniform(self, size: Sequence[int]) -> Tensor:
        """Numbers from 0 to below 1."""
        raise NotImplementedError

    def keep(self, size: Sequence[int], share: float) -> Tensor:
        """1 with a probability of `share`, else 0."""
        raise NotImplementedError

    def normal(self, size: Sequence[int]) -> Tensor:
        """Standard normal numbers, by Box and Muller's transform of two uniform ones."""
        radius = torch.sqrt(-2.0 * torch.log(1.0 - self.uniform(size)))
        return radius * torch.cos(2 * math.pi * self.uniform(size))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The operator itself, or what stands for one that draws."""
        if not may_draw(func):
            return func(*args, **(kwargs or {}))
        given = _arguments(func, args, kwargs or {})
        if _idle(given):
            return func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if name not in DRAWING:
            hint = f"one of {', '.join(sorted(DRAWING))}, or numbers that come with the data"
            raise UnsupportedOperator(f"aten.{name} draws random numbers, and has no lowering", hint=hint)
        return DRAWING[name](self, name, given)


class TracedDraws(Draws):
    """While a step is traced: operators of LIBRARY."""

    def uniform(self, size: Sequence[int]) -> Tensor:
        """The operator of that name."""
        return uniform(list(size), self.next_stream())

    def keep(self, size: Sequence[int], share: float) -> Tensor:
        """The operator of that name."""
        return keep(list(size), share, self.next_stream())


class EagerDraws(Draws):
    """While a module runs: the numbers of a pass of the program."""

    def __init__(self, seed: int, passes: int, drops: bool = True, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(drops)
        self.seed, self.passes, self.dtype = seed, passes, dtype

    def uniform(self, size: Sequence[int]) -> Tensor:
        """The upper bits of the words."""
        words = drawn(self.seed, self.next_stream(), self.passes, math.prod(size))
        numbers = (words >> np.uint32(32 - UNIFORM_BITS)) * 2.0**-UNIFORM_BITS
        return torch.from_numpy(numbers.reshape(tuple(size))).to(self.dtype)

    def keep(self, size: Sequence[int], share: float) -> Tensor:
        """Whether the word is at least the threshold of what is dropped."""
        words = drawn(self.seed, self.next_stream(), self.passes, math.prod(size))
        kept = words >= np.uint32(min(threshold(float(np.float32(1 - share))), 2**32 - 1))
        return torch.from_numpy(kept.reshape(tuple(size))).to(self.dtype)


Arguments = dict[str, Any]
"""The arguments of an operator by name, defaults included."""
Drawing = Callable[[Draws, str, Arguments], Any]
"""(draws, the operator's name without overload, its arguments) -> its result."""
DRAWING: dict[str, Drawing] = {}
"""Replacements of operators that draw, by name without overload."""


def _draws(*names: str) -> Callable[[Drawing], Drawing]:
    def register(function: Drawing) -> Drawing:
        DRAWING.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def may_draw(func: Any) -> bool:
    """Whether an operator of PyTorch may draw random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


def _arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    declared = func._schema.arguments
    # A default dtype is a number in the schema, and the operator's own besides.
    named = {a.name: a.default_value for a in declared if a.has_default_value() and a.name != "dtype"}
    return named | {a.name: v for a, v in zip(declared, args, strict=False)} | kwargs


def _idle(given: Arguments) -> bool:
    """Whether an operator that may draw does not, as dropout in evaluation."""
    share = given.get("p", given.get("dropout_p", given.get("dropout", 1)))
    return share == 0 or given.get("train", given.get("training", True)) is False


def _filled(name: str, x: Tensor, values: Tensor) -> Tensor:
    """The numbers in the place of x, or in its dtype."""
    return x.copy_(values.to(x.dtype)) if name.endswith("_") else values.to(x.dtype)


def _bernoulli(draws: Draws, x: Tensor, share: Any) -> Tensor:
    if isinstance(share, Tensor):
        return (draws.uniform(x.shape) < share).to(x.dtype)
    if share in (0, 1) or not draws.drops:
        return torch.full_like(x, float(share))
    return draws.keep(x.shape, share)


@_draws("bernoulli", "bernoulli_")
def _bernoulli_of(draws: Draws, name: str, given: Arguments) -> Any:
    x = given.get("self", given.get("input"))
    assert isinstance(x, Tensor)
    return _filled(name, x, _bernoulli(draws, x, given.get("p", x)))


@_draws("rand", "randn")
def _fresh(draws: Draws, name: str, given: Arguments) -> Any:
    values = (draws.normal if name == "randn" else draws.uniform)(given["size"])
    return values.to(given.get("dtype") or values.dtype)


@_draws("rand_like", "randn_like")
def _fresh_like(draws: Draws, name: str, given: Arguments) -> Any:
    x = given["self"]
    values = (draws.normal if name == "randn_like" else draws.uniform)(x.shape)
    return values.to(given.get("dtype") or x.dtype)


@_draws("uniform_", "uniform")
def _uniform(draws: Draws, name: str, given: Arguments) -> Any:
    x, low, high = given["self"], given["from"], given["to"]
    return _filled(name, x, draws.uniform(x.shape) * (high - low) + low)


@_draws("normal_", "normal_functional")
def _normal_of(draws: Draws, name: str, given: Arguments) -> Any:
    x = given["self"]
    return _filled(name, x, draws.normal(x.shape) * given["std"] + given["mean"])


@_draws("normal")
def _normal(draws: Draws, name: str, given: Arguments) -> Any:
    mean, std = given["mean"], given["std"]
    size = given.get("size")
    if size is None:
        size = torch.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, Tensor)))
    return draws.normal(size) * std + mean


@_draws("exponential", "exponential_")
def _exponential(draws: Draws, name: str, given: Arguments) -> Any:
    x = given["self"]
    return _filled(name, x, -torch.log(1.0 - draws.uniform(x.shape)) / given["lambd"])


@_draws("native_dropout")
def _native_dropout(draws: Draws, name: str, given: Arguments) -> Any:
    x, share = given["input"], given["p"]
    kept = _bernoulli(draws, x, 1 - share)
    return x * kept.to(x.dtype) / (1 - share) if share != 1 else x * 0, kept.to(torch.bool)


@_draws("rrelu_with_noise", "rrelu_with_noise_functional")
def _rrelu(draws: Draws, name: str, given: Arguments) -> Any:
    x, low, high = given["self"], given["lower"], given["upper"]
    slope = draws.uniform(x.shape) * (high - low) + low
    values = torch.where(x <= 0, slope.to(x.dtype), torch.ones_like(x))
    given["noise"].copy_(values)
    return (x * values, values) if name.endswith("functional") else x * values


@_draws("randint", "randint_like")
def _integers(draws: Draws, name: str, given: Arguments) -> Any:
    like, low = given.get("self"), given.get("low", 0)
    size = given["size"] if like is None else like.shape
    values = torch.floor(draws.uniform(size) * (given["high"] - low)) + low
    return values.to(given.get("dtype") or (torch.int64 if like is None else like.dtype))


@_draws("randperm")
def _permutation(draws: Draws, name: str, given: Arguments) -> Any:
    return torch.argsort(draws.uniform([given["n"]]))
