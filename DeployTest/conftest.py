"""Markers, options, fixtures that all tests share, and the step summary of CI."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from DeployTest.support.summary import Rows, write_summary

MARKERS = {
    "host": "runs on the host",
    "qemu_riscv": "runs on RISC-V under QEMU",
    "siracusa": "runs on Siracusa under GVSoC",
    "kernels": "single operators",
    "models": "inference graphs",
    "training": "training graphs",
    "l2": "tensors live in L2",
    "l3": "tensors live in L3",
    "singlebuffer": "single buffering",
    "doublebuffer": "double buffering",
    "auto": "buffering chosen per step",
    "slow": "takes more than a few seconds",
}
_rows: Rows = {}


def pytest_configure(config: pytest.Config) -> None:
    """Register every marker, because --strict-markers refuses others."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Goldens are rewritten on request only."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is generated now")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the cycles tests recorded, on the process that sees all reports."""
    properties = dict(report.user_properties)
    if report.when == "call" and report.passed and "row" in properties:
        test, level, mode, l1 = str(properties["row"]).split("|")
        cycles = (int(str(properties["train_cycles"])), int(str(properties["opt_cycles"])))
        _rows.setdefault((test, level, int(l1)), {})[mode] = cycles


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under CI, join the SB, DB and auto rows of each test and L1 into the step summary."""
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target and _rows and not hasattr(session.config, "workerinput"):
        with Path(target).open("a") as file:
            file.write(write_summary(_rows))


@pytest.fixture(scope="session")
def models_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this process generates the model cases."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
