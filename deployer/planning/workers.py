"""Threads for calls whose results are requested in a fixed order; progress counter; raised GC thresholds.

Threads suffice, as the solver and large arrays leave Python's lock to others.
"""

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from threading import Event, Lock
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
RARELY = (50_000, 20, 1000)
"""Python's thresholds of its three generations, which are 700, 10 and 10 by default."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def gc_paused() -> Iterator[None]:
    """Raise the garbage collector's thresholds while planning: plan objects are long-lived and acyclic.

    Collecting took 13 % of planning a network of 634 steps; without it the peak of memory is 6 % higher.
    """
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class ProgressCounter:
    """Progress counter of a work's chunks; `say` gets the number of finished ones after each, from any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.done = self.total = 0
        self._say, self._lock = say, Lock()

    def expect(self, count: int) -> None:
        """So many more parts are to come."""
        with self._lock:
            self.total += count

    def end(self, what: str) -> None:
        """One part, named `what`, is done."""
        with self._lock:
            self.done += 1
            share = 100 * self.done // self.total
            self._say(f"{share} %, {self.done} of {self.total} parts done, the last {what}")


class Stopped(Exception):
    """The context of a call's workers has ended, so that nobody asks for its result."""


class Workers:
    """A context in which calls run on `jobs` threads; with one job each runs where its result is asked for."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs) if jobs > 1 else None
        self._ended = Event()

    def __enter__(self) -> "Workers":
        """The context begins."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The context ends: calls that have not begun never do, and those that have stop at their next `proceed`."""
        self._ended.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def call(self, function: Callable[P, T], *words: P.args, **named: P.kwargs) -> Callable[[], T]:
        """A call that may begin at once; what is returned waits for its result, and raises what the call raised."""
        if self._pool is not None:
            return self._pool.submit(function, *words, **named).result
        return cache(partial(function, *words, **named))

    def proceed(self) -> None:
        """Called between the parts of long calls; raises Stopped where the context has ended."""
        if self._ended.is_set():
            raise Stopped
