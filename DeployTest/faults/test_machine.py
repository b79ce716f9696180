"""Faults of the machine: commands end as documented, earlier results are whole, and nothing temporary is left."""

from contextlib import suppress
from pathlib import Path

import pytest

from deployer.core.errors import DeployerError
from deployer.fitting import export
from deployer.running import output
from DeployTest.faults.machine.calls import Points, failing
from DeployTest.faults.machine.campaign import Campaign, judged
from DeployTest.faults.machine.commands import COMMANDS
from DeployTest.faults.machine.report import shown

pytestmark = [pytest.mark.host, pytest.mark.training]
SHARES = 120


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are forked here find no threads of numpy."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "train" else []) for name in COMMANDS]
)
def test_share(name: str, tmp_path: Path) -> None:
    """A share of the points of each command, the same one each time."""
    lost = [shown(fault) for fault in judged([name], tmp_path, 0, SHARES) if fault.losses]
    assert not lost, "\n".join(lost)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SHARES // 4, SHARES, SHARES // 4))
def test_other_share(number: int, tmp_path: Path) -> None:
    """Three other shares of all commands; `make io-faults` has all."""
    lost = [shown(fault) for fault in judged(tuple(COMMANDS), tmp_path, number, SHARES) if fault.losses]
    assert not lost, "\n".join(lost)


def test_calls_are_points(tmp_path: Path) -> None:
    """Opening, reading, writing, renaming and removing by the deployer are points, each of which fails once."""
    points = Points()
    with failing(points):
        output.write(tmp_path, {"a": "b"}, lasting=True)
    kinds = {point.split()[0] for point in points.seen}
    assert kinds == {"open", "read", "write", "fsync", "rename", "mkdir", "unlink"}
    for point in points.seen:
        again = Points(point)
        with failing(again), suppress(OSError, DeployerError):
            output.write(tmp_path / "again", {"a": point}, lasting=True)
        assert again.failed, point
    assert (tmp_path / "a").read_text() == "b"


def test_loss_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written in place is lost where the disk is full, and the campaign says so."""

    def in_place(path: Path, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    monkeypatch.setattr(export, "replace_file", in_place)
    campaign = Campaign("export", tmp_path)
    faults = [campaign.failed(point) for point in campaign.points if point.startswith("write")]
    assert any("damaged" in loss for fault in faults for loss in fault.losses)
