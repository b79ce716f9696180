"""Values of tensors that no data and no parameter reaches, such as masks, followed while a module is traced.

A trace knows shapes alone. What is computed of constants, and of buffers that forward leaves as they are, is computed
beside it in real numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from deployer.torch.tracing.draws import may_draw

LARGEST = 1 << 24
"""Elements of the largest tensor that is followed."""
SHAPED = {"zeros_like": 0, "ones_like": 1, "new_zeros": 0, "new_ones": 1}
"""Functions whose result depends on no element of their tensor, and its elements."""
FILLED = ("full_like", "new_full")
"""The same, with the number as last argument by position or as `fill_value`."""


class RandomNumbers(Exception):
    """A function draws random numbers."""


class _Undrawn(TorchDispatchMode):
    """Raises RandomNumbers where an operator may draw."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """The operator itself."""
        if may_draw(func):
            raise RandomNumbers(str(func))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class _Known:
    tensor: Tensor
    version: int
    value: Tensor
    buffers: frozenset[str]


@dataclass
class KnownValues:
    """Tensors of a trace by identity, kept alive so that none takes another's place, and their values."""

    known: dict[int, _Known] = field(default_factory=dict)
    relied: set[str] = field(default_factory=set)
    """Buffers that the trace takes for constants."""

    def note(self, tensor: Tensor, value: Tensor, buffers: Iterable[str] = ()) -> None:
        """Note a copy of a tensor's value, unless it is too large."""
        if value.numel() <= LARGEST:
            self.known[id(tensor)] = _Known(tensor, tensor._version, copied(value), frozenset(buffers))

    def value(self, tensor: Tensor) -> Tensor | None:
        """Return the value of a tensor on which the trace then relies; None where it is unknown."""
        found = self._of(tensor)
        if found is None:
            return None
        self.relied |= found.buffers
        return copied(found.value)

    def _of(self, tensor: Tensor) -> _Known | None:
        found = self.known.get(id(tensor))
        if found is not None:
            return found if found.version == tensor._version else None
        if isinstance(tensor, FakeTensor) or tensor.requires_grad or tensor.numel() > LARGEST:
            return None
        self.note(tensor, tensor)
        return self.known.get(id(tensor))

    @contextmanager
    def seeing(self, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Compute the result of a call, which the caller appends to the list, in real numbers where they are known."""
        name, results = getattr(func, "__name__", ""), list[Any]()
        tensors = _tensors((args, tuple(kwargs.values())))
        sources = None if name in SHAPED or name in FILLED else self._sources(tensors)
        yield results
        result = results[0] if results else None
        made = _tensors((result,))
        if any(t.requires_grad or t.numel() > LARGEST for t in made) or (not made and name != "__setitem__"):
            return
        if sources is None and not self._is_filled(name, args, kwargs, made):
            return
        names = frozenset(n for s in sources or () for n in s.buffers)
        if sources is None:
            values = [_filled(name, args, kwargs, made[0])]
        else:
            found = _computed(func, args, kwargs, {id(s.tensor): s.value for s in sources})
            values = found if found is not None else []
        written = [s.tensor for s in sources or () if s.tensor._version != s.version]
        if sources is not None and written and (name == "__setitem__" or made == written):
            self.note(written[0], next(s.value for s in sources if s.tensor is written[0]), names)
        elif len(values) == len(made) and all(v.shape == t.shape for v, t in zip(values, made, strict=True)):
            for tensor, value in zip(made, values, strict=True):
                self.note(tensor, value.to(tensor.dtype), names)

    def _sources(self, tensors: Sequence[Tensor]) -> list[_Known] | None:
        """The known of all tensors; None where one is unknown."""
        found = [self._of(t) for t in tensors]
        return None if any(f is None for f in found) else [f for f in found if f is not None]

    @staticmethod
    def _is_filled(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], made: Sequence[Tensor]) -> bool:
        number = kwargs.get("fill_value", args[-1] if args else None)
        return len(made) == 1 and (name in SHAPED or (name in FILLED and isinstance(number, int | float)))


def copied(tensor: Tensor) -> Tensor:
    """A copy of a tensor with real numbers, which is not traced."""
    with _disable_current_modes():
        return tensor.detach().clone()


def _filled(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], like: Tensor) -> Tensor:
    number = SHAPED[name] if name in SHAPED else kwargs.get("fill_value", args[-1])
    with _disable_current_modes():
        return torch.full(tuple(like.shape), number, dtype=like.dtype)


def _computed(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], values: Mapping[int, Tensor]
) -> list[Tensor] | None:
    """The results of a call in real numbers; None where it draws numbers or cannot be computed so."""

    def real(x: Any) -> Any:
        if isinstance(x, Tensor):
            return values[id(x)]
        if isinstance(x, list | tuple) and type(x) in (list, tuple):
            return type(x)(real(y) for y in x)
        return x

    try:
        with _disable_current_modes(), torch.no_grad(), _Undrawn():
            return _tensors((func(*real(tuple(args)), **{n: real(x) for n, x in kwargs.items()}),))
    except Exception:  # the trace says what is wrong with it
        return None


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    """All tensors in lists and tuples."""
    found = list[Tensor]()
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found
