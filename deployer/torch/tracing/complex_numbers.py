"""Complex numbers of a module as pairs of tensors while it is traced: programs compute with real numbers alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from deployer.core.errors import UnsupportedOperator

LIKE_REAL = (
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "expand"),
    *("expand_as", "contiguous", "clone", "detach", "__getitem__", "select", "narrow", "repeat", "swapaxes", "roll"),
    *("__neg__", "neg", "sum", "mean"),
)
"""Functions of a tensor that do the same to both parts."""
FACTS = ("shape", "ndim", "device", "requires_grad", "dim", "size", "numel", "__len__")
"""Facts of a pair that are those of its real part."""


class Complex:
    """A tensor of complex numbers: its real and its imaginary part, of one shape."""

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        self.real, self.imag = real, imag

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """The parts of a complex tensor of PyTorch."""
        parts = torch.view_as_real(tensor)
        return cls(parts[..., 0], parts[..., 1])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Return what a function of PyTorch gives for pairs; UnsupportedOperator where it is not known here."""
        return computed(getattr(func, "__name__", ""), args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        """A method of tensors, or a fact that both parts share."""
        if name.startswith("__") and name not in KNOWN:
            raise AttributeError(name)
        if name in FACTS:
            return getattr(self.real, name)
        if name == "dtype":
            return torch.complex64
        return lambda *args, **kwargs: computed(name, (self, *args), kwargs)

    def __getitem__(self, places: Any) -> Any:
        return computed("__getitem__", (self, places), {})

    def __len__(self) -> int:
        return len(self.real)

    def __add__(self, other: Any) -> Any:
        return computed("add", (self, other), {})

    def __sub__(self, other: Any) -> Any:
        return computed("sub", (self, other), {})

    def __mul__(self, other: Any) -> Any:
        return computed("mul", (self, other), {})

    def __truediv__(self, other: Any) -> Any:
        return computed("div", (self, other), {})

    def __neg__(self) -> Any:
        return computed("neg", (self,), {})

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Any:
        return computed("sub", (other, self), {})


def _pair(x: Any) -> Complex:
    if isinstance(x, Complex):
        return x
    if isinstance(x, Tensor) and x.is_complex():
        return Complex.of(x)
    if isinstance(x, Tensor):
        return Complex(x, torch.zeros_like(x))
    number = complex(x)
    return Complex(torch.tensor(number.real), torch.tensor(number.imag))


def _is_real(x: Any) -> bool:
    return isinstance(x, int | float) or (isinstance(x, Tensor) and not x.is_complex())


def _product(x: Any, y: Any) -> Complex:
    a, b = (v if _is_real(v) else _pair(v) for v in (x, y))
    if not isinstance(a, Complex):
        a, b = b, a
    if not isinstance(b, Complex):
        return Complex(a.real * b, a.imag * b)
    return Complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _quotient(x: Any, y: Any) -> Complex:
    if _is_real(y):
        a = _pair(x)
        return Complex(a.real / y, a.imag / y)
    b = _pair(y)
    square = b.real * b.real + b.imag * b.imag
    top = _product(x, Complex(b.real, -b.imag))
    return Complex(top.real / square, top.imag / square)


def _sum(x: Any, y: Any) -> Complex:
    a, b = _pair(x), _pair(y)
    return Complex(a.real + b.real, a.imag + b.imag)


def _difference(x: Any, y: Any) -> Complex:
    a, b = _pair(x), _pair(y)
    return Complex(a.real - b.real, a.imag - b.imag)


def _typed(x: Complex, *args: Any, **kwargs: Any) -> Complex:
    wanted = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.dtype | Tensor | Complex)]
    dtypes = [a if isinstance(a, torch.dtype) else a.dtype for a in wanted]
    if not all(dtype.is_complex for dtype in dtypes):
        raise UnsupportedOperator(
            "complex numbers are turned into real ones", hint="torch.view_as_real, .real or .imag"
        )
    return x


KNOWN: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("mul", "__mul__", "__rmul__", "multiply"), _product),
    **dict.fromkeys(("div", "__truediv__", "true_divide"), _quotient),
    **dict.fromkeys(("add", "__add__", "__radd__"), _sum),
    **dict.fromkeys(("sub", "__sub__"), _difference),
    **dict.fromkeys(("to", "type", "type_as", "cfloat"), _typed),
    "__rsub__": lambda x, y: _difference(y, x),
    "view_as_real": lambda x: torch.stack((x.real, x.imag), -1),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "conj": lambda x: Complex(x.real, -x.imag),
    "resolve_conj": lambda x: x,
    "abs": lambda x: torch.sqrt(x.real * x.real + x.imag * x.imag),
    "is_complex": lambda x: True,
    "is_floating_point": lambda x: False,
}
"""Functions by name: (pairs, tensors, numbers) -> a pair or a tensor."""


def computed(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a function of that name gives; UnsupportedOperator for one that is not known of complex numbers."""
    if name in KNOWN:
        return KNOWN[name](*args, **kwargs)
    first = _pair(args[0])
    if name in FACTS:
        return getattr(first.real, name)(*args[1:], **kwargs)
    if name not in LIKE_REAL:
        hint = "real and imaginary parts, or a matrix product with sines and cosines"
        raise UnsupportedOperator(f"{name} of complex numbers is not supported", hint=hint)
    return Complex(*(getattr(part, name)(*args[1:], **kwargs) for part in (first.real, first.imag)))


def is_complex(name: str, args: Sequence[Any]) -> bool:
    """Whether a function is called with a pair, or with a complex tensor of which it makes another one."""
    if any(isinstance(a, Complex) for a in args):
        return True
    makes = name not in ("clone", "detach") and not name.startswith(("__get__", "__set__"))
    return makes and any(isinstance(a, Tensor) and a.is_complex() for a in args)
