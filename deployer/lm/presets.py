"""Presets: architectures of known families at small sizes, a file each."""

from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.files.reading import read_toml

PRESETS = Path(__file__).with_name("families")
"""The folder of their files."""


@cache
def preset_names() -> tuple[str, ...]:
    """Names of the presets: those of their files."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def preset(name: str) -> dict[str, Any]:
    """The fields of a preset; KeyError where there is none of that name."""
    if name not in preset_names():
        raise KeyError(name)
    return read_toml(PRESETS / f"{name}.toml", "the file of a preset")
