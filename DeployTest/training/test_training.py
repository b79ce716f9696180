"""End to end on the host: every case, L1 and mode trains to the expected losses and weights, to the same bits."""

from math import prod
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.plan import Options
from DeployTest.support.building.cases import (
    STRATEGY,
    Entry,
    canonical_hash,
    case_dir,
    compile_case,
    faults,
    load_case,
    parameters,
    planned,
    result_hash,
    worst_difference,
)
from DeployTest.support.documents.summary import record
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
DMA_ORDERS = (("early", 0), ("late", 0), ("random", 1), ("random", 2), ("random", 3))
TOLERANCE = table()["training"]["weight"]


@pytest.mark.matrix(keep=4)
@pytest.mark.parametrize("entry", parameters())
def test_training(entry: Entry, models_root: Path, tmp_path: Path, record_property) -> None:
    """Right to the tolerance, and the same bits as everywhere, in every DMA and core order."""
    case = load_case(entry.test, models_root)
    built = compile_case(case, tmp_path / "c", STRATEGY[entry.mode], entry.l1, **entry.memory)
    expected = canonical_hash(entry.test, models_root, tmp_path)
    for order, seed in DMA_ORDERS[:3] if entry.slow else DMA_ORDERS:
        outcome = built.run("--dma-order", order, "--seed", str(seed), "--core-order", "random")
        assert not faults(built, outcome)
        assert outcome.errors == 0
        assert result_hash(outcome) == expected, f"{order} {seed}"
        assert int(outcome.bench["train_cycles"]) == _mean_cycles(built.plan, case), "the clock is the model"
    assert int(outcome.bench["l1_bytes"]) <= entry.l1
    record(record_property, entry, outcome.bench)


def _mean_cycles(plan, case) -> int:
    """Predicted cycles per mini-batch; with several passes per update the later ones also read the accumulators."""
    if case.dataset.n_accum > 1:
        pytest.fail("registry cases accumulate once; compare others through simulate")
    return plan.cycles("train")


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("entry", parameters(mode="auto", long=("dscnn",)))
def test_auto_is_best(entry: Entry, models_root: Path) -> None:
    """Under the model auto never takes longer than single or double throughout, transfers that cross steps included."""
    case = load_case(entry.test, models_root)
    cycles = {}
    for strategy in ("single", "double", "auto"):
        budgets = {"L1": entry.l1} | ({"L2": entry.l2} if entry.l2 else {})
        options = Options("host", strategy, budgets, outermost=entry.level)
        plan = planned(case, options)[1]
        cycles[strategy] = plan.cycles("train") + plan.cycles("optimizer")
        for step in plan.steps:
            if step.tiles == 1:
                assert all(o.slots <= 1 for o in step.operands), f"step {step.name} of one tile takes one slot"
    assert cycles["auto"] <= min(cycles["single"], cycles["double"])


LEAST_TILE = 64
"""Elements of the largest box of a tile, below which the loop around the kernel costs more than the work."""


@pytest.mark.slow
@pytest.mark.parametrize("entry", parameters(mode="auto"))
def test_no_tile_is_tiny(entry: Entry, models_root: Path) -> None:
    """A step is cut no finer than it pays, in any L1 of the registry that leaves room for it."""
    case = load_case(entry.test, models_root)
    budgets = {"L1": entry.l1} | ({"L2": entry.l2} if entry.l2 else {})
    tiling = planned(case, Options("host", "auto", budgets, outermost=entry.level))[0]
    for step, chosen in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        if chosen.outer(step.access) == chosen.tile == step.access.sizes:
            continue
        tile = {dim: (0, length) for dim, length in chosen.tile.items()}
        boxes = [prod(length for _, length in operand.box(tile)) for operand in step.access.operands]
        whole = [prod(operand.view) for operand in step.access.operands]
        assert max(boxes) >= min(LEAST_TILE, max(whole)), f"{step.name}: tiles of {chosen.tile}"


@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("entry", parameters(mode="auto"))
@pytest.mark.slow
def test_cores(entry: Entry, cores: int, models_root: Path, tmp_path: Path) -> None:
    """Planned for and run on fewer cores: other tiles, the same bits."""
    case = load_case(entry.test, models_root)
    expected = canonical_hash(entry.test, models_root, tmp_path)
    for strategy in ("auto",) if entry.slow else ("single", "double", "auto"):
        built = compile_case(case, tmp_path / strategy, strategy, entry.l1, cores=cores, **entry.memory)
        for order, seed in DMA_ORDERS[-1:] if entry.slow else DMA_ORDERS:
            assert result_hash(built.run("--dma-order", order, "--seed", str(seed))) == expected


@pytest.mark.parametrize(
    "test", ["simple_mlp", "autoencoder", pytest.param("deep_autoencoder_batch4", marks=pytest.mark.slow)]
)
def test_few_cores(test: str, models_root: Path, tmp_path: Path) -> None:
    """A quick look at one and four cores."""
    case = load_case(test, models_root)
    expected = canonical_hash(test, models_root, tmp_path)
    for cores in (1, 4):
        built = compile_case(case, tmp_path / str(cores), "auto", 16000, cores=cores)
        assert result_hash(built.run("--core-order", "reverse")) == expected


@pytest.mark.parametrize(
    ("test", "l1"),
    [
        ("simple_mlp", 2000),
        ("autoencoder", 8000),
        pytest.param("deep_autoencoder_batch4", 16000, marks=pytest.mark.slow),
    ],
)
def test_sanitizers(test: str, l1: int, models_root: Path, tmp_path: Path) -> None:
    """Address and undefined-behaviour sanitizers have nothing to say."""
    case = load_case(test, models_root)
    built = compile_case(case, tmp_path / "c", "double", l1, sanitize=True)
    outcome = built.run("--dma-order", "late")
    assert worst_difference(case, outcome) <= TOLERANCE
    assert result_hash(outcome) == canonical_hash(test, models_root, tmp_path)


@pytest.mark.slow
def test_accumulation(models_root: Path, tmp_path: Path) -> None:
    """Several passes per update: the later passes read what the first one wrote, in every mode to the same bits."""
    folder = case_dir("autoencoder", models_root)
    case = pipeline.load_training(folder, n_steps=6, n_accum=3)
    hashes = set()
    for strategy in ("single", "double", "auto"):
        built = compile_case(case, tmp_path / strategy, strategy, 16000)
        for order in ("early", "late"):
            outcome = built.run("--dma-order", order)
            assert not faults(built, outcome)
            hashes.add(result_hash(outcome))
    assert len(hashes) == 1


def test_learning_rate(models_root: Path, tmp_path: Path) -> None:
    """Another learning rate than the recorded one is checked against the float64 reference."""
    case = pipeline.load_training(case_dir("simple_mlp", models_root), learning_rate=0.5)
    assert "float64" in case.note
    built = compile_case(case, tmp_path, "auto", 4000)
    assert not faults(built, built.run())


def test_opt_out(models_root: Path, tmp_path: Path) -> None:
    """An operator opted out by name is single-buffered, the others are not, and the bits stay."""
    case = load_case("autoencoder", models_root)
    built = compile_case(case, tmp_path / "c", "training_double", 8000, opt_out=("Gemm",))
    modes = {(s.op == "Gemm", s.buffering) for s in built.plan.steps if s.tiles > 1}
    assert (True, "double") not in modes
    assert (False, "double") in modes
    assert result_hash(built.run()) == canonical_hash("autoencoder", models_root, tmp_path)
