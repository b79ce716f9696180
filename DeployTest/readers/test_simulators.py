"""Simulators that lack the machine: the request cannot be met here, which is no fault of the compiler."""

import os
import shutil
from pathlib import Path

import pytest

from deployer.core import target
from deployer.core.errors import ToolFailed
from deployer.running.run import not_run
from DeployTest.support.building.cases import case_dir
from DeployTest.support.building.command_line import refused
from DeployTest.targets.simulators import needs_compiler

pytestmark = [pytest.mark.host]
SAYS = "unsupported machine type"


@pytest.mark.parametrize("status", [0, 1, 2])
def test_without_the_machine(
    status: int, models_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A simulator that ends before the program says a word: exit code 2, with what it said and what to install."""
    needs_compiler("qemu_riscv")
    simulator = tmp_path / "bin" / target.load("qemu_riscv").toolchain.run[0]
    simulator.parent.mkdir()
    simulator.write_text(f"#!/bin/sh\necho '{SAYS}' >&2\nexit {status}\n")
    simulator.chmod(0o755)
    monkeypatch.setenv("RISCV_GCC", str(shutil.which("riscv64-unknown-elf-gcc")))
    monkeypatch.setenv("PATH", f"{simulator.parent}{os.pathsep}{os.environ['PATH']}")
    words = ("train", "-t", case_dir("simple_mlp", models_root), "-p", "qemu_riscv", "--l1", 64000)
    message = refused(capsys, *words, "-o", tmp_path / "out")
    assert "ToolFailed" in message
    assert SAYS in message
    assert "apt-get install qemu-system-misc" in message


def test_what_a_program_says_is_its_own_fault() -> None:
    """A program that ran and failed, one that a signal ended, and one without a simulator are judged as ever."""
    qemu, host = target.load("qemu_riscv").toolchain, target.load("host").toolchain
    assert isinstance(not_run(qemu, 1, "", ()), ToolFailed)
    assert not_run(qemu, 3, "hal: trap, pc 0", ()) is None
    assert not_run(qemu, -11, "", ()) is None
    assert not_run(host, 1, "", ()) is None
