"""The table of exporters: the front is right, and what is wrong in a file has a warning."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.slow, pytest.mark.torch]
if not (importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")):
    pytest.skip("PyTorch and onnxscript are not installed", allow_module_level=True)
suite: Any = importlib.import_module("DeployTest.suites.exporters")


@pytest.mark.parametrize("name", suite.SUBJECTS)
def test_rows(name: str, tmp_path: Path) -> None:
    """The front trains PyTorch's problem without a word; each file that is another problem is warned about."""
    front = suite.judged(name, suite.FRONT, tmp_path)
    assert (front.is_right, front.warned) == (True, (0, 0))
    found = [suite.judged(name, way, tmp_path) for way in suite.WAYS]
    assert not all(row.is_right for row in found), "no exporter changes this module: the test shows nothing"
    for row in found:
        assert row.is_right != bool(row.warned[1]), row
