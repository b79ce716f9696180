"""Child processes that end with the command that started them, whenever a signal ends that."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from deployer.core.errors import ToolFailed

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command by an exception."""


@contextmanager
def child_process(command: Sequence[str], directory: Path, stderr: int) -> "Iterator[subprocess.Popen[str]]":
    """Start a command in a folder and in a session of its own; it and its children end if the context raises.

    Standard output is a pipe, standard error is `stderr` of `subprocess`. ToolFailed where it cannot be started.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _endings_held():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                errors="backslashreplace",
                cwd=directory,
                start_new_session=True,
            )
        yield process
    except BaseException as error:
        if process is not None:
            end(process)
        elif isinstance(error, OSError):
            cause = f"{command[0]} cannot be started: {error.strerror}"
            raise ToolFailed(cause, hint="start it again") from error
        raise


def end(process: "subprocess.Popen[str]") -> None:
    """Kill the process with its children, and wait for its end."""
    if process.returncode is None:  # else its number may be another's by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _endings_held() -> Iterator[None]:
    """Signals that end the command wait until the context ends: else a child that has just begun would be lost."""
    arrived = list[int]()
    mine = threading.current_thread() is threading.main_thread()
    handlers = {number: handler for number in ENDINGS if mine and callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda each, _: arrived.append(each))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in arrived:
            signal.raise_signal(each)
