"""The kernels of 8-bit numbers as a library has them, on emulated cores: the bits of the host."""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from deployer.calibration.measure import KernelJob
from deployer.core import target as targets
from deployer.core.operator import Array
from deployer.firmware.common import NEEDED, library_tools
from deployer.firmware.sources import kernel_sources, library_rules
from deployer.sizing.boards import CORES, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from DeployTest.firmware.test_library import WARNINGS
from DeployTest.support.kernels.comparing import on_host
from DeployTest.support.kernels.int8_jobs import int8_jobs
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.kernels]
C_TYPES = {"int8": "int8_t", "int32": "int32_t", "float32": "uint32_t"}
"""Floats are written as their bits."""
PREFIX = "lib"
SOURCE = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
{includes}
{data}
int main(void) {{
{calls}
    return 0;
}}
"""
CALL = '    {prefix}_{symbol}(&args{n}); printf("%d %d\\n", {n}, memcmp(y{n}, expected{n}, sizeof expected{n}) == 0);'


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


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cortex-m3", "cortex-m33", "cortex-m55")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m4", *SLOW])
def test_bits_equal_the_host(name: str, tmp_path: Path) -> None:
    """Drawn windows and all samples leave the host's bits, by whatever instructions a core has for several numbers."""
    needs_core(name)
    core, jobs = core_of(name), list(int8_jobs())
    kernels = list({job.kernel.symbol: job.kernel for job in jobs}.values())
    tools = library_tools(targets.load(library_rules().target))
    files = kernel_sources(kernels, tools, PREFIX, NEEDED)
    includes = "\n".join(f'#include "{PREFIX}_{kernel.symbol}.h"' for kernel in kernels)
    calls = "\n".join(CALL.format(prefix=PREFIX, symbol=job.kernel.symbol, n=n) for n, job in enumerate(jobs))
    data = "\n".join(line for n, job in enumerate(jobs) for line in _data(n, job))
    for file, text in {**files, "main.c": SOURCE.format(includes=includes, data=data, calls=calls)}.items():
        (tmp_path / file).write_text(text)
    objects = [file for file in files if file.endswith(".c")]
    run = partial(subprocess.run, cwd=tmp_path, check=True)
    run([*compile_words(core), *WARNINGS, "-c", *objects])
    words = [*(f"{Path(file).stem}.o" for file in objects), "main.c", str(CORES / "start.c"), *link_words(core)]
    run([*compile_words(core), f"-I{CORES}", *words, "-o", "program.elf"])
    printed = run_program(core, tmp_path / "program.elf").split("\n")
    equal = [line.endswith(" 1") for line in printed if line]
    assert len(equal) == len(jobs)
    assert [job.label for job, same in zip(jobs, equal, strict=True) if not same] == []
