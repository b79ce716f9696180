"""Device code of a library: C to bitcode, with the entries to PTX, checked, and assembled for a machine."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deployer.core.errors import ToolFailed
from deployer.racks import ptx, tools
from deployer.racks.library import RackLibrary
from deployer.racks.rules import RackRules
from deployer.sizing.objects import run_tool

PER_LANE = "-DRACK_DEVICE_PER_LANE"
GLUE = "library.h"
"""The generated header, which names the library's source."""
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)
_REGISTERS = re.compile(r"Used (\d+) registers")
_FOREIGN = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?(\w+)", re.MULTILINE)
"""A function that is declared and not defined."""
_FRAME = re.compile(r"(\d+) bytes stack frame")


@dataclass(frozen=True)
class Resources:
    """Needs of an entry: registers of a lane, bytes of its stack frame."""

    registers: int
    frame: int


@dataclass(frozen=True)
class DeviceCode:
    """Code for a machine's architecture, as a file, and what each of its entries takes."""

    cubin: Path
    architecture: str
    resources: Mapping[str, Resources]


def flags_of(rules: RackRules, language: Sequence[str]) -> list[str]:
    """The flags of both languages, and those of one of them."""
    architecture = rules.device.architecture
    return [word.replace("{architecture}", architecture) for word in (*rules.device.flags, *language)]


def write_glue(library: RackLibrary, folder: Path) -> list[str]:
    """Write the generated header into a folder; the folders in which the sources find their headers, as flags."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GLUE).write_text(library.glue())
    return [f"-I{folder}", f"-I{library.folder / 'src'}", f"-I{library.folder / 'include'}"]


def build_ptx(library: RackLibrary, rules: RackRules, device_per_lane: bool, folder: Path) -> Path:
    """Compile a library and the entries to PTX in a folder, and check it; its path.

    ToolMissing without a compiler, ToolFailed where it does not compile them or rounds in another way.
    """
    command, hal = tools.device_compiler(rules.device), rules.folder
    includes = [*write_glue(library, folder), f"-I{hal}", f"-I{hal / 'device'}", f"-isystem{hal / 'include'}"]
    mapping = [PER_LANE] if device_per_lane else []
    words = [*command, *flags_of(rules, rules.device.c_flags), *mapping, "-include", str(hal / "hal.h"), *includes]
    sources = [hal / "rack.c", *library.sources]
    bitcode = [folder / f"{source.stem}.bc" for source in sources]
    _all([[*words, str(source), "-o", str(out)] for source, out in zip(sources, bitcode, strict=True)])
    linked = [word for path in bitcode for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))]
    out = folder / "rack.ptx"
    entries = [*flags_of(rules, rules.device.entry_flags), f"-I{hal}", *linked]
    run_tool([*command, *entries, str(hal / "device/entries.cu"), "-o", str(out)])
    text = out.read_text()
    ptx.check(text)
    if unresolved := sorted(set(_FOREIGN.findall(text))):
        facts = [("functions", ", ".join(unresolved))]
        raise ToolFailed(f"library {library.name} calls functions that the machine does not have", facts)
    return out


def assemble(source: Path, rules: RackRules, architecture: str, out: Path) -> DeviceCode:
    """Assemble PTX for an architecture such as sm_90; ToolMissing without an assembler, ToolFailed where it fails."""
    words = [*tools.assembler(rules.device), *rules.device.assembler_flags, f"-arch={architecture}", str(source)]
    run = subprocess.run([*words, "-o", str(out)], capture_output=True, text=True, check=False)
    if run.returncode:
        raise ToolFailed(f"{words[0]} failed for {architecture}", [("said", (run.stdout + run.stderr)[-2000:])])
    return DeviceCode(out, architecture, dict(_resources(run.stdout + run.stderr)))


def _resources(said: str) -> Iterator[tuple[str, Resources]]:
    """The resources of each entry, as the assembler reports them; the largest frame of all is each one's."""
    frame = max(map(int, _FRAME.findall(said)), default=0)
    for entry, text in _ENTRY.findall(said):
        if found := _REGISTERS.search(text):
            yield entry, Resources(int(found[1]), frame)


def _all(commands: Sequence[list[str]]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run_tool, commands))
