"""The command lines as a user starts them: the known scripts, and the `deployer` command in this process."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from deployer import cli
from deployer.commands.parser import commands_of, parser
from DeployTest.support.building.cases import HERE

LOSS = re.compile(r"^\[loss (\d+)\] computed=(\S+) ref=(\S+) diff=(\S+)$", re.MULTILINE)
BENCH = re.compile(
    r"^BENCH train_cycles=(\d+) opt_cycles=(\d+) l1_bytes=(\d+) l2_bytes=(\d+) l3_bytes=(\d+) clock=(\w+)$",
    re.MULTILINE,
)
ERRORS = re.compile(r"^Errors: (\d+) out of (\d+)$", re.MULTILINE)


def script(
    name: str, *words: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Start `DeployTest/<name>.py` in a process of its own."""
    return subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )


def deployer(*words: object) -> int:
    """Exit code of the `deployer` command in this process; whatever else it raises is a crash."""
    try:
        return cli.main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that must be refused, with exit code 2 and no traceback; return its message."""
    capsys.readouterr()
    assert deployer(*words) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def figures(text: str) -> dict[str, str]:
    """The BENCH line by key."""
    line = next(x for x in text.splitlines() if x.startswith("BENCH"))
    return dict(re.findall(r"(\w+)=(\S+)", line))


def bits(path: Path) -> dict[str, bytes]:
    """Every array of an npz as bytes."""
    with np.load(path) as data:
        return {name: data[name].tobytes() for name in data.files}


def generated(folder: Path) -> dict[str, bytes]:
    """Return the compiler's files: C, headers, artefacts, input; not those of gcc and the run."""
    suffixes = (".c", ".h", ".json", ".bin")
    outputs = {"output.bin", "report.json", "profile.json"}
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix in suffixes and p.name not in outputs}


def options(command: str) -> set[str]:
    """Every option string of a command."""
    found = commands_of(parser())[command]
    found.complete()
    return {word for action in found._actions for word in action.option_strings}
