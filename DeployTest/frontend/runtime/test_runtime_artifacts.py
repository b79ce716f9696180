"""ONNX Runtime's own artifacts, trained here, against its own results; absent unless `make runtime-cases` ran."""

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import HERE, compile_case, faults, worst_difference
from DeployTest.support.building.command_line import deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
FOLDER = HERE.parent / "out" / "runtime-cases"
TABLE = tomllib.loads((HERE / "artifacts" / "cases.toml").read_text())
CASES = [
    pytest.param(
        f"{name}_{optimizer.lower()}", rate, id=f"{name}-{optimizer}", marks=[] if net["quick"] else pytest.mark.slow
    )
    for name, net in TABLE["nets"].items()
    for optimizer, rate in TABLE["rates"].items()
]


TORCH = TABLE["torch_nets"]
QUICK = ("mlp_gelu", "lstm", "bag_of_words")
"""Nets of PyTorch that are trained without `slow` as well."""
NETS = [pytest.param(name, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name in TORCH]
NOISY = {"mlp_batch_norm"}
"""Nets with a bias before a batch norm, whose gradient is rounding alone, of which AdamW makes steps."""


@pytest.mark.parametrize("recorded", [True, False], ids=["expected", "alone"])
@pytest.mark.parametrize("name", NETS)
def test_nets_of_pytorch(name: str, recorded: bool, tmp_path: Path) -> None:
    """The command line passes, with ONNX Runtime's results and without; these and the program's own are near."""
    source, folder, net = FOLDER / f"torch_{name}", tmp_path / "case", TORCH[name]
    if not source.is_dir():
        pytest.skip(f"{source} is absent: `make runtime-cases` makes it with ONNX Runtime")
    shutil.copytree(source, folder)
    if not recorded or name in NOISY:
        (folder / "expected.npz").unlink()
    rate, dump = TABLE["rates"][net["optimizer"]], tmp_path / "dump.npz"
    words = (
        "train",
        "-t",
        folder,
        "-o",
        tmp_path / "c",
        "--accumulate-grad-batches",
        TABLE["per_update"],
        "--lr",
        rate,
    )
    assert deployer(*words, "--l1", 32000, "--dump", dump) == 0
    with np.load(dump) as ours, np.load(source / "expected.npz") as theirs:
        for array in theirs.files if name not in NOISY else ("loss",):
            assert np.abs(ours[array] - theirs[array]).max() <= TOLERANCES.weight, array


@pytest.mark.parametrize(("name", "rate"), CASES)
def test_results_of_onnx_runtime(name: str, rate: float, tmp_path: Path) -> None:
    """Losses of all passes and all weights are within the tolerance of those that ONNX Runtime's Module recorded."""
    folder = FOLDER / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: `make runtime-cases` makes it with ONNX Runtime")
    case = pipeline.load_training(folder, n_accum=TABLE["per_update"], learning_rate=rate)
    assert case.note.startswith("expected.npz")
    built = compile_case(case, tmp_path, "auto", 32000)
    outcome = built.run()
    assert worst_difference(case, outcome) <= TOLERANCES.weight
    assert not faults(built, outcome)
