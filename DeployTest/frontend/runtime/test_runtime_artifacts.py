"""ONNX Runtime's own artifacts, trained here, against its own results; absent unless `make runtime-cases` ran."""

import tomllib
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import HERE, compile_case, faults, worst_difference

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
