"""One run of a command in a process of its own, from a folder as it was prepared, and what is in the folder after."""

import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from DeployTest.faults.machine.calls import Points, failing
from DeployTest.faults.machine.commands import COMMANDS, FOLDERS
from DeployTest.support.building.command_line import deployer

SECONDS = 120
"""A run that takes longer hangs."""
Tree = dict[str, str]


@dataclass
class Ran:
    """End of a run: exit code, None if it hung; printed errors, points, and modules that it loaded."""

    code: int | None
    errors: str
    seen: list[str] = field(default_factory=list)
    failed: str = ""
    modules: list[str] = field(default_factory=list)
    bytes: int = 0


class Bench:
    """A command's folder, made once and laid out anew for each run."""

    def __init__(self, name: str, root: Path) -> None:
        self.command, self.folder, self.kept = COMMANDS[name], root / "run", root / "kept"
        shutil.rmtree(root, ignore_errors=True)
        for below in ("", *FOLDERS.values()):
            (self.folder / below).mkdir(parents=True)
        made = self._apart(lambda: self.command.prepare() or 0)
        if made.code != 0:
            raise RuntimeError(f"{name} was not prepared:\n{made.errors}")
        shutil.copytree(self.folder, self.kept, symlinks=True)
        self.before = tree(self.folder)

    def laid_out(self) -> None:
        """The folder is as it was prepared."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder, symlinks=True)

    def run(self, fails: str = "", space: int = 0) -> Ran:
        """Run the command; the point `fails` fails, or the address space has at most `space` bytes more than now."""
        points = Points(fails)

        def command() -> int:
            if space:
                limit = address_space() + space
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                return deployer(*self.command.words)
            with failing(points):
                return deployer(*self.command.words)

        return self._apart(command, points)

    def _apart(self, call: Callable[[], int], points: Points | None = None) -> Ran:
        """The call in a process of its own, in the folder and its environment."""
        told, says = self.folder.with_name("told.json"), self.folder.with_name("says.txt")
        told.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if not child:
            _as_a_process(self.folder, says, told, call, points or Points())
        code = _awaited(child)
        record = json.loads(told.read_text()) if told.is_file() else {}
        return Ran(**{**record, "code": code, "errors": says.read_text(errors="replace")})


def _as_a_process(folder: Path, says: Path, told: Path, call: Callable[[], int], points: Points) -> None:
    """Make the call, say what it came by, and end this process."""
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.update({name: str(folder / below) for name, below in FOLDERS.items()})
        import tempfile

        tempfile.tempdir = None
        stream = open(says, "w")  # noqa: SIM115
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        code = call()
        sys.stdout.flush()
        record = {"seen": list(points.seen), "failed": points.failed, "bytes": address_space(peak=True)}
        own = ("deployer", "onnx", "ortools", "rich", "mako", "jinja2")
        told.write_text(json.dumps({**record, "modules": [m for m in sys.modules if m.split(".")[0] in own]}))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _awaited(child: int) -> int | None:
    """The exit code of a child, 128 and a signal where one ended it; None where it hung and was ended."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def address_space(peak: bool = False) -> int:
    """Bytes of this process's address space, now or at most."""
    key = "VmPeak:" if peak else "VmSize:"
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(key)]
    return int(line.split()[1]) * 1024


def tree(folder: Path) -> Tree:
    """Every file below a folder by its path, with the digest of what it holds."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def load(names: list[str]) -> None:
    """Import modules once for all runs that follow."""
    for name in names:
        if name not in sys.modules:
            importlib.import_module(name)
