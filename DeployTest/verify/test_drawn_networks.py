"""Networks that benchmarks draw by seed, and CCT: the same model every time, of the work that is said, and right."""

from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.cost import all_macs
from deployer.core.operator import operator_of
from deployer.core.plan import Options
from deployer.planning.schedule import make_schedule
from deployer.testing.bench import kernel_model
from DeployTest.benchmarks.cluster.networks import LEAST, MOST, SEEDS, TAILS, drawn
from DeployTest.models import cct
from DeployTest.support.building.cases import compile_case, faults

pytestmark = [pytest.mark.host, pytest.mark.training]
MODEL = kernel_model()
SMALL = {"image": 8, "filters": 8, "width": 16, "hidden": 32}
"""A CCT of a few steps' work."""


def test_drawn_again() -> None:
    """A seed is one network; work lies between the bounds, and there are all tails and kinds of layers."""
    networks = [drawn(seed) for seed in SEEDS]
    assert networks == [drawn(seed) for seed in SEEDS]
    assert len({network.name for network in networks}) == len(SEEDS)
    assert all(LEAST <= network.macs() <= MOST for network in networks)
    assert {network.tail for network in networks} == set(TAILS)
    assert {layer.kind for network in networks for layer in network.layers} == {"conv", "separable", "pool"}
    assert {network.batch_norm for network in networks} == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_work_and_training(seed: int, tmp_path: Path) -> None:
    """The model has the work that is said, two writes are the same bytes, training is right."""
    folders = [drawn(seed).write(tmp_path / name) for name in ("one", "two")]
    one, two = ({p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} for folder in folders)
    assert one == two
    forward = pipeline.load_inference_case(folders[0].with_name("drawn.onnx"))
    steps = make_schedule(forward.program, Options("host")).steps
    products = [step for step in steps if step.node.op in ("Conv", "Gemm")]
    works = (operator_of(s.node).work(s.node, s.access, s.access.sizes, MODEL) for s in products)
    assert sum(map(all_macs, works)) == drawn(seed).macs()
    built = compile_case(pipeline.load_training(folders[0]), tmp_path / "c", "auto", 128000)
    assert faults(built, built.run()) == ()


@pytest.mark.slow
@pytest.mark.parametrize("l1", [24000, 128000])
def test_cct(l1: int, tmp_path: Path) -> None:
    """A small one trains right; its tokenizer is frozen, positions and encoders are not."""
    folder = cct.generate(tmp_path / "case", **SMALL)
    built = compile_case(pipeline.load_training(folder), tmp_path / "c", "auto", l1)
    trained = set(built.case.expected)
    assert not any("tokenizer" in name for name in trained)
    assert {"positions", "block0_query_weight", "block1_contract_bias", "fc_weight"} <= trained
    assert faults(built, built.run()) == ()
