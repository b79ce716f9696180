"""The committed figures of all machines: one digest per model, and the page's table; a part of it measured again."""

import json
from pathlib import Path

import pytest

from deployer.core.plan import Options
from deployer.firmware.library import library_files
from deployer.firmware.sources import library_rules
from deployer.sizing.needs import material
from DeployTest.benchmarks import cores
from DeployTest.support.building.cases import SHARED
from DeployTest.support.documents.pages import generated
from DeployTest.targets.simulators import needs_core, needs_simulator

pytestmark = [pytest.mark.host, pytest.mark.training]
MODEL = "LSTM"


def rows() -> list[cores.Row]:
    """The committed rows."""
    return [cores.Row(**row) for row in json.loads(cores.RESULT.read_text())]


def test_one_digest() -> None:
    """All models on all machines, each model with one digest; the page has this table."""
    machines = {cores.HOST, *cores.CORES, *cores.TARGETS}
    assert {(row.model, row.machine) for row in rows()} == {(model, m) for model in cores.MODELS for m in machines}
    assert cores.differing(rows()) == []
    assert generated(cores.PAGE, cores.MARKS) == cores.table(rows())


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [
        cores.HOST,
        *(pytest.param(name, marks=pytest.mark.cortex_m) for name in cores.CORES),
        pytest.param("qemu_riscv", marks=pytest.mark.qemu_riscv),
    ],
)
def test_again(machine: str, models_root: Path, tmp_path: Path) -> None:
    """A recurrent net gives the committed digest and bytes of memory again."""
    if machine in cores.CORES:
        needs_core(machine)
    elif machine != cores.HOST:
        needs_simulator(machine)
    case = cores.read_case(MODEL, SHARED, models_root)
    files = library_files(material(case, cores.NAME, Options(target=library_rules().target)))
    [known] = [row for row in rows() if (row.model, row.machine) == (MODEL, machine)]
    if machine == cores.HOST:
        row = cores.on_host(MODEL, files, tmp_path)
    elif machine in cores.CORES:
        row = cores.on_core(MODEL, files, machine)
    else:
        row = cores.on_target(MODEL, case, files, machine, tmp_path)
    assert (row.digest, row.memory) == (known.digest, known.memory)
