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
    for row in found:
        assert row.is_right or row.refused or row.warned[1], row


@pytest.mark.parametrize("form", suite.FORMS)
@pytest.mark.parametrize("words", suite.EXPORTERS)
@pytest.mark.parametrize("name", suite.net_names())
def test_nets(name: str, words: str, form: str, tmp_path: Path) -> None:
    """The file of each net trains as PyTorch does, or an error or a warning says why not; never is there silence."""
    for outcome in suite.outcomes(name, suite.EXPORTERS[words], form, tmp_path):
        assert outcome.word != suite.SILENT, outcome
        assert bool(outcome.said) or outcome.word == suite.RIGHT, outcome
