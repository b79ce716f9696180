"""The library that several tests of this room use."""

from pathlib import Path

import pytest

from DeployTest.firmware import nets
from DeployTest.firmware.test_library import packaged


@pytest.fixture(scope="session")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library of the adapter, beside that of its case; nobody writes into it."""
    root = tmp_path_factory.mktemp("adapted")
    return packaged("adapted", nets.adapted_case(root / "case"), root / "library")
