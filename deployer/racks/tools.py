"""Tools that make a rack's code: where they are, and errors that say how to get them."""

import importlib.util
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from deployer.core.errors import ToolMissing
from deployer.racks.rules import DeviceRules

EMULATE = "--emulate"
"""The option that needs neither the machine nor its tools."""


def device_compiler(rules: DeviceRules) -> list[str]:
    """The command of the compiler of device code; ToolMissing without it."""
    words = _command(rules.compiler, rules.compiler_env)
    if words is None:
        cause = f"compiler {rules.compiler[0]!r} of device code is not installed"
        hint = f"apt-get install clang; or set {rules.compiler_env} to another clang; or {EMULATE}"
        raise ToolMissing(cause, hint=hint)
    return words


def assembler(rules: DeviceRules) -> list[str]:
    """The command of the assembler, from PATH or from a Python package; ToolMissing without it."""
    words = _command(rules.assembler, rules.assembler_env) or _packaged(rules)
    if words is None:
        cause = f"assembler {rules.assembler[0]!r} of device code is not installed"
        ways = f"pip install {rules.assembler_package}; or install CUDA; or set {rules.assembler_env} to its path"
        raise ToolMissing(cause, hint=f"{ways}; or {EMULATE}")
    return words


def _command(usual: Sequence[str], variable: str) -> list[str] | None:
    """The words of a command: the environment's or the usual ones, if its program exists."""
    words = shlex.split(os.environ.get(variable, "")) or list(usual)
    return words if shutil.which(words[0]) else None


def _packaged(rules: DeviceRules) -> list[str] | None:
    """The assembler among the files of NVIDIA's Python packages, which are below one namespace."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob(f"*/bin/{rules.assembler[0]}")):
            return [str(path)]
    return None
