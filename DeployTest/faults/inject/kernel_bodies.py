"""Faults in the C of kernels over 8 bits: one token of one kernel, or of its rounding, is another."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from deployer.core.errors import BuildFailed, ToolFailed
from deployer.core.plan import target_of
from deployer.core.target import TARGETS_DIR, Toolchain
from deployer.running import build
from DeployTest.faults.mutants.c_sites import c_mutants
from DeployTest.faults.mutants.site import Mutant

from .judge import RESULTS, UNSEEN, Judgement, Mode, judge, right_output
from .program import Program, link
from .table import SHORT, markdown

BEGIN, END = "<!-- kernels table -->", "<!-- end of kernels table -->"
EACH = 2
"""Faults of each file, drawn by seed."""
SUFFIX = "_i8"
ROUNDING = TARGETS_DIR / "common" / "include" / "requantize_i8.h"
MODE = Mode("fast", "early")


@dataclass(frozen=True)
class KernelFault:
    """A mutant of a kernel's C, and what became of it; None where the compiler refuses it."""

    seed: int
    mutant: Mutant
    judgement: Judgement | None


def files_of(program: Program) -> dict[str, Path]:
    """The C of each kernel over 8 bits that the program calls, by its symbol."""
    tools = build.toolchain(target_of(program.plan.options))
    symbols = dict.fromkeys(step.kernel.symbol for step in program.plan.steps if step.kernel.symbol.endswith(SUFFIX))
    return {symbol: build.kernel_source(symbol, tools, program.directory).file for symbol in symbols}


def rounds(path: Path) -> bool:
    """Whether a kernel's C includes the header of the rounding."""
    return f'#include "{ROUNDING.name}"' in path.read_text()


def drawn(program: Program, seed: int, each: int) -> Iterator[tuple[str, Mutant]]:
    """Symbol and mutant: so many of each kernel's file, and of the rounding in a kernel that has it."""
    draw = random.Random(seed)
    files = files_of(program)
    rounding = next(symbol for symbol, path in files.items() if rounds(path))
    for symbol, path in (*files.items(), (rounding, ROUNDING)):
        mutants = c_mutants(path, str(path.relative_to(TARGETS_DIR)))
        if path == ROUNDING:  # the forms of other machines are not compiled here
            text = path.read_text()
            skipped = text.index("#if defined(__arm__)"), text.index("#else\n")
            mutants = [m for m in mutants if not skipped[0] <= m.start < skipped[1]]
        yield from ((symbol, mutant) for mutant in draw.sample(mutants, min(each, len(mutants))))


def text_of(path: Path, mutant: Mutant) -> str:
    """The C of a kernel with the mutant, which may lie in the rounding."""
    if mutant.file.endswith(".h"):
        header = mutant.apply(ROUNDING.read_text())
        return path.read_text().replace(f'#include "{ROUNDING.name}"', header)
    return mutant.apply(path.read_text())


def planted(program: Program, seed: int, each: int) -> Iterator[KernelFault]:
    """Each drawn fault, planted, built and judged; the right program is there again in the end."""
    right_output(program, MODE)
    files, find = files_of(program), build.kernel_source
    folder = program.directory / "kernel_fault"
    folder.mkdir(exist_ok=True)
    try:
        for symbol, mutant in drawn(program, seed, each):
            changed = folder / f"{symbol}.c"
            changed.write_text(text_of(files[symbol], mutant))

            def other(
                name: str, tools: Toolchain, generated: Path, symbol: str = symbol, changed: Path = changed
            ) -> build.KernelSource:
                return build.KernelSource(changed, changed) if name == symbol else find(name, tools, generated)

            with mock.patch.object(build, "kernel_source", other):
                try:
                    link(program.plan, program.directory)
                except (BuildFailed, ToolFailed):
                    yield KernelFault(seed, mutant, None)
                    continue
            yield KernelFault(seed, mutant, judge(program, None, MODE))
    finally:
        link(program.plan, program.directory)


def table(faults: Sequence[KernelFault]) -> str:
    """A row per file, and one of all."""
    seeds = ", ".join(map(str, sorted({fault.seed for fault in faults})))
    built = [(Path(f.mutant.file).name, f.judgement.result) for f in faults if f.judgement is not None]
    lines = []
    for file in (*dict.fromkeys(name for name, _ in built), ""):
        of = [result for name, result in built if file in (name, "")]
        lines.append([f"`{file}`" if file else "all", str(len(of)), *(str(of.count(result)) for result in RESULTS)])
    refused = len(faults) - len(built)
    head = f"{len(built)} faults from seeds {seeds} in mode {MODE.label}; the compiler refused {refused} others."
    return "\n".join([head, "", *markdown(("file", "faults", *(SHORT[result] for result in RESULTS)), lines)])


def unseen(faults: Sequence[KernelFault]) -> list[str]:
    """The faults that nobody saw."""
    return [f"{f.mutant}: {f.judgement.said}" for f in faults if f.judgement and f.judgement.result == UNSEEN]
