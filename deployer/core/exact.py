"""Numbers of attributes: the float32 that a kernel gets or, where a module's own numbers are meant, what they are."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_EXACT = ContextVar("exact settings", default=False)


@contextmanager
def exact_settings() -> Iterator[None]:
    """Evaluate references with attributes as they are, and not with the float32 that a kernel gets."""
    token = _EXACT.set(True)
    try:
        yield
    finally:
        _EXACT.reset(token)


def as_kernel(number: float) -> float:
    """An attribute as the float32 that a kernel gets; within `exact_settings` it is what it is."""
    with np.errstate(over="ignore"):
        return number if _EXACT.get() else float(np.float32(number))
