"""The kernels of 8-bit numbers as a library has them, on emulated cores: the bits of the host."""

from pathlib import Path

import pytest

from deployer.sizing.boards import core_of
from DeployTest.firmware.test_library import WARNINGS
from DeployTest.support.kernels.core_programs import run_on_core
from DeployTest.support.kernels.int8_jobs import int8_jobs
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host, pytest.mark.kernels]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cortex-m3", "cortex-m33", "cortex-m55")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m4", *SLOW])
def test_bits_equal_the_host(name: str, tmp_path: Path) -> None:
    """Drawn windows and all samples leave the host's bits, by whatever instructions a core has for several numbers."""
    needs_core(name)
    jobs = list(int8_jobs())
    calls = run_on_core(core_of(name), jobs, tmp_path, WARNINGS)
    assert [job.label for job, call in zip(jobs, calls, strict=True) if not call.equal] == []
