"""The case and the library that several tests of this room use."""

from pathlib import Path

import pytest

from DeployTest.firmware import nets
from DeployTest.firmware.test_library import packaged


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case of the adapter; nobody writes into it."""
    return nets.adapted_case(tmp_path_factory.mktemp("adapter"))


@pytest.fixture(scope="session")
def adapted(adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library of the adapter; nobody writes into it."""
    return packaged("adapted", adapter, tmp_path_factory.mktemp("adapted") / "library")
