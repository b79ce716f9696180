"""CI rules: a job fails if the tests that it exists for were skipped, and the words of each job are known."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("marker", "code"), [pytest.param("host", 0, marks=pytest.mark.slow), ("siracusa", 1)])
def test_a_marker_that_must_run(marker: str, code: int, tmp_path: Path) -> None:
    """A run without a test of the marker fails, and says which marker it was."""
    words = ["-q", "DeployTest/operators/test_literals.py", "--must-run", marker, "-p", "no:cacheprovider"]
    line = [sys.executable, "-m", "pytest", *words, f"--basetemp={tmp_path / 'base'}"]
    run = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == code, run.stdout
    assert ("no test ran that is marked siracusa" in run.stdout) == (code == 1)


def test_a_matrix_is_divided(tmp_path: Path) -> None:
    """Each of its cases is either quick or slow, and the quick ones are as many as it says, spread over all."""
    path = tmp_path / "test_cases.py"
    path.write_text("@pytest.mark.matrix(keep=3)\n@pytest.mark.parametrize('x', range(8))\ndef test_case(x): pass\n")
    path.write_text(f"import pytest\n{path.read_text()}")
    found = []
    for marker in ("not slow", "slow"):
        words = ["-q", "--collect-only", str(path), "-m", marker, "-p", "no:cacheprovider", "-p", "DeployTest.conftest"]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False, cwd=ROOT
        )
        found.append({int(x) for x in re.findall(r"test_case\[(\d)\]", run.stdout)})
    quick, slow = found
    assert (quick | slow, quick & slow) == (set(range(8)), set())
    assert quick == {0, 2, 5}


def ci(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`.ci/run` with these words."""
    line = ["bash", str(ROOT / ".ci/run"), *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_an_unknown_job_is_refused() -> None:
    """The error lists the jobs, and nothing is installed or run."""
    run = ci("tests", "lints")
    assert run.returncode == 2
    assert "lints" in run.stderr
    assert "lint tests package docs slow-part slow torch-sample torch cluster fleet siracusa zephyr" in run.stderr


@pytest.mark.parametrize(("job", "variable"), [("siracusa", "GVSOC_INSTALL_DIR"), ("zephyr", "ZEPHYR_BASE")])
def test_a_job_without_its_tool_is_refused(job: str, variable: str) -> None:
    """Not skipped: a runner that was to measure has to be able to."""
    run = ci(job, **{variable: ""})
    assert run.returncode == 2
    assert variable in run.stderr


def test_the_workflow_calls_known_jobs() -> None:
    """Each job of the workflow is one of the script's."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    jobs = set(re.findall(r"bash \.ci/run (\w+)", workflow))
    assert jobs == {"lint", "tests", "package", "slow", "torch", "siracusa", "zephyr"}


def test_what_needs_pytorch_is_marked() -> None:
    """A file of tests that are skipped without it has the marker, by which the job with PyTorch finds them."""
    needing = re.compile(r"""importorskip\("torch"|find_spec\("torch"\)|PyTorch and onnxscript are""")
    paths = {p for p in (ROOT / "DeployTest").rglob("test_*.py") if needing.search(p.read_text())}
    paths -= {Path(__file__).resolve()}
    assert paths
    assert [p.name for p in sorted(paths) if "mark.torch" not in p.read_text()] == []
