"""Targets of the tests' own, whose levels have other names and number than those of the product's targets."""

import shutil
from pathlib import Path

import pytest

from deployer.core import target

from .cases import HERE

NAMED, FLAT, DEEP, BARE, ROOMY = "scratchpad", "flat", "deep", "bare", "roomy"
TOOLCHAIN = "[toolchain]"


def add_targets(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Copy the data of all targets into `folder`, add those five with the host's toolchain, and look there.

    HALs and kernels are found where they always are.
    """
    source = target.TARGETS_DIR
    for root in (source, HERE / "targets"):
        for path in (*root.glob("*.toml"), *root.glob("*/costs.toml"), *root.glob("*/kernel_model.toml")):
            copy = folder / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    _, tools = (source / "host.toml").read_text().split(TOOLCHAIN)
    for name in (NAMED, FLAT, DEEP, BARE, ROOMY):
        with (folder / f"{name}.toml").open("a") as file:
            file.write(f"\n{TOOLCHAIN}{tools}")
    patch.setattr(target, "TARGETS_DIR", folder)
