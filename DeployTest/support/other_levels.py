"""Targets of the tests' own, whose levels have other names and number than those of the product's targets."""

import shutil
from pathlib import Path

import pytest

from deployer.core import target

from .cases import HERE

NAMED, FLAT = "scratchpad", "flat"
TOOLCHAIN = "[toolchain]"


def add_targets(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Copy the data of all targets into `folder`, add those two with the host's toolchain, and look there from now on.

    HALs and kernels are found where they always are.
    """
    source = target.TARGETS_DIR
    for path in (*source.glob("*.toml"), *source.glob("*/costs.toml")):
        copy = folder / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    _, tools = (source / "host.toml").read_text().split(TOOLCHAIN)
    for name in (NAMED, FLAT):
        own = (HERE / "targets" / f"{name}.toml").read_text()
        (folder / f"{name}.toml").write_text(f"{own}\n{TOOLCHAIN}{tools}")
    patch.setattr(target, "TARGETS_DIR", folder)
