"""Exit codes of commands by kind of error, and a crash report for developers about an unforeseen one."""

import errno
import hashlib
import io
import itertools
import os
import platform
import shlex
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from deployer import __version__
from deployer.core.errors import DeployerError, FileProblem, InternalError, ToolFailed, ToolMissing
from deployer.core.files.reading import real_path
from deployer.core.safe_text import escaped, json_line

INTERRUPTED, PIPE_CLOSED = 128 + signal.SIGINT, 128 + signal.SIGPIPE
ENVIRONMENT = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOLCK, errno.ETXTBSY, errno.ESTALE),
}
"""Error numbers of the operating system whose cause is the machine."""
NO_THREAD = "can't start new thread"
"""Python's words where memory, or the number of threads, is at its end."""
_OUTPUTS = ("-o", "--output", "--dump")
_READ = (".onnx", ".npz", ".json")
MOST_INPUTS = 50
"""The suffixes of files whose digests a report shows."""


def guarded(words: Sequence[str], command: Callable[[], int], lines: Callable[[], bool] = lambda: False) -> int:
    """Run a command; its exit code, or that of the error it ended with, which is printed on standard error.

    `words` are its command line, for the report. Where `lines` says so then, standard output has the error, too, as a
    line of JSON. Nothing is raised but SystemExit.
    """
    _steady_streams()
    try:
        with _endable():
            try:
                return command()
            finally:
                sys.stdout.flush()
    except BrokenPipeError:
        _silence()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _ended(_user_error(error), words, lines())


def _user_error(error: Exception) -> DeployerError:
    """The error to print for any exception."""
    match error:
        case DeployerError():
            return error
        case OSError() if error.filename is not None:
            return FileProblem(f"{error.filename}: {error.strerror}", hint="correct the path or its permissions")
        case OSError() if error.errno in ENVIRONMENT:
            _silence()
            return ToolFailed(f"the machine refused to read or write: {error.strerror}", hint="free space, or memory")
        case MemoryError():
            request = " ".join(str(error).split())
            return ToolFailed(
                f"memory is exhausted{f': {request}' if request else ''}", hint="free memory, or a smaller case"
            )
        case RuntimeError() if str(error) == NO_THREAD:
            return ToolFailed("the machine has no room for another thread", hint="free memory, or fewer processes")
        case ModuleNotFoundError() if not (error.name or "").startswith("deployer"):
            return ToolMissing(f"the package {error.name} is not installed", hint="pip install it")
        case _:
            unforeseen = InternalError(f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            unforeseen.__cause__ = error
            return unforeseen


def _ended(error: DeployerError, words: Sequence[str], line: bool) -> int:
    """Print the error; a fault of the compiler itself also gets a report. The exit code."""
    text = str(error)
    if error.exit_code == InternalError.exit_code:
        place = write_report(error, words)
        text += f"\n  {'report':<14} {place}" if place else "\n  no report could be written"
    tell(text)
    if line:
        with suppress(OSError, ValueError):
            record = {"event": "error", "exit_code": error.exit_code, "kind": error.title, **error.record}
            print(json_line(record), flush=True)
    return error.exit_code


def tell(text: str) -> None:
    """Print lines on standard error; a closed reader is ignored."""
    with suppress(OSError, ValueError):
        print("\n".join(map(escaped, text.split("\n"))), file=sys.stderr, flush=True)


def write_report(error: BaseException, words: Sequence[str]) -> Path | None:
    """A file with all that is needed to see the fault again; None where no folder takes it.

    It lies in the user's state folder ($XDG_STATE_HOME, else ~/.local/state), else in that of temporary files.
    """
    text = report(error, words).encode("utf-8", "backslashreplace")
    for folder in _report_folders():
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="fault-", suffix=".txt", dir=folder)
            with open(handle, "wb") as file:
                file.write(text)
            return Path(name)
    return None


def _report_folders() -> Iterator[Path]:
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state):
        yield Path(state) / "deployer"
    else:
        with suppress(RuntimeError):
            yield Path.home() / ".local" / "state" / "deployer"
    with suppress(OSError):
        yield Path(tempfile.gettempdir())


def report(error: BaseException, words: Sequence[str]) -> str:
    """The report's text: version, machine, command line, stage, digests of the input files, and the traceback."""
    rows = [
        f"deployer {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {shlex.join(['deployer', *words])}",
        f"stage: {_stage(error)}",
        *(f"input: {digest} {path}" for path, digest in itertools.islice(_inputs(words), MOST_INPUTS)),
        "",
        "".join(traceback.format_exception(error)),
    ]
    return "\n".join(rows)


def _stage(error: BaseException) -> str:
    """The stage that the pipeline had called when the error came, else the module of the package it came from."""
    package = Path(__file__).resolve().parents[1]
    root = error.__cause__ or error
    files = [real_path(Path(frame.filename)) for frame in traceback.extract_tb(root.__traceback__)]
    inside = [f for f in files if f.is_relative_to(package)]
    stages = [callee for caller, callee in itertools.pairwise(inside) if caller.name == "pipeline.py" != callee.name]
    return (stages or inside)[-1].stem if inside else "before the command"


def _inputs(words: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Every file that the command line names, or that lies in a folder it names, with its SHA-256."""
    for previous, word in zip(["", *words], words, strict=False):
        flag, _, value = word.partition("=")
        if previous in _OUTPUTS or flag in _OUTPUTS:
            continue
        path = Path(value if word.startswith("-") and value else word)
        with suppress(OSError, ValueError):
            files = [path] if path.is_file() else sorted(p for p in (*path.glob("*"), *path.glob("*/*")) if p.is_file())
            for file in files:
                if file == path or file.suffix in _READ:
                    yield file, hashlib.sha256(file.read_bytes()).hexdigest()


def _steady_streams() -> None:
    """Make missing standard streams, and let all of them print characters outside of their encoding as escapes."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, io.StringIO())
        stream = getattr(sys, name)
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _silence() -> None:
    """Let what is still buffered for a closed or full standard output go nowhere."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def _endable() -> Iterator[None]:
    """Within this context SIGTERM and SIGHUP raise first, so that child processes are ended too."""
    mine = threading.current_thread() is threading.main_thread()
    endings = (signal.SIGTERM, signal.SIGHUP) if mine else ()
    handled = [number for number in endings if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
