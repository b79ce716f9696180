"""`deployer.testing.check_operator` on the package of the how-to pages: it passes, and a planted fault is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deployer.testing import check_operator
from deployer.testing.check import operator_named
from DeployTest.operators.test_packages import ROOT, package

__all__ = ["package"]
pytestmark = [pytest.mark.host, pytest.mark.kernels]
PROGRAM = "from deployer.testing import check_operator\nprint(check_operator({name!r}))\n"


def checked(folder: Path, name: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    """Check an operator in plain Python that finds the packages of a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", program.format(name=name)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("name", ["SoftRatio", "Squareplus", "PoissonLoss", "MomentumSGD"])
def test_operators_of_a_package(package: Path, name: str) -> None:
    """The operators of the how-to pages pass all checks that apply, and none is skipped."""
    run = checked(package, name)
    assert run.returncode == 0, run.stderr
    assert f"{name}: kernels, " in run.stdout
    assert (f"{name}: gradient, " in run.stdout) == (name != "MomentumSGD"), run.stdout
    assert "skipped" not in run.stdout


FAULTS = {
    "gradient": ("soft_ratio.py", "(douts[0], node.outputs[0])", "(douts[0], node.inputs[0])"),
    "sign": ("soft_ratio.py", "np.asarray(dy * (slope * slope))", "np.asarray(-dy * (slope * slope))"),
    "kernel": ("kernels/soft_ratio_f32.c", "1.0f +", "1.5f +"),
    "tiles": ("kernels/soft_ratio_f32.c", "p->x[i] / (", "(p->n < 9 && i == 1 ? 2.0f : 1.0f) * p->x[i] / ("),
    "outside": (
        "kernels/soft_ratio_f32.c",
        "{\n    const",
        "{\n    ((soft_ratio_f32_args_t *)args)->y[-1] = 0.0f;\n    const",
    ),
    "type": ("soft_ratio.py", "x / (x.dtype.type(1) + np.abs(x)))", "x[:-1])"),
    "runtime": ("soft_ratio.py", "normal(rng(101), 37),), onnx=False", "normal(rng(101), 37),)"),
    "kernel of the gradient": ("kernels/soft_ratio_grad_f32.c", "1.0f -", "1.0f - 0.25f *"),
}
SAID = {
    "gradient": ("gradient of input 0 beside central differences: element [", " instead of "),
    "sign": ("gradient of input 0 beside central differences: element [0] is ", " instead of ", "37 of 37 elements"),
    "kernel": ("forward accuracy of y0: element [", " instead of "),
    "tiles": ("forward invariance of y0: another tiling gives other bits: element [1", " instead of "),
    "outside": ("y: the kernel writes 0.0 outside of its box, 1 elements before the first",),
    "type": ("the reference gives float32[36], infer float32[37]",),
    "kernel of the gradient": ("gradient accuracy of dx0: element [", " instead of "),
}


QUICK = ("gradient", "kernel")


@pytest.mark.parametrize("fault", [f if f in QUICK else pytest.param(f, marks=pytest.mark.slow) for f in SAID])
def test_a_fault_is_named(package: Path, fault: str) -> None:
    """An AssertionError names the operator, the sample, and the element with both values."""
    file, old, new = FAULTS[fault]
    path = package / "lab_operators" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    run = checked(package, "SoftRatio")
    assert run.returncode == 1, run.stdout
    for text in ("AssertionError: SoftRatio, sample 'vector': ", *SAID[fault]):
        assert text in run.stderr, run.stderr


@pytest.mark.slow
def test_what_is_left_out_is_said(package: Path) -> None:
    """A sample that ONNX Runtime cannot judge, and the lack of ONNX Runtime, are warnings, and stand in the result."""
    file, old, new = FAULTS["runtime"]
    path = package / "lab_operators" / file
    path.write_text(path.read_text().replace(old, new))
    run = checked(package, "SoftRatio")
    assert run.returncode == 0, run.stderr
    for text in (run.stdout, run.stderr):
        assert "sample 'vector' has onnx=True, and ONNX has no SoftRatio" in text
    without = "import sys\nsys.modules['onnxruntime'] = None\n" + PROGRAM
    run = checked(package, "Relu", without)
    assert run.returncode == 0, run.stderr
    for text in (run.stdout, run.stderr):
        assert "ONNX Runtime: it is not installed (pip install onnxruntime)" in text


def test_by_name_class_and_instance() -> None:
    """All three name the operator; an unknown name is an error with a way out."""
    operator = operator_named("Neg")
    assert operator_named(type(operator)) is operator_named(operator) is operator
    assert check_operator(type(operator)).operator == "Neg"
    with pytest.raises(
        ValueError, match=r"no operator 'Negative': install its package \(`deployer operators` lists all"
    ):
        check_operator("Negative")


@pytest.mark.slow
def test_the_test_of_the_page(package: Path) -> None:
    """The test that the how-to shows, by pytest."""
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lab.py"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=package, env=environment)
    assert run.returncode == 0, run.stdout
    assert "2 passed" in run.stdout
