"""Processes that call a function for a thread each, and are started again where they die."""

import contextlib
import multiprocessing
from collections.abc import Callable
from typing import Any

from deployer.core.errors import ToolFailed

WAIT = 5.0
"""Seconds until a process that was asked to end is ended."""


class WorkerProcess:
    """A process that calls a function, one call at a time, with a first argument that `make` gives there once."""

    def __init__(self, function: Callable[..., Any], make: Callable[[], Any]) -> None:
        self._made = function, make
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *self._made), daemon=True)
        self._process.start()
        other.close()

    def wait(self) -> None:
        """Wait until the process has started and answers; ToolFailed where it does not start."""
        try:
            self._pipe.recv()
        except EOFError as error:
            self._process.join(WAIT)
            facts = [("exit code", str(self._process.exitcode))]
            raise ToolFailed("a process for devices does not start", facts, "--backend threads") from error

    def call(self, *arguments: Any) -> Any:
        """The function's result; RuntimeError with the text of its error, or where the process dies meanwhile."""
        try:
            self._pipe.send(arguments)
            is_good, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(WAIT)
            code = self._process.exitcode
            self._start()
            self.wait()
            raise RuntimeError(f"the device's process has ended with exit code {code}") from error
        if not is_good:
            raise RuntimeError(result)
        return result

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(WAIT)
        if self._process.is_alive():
            self._process.kill()


def _serve(pipe: Any, function: Callable[..., Any], make: Callable[[], Any]) -> None:
    """Answer calls until there is none; an error is answered as its text."""
    first = make()
    pipe.send(None)
    while True:
        try:
            arguments = pipe.recv()
        except EOFError:
            return
        if arguments is None:
            return
        try:
            answer = True, function(first, *arguments)
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}"
        pipe.send(answer)
