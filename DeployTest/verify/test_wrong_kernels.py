"""Wrong kernels in generated programs: the verdict fails, and names the first step that computes something else."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from DeployTest.models import autoencoder
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]

WRAPPER = """
static void planted_{at}(const void *raw) {{
    const {kernel}_args_t *args = raw;
    {kernel}(raw);
    if (hal_core_id() == hal_core_count() - 1) {{ {body} }}
}}
"""
FAULTS = {
    "wrong sign": ("args->{out}[0] = -args->{out}[0];", "mse_loss_f32", "dpred", 0),
    "an element of the loss's gradient": ("args->{out}[3] = 0.0f;", "mse_loss_f32", "dpred", 0),
    "an element of a product": ("args->{out}[1] += 0.25f;", "gemm_f32", "y", 0),
    "an element of an update": ("args->{out}[1] += 0.25f;", "sgd_f32", "w", 1),
}
"""What a wrapper does behind which kernel to which of its operands, and the pass that goes wrong first."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A case that updates in every second pass, and the folder of its program."""
    root = tmp_path_factory.mktemp("wrong")
    train = autoencoder.generate(root / "m", n_accum=2)
    assert deployer("train", "-t", train, "-o", root / "c", "--singlebuffer", "--l1", "120000") == 0
    return train, root / "c"


def with_kernel(compiled: tuple[Path, Path], folder: Path, kernel: str, body: str, at: int) -> int:
    """Copy the program, put a wrapper around the kernel's call number `at`; the step in which that call is."""
    shutil.copytree(compiled[1], folder)
    path = next(path for path in sorted(folder.glob("*Network.c")) if f"({kernel}, " in path.read_text())
    text = path.read_text()
    calls = list(re.finditer(rf"hal_parallel\({kernel}, ", text))
    call = calls[at]
    step = int(re.findall(r"void step_(\d+)", text[: call.start()])[-1])
    planted = f"{text[: call.start()]}hal_parallel(planted_{at}, {text[call.end() :]}"
    head = re.search(r"^static ", planted, re.MULTILINE)
    assert head
    wrapper = WRAPPER.format(at=at, kernel=kernel, body=body)
    path.write_text(planted[: head.start()] + wrapper + planted[head.start() :])
    return step


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("fault", FAULTS)
def test_first_divergence(
    fault: str, compiled: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the step with the planted kernel, in the first pass that runs it, though all after it is wrong as well."""
    body, kernel, out, wrong = FAULTS[fault]
    step = with_kernel(compiled, tmp_path / "c", kernel, body.format(out=out), 0)
    assert deployer("train", "-t", compiled[0], "-o", tmp_path / "c", "--skipgen") == 1
    report: dict[str, Any] = json.loads((tmp_path / "c" / "report.json").read_text())
    assert report["verdict"] == "failed"
    assert report["checks"]["failed"] == wrong
    assert report["divergence"]["step"] == step
    assert f"first divergence: pass {wrong}, step {step} " in capsys.readouterr().out


def test_right_program(compiled: tuple[Path, Path]) -> None:
    """Nothing diverges in the program as it was printed."""
    report: dict[str, Any] = json.loads((compiled[1] / "report.json").read_text())
    assert (report["verdict"], report["divergence"], report["diverged"]) == ("passed", None, "")
