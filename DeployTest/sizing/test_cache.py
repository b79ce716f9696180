"""Cache of measurements and objects: its folder, names, and damaged entries."""

import sys
from pathlib import Path

import pytest

from deployer.core.plan import Options
from deployer.firmware.library import library_files
from deployer.firmware.sources import library_rules
from deployer.pipeline import load_training
from deployer.running import objects as kept
from deployer.sizing.boards import core_of
from deployer.sizing.cache import cache_folder, own_files, remembered
from deployer.sizing.emulated import run_example
from deployer.sizing.needs import material
from deployer.sizing.objects import compile_library
from deployer.tilers.addresses import placement
from DeployTest.firmware import nets
from DeployTest.targets.simulators import needs_core

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.host]


def test_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the kept kernels, in the home folder where the setting is no absolute path; this process's own without."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "set"))
    assert cache_folder() == tmp_path / "set/deployer/sizing" == kept.folder().parent / "sizing"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / "home/.cache/deployer/sizing"

    def homeless() -> Path:
        raise RuntimeError("there is no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder().is_dir()
    assert cache_folder() == cache_folder()


def test_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value is made once; half a file is made again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert remembered("key", lambda: {"a": [1]}) == {"a": [1]} == remembered("key", lambda: {})
    [file] = cache_folder().iterdir()
    file.write_bytes(file.read_bytes()[:4])
    assert remembered("key", lambda: {"a": [2]}) == {"a": [2]}


def test_what_decides_about_a_plan() -> None:
    """The digest of the deployer's own files is of all its modules that are loaded here, the planner's among them."""
    loaded = {Path(str(module.__file__)) for name, module in sys.modules.items() if name.startswith("deployer.")}
    assert {path for path in loaded if path.is_relative_to(ROOT)} <= {*own_files()}
    assert Path(placement.__file__) in own_files()


@pytest.mark.slow
@pytest.mark.training
@pytest.mark.cortex_m
def test_damaged_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object with other bytes is compiled again, and the program runs."""
    core = core_of("cortex-m4")
    needs_core(core.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = load_training(nets.dense_case(tmp_path / "case"))
    files = library_files(material(case, "dense", Options(target=library_rules().target)))
    built = compile_library(files, "dense", core)
    before = [path.read_bytes() for path in built.paths]
    built.paths[0].write_bytes(b"no object")
    again = compile_library(files, "dense", core)
    assert [path.read_bytes() for path in again.paths] == before
    assert run_example(files, "dense", again).instructions[0] > 0
