"""Machine code of Siracusa's kernels beside the cluster's instruction caches.

`python -m DeployTest.benchmarks.cluster.kernel_code` writes the table of docs/cluster.md; `--lower` makes the sizes of
kernel_code.toml those that are measured, where these are smaller, and leaves out kernels that keep within the limits.
No simulator is needed, only the target's compiler.
"""

import argparse
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.codegen.generate import kernel_files
from deployer.core import target
from deployer.core.kernel import function_name
from deployer.core.operator import registry
from deployer.kernel_variants.conditions import LIST, variants_of
from deployer.running import build
from deployer.running.build import COMMON, KernelSource, function_source, source_folders
from deployer.sizing.objects import version_of
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.documents.cycle_tables import end
from DeployTest.support.kernels.machine_code import Code, read_object

LISTED = Path(__file__).with_suffix(".toml")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
MARKS = ("<!-- code table -->", "<!-- end of code table -->")
TARGET = "siracusa"


@dataclass(frozen=True)
class Allowed:
    """Limits of kernel_code.toml: bytes of a kernel and of an innermost loop, and larger limits of some kernels."""

    compiler: str
    code: int
    block: int
    larger: Mapping[str, Mapping[str, Any]]

    def faults(self, codes: Mapping[str, Code]) -> list[str]:
        """Kernels beyond what they may have, with both numbers, and listed ones that no longer need it."""
        found = []
        for symbol, code in sorted(codes.items()):
            own = self.larger.get(symbol, {})
            for part, size, usual in (("code", code.bytes, self.code), ("block", code.block, self.block)):
                most = int(own.get(part, usual))
                if size > most:
                    found.append(f"{symbol}: {part} of {size} B, at most {most} B, {code.place or 'no loop'}")
                if part in own and size <= usual:
                    found.append(f"{symbol}: {part} of {size} B keeps within {usual} B and need not be listed")
        return found


def allowed() -> Allowed:
    """The limits and the list."""
    return Allowed(**tomllib.loads(LISTED.read_text()))


def compiler_version() -> str:
    """Return the version of the target's compiler; raise ToolMissing without one."""
    return version_of(build.compiler(build.toolchain(target.load(TARGET)))[0])


def codes(folder: Path) -> dict[str, Code]:
    """The code of each kernel, and of each function for some calls of it, compiled for the target in a folder."""
    tools = build.toolchain(target.load(TARGET))
    kernels = {op.kernel.symbol: op.kernel for op in registry().values() if op.kernel is not None}
    for kernel in kernels.values():
        for name, content in kernel_files(kernel).items():
            (folder / name).write_text(content)
    includes = [f"-I{place}" for place in (COMMON / "include", *source_folders(tools))]
    command = build.compiler(tools)
    words = [*command, *build.flags_of(tools), *includes, "-idirafter", str(folder), "-c"]
    objdump = re.sub(r"gcc(?=[^/]*$)", "objdump", command[0])

    def one(source: tuple[str, KernelSource]) -> Code:
        made = folder / f"{source[0]}.o"
        subprocess.run([*words, str(source[1].written(folder)), "-o", str(made)], check=True)
        return read_object(made, objdump)

    machine = target.load(TARGET)
    sources = {
        function_name(symbol, name): function_source(symbol, name, machine, tools, folder)
        for symbol in kernels
        for name in ("", *(variant.name for variant in variants_of(symbol, machine)))
    }
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(sorted(sources), pool.map(one, sorted(sources.items())), strict=True))


def own_functions() -> set[str]:
    """The target's own kernels, general functions and variants, by function name."""
    folder = target.TARGETS_DIR / TARGET / "kernels"
    general = {path.stem for path in folder.glob("*.c")} | {path.parent.name for path in folder.glob(f"*/{LIST}")}
    found = ((symbol, variant) for symbol in general for variant in variants_of(symbol, target.load(TARGET)))
    return general | {function_name(symbol, variant.name) for symbol, variant in found}


def table(found: Mapping[str, Code], limits: Allowed) -> str:
    """The kernels that the target has of its own, and those beyond a limit; what the others have at most."""
    own = own_functions() | {*limits.larger}
    lines = [
        f"Compiled by `{limits.compiler}`.",
        "",
        "| kernel | code | inner block | | why it is beyond a limit |",
        "|---|---:|---:|---|---|",
    ]
    for symbol in sorted(own, key=lambda name: (-found[name].bytes, name)):
        code = found[symbol]
        over = [p for p, s, m in (("code", code.bytes, limits.code), ("block", code.block, limits.block)) if s > m]
        why = limits.larger.get(symbol, {}).get("reason", "")
        lines.append(f"| `{symbol}` | {code.bytes} | {code.block or '-'} | {', '.join(over)} | {why} |")
    others = [code for name, code in found.items() if name not in own]
    most = max(c.bytes for c in others), max(c.block for c in others)
    lines.append(f"| {len(others)} others, at most | {most[0]} | {most[1]} | | |")
    return "\n".join(lines)


def lowered(found: Mapping[str, Code]) -> str:
    """The list's text with smaller sizes, without what needs no entry; comments and reasons stay as they are."""
    limits, lines = allowed(), []
    for line in LISTED.read_text().splitlines():
        entry = re.match(r"([a-z]\w+_[fi]32\w*) = \{", line)
        if entry:
            code = found[entry[1]]
            for part, size, usual in (("code", code.bytes, limits.code), ("block", code.block, limits.block)):
                now = limits.larger[entry[1]].get(part)
                if now is not None and size <= usual:
                    line = line.replace(f"{part} = {now}, ", "")
                elif now is not None:
                    line = line.replace(f"{part} = {now},", f"{part} = {min(size, now)},")
            if not re.search(r"\b(code|block) = ", line):
                continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print what is beyond the list, and write the table; 1 where something is."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.cluster.kernel_code", description=__doc__)
    parser.add_argument("--lower", action="store_true", help=f"renew {LISTED.name} where kernels became smaller")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = codes(Path(folder))
    if arguments.lower:
        LISTED.write_text(lowered(found))
    limits, version = allowed(), compiler_version()
    if version != limits.compiler:
        print(f"the list is of {limits.compiler}, this is {version}")
    text = table(found, limits)
    publish(__file__, PAGE, MARKS, text)
    faults = limits.faults(found)
    print("\n".join([text, *faults]))
    return int(bool(faults))


if __name__ == "__main__":
    end(main)
