"""Libraries with their modules: packaged, built, and imported by their paths."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from DeployTest.firmware.test_library import packaged


def built(folder: Path, *words: object) -> Path:
    """Build the shared library of a folder."""
    run = subprocess.run(
        ["make", "-s", "-C", folder, "shared", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def imported(folder: Path) -> ModuleType:
    """The module of a folder, however many others have its name."""
    [path] = folder.glob("*.py")
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{abs(hash(str(folder)))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def module_of(name: str, case: Path, folder: Path, *words: object) -> ModuleType:
    """Package a case with its module, build the shared library, and import the module."""
    return imported(built(packaged(name, case, folder, "--python", *words)))
