"""A library as a module of Zephyr itself: built by its build system, and trained on a board that QEMU runs.

`ZEPHYR_BASE` names Zephyr's folder, with CMSIS where west puts it; its scripts run under the `python3` of PATH.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from DeployTest.firmware import nets
from DeployTest.firmware.test_builds import needed
from DeployTest.firmware.test_library import ran
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.zephyr, pytest.mark.training, pytest.mark.slow]

BOARD = "qemu_cortex_m3"
MACHINE = ("qemu-system-arm", "-cpu", "cortex-m3", "-machine", "lm3s6965evb", "-nographic", "-vga", "none", "-kernel")
TOOLS = ("cmake", "ninja", "dtc", "arm-none-eabi-gcc", MACHINE[0])
CMSIS = ("modules/hal/cmsis", "modules/hal/cmsis_6")
SECONDS = 120
APPLICATION = """cmake_minimum_required(VERSION 3.20)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project(trained C)
target_sources(app PRIVATE ${LIBRARY}/examples/main.c)
"""
SETTINGS = "CONFIG_DENSE=y\nCONFIG_CBPRINTF_FP_SUPPORT=y\nCONFIG_MAIN_STACK_SIZE=8192\n"


def _zephyr() -> Path:
    base = os.environ.get("ZEPHYR_BASE", "")
    if not base:
        pytest.skip("ZEPHYR_BASE is not set: it names the folder of Zephyr's source")
    needed(*TOOLS)
    return Path(base)


def _printed_until(last: str, *words: object) -> list[str]:
    """The lines of a program that never ends, up to one that begins with `last`."""
    with subprocess.Popen(["timeout", str(SECONDS), *map(str, words)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith(last):
                break
        process.terminate()
    return lines


def test_trains_under_zephyr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's Kconfig and CMake are taken as they are; losses, prediction and digest are the host's."""
    base = _zephyr()
    library, application, build = tmp_path / "dense", tmp_path / "application", tmp_path / "build"
    assert deployer("package", nets.dense_case(tmp_path / "case"), "--name", "dense", "-o", library) == 0
    application.mkdir()
    (application / "CMakeLists.txt").write_text(APPLICATION)
    (application / "prj.conf").write_text(SETTINGS)
    modules = [*(str(base.parent / place) for place in CMSIS if (base.parent / place).is_dir()), str(library)]
    compilers = str(shutil.which("arm-none-eabi-gcc")).removesuffix("gcc")
    monkeypatch.setenv("ZEPHYR_TOOLCHAIN_VARIANT", "cross-compile")
    monkeypatch.setenv("CROSS_COMPILE", compilers)
    options = (f"-DBOARD={BOARD}", f"-DZEPHYR_MODULES={';'.join(modules)}", f"-DLIBRARY={library}")
    ran("cmake", "-GNinja", "-S", application, "-B", build, *options)
    ran("ninja", "-C", build)
    expected = [line for line in ran("make", "-s", "-C", library, "run").splitlines() if line]
    printed = _printed_until("digest", *MACHINE, build / "zephyr/zephyr.elf")
    assert expected[0].startswith("loss 0 ")
    assert printed[-len(expected) :] == expected
