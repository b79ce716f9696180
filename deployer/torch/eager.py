"""One step of a module as PyTorch itself runs it, in float64: `.backward()` on the user's own module."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from deployer.core.operator import Array
from deployer.torch.tracing.caches import empty_caches
from deployer.torch.tracing.draws import EagerDraws
from deployer.torch.tracing.module_state import HeldState, attributes_kept, held_by, random_state_kept
from deployer.torch.tracing.trace import Loss

NARROW = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class EagerStep:
    """Loss, gradients of the parameters that got one, and all buffers afterwards."""

    loss: float
    gradients: dict[str, Array]
    states: dict[str, Array]


class DoubleModule(EagerDraws):
    """Computes float32 operations of the module in float64: casts and factories that name float32 mean float64."""

    makes = False
    """Whether a tensor was made without reading another one, such as a table that a function may keep in a cache."""

    def forget(self) -> None:
        """Leave no tensor in float64 in a cache of a function."""
        if self.makes:
            empty_caches()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The operator on float64."""
        if kwargs and kwargs.get("dtype") in NARROW:
            kwargs = {**kwargs, "dtype": torch.float64}
        self.makes = self.makes or not any(isinstance(x, Tensor | list) for x in args)
        return super().__torch_dispatch__(func, types, tuple(map(_wide, args)), kwargs)


def _wide(argument: Any) -> Any:
    """An argument in float64; every operator of a step comes by here, so the usual cases are first."""
    if isinstance(argument, Tensor):
        return argument.double() if argument.dtype in NARROW else argument
    if isinstance(argument, list | tuple):
        return [_wide(x) for x in argument]
    return torch.float64 if isinstance(argument, torch.dtype) and argument in NARROW else argument


LITERALS = (torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor)
"""Functions that make a tensor of Python's numbers, which are rounded there."""


class _Narrow(TorchFunctionMode):
    """Numbers that PyTorch takes from the dtype, and tensors of Python's numbers, are float32's, as in the module."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The function, with the epsilon that it would have."""
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") == "rms_norm" and len(args) < 4 and given.get("eps") is None:
            given["eps"] = torch.finfo(torch.float32).eps
        if func in LITERALS:
            if func is Tensor.new_tensor and args[0].dtype == torch.float64:
                given.setdefault("dtype", torch.float32)
            with _default_dtype(torch.float32):
                return func(*args, **given)
        return func(*args, **given)


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    own = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(own)


@contextlib.contextmanager
def _float32_limits() -> Iterator[None]:
    """`torch.finfo` of float64 gives float32's meanwhile."""
    own = torch.finfo

    def finfo(dtype: torch.dtype = torch.float32) -> Any:
        return own(torch.float32 if dtype is torch.float64 else dtype)

    torch.finfo = finfo
    try:
        yield
    finally:
        torch.finfo = own


@contextlib.contextmanager
def doubled(module: nn.Module, held: HeldState) -> Iterator[None]:
    """The module's own tensors in float64, hooks and all; put back with their content in the end."""
    tensors = [*(held.parameter(n) for n in held.parameters), *(held.state(n) for n in held.states)]
    before = [(t, t.data) for t in tensors]
    slots = [(slot, slot.get()) for places in held.states.values() for slot in places]
    try:
        for tensor, data in before:
            tensor.data = data.to(torch.float64 if data.is_floating_point() else data.dtype, copy=True)
        with _default_dtype(torch.float64), _Narrow(), _float32_limits():
            yield
    finally:
        for slot, value in slots:
            slot.set(value)
        for tensor, data in before:
            tensor.data = data


def eager_step(
    module: nn.Module,
    loss: Loss,
    data: Mapping[str, Tensor],
    *,
    seed: int = 0,
    passes: int = 1,
    first: float = 1.0,
    drops: bool = True,
) -> EagerStep:
    """The step of the module itself on these data; it keeps its tensors, gradients, attributes and hooks.

    Random numbers are those that the program draws in that pass; PyTorch's own generator is left alone. `first` is what
    the gradient begins with.
    """
    held = held_by(module)
    inputs = [x.double() if x.is_floating_point() else x for x in data.values()]
    start, draws = torch.tensor(first, dtype=torch.float64), DoubleModule(seed, passes, drops)
    contexts = (attributes_kept(module), random_state_kept(), doubled(module, held), torch.enable_grad())
    with contextlib.ExitStack() as stack:
        stack.callback(draws.forget)
        for context in contexts:
            stack.enter_context(context)
        for name in held.parameters:
            held.parameter(name).grad = None
        with draws:
            value = loss(module, *inputs)
            value.reshape(()).backward(start)
        found = {n: held.parameter(n).grad for n in held.trained}
        gradients = {n: _array(g) for n, g in found.items() if g is not None}
        found_states = {n: next(iter(slots)).get() for n, slots in held.states.items()}
        states = {n: _array(value) for n, value in found_states.items() if isinstance(value, Tensor)}
    return EagerStep(float(value.detach()), gradients, states)


def _array(tensor: Tensor) -> Array:
    return np.array(tensor.detach().to_dense().cpu().numpy())
