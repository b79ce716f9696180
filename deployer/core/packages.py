"""Packages beside the deployer that add operators and targets, found by the entry points of distributions.

Group `deployer.operators` names a module, or a package that is walked: it registers operators, and says in KERNELS
where their C files lie, a folder beside it. Group `deployer.targets` names a package: its folder has TOML files and
HALs as the deployer's own folder of targets has them.
"""

import importlib
import pkgutil
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from deployer.core.errors import DeployerError, UserError

SAMPLES = "samples"
"""The name of modules with samples of the operators beside them."""
OPERATORS, TARGETS = "deployer.operators", "deployer.targets"


class PackageProblem(UserError):
    """A package that adds operators or targets cannot be used: it does not load, or its names are in use already."""


def walk(package: ModuleType) -> None:
    """Import all modules below a package, in the order of their names, but for samples, which tests alone need."""
    folders = getattr(package, "__path__", ())
    for name in sorted(m.name for m in pkgutil.walk_packages(folders, f"{package.__name__}.")):
        if name.rpartition(".")[2] != SAMPLES:
            importlib.import_module(name)


@cache
def operator_modules() -> tuple[ModuleType, ...]:
    """The modules that register operators, after the import of all modules below them.

    PackageProblem where one does not load. The operators of the deployer have to be registered before.
    """
    return tuple(_loaded(entry) for entry in _entries(OPERATORS))


def kernel_folders() -> dict[str, Path]:
    """Folders of packages' kernels by the module whose KERNELS names one; PackageProblem where it is no folder."""
    folders = {}
    for module in operator_modules():
        name = getattr(module, "KERNELS", None)
        if name is not None:
            folder = _folder(module) / name
            if not folder.is_dir():
                raise PackageProblem(f"KERNELS of {module.__name__} is not a folder", [("looked for", str(folder))])
            folders[module.__name__] = folder
    return folders


@cache
def target_folders() -> tuple[Path, ...]:
    """Folders of targets besides the deployer's own; PackageProblem where a package does not load."""
    return tuple(_folder(_loaded(entry)) for entry in _entries(TARGETS))


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: (entry.value, entry.name))


def _folder(module: ModuleType) -> Path:
    if module.__file__ is None:
        raise PackageProblem(f"{module.__name__} has no file", hint="add an __init__.py to its folder")
    return Path(module.__file__).resolve().parent


def _loaded(entry: EntryPoint) -> ModuleType:
    """The module that an entry point names, after the import of all modules below it."""
    place = f"{entry.group} = {entry.value}, of {entry.dist.name if entry.dist else 'an unknown distribution'}"
    try:
        module = entry.load()
        if not isinstance(module, ModuleType):
            raise TypeError(f"{entry.value} is a {type(module).__name__}, not a module")
        walk(module)
    except PackageProblem:
        raise
    except DeployerError as fault:
        raise PackageProblem(f"entry point {place}: {fault.cause}", fault.facts, "correct or remove it") from fault
    except Exception as fault:
        facts = [("cause", f"{type(fault).__name__}: {fault}")]
        raise PackageProblem(f"entry point {place} cannot be loaded", facts, "correct or remove it") from fault
    return module
