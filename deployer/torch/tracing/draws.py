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
from deployer.operators.activation.keyed_dropout import threshold
from deployer.operators.philox import drawn

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
    """Gives operators that draw their numbers; a subclass says which these are.

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
        given = kwargs or {}
        if not _may_draw(func) or _idle(func, args, given):
            return func(*args, **given)
        name = func._schema.name.removeprefix("aten::")
        if name not in DRAWING:
            hint = f"one of {', '.join(sorted(DRAWING))}, or numbers that come with the data"
            raise UnsupportedOperator(f"aten.{name} draws random numbers, and has no lowering", hint=hint)
        return DRAWING[name](self, func, args, given)


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


Drawing = Callable[[Draws, Any, tuple[Any, ...], dict[str, Any]], Any]
DRAWING: dict[str, Drawing] = {}
"""What stands for each operator that draws, by its name without overload."""


def _draws(*names: str) -> Callable[[Drawing], Drawing]:
    def register(function: Drawing) -> Drawing:
        DRAWING.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def _may_draw(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _idle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an operator that may draw does not, as dropout in evaluation."""
    declared = func._schema.arguments
    named = {a.name: a.default_value for a in declared if a.has_default_value()}
    named |= {a.name: v for a, v in zip(declared, args, strict=False)} | kwargs
    share = named.get("p", named.get("dropout_p", named.get("dropout", 1)))
    return share == 0 or named.get("train", named.get("training", True)) is False


def _like(x: Tensor, values: Tensor, kwargs: dict[str, Any]) -> Tensor:
    """The numbers in the dtype that is asked for, or that of a tensor."""
    return values.to(kwargs.get("dtype") or x.dtype)


def _filled(x: Tensor, values: Tensor) -> Tensor:
    return x.copy_(values.to(x.dtype))


def _bernoulli(draws: Draws, x: Tensor, share: Any) -> Tensor:
    if isinstance(share, Tensor):
        return (draws.uniform(x.shape) < share).to(x.dtype)
    if share in (0, 1) or not draws.drops:
        return torch.full_like(x, float(share))
    return draws.keep(x.shape, share)


@_draws("bernoulli", "bernoulli_")
def _bernoulli_of(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, *rest = args
    share = rest[0] if rest else kwargs.get("p", 0.5 if func._schema.name.endswith("_") else x)
    values = _bernoulli(draws, x, share)
    return _filled(x, values) if func._schema.name.endswith("_") else values.to(x.dtype)


@_draws("rand", "randn")
def _fresh(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values = (draws.normal if "randn" in func._schema.name else draws.uniform)(args[0])
    return values.to(kwargs.get("dtype") or values.dtype)


@_draws("rand_like", "randn_like")
def _fresh_like(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    values = (draws.normal if "randn" in func._schema.name else draws.uniform)(args[0].shape)
    return _like(args[0], values, kwargs)


@_draws("uniform_", "uniform")
def _uniform(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, low, high = (*args, *(0.0, 1.0)[len(args) - 1 :])
    low, high = kwargs.get("from", low), kwargs.get("to", high)
    values = draws.uniform(x.shape) * (high - low) + low
    return _filled(x, values) if func._schema.name.endswith("_") else values.to(x.dtype)


@_draws("normal_", "normal_functional")
def _normal_of(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, mean, std = (*args, *(0.0, 1.0)[len(args) - 1 :])
    mean, std = kwargs.get("mean", mean), kwargs.get("std", std)
    values = draws.normal(x.shape) * std + mean
    return _filled(x, values) if func._schema.name.endswith("_") else values.to(x.dtype)


@_draws("normal")
def _normal(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mean, std = (*args, *(0.0, 1.0)[len(args) :])[:2]
    size = args[2] if len(args) > 2 else kwargs.get("size")
    if size is None:
        size = torch.broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, Tensor)))
    return draws.normal(size) * std + mean


@_draws("exponential", "exponential_")
def _exponential(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, rate = (*args, *(1.0,)[len(args) - 1 :])
    values = -torch.log(1.0 - draws.uniform(x.shape)) / kwargs.get("lambd", rate)
    return _filled(x, values) if func._schema.name.endswith("_") else values.to(x.dtype)


@_draws("native_dropout")
def _native_dropout(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, share = args[0], args[1]
    kept = _bernoulli(draws, x, 1 - share)
    return x * kept.to(x.dtype) / (1 - share) if share != 1 else x * 0, kept.to(torch.bool)


@_draws("rrelu_with_noise", "rrelu_with_noise_functional")
def _rrelu(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, noise, low, high = (*args, *(0.125, 1 / 3)[len(args) - 2 :])[:4]
    slope = draws.uniform(x.shape) * (high - low) + low
    values = torch.where(x <= 0, slope.to(x.dtype), torch.ones_like(x))
    noise.copy_(values)
    return (x * values, values) if func._schema.name.endswith("functional") else x * values


@_draws("randint", "randint_like")
def _integers(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    like = func._schema.name.endswith("like")
    numbers = [a for a in args if isinstance(a, int)]
    low, high = (0, *numbers)[-2:]
    size = args[0].shape if like else next(a for a in args if not isinstance(a, int))
    values = torch.floor(draws.uniform(size) * (high - low)) + low
    return values.to(kwargs.get("dtype") or (args[0].dtype if like else torch.int64))


@_draws("randperm")
def _permutation(draws: Draws, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return torch.argsort(draws.uniform([args[0]]))
