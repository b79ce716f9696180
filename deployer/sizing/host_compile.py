"""A library compiled by this machine's compiler before it is written: a name or a kernel that breaks it shows here."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from deployer.core import target as targets
from deployer.core.errors import ToolFailed, ToolMissing
from deployer.firmware.library import library_tools
from deployer.firmware.sources import library_rules
from deployer.running.build import compiler
from deployer.sizing.objects import run_tool

LEAVE_OUT = "--no-compile"
"""The option by which nothing is compiled."""


def compile_here(files: Mapping[str, str | bytes], name: str) -> str:
    """Compile all sources of a library and its example; the compiler's name.

    ToolMissing without a compiler, ToolFailed with its messages where it does not compile them.
    """
    rules = library_rules()
    tools = library_tools(targets.load(rules.target))
    try:
        command = compiler(tools)
    except ToolMissing as error:
        hint = f"{error.hint}; or {LEAVE_OUT}, which writes the library without compiling it"
        raise ToolMissing(error.cause, error.facts, hint) from None
    sources = sorted(path for path in files if path.endswith(".c"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for path, text in files.items():
            if path.endswith((".c", ".h")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(str(text))
        words = [*command, f"-std=c{rules.standard}", "-O0", *rules.flags, "-Iinclude", "-c", *sources]
        try:
            run_tool(words, folder)
        except ToolFailed as error:
            hint = f"another --name where {name!r} is in the way; {LEAVE_OUT} writes the library all the same"
            cause = f"library {name} does not compile with {command[0]}, and was not written"
            raise ToolFailed(cause, error.facts, hint) from None
    return command[0]
