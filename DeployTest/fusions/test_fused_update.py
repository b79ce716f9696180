"""`--fused`: pass and update are one function, in which a gradient dies at its update; results keep their bits."""

from dataclasses import replace
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.pipeline import Case
from deployer.planning import fuse
from deployer.verify.program import verify_program
from DeployTest.support.building.cases import case_dir, compile_case, crossed, load_case, result_hash
from DeployTest.support.building.command_line import deployer, refused

pytestmark = [pytest.mark.host, pytest.mark.training]


def once(case: Case) -> Case:
    """The case with an update behind each pass."""
    assert case.dataset is not None
    return replace(case, dataset=replace(case.dataset, n_accum=1))


STRATEGIES = ("single", "double", "auto")
LONG = [pytest.param("dscnn", 64000, strategy, marks=pytest.mark.slow) for strategy in STRATEGIES]


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("test", "l1", "strategy"), [*crossed([("simple_mlp", 2500), ("autoencoder", 32000)], STRATEGIES), *LONG]
)
def test_same_bits(test: str, l1: int, strategy: str, models_root: Path, tmp_path: Path) -> None:
    """Losses and weights are the same with updates in the training graph and in a graph of their own."""
    case = once(load_case(test, models_root))
    separate = compile_case(case, tmp_path / "separate", strategy, l1)
    joint = compile_case(case, tmp_path / "joint", strategy, l1, joint=True)
    assert result_hash(joint.run("--dma-order", "late")) == result_hash(separate.run())
    assert joint.plan.graphs == ("train",)
    assert "OptimizerNetwork.c" not in generate.generate_files(joint.plan)
    assert sum(joint.plan.cycles(g) for g in joint.plan.graphs) > 0


def test_gradients_have_no_memory(models_root: Path) -> None:
    """A weight is updated where its gradient is made: those of biases alone have memory, to the end of the graph."""
    case = once(load_case("autoencoder", models_root))
    peaks = {}
    for joint in (False, True):
        options = Options("host", "auto", {"L1": 32000}, fuse_update=joint)
        tiling, plan = pipeline.plan_case(case, options)
        verify_program(tiling.lifetimes.schedule.program)
        peaks[joint] = sum(level.peak for level in plan.levels)
        program = tiling.lifetimes.schedule.program
        gradients = [x for x in tiling.lifetimes.storages if program.tensors[x.storage].role == "accumulator"]
        sizes = {name: program.tensors[name].type.bytes for name in program.weights}
        kept = [size for name, size in sizes.items() if not joint or name.endswith("bias")]
        assert sorted(x.bytes for x in gradients) == sorted(kept)
    assert peaks[True] < 0.7 * peaks[False]
    steps = [s.node.op for s in tiling.lifetimes.schedule.steps]
    assert steps[-len(gradients) :] == ["SGD"] * len(gradients), "small updates come together"


def test_copies_are_seen_through(models_root: Path) -> None:
    """The update reads the last value of an accumulator, in the weight's type, with and without the other fusions."""
    program = load_case("autoencoder", models_root).program
    options = Options(fuse_update=True)
    for fusion in (fuse.fuse_program(program, options), fuse.rules()["update"](program, options)):
        verify_program(fusion)
        _check_updates(program, fusion, "weight_step" in fusion.rewrites)


def _check_updates(program: Program, fusion: Program, weight_step: bool) -> None:
    updates = [node for node in fusion.nodes if node.op == "SGD"]
    joint = [node for node in fusion.nodes if node.op == "OuterSGD"]
    assert bool(joint) is weight_step
    assert {node.inputs[0] for node in updates} | {node.inputs[2] for node in joint} == set(program.updated.values())
    assert len(set(program.accumulators) - set(fusion.accumulators)) == len(joint)
    for node in updates:
        weight, gradient = (fusion.tensors[name] for name in node.inputs)
        assert weight.type == gradient.type
        assert fusion.tensors[fusion.storage(gradient.name)].role == "accumulator"
        assert gradient.role == "value"


def test_refusals(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--fused` is refused with several passes per update, without a training graph, and with `--no-fusion`."""
    folder = case_dir("simple_mlp", models_root)
    words = ["-t", folder, "-o", tmp_path / "c", "--fused"]
    assert "--accumulate-grad-batches 1" in refused(capsys, "train", *words, "--accumulate-grad-batches", "2")
    assert "--accumulate-grad-batches 1" in refused(capsys, "optimizer", *words)
    for name in ([], ["update"]):
        assert "--no-fusion" in refused(capsys, "train", *words, "--accumulate-grad-batches", "1", "--no-fusion", *name)


def test_bench_counts_both(models_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cycles of the pass include the update; those of the optimizer are 0."""
    words = [
        "-t",
        case_dir("simple_mlp", models_root),
        "-o",
        tmp_path / "c",
        "--accumulate-grad-batches",
        "1",
        "--fused",
    ]
    assert deployer("train", *words) == 0
    assert " opt_cycles=0 " in capsys.readouterr().out
    assert "runs 4 updates of 1 passes" in (tmp_path / "c" / "Harness.c").read_text()
