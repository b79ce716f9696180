"""Frozen weights of a library: constants that are read where they lie, and a struct without them."""

import json
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.plan import Options
from deployer.firmware.memory import FROZEN
from deployer.firmware.sources import library_rules
from deployer.sizing.needs import material
from DeployTest.firmware.test_library import WARNINGS, packaged, ran, trained
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
PASSES = 8


def test_layout(adapter: Path) -> None:
    """The frozen tensor alone is outside, and of the others no two that live at once share a word."""
    made = material(pipeline.load_training(adapter), "net", Options(target=library_rules().target))
    homes, places = {home.storage: home for home in made.plan.homes}, made.layout.places
    assert [home.storage for home in made.layout.frozen] == ["base"]
    assert homes.keys() == places.keys()
    assert places["base"] == FROZEN
    inside = [home for home in homes.values() if home.storage != "base"]
    for home in inside:
        assert 0 <= places[home.storage] <= made.layout.words - home.bytes // 4
    for one, other in combinations(inside, 2):
        if one.first <= other.last and other.first <= one.last:
            first, second = sorted((one, other), key=lambda home: places[home.storage])
            assert places[first.storage] + first.bytes // 4 <= places[second.storage]
    assert 4 * made.layout.words <= made.plan.levels[0].peak - homes["base"].bytes


def test_bits(adapter: Path, tmp_path: Path) -> None:
    """Losses over several updates are those of the usual run; constants lie among constants, and asserts hold."""
    folder = packaged("adapted", adapter, tmp_path / "library", "--n-steps", PASSES)
    ran("make", "-s", "-C", folder, f"CFLAGS=-O1 -DADAPTED_ASSERTS {' '.join(WARNINGS)}")
    lines = [line.split() for line in ran(folder / "build/adapted_example").splitlines()]
    losses = np.array([int(line[2], 16) for line in lines if line[0] == "loss"], np.uint32)
    assert len(losses) == PASSES
    assert losses.tobytes() == trained(adapter, tmp_path / "run", "--n-steps", PASSES)["loss"].tobytes()
    assert re.search(r"^[0-9a-f]+ R adapted_frozen$", ran("nm", folder / "build/libadapted.a"), re.MULTILINE)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["bytes"]["frozen"] == 4 * 2 * 3
    assert "base" not in {tensor["name"] for tensor in manifest["state"]}


def test_budget(adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget counts the struct's tensors and no constants; a byte less is refused with the number that is needed."""
    words = ("package", adapter, "--name", "net", "-o", tmp_path / "library", "--budget")
    message = refused(capsys, *words, "RAM=40")
    needed = re.search(r"needed +(\d+) B", message)
    assert needed
    assert f"do not fit RAM of target '{library_rules().target}'" in message
    assert "do not fit RAM" in refused(capsys, *words, f"RAM={int(needed[1]) - 1}")
    assert deployer(*words, f"RAM={needed[1]}") == 0
