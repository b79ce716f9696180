"""Whole programs with products that share operands: the bits of losses and weights do not depend on it."""

from pathlib import Path

import pytest

from deployer import pipeline
from deployer.cli import main
from deployer.core.plan import Options
from deployer.lm.graph import save_model
from deployer.lm.model import TRAINABLE, forward_model
from deployer.lm.weights import initial_weights
from deployer.pipeline import Case
from DeployTest.lm.sizes import small
from DeployTest.support.building.cases import Built, planned, result_hash

pytestmark = [pytest.mark.host, pytest.mark.training]
JOINT = {"ProductsOfA", "ProductsOfB", "SumOfProducts"}
PLANS: dict[str, Options] = {
    "resident": Options(),
    "single": Options(strategy="single", budgets={"L1": 20000}),
    "double": Options(strategy="double", budgets={"L1": 24000}, cores=3),
    "little": Options(budgets={"L1": 12000}),
}
"""Memories and buffering."""


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Training of a small language model of no round sizes, one of whose sums has two blocks of products.

    The first has no biases, and three projections and two of a gate side by side; the second has biases.
    """
    folder = tmp_path_factory.mktemp("language")
    a = small(request.param, layers=1, dim=20, hidden=152, context=34)
    save_model(forward_model(a, initial_weights(a, 0)), folder / "model.onnx")
    command = ["train-graph", str(folder / "model.onnx"), "-o", str(folder / "case"), "--batch-size", "2", "--quiet"]
    given = ["--loss", "cross_entropy", "--optimizer", "adamw", "--trainable", TRAINABLE, "--n-steps", "2"]
    assert main([*command, *given]) == 0
    return pipeline.load_training(folder / "case" / "model_train")


def built(case: Case, options: Options, folder: Path) -> Built:
    """The case's program under these options."""
    tiling, plan = planned(case, options)
    pipeline.write_case(case, tiling, plan, folder)
    pipeline.build_case(plan, folder)
    return Built(case, tiling, plan, folder)


@pytest.fixture(scope="module")
def unjoined(case: Case, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of results with a step for each product."""
    options = Options(disabled_rewrites=("group",))
    return result_hash(built(case, options, tmp_path_factory.mktemp("unjoined")).run())


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("name", PLANS)
def test_same_bits(name: str, case: Case, unjoined: str, tmp_path: Path) -> None:
    """Programs that share operands have the bits of those that do not."""
    program = built(case, PLANS[name], tmp_path)
    found = {step.op for step in program.plan.steps}
    assert found & JOINT
    assert result_hash(program.run("--core-order", "random", "--dma-order", "late")) == unjoined


def test_one_level(case: Case, unjoined: str, tmp_path: Path) -> None:
    """Nothing is fetched there, so products stay apart; the bits are the same."""
    program = built(case, Options("host_flat"), tmp_path)
    assert not {step.op for step in program.plan.steps} & JOINT
    assert result_hash(program.run()) == unjoined
