"""Emulation of a rack's machine: groups of lanes as threads of this one, in a process of its own."""

import struct
import subprocess
from pathlib import Path

from deployer.core import target as targets
from deployer.core.errors import RunFailed
from deployer.firmware.common import library_tools
from deployer.firmware.sources import library_rules
from deployer.racks.device_code import PER_LANE, write_glue
from deployer.racks.launch import MachineLimits
from deployer.racks.library import RackLibrary
from deployer.racks.machine import RackCall
from deployer.racks.rules import RackRules
from deployer.running.build import compiler
from deployer.sizing.objects import run_tool


def build_emulation(
    library: RackLibrary, rules: RackRules, device_per_lane: bool, folder: Path, races: bool = False
) -> Path:
    """Compile a library and the entries for this machine; the program's path.

    With `races` a sanitizer watches the threads. ToolMissing and ToolFailed as for a library's test.
    """
    command = compiler(library_tools(targets.load(library_rules().target)))
    hal, emulation = rules.folder, rules.emulation
    includes = [*write_glue(library, folder), f"-I{hal}", f"-I{hal / 'emulated'}"]
    words = [*command, *emulation.flags, *(emulation.race_flags if races else ())]
    words += [flag for flag in emulation.optional if _is_taken(command, flag)]
    words += [*([PER_LANE] if device_per_lane else []), "-include", str(hal / "hal.h"), *includes]
    sources = [hal / "rack.c", *library.sources, hal / "emulated/main.c"]
    out = folder / "rack"
    run_tool([*words, *map(str, sources), *emulation.link, "-o", str(out)])
    return out


def _is_taken(command: list[str], flag: str) -> bool:
    words = [*command, flag, "-E", "-x", "c", "/dev/null", "-o", "/dev/null"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


class EmulatedMachine:
    """A running emulation; `said` is the file that gets its messages, such as those of a sanitizer."""

    def __init__(self, program: Path, rules: RackRules) -> None:
        """Start the program."""
        self.limits = MachineLimits("the emulation", 1 << 40, rules.emulation.scratch)
        listed = run_tool([str(program), "entries"])
        self._entries = {name: number for number, name in enumerate(listed.split())}
        self.said = program.with_suffix(".err")
        with self.said.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )

    def _send(self, command: bytes, *numbers: int, content: bytes = b"") -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + struct.pack(f"<{len(numbers)}Q", *numbers) + content)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def _receive(self, count: int) -> bytes:
        assert self._process.stdout is not None
        content = self._process.stdout.read(count)
        if len(content) < count:
            self._fail()
        return content

    def _fail(self) -> None:
        """Raise RunFailed with what the program has said."""
        code = self._process.wait()
        text = self.said.read_text(errors="replace")[-2000:]
        raise RunFailed(f"the emulation of a rack ended with {code}", [("said", text or "nothing")])

    def _number(self) -> int:
        [number] = struct.unpack("<Q", self._receive(8))
        return int(number)

    def allocate(self, count: int) -> int:
        """Return the address of so many bytes, all 0."""
        self._send(b"a", max(count, 1))
        address = self._number()
        if not address:
            raise RunFailed(f"the emulation has no {count} B", hint="fewer devices")
        return address

    def free(self, address: int) -> None:
        """Give memory back."""
        self._send(b"f", address)

    def write(self, address: int, content: bytes) -> None:
        """Copy bytes to the emulation."""
        self._send(b"w", address, len(content), content=content)

    def read(self, address: int, count: int) -> bytes:
        """Copy bytes from the emulation."""
        self._send(b"r", address, count)
        return self._receive(count)

    def launch(self, entry: str, groups: int, lanes: int, scratch: int, call: RackCall) -> None:
        """Run an entry on so many groups, one after the other."""
        self._send(b"l", self._entries[entry], groups, lanes, scratch, content=call.packed())
        self._number()

    def close(self) -> None:
        """End the program; RunFailed where it does not end well, as where its sanitizer has found a race."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        if self._process.wait():
            self._fail()
