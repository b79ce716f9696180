"""Bare-metal targets in tests: what is installed, hand-written programs over a target's HAL, and their runs."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from deployer.core import target as targets
from deployer.core.errors import ToolMissing
from deployer.core.plan import Options
from deployer.running import build
from deployer.running import run as runner
from deployer.sizing.boards import core_of
from deployer.sizing.emulated import need_emulator
from deployer.sizing.objects import need_compiler

TIMEOUT = 60.0
TARGETS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("qemu_riscv", "siracusa")]


@dataclass(frozen=True)
class Run:
    """Exit status of a program, the text it printed, and the bytes of its output file."""

    status: int
    text: str
    output: bytes


def needs_compiler(target: str) -> None:
    """Skip where the target's compiler is absent."""
    try:
        build.compiler(build.toolchain(targets.load(target)))
    except ToolMissing as problem:
        pytest.skip(f"{problem.cause}: {problem.hint}")


def needs_simulator(target: str) -> None:
    """Skip where the target's compiler or simulator is absent."""
    needs_compiler(target)
    tools = build.toolchain(targets.load(target))
    if not runner.available(tools):
        pytest.skip(f"{tools.run[0]} is not installed: {tools.run_hint}")


def needs_core(name: str) -> None:
    """Skip where the compiler or the emulator of a processor core is absent."""
    try:
        need_compiler(core_of(name))
        need_emulator(core_of(name))
    except ToolMissing as problem:
        pytest.skip(str(problem))


def build_source(target: str, source: str, directory: Path) -> Path:
    """Link a program's one file with the target's HAL as the compiler links generated ones; its path."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.c").write_text(source)
    levels = [SimpleNamespace(name=level.name, peak=level.budget) for level in targets.load(target).levels]
    return build.build_program(
        SimpleNamespace(options=Options(target), steps=(), levels=levels), directory, sources=["program.c"]
    )


def simulate(target: str, directory: Path, data: bytes = b"", *flags: str) -> Run:
    """Run what was built in `directory`; a program that hangs fails the test."""
    (directory / "input.bin").write_bytes(data)
    sink = directory / "output.bin"
    sink.unlink(missing_ok=True)
    command = runner.command_line(target, build.toolchain(targets.load(target)), directory, flags)
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        pytest.fail(f"{command[0]} did not end within {TIMEOUT:.0f} s: {text[-2000:]}")
    return Run(process.returncode, text, sink.read_bytes() if sink.is_file() else b"")
