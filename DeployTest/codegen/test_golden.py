"""Generated C and plan against committed goldens; their folder is the case's name. `make golden` rewrites them."""

from pathlib import Path

import pytest

from DeployTest.support.cases import HERE, compile_case, load_case

pytestmark = [pytest.mark.host, pytest.mark.training]
GOLDENS = HERE / "goldens"
CASES = [("simple_mlp", "single", 64000), ("simple_mlp", "double", 2000), ("autoencoder", "double", 32000)]
FILES = ("TrainingNetwork.c", "OptimizerNetwork.c", "Network.h", "Harness.c")


@pytest.mark.parametrize(("test", "strategy", "l1"), CASES, ids=[f"{t}-{s}-{n}" for t, s, n in CASES])
def test_golden(test: str, strategy: str, l1: int, models_root: Path, tmp_path: Path, update_golden: bool) -> None:
    """The C is byte for byte what a reviewer last saw."""
    built = compile_case(load_case(test, models_root), tmp_path, strategy, l1)
    folder = GOLDENS / f"{test}-{strategy}-{l1}"
    if update_golden:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).write_text((built.directory / name).read_text())
    for name in FILES:
        golden = folder / name
        assert golden.is_file(), f"{golden} is missing; `make golden` writes it"
        assert (built.directory / name).read_text() == golden.read_text(), f"{name} differs from its golden"
