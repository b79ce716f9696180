"""Markers, options, fixtures that all tests share, and the step summary of CI."""

import os
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from DeployTest.support.documents.summary import Rows, write_summary

MARKERS = {
    "host": "runs on the host",
    "qemu_riscv": "runs on RISC-V under QEMU",
    "siracusa": "runs on Siracusa under GVSoC",
    "spike": "runs on RISC-V under Spike",
    "cortex_m": "runs on Cortex-M cores under their emulator",
    "kernels": "single operators",
    "models": "inference graphs",
    "training": "training graphs",
    "l2": "tensors live in L2",
    "l3": "tensors live in L3",
    "singlebuffer": "single buffering",
    "doublebuffer": "double buffering",
    "auto": "buffering chosen per step",
    "torch": "needs PyTorch",
    "zephyr": "needs Zephyr's source",
    "cluster": "needs Dask and Optuna",
    "cuda": "needs an NVIDIA GPU",
    "fleet": "needs Flower",
    "slow": "takes more than a few seconds",
    "matrix(keep)": "of its cases `keep`, evenly spread, are quick, and the others slow",
}
_rows: Rows = {}
_ran: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    """Register every marker, because --strict-markers refuses others."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Goldens are rewritten on request only."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files from what is generated now")
    parser.addoption(
        "--must-run",
        action="append",
        default=[],
        metavar="MARKER",
        help="fail where all tests of it are skipped (--must-run=X)",
    )
    parser.addoption("--part", default="1/1", metavar="K/N", help="of N parts of the tests, by their names, the K-th")


def _slow_cases(items: list[pytest.Item]) -> None:
    """Mark the cases of a matrix slow, but for as many as it keeps."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("matrix") and not item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for found in cases.values():
        mark = found[0].get_closest_marker("matrix")
        keep = min(mark.kwargs["keep"], len(found)) if mark else len(found)
        kept = {i * len(found) // keep for i in range(keep)}
        for i, item in enumerate(found):
            if i not in kept:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Divide matrices, then leave out other parts; a name is always in the same part: N runs have every test once."""
    _slow_cases(items)
    part, parts = map(int, config.getoption("--part").split("/"))
    if not 1 <= part <= parts:
        raise pytest.UsageError(f"--part {part}/{parts} is none of {parts} parts")
    own = [x for x in items if zlib.crc32(x.nodeid.encode()) % parts == part - 1]
    if len(own) < len(items):
        config.hook.pytest_deselected(items=[x for x in items if x not in set(own)])
        items[:] = own


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the cycles tests recorded, on the process that sees all reports."""
    if report.when == "call" and not report.skipped:
        _ran.update(MARKERS.keys() & report.keywords.keys())
    properties = dict(report.user_properties)
    if report.when == "call" and report.passed and "row" in properties:
        test, level, mode, l1 = str(properties["row"]).split("|")
        cycles = (int(str(properties["train_cycles"])), int(str(properties["opt_cycles"])))
        _rows.setdefault(str(properties["clock"]), {}).setdefault((test, level, int(l1)), {})[mode] = cycles


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a marker that had to run did not; under CI, join SB, DB and auto rows into the step summary."""
    if hasattr(session.config, "workerinput"):
        return
    idle = sorted(set(session.config.getoption("--must-run")) - _ran)
    if idle and not session.config.option.collectonly:
        print(f"\nno test ran that is marked {', '.join(idle)}: each was skipped, or none was chosen")
        session.exitstatus = 1
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target and _rows:
        with Path(target).open("a") as file:
            file.write(write_summary(_rows))


@pytest.fixture(scope="session")
def models_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which this process generates the model cases."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
