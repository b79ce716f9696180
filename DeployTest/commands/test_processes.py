"""Several processes at once, processes that are ended, and machines without space: started for real."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from deployer.running import output
from deployer.running.child import child_process
from DeployTest.commands.test_output import contents
from DeployTest.support.building.cases import HERE, case_dir
from DeployTest.support.building.command_line import deployer, generated, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
T = TypeVar("T")
PATIENCE = 300.0
SLOW = pytest.mark.slow


@pytest.fixture
def case(models_root: Path) -> Path:
    """The smallest training case."""
    return case_dir("simple_mlp", models_root)


def started(
    *words: object, limit: int | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """A command that runs beside this process; no file of it grows beyond `limit` bytes.

    It takes an interrupt and a hangup even where the tests run in the background, where jobs ignore them.
    """

    def restrict() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "deployer.cli", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE.parent,
        env={**os.environ, **(environment or {})},
        preexec_fn=restrict,
    )


def until(ask: Callable[[], T]) -> T:
    """The first answer that is not empty."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"nothing happened within {PATIENCE:.0f} s")


def no_scratch(folder: Path) -> bool:
    """Whether nothing temporary is left in an output folder."""
    return not list((folder / output.OWN).glob(f"{output.SCRATCH}*"))


@pytest.mark.slow
def test_runs_in_one_folder(case: Path, tmp_path: Path) -> None:
    """Of several at once one works, right, and the others end at once, naming the folder and the way out."""
    folder = tmp_path / "c"
    runs = [started("train", "-t", case, "-o", folder, "--dump", tmp_path / f"{i}.npz") for i in range(3)]
    messages = [run.communicate(timeout=PATIENCE)[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert set(codes) <= {0, 2}, messages
    assert 0 in codes
    expected = np.load(case / "outputs.npz")
    for index, (code, errors) in enumerate(zip(codes, messages, strict=True)):
        dump = tmp_path / f"{index}.npz"
        assert dump.exists() == (code == 0)
        if code == 2:
            assert f"{folder} is in use by another deployer" in errors
            assert "another -o" in errors
        else:
            shapes = {n: expected[n].shape for n in expected if not n.startswith("meta_")}
            assert {n: np.load(dump)[n].shape for n in shapes} == shapes
    assert no_scratch(folder)


HOLD = """
import sys, time
from pathlib import Path
from deployer.running import output
with output.opened(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_holder_is_named(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second process in a folder gets an error that names the first; a killed process holds no folder."""
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=HERE.parent) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            for command in ("train", "compile"):
                assert f"(process {holder.pid})" in refused(capsys, command, "-t", case, "-o", tmp_path)
        finally:
            holder.kill()
    assert deployer("train", "-t", case, "-o", tmp_path) == 0


@pytest.mark.slow
@pytest.mark.parametrize("delay", [pytest.param(d, marks=SLOW) for d in (0.5, 1.0, 2.0)] + [1.5])
def test_killed_at_any_time(delay: float, case: Path, tmp_path: Path) -> None:
    """After a kill the next run works as in a new folder, and takes nothing of the first for the user's."""
    folder, new = tmp_path / "c", tmp_path / "new"
    assert deployer("train", "-t", case, "-o", folder, "--no-fusion") == 0
    process = started("train", "-t", case, "-o", folder)
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert deployer("train", "-t", case, "-o", folder) == 0
    assert deployer("train", "-t", case, "-o", new) == 0
    assert generated(folder) == generated(new)
    assert no_scratch(folder)


SLEEPING = """#!/bin/sh
for word; do case "$last" in -o) out=$word;; esac; last=$word; done
case " $* " in *" -c "*|*"--version"*|*" -print"*) exec gcc "$@";; esac
printf '#!/bin/sh\\necho $$ > "$MARK"\\nexec sleep 600\\n' > "$out"
chmod +x "$out"
"""
"""A compiler whose programs write their process id and sleep."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=SLOW), pytest.param(signal.SIGHUP, marks=SLOW)]
)
def test_a_stopped_run_ends_its_program(number: signal.Signals, case: Path, tmp_path: Path) -> None:
    """A signal that ends a run ends its children too, with exit code 128 + signal, and leaves the folder free."""
    script, mark = tmp_path / "cc", tmp_path / "mark"
    script.write_text(SLEEPING)
    script.chmod(0o755)
    environment = {"CC": str(script), "MARK": str(mark), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    process = started("train", "-t", case, "-o", tmp_path / "c", environment=environment)
    child = int(until(lambda: mark.exists() and mark.read_text()))
    process.send_signal(number)
    errors = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors
    assert not Path(f"/proc/{child}/cwd").exists()
    assert no_scratch(tmp_path / "c")
    assert deployer("train", "-t", case, "-o", tmp_path / "c") == 0


def test_a_signal_while_a_child_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost, and the child, which nobody knows yet, does not outlive it."""
    children = list[subprocess.Popen[str]]()

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        """A child whose parent gets a signal before it knows the child."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            children.append(self)
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", Interrupted)
            with pytest.raises(KeyboardInterrupt), child_process(["sleep", "600"], tmp_path, subprocess.PIPE):
                pytest.fail("the signal was lost")
    finally:
        signal.signal(signal.SIGINT, handler)
    [child] = children
    assert child.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("limit", [pytest.param(n, marks=SLOW) for n in (0, 100, 3000, 55_000, 400_000)] + [20_000])
def test_no_space(limit: int, case: Path, tmp_path: Path) -> None:
    """No file may grow beyond a limit, as on a full disk: exit code 2 wherever it strikes, and no half file is left."""
    folder = tmp_path / "c"
    assert deployer("train", "-t", case, "-o", folder, "--no-fusion") == 0
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    process = started("train", "-t", case, "-o", folder, limit=limit, environment=environment)
    errors = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == (0 if limit == 400_000 else 2), errors
    assert "Traceback" not in errors
    assert output.foreign(folder, contents(folder)) == []
    assert no_scratch(folder)
    assert deployer("train", "-t", case, "-o", folder) == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", [["operators"], pytest.param(["train", "--help"], marks=SLOW)], ids=" ".join)
def test_nobody_reads(words: list[str]) -> None:
    """A reader that closes the pipe ends the command without a word, a full or closed output with 2 or well."""
    line = f"{sys.executable} -m deployer.cli {' '.join(words)}"
    for redirection, codes in ((" | true", {141, 0}), (" > /dev/full", {2, 0}), (" >&-", {0})):
        script = f'{line}{redirection}; echo "${{PIPESTATUS[0]}}" >&2'
        run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=HERE.parent)
        *errors, code = run.stderr.splitlines()
        assert int(code) in codes, run.stderr
        assert "Traceback" not in run.stderr
        assert "Exception ignored" not in run.stderr
        assert len(errors) <= 2
