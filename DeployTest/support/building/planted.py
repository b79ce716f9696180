"""Programs that are built again with another C: faults that a test plants in what was generated."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deployer import pipeline
from DeployTest.support.building.cases import Built


def changed(built: Built, change: Callable[[str], str], file: str = "TrainingNetwork.c") -> Built:
    """The program, built again in its folder with the text of one of its files changed."""
    path = built.directory / file
    path.write_text(change(path.read_text()))
    pipeline.build_case(built.plan, built.directory)
    return built


def planted(built: Built, folder: Path, pattern: str, replacement: str, file: str = "TrainingNetwork.c") -> Built:
    """A copy of the program with the first match of a pattern replaced; the match must exist."""

    def change(text: str) -> str:
        text, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        assert count == 1, f"{pattern} does not occur"
        return text

    shutil.copytree(built.directory, folder)
    return changed(replace(built, directory=folder), change, file)
