"""A program of kernel calls for an emulated core: whether each leaves the host's bits, and its instructions."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from deployer.calibration.measure import KernelJob
from deployer.core import target as targets
from deployer.core.operator import Array
from deployer.firmware.common import NEEDED, library_tools
from deployer.firmware.sources import kernel_sources, library_rules
from deployer.sizing.boards import CORES, Core
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.support.kernels.comparing import on_host

C_TYPES = {"int8": "int8_t", "int32": "int32_t", "float32": "uint32_t"}
"""Floats are written as their bits."""
PREFIX = "lib"
SOURCE = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "clock.h"
{includes}
{data}
int main(void) {{
{calls}
    return 0;
}}
"""
CALL = """    {{
        const uint64_t begin = clock_ticks();
        {prefix}_{symbol}(&args{n});
        const uint64_t end = clock_ticks();
        printf("%d %lu %d\\n", {n}, (unsigned long)(end - begin), memcmp(y{n}, expected{n}, sizeof expected{n}) == 0);
    }}"""


@dataclass(frozen=True)
class CoreCall:
    """Outcome of a call on an emulated core: instructions, exact to a tick of its clock; whether Y is the host's."""

    instructions: int
    equal: bool


def _array(name: str, values: Array) -> str:
    bits = values.view(np.uint32) if values.dtype == np.float32 else values
    return f"static {C_TYPES[str(values.dtype)]} {name}[] = {{{','.join(map(str, bits.reshape(-1)))}}};"


def _data(n: int, job: KernelJob) -> Iterator[str]:
    """The operands of a call, its arguments, and what it is to leave in Y."""
    for name, values in job.operands.items():
        yield _array(f"{name}{n}", values)
    yield _array(f"expected{n}", on_host(job)["y"])
    pointers = [f".{name} = (void *){name}{n}" for name in job.operands]
    floats = {name for name, kind in job.kernel.scalars if kind == "f32"}
    words = {name: float(x).hex() + "f" if name in floats else str(x) for name, x in job.scalars.items()}
    scalars = [f".{name} = {word}" for name, word in words.items()]
    yield f"static {PREFIX}_{job.kernel.symbol}_args_t args{n} = {{{', '.join(pointers + scalars)}}};"


def run_on_core(core: Core, jobs: Sequence[KernelJob], folder: Path, warnings: Sequence[str] = ()) -> list[CoreCall]:
    """Call kernels as a library has them on a core's emulator; the compiler gets the flags of `warnings`, too.

    Raises ToolMissing where the emulator is not installed, and CalledProcessError where the compiler refuses a kernel.
    """
    kernels = list({job.kernel.symbol: job.kernel for job in jobs}.values())
    files = kernel_sources(kernels, library_tools(targets.load(library_rules().target)), PREFIX, NEEDED)
    includes = "\n".join(f'#include "{PREFIX}_{kernel.symbol}.h"' for kernel in kernels)
    calls = "\n".join(CALL.format(prefix=PREFIX, symbol=job.kernel.symbol, n=n) for n, job in enumerate(jobs))
    data = "\n".join(line for n, job in enumerate(jobs) for line in _data(n, job))
    for file, text in {**files, "main.c": SOURCE.format(includes=includes, data=data, calls=calls)}.items():
        (folder / file).write_text(text)
    objects = [file for file in files if file.endswith(".c")]
    run = partial(subprocess.run, cwd=folder, check=True)
    run([*compile_words(core), *warnings, "-c", *objects])
    words = [*(f"{Path(file).stem}.o" for file in objects), "main.c", str(CORES / "start.c"), *link_words(core)]
    run([*compile_words(core), f"-I{CORES}", *words, "-o", "program.elf"])
    rows = [line.split() for line in run_program(core, folder / "program.elf").split("\n") if line]
    assert [int(row[0]) for row in rows] == list(range(len(jobs)))
    return [CoreCall(round(int(ticks) * core.tick), equal == "1") for _, ticks, equal in rows]
