"""PyTorch's tracer, which is imported when a module is first captured."""

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

TRACER = ("torch._dynamo", "torch._inductor")
"""Modules that `make_fx` imports."""


def import_tracer() -> None:
    """Import it, unless that was done."""
    with collection_paused():
        for name in TRACER:
            importlib.import_module(name)


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause Python's search for garbage in cycles, which looks at all objects of all modules again and again."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
