"""`deployer rack`: losses, digests and weights in files, and refusals."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case of the dense net."""
    return simple_mlp.generate(tmp_path_factory.mktemp("rack_case"))


def test_a_rack_of_a_case(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Device 0 takes the case's samples in order: the digest of the library; others have their own rates."""
    out = tmp_path / "out"
    assert deployer("rack", case, "--replicas", 3, "--emulate", "--lr", "0.01,0.5", "-o", out) == 0
    shown = capsys.readouterr().out
    arrays, facts = np.load(out / "rack.npz"), json.loads((out / "rack.json").read_text())
    assert facts["digests"] == [f"{digest:016x}" for digest in arrays["digests"].tolist()]
    assert facts["digests"][0] == facts["digests"][2] != facts["digests"][1]
    assert f"device 0: digest {facts['digests'][0]}" in shown
    assert arrays["losses"].shape == (3, facts["passes"])
    assert not arrays["statuses"].any()
    assert {name: arrays[name].shape for name in arrays if name.startswith("weights/")} == {
        "weights/fc1_weight": (3, 8, 64),
        "weights/fc2_weight": (3, 10, 8),
    }


def test_digest_is_that_of_the_example(case: Path, tmp_path: Path) -> None:
    """A device with the case's samples and rate ends with the digest that the library's own example prints."""
    assert deployer("rack", case, "--emulate", "--lanes", 3, "-o", tmp_path / "out") == 0
    [digest] = json.loads((tmp_path / "out/rack.json").read_text())["digests"]
    words = ["make", "-s", "-C", tmp_path / "out/library", "run"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == f"digest {digest}"


def test_orders_of_their_own(case: Path, tmp_path: Path) -> None:
    """With a seed each device has another order, and the same one again."""
    digests = []
    for name in ("first", "second"):
        words = ("--replicas", 4, "--emulate", "--n-steps", 8, "--seed", 3)
        assert deployer("rack", case, *words, "-o", tmp_path / name) == 0
        digests.append(json.loads((tmp_path / name / "rack.json").read_text())["digests"])
    assert digests[0] == digests[1]
    assert len({*digests[0]}) == 4


def test_refusals(case: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that is no rack, and a rack as the target of another command, say what to use."""
    assert "-p cuda" in refused(capsys, "rack", case, "-p", "host", "--emulate", "-o", tmp_path / "out")
    assert "deployer rack CASE -p cuda" in refused(capsys, "train", "-t", case, "-p", "cuda", "-o", tmp_path / "out")
