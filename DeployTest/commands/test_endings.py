"""Exit codes of every kind of error, and the crash report of an unforeseen one."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from deployer import __version__
from deployer.commands import listings
from deployer.core.errors import DeployerError, OptionProblem, VerifyFailed
from deployer.running import run as run_stage
from DeployTest.support.building.cases import HERE, case_dir
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the crash reports."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "deployer"


ENDINGS: dict[str, tuple[BaseException, int, str]] = {
    "a user's error": (OptionProblem("cause"), 2, "OptionProblem: cause"),
    "our own": (VerifyFailed("rule", "cause"), 70, "VerifyFailed: [rule] cause"),
    "one of no kind": (DeployerError("cause"), 70, "DeployerError: cause"),
    "a value": (ValueError("bad\nvalue"), 70, "InternalError: unexpected ValueError: bad value"),
    "an assertion": (AssertionError(), 70, "unexpected AssertionError"),
    "a key": (KeyError("x"), 70, "unexpected KeyError: 'x'"),
    "too deep": (RecursionError("maximum recursion depth exceeded"), 70, "unexpected RecursionError"),
    "no iteration": (StopIteration(), 70, "unexpected StopIteration"),
    "a name no terminal shows": (ValueError("\udcff\u202e"), 70, "unexpected ValueError"),
    "no memory": (MemoryError("Unable to allocate 9 GiB"), 2, "memory is exhausted: Unable to allocate 9 GiB"),
    "no thread": (RuntimeError("can't start new thread"), 2, "no room for another thread"),
    "a file": (FileNotFoundError(errno.ENOENT, "No such file", "/x"), 2, "FileProblem: /x: No such file"),
    "a full disk": (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left on device"),
    "a fault of a call": (OSError(errno.EINVAL, "Invalid argument"), 70, "unexpected OSError"),
    "a package": (ModuleNotFoundError("No module named 'x'", name="x"), 2, "the package x is not installed"),
    "a module of ours": (ModuleNotFoundError("no", name="deployer.x"), 70, "unexpected ModuleNotFoundError"),
    "an interruption": (KeyboardInterrupt(), 130, "interrupted"),
    "a closed pipe": (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_codes(name: str, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error has its code, one line, and where it is ours a report, whose place is named."""
    error, code, cause = ENDINGS[name]

    def fail(*arguments: object) -> int:
        raise error

    monkeypatch.setattr(listings, "list_targets", fail)
    assert deployer("targets") == code
    streams = capsys.readouterr()
    lines = streams.err.splitlines()
    assert cause in (lines or [""])[0]
    assert len(lines) <= 2
    assert "Traceback" not in streams.err + streams.out
    reports = list(state.glob("*")) if state.exists() else []
    assert len(reports) == (code == 70)
    assert all(str(path) in streams.err for path in reports)


def test_report(
    models_root: Path, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report tells version, command line, stage, digests of what was read, and the traceback."""
    case = case_dir("simple_mlp", models_root)

    def fail(*arguments: object) -> int:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("deployer.planning.schedule._leanest", fail)
    assert deployer("train", "-t", case, "--l1", "2000", "-o", state.parent / "c") == 70
    [path] = state.iterdir()
    text = path.read_text()
    assert f"deployer {__version__}, Python 3" in text
    assert f"command: deployer train -t {case} --l1 2000 -o" in text
    assert "stage: schedule\n" in text
    for name in ("network.onnx", "inputs.npz", "outputs.npz"):
        assert f"input: {hashlib.sha256((case / name).read_bytes()).hexdigest()} {case / name}\n" in text
    assert text.rstrip().endswith("InternalError: unexpected ZeroDivisionError: planted")
    assert "in fail" in text
    assert str(path) in capsys.readouterr().err


def test_report_of_a_cause_from_nowhere(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause that was never raised has no stage, and is reported all the same."""

    def fail(*arguments: object) -> int:
        raise VerifyFailed("rule", "cause") from ValueError("never raised")

    monkeypatch.setattr(listings, "list_targets", fail)
    assert deployer("targets") == 70
    [path] = state.iterdir()
    assert "stage: before the command\n" in path.read_text()


def test_report_elsewhere(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A report goes to the temporary folder if the state folder is not writable; if neither is, the message says so."""

    def fail(*arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(listings, "list_targets", fail)
    state.parent.mkdir()
    state.write_text("in the way")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    assert deployer("targets") == 70
    [path] = (tmp_path / "temporary").iterdir()
    assert str(path) in capsys.readouterr().err
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    assert deployer("targets") == 70
    assert "no report could be written" in capsys.readouterr().err


def test_an_ascii_terminal(models_root: Path, tmp_path: Path) -> None:
    """Names that a terminal cannot show are shown as escapes; the files have them as they are."""
    folder = tmp_path / "é→\udcff"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"this file system takes no such name: {error}")
    words = ["train", "-t", os.fsencode(case_dir("simple_mlp", models_root)), "-o", os.fsencode(folder)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "80"}
    line = [sys.executable, "-m", "deployer.cli", *words]
    run = subprocess.run(line, capture_output=True, check=False, cwd=HERE.parent, env=environment)
    assert run.returncode == 0, run.stderr
    assert rb"/\udcc3\udca9\udce2\udc86\udc92\udcff" in run.stdout
    run = subprocess.run([*line, b"--l1", b"1"], capture_output=True, check=False, cwd=HERE.parent, env=environment)
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr


def test_time_limit(
    models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run ends at the limit of the environment, which its error names; a limit that is none is refused.

    One that ends badly is blamed on the disk where that has less room than what a good run dumps.
    """
    case = ("-t", case_dir("simple_mlp", models_root), "-o", tmp_path)
    assert deployer("compile", *case) == 0
    run = ("train", *case, "--skipgen")
    monkeypatch.setenv("DEPLOYER_TIME_LIMIT", "0")
    assert deployer(*run) == 0
    dumped = (tmp_path / "output.bin").stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(run_stage, "supervised", lambda *words: (3, "", ""))
        for free, code, words in ((dumped - 1, 2, "status 3: the disk is full"), (dumped, 70, "ended with status 3")):
            patch.setattr(shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
            assert deployer(*run) == code
            assert words in capsys.readouterr().err
    monkeypatch.setenv("DEPLOYER_TIME_LIMIT", "0.000001")
    assert deployer(*run) in (2, 70)
    assert "DEPLOYER_TIME_LIMIT=7200 in the environment" in capsys.readouterr().err
    for text in ("soon", "-1", "nan", "1e300"):
        monkeypatch.setenv("DEPLOYER_TIME_LIMIT", text)
        assert deployer(*run) == 2
        assert f"DEPLOYER_TIME_LIMIT is {text!r}, not a number of seconds" in capsys.readouterr().err
