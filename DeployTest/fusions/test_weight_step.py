"""Updates inside of the steps that make their gradients: the same bits, after all readers, and what prevents them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import pytest

from deployer import pipeline
from deployer.core.errors import VerifyFailed
from deployer.core.ir import Graph, Program
from deployer.core.operator import fused_update, registry
from deployer.core.plan import Options
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.operators.update.scaled_update import ScaledUpdate
from deployer.planning import fuse, schedule
from deployer.testing.bench import kernel_model
from deployer.training.groups import ParameterGroup, read_group
from deployer.training.problem import NO_LIMITS
from deployer.training.train_graph import build_train_graph
from deployer.training.update_graph import Limits
from deployer.verify.program import verify_program
from deployer.verify.tiling import verify_tiling
from DeployTest.models import simple_mlp
from DeployTest.support.building.cases import compile_case, load_case, result_hash
from DeployTest.support.building.command_line import bits, deployer

pytestmark = [pytest.mark.host, pytest.mark.training]
MODEL = kernel_model()
SPILLING = Options("host", "auto", fuse_update=True, outermost="L3")


def updating_steps(program: Program) -> list[str]:
    """The operators of the steps that make a gradient of samples and an update, in order."""
    joint = [node.op for node in program.nodes if fused_update(registry()[node.op])]
    return [op for op in joint if not isinstance(registry()[op], ScaledUpdate)]


@pytest.mark.parametrize(
    ("strategy", "l1", "cores"),
    [("auto", 40000, None), ("single", 16000, 3), pytest.param("double", 24000, 1, marks=pytest.mark.slow)],
)
def test_same_bits(strategy: str, l1: int, cores: int | None, models_root: Path, tmp_path: Path) -> None:
    """Dense and convolutional layers have the bits of updates of their own, for any tiles, buffering and cores."""
    case = load_case("tanh_lenet", models_root)
    separate = compile_case(case, tmp_path / "separate", "auto", 64000)
    one = compile_case(case, tmp_path / "one", strategy, l1, cores=cores, joint=True, outermost="L3", l2=400000)
    assert {"ConvSGD", "OuterSGD"} <= {step.op for step in one.plan.steps}
    assert result_hash(one.run("--dma-order", "late", "--core-order", "reverse")) == result_hash(separate.run())


def test_the_old_weight_is_read_before(models_root: Path) -> None:
    """Every reader of a weight stands before its update, and a program where one does not is refused."""
    program = fuse.fuse_program(load_case("autoencoder", models_root).program, SPILLING)
    steps = [step.node for step in schedule.make_schedule(program, SPILLING).steps]
    readers = 0
    for at, node in enumerate(steps):
        for weight in node.inputs[2:] if fused_update(registry()[node.op]) else ():
            uses = [i for i, other in enumerate(steps) if weight in other.inputs and other is not node]
            assert max(uses) < at, (node.name, weight)
            readers += len(uses)
    assert readers == 2 * len(updating_steps(program)) - 1, "the first layer has no gradient of its input"
    (graph,) = program.graphs
    late = [node for node in graph.nodes if fused_update(registry()[node.op])][-1]
    others = [node for node in graph.nodes if node is not late]
    use = next(i for i, n in enumerate(others) if {late.inputs[0], late.inputs[2]} <= set(n.inputs))
    early = replace(program, graphs=(Graph(graph.name, (*others[:use], late, *others[use:])),))
    with pytest.raises(VerifyFailed, match="has overwritten"):
        verify_program(early)


def test_sums_are_whole(models_root: Path) -> None:
    """No tile cuts a sum whose weight waits for it; a tiling that does is refused."""
    tiling, _ = pipeline.plan_case(load_case("tanh_lenet", models_root), replace(SPILLING, budgets={"L1": 40000}))
    steps = tiling.lifetimes.schedule.steps
    at = next(i for i, s in enumerate(steps) if s.node.op == "ConvSGD" and s.access.dim("oh").size > 1)
    sums = [d for d in steps[at].access.dims if d.kind == "reduction"]
    assert not any(d.splittable for d in sums)
    verify_tiling(tiling)
    choice = tiling.steps[at]
    cut = replace(choice, tile={**choice.tile, "oh": 1})
    with pytest.raises(VerifyFailed, match="must not be split"):
        verify_tiling(replace(tiling, steps=(*tiling.steps[:at], cut, *tiling.steps[at + 1 :])))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of two dense layers."""
    folder = tmp_path_factory.mktemp("model")
    simple_mlp.generate(folder)
    return folder / "simple_mlp.onnx"


def case_of(
    model: Path, folder: Path, optimizer: str = "sgd", limits: Limits = NO_LIMITS, groups: Sequence[ParameterGroup] = ()
) -> Program:
    """The program of a case with that optimizer, as --fused has it."""
    report = build_train_graph(model, "cross_entropy", optimizer, 0.01, "weight", folder, limits=limits, groups=groups)
    program = fuse.fuse_program(pipeline.load_training(report.train).program, SPILLING)
    verify_program(program)
    return program


class How(TypedDict, total=False):
    """Options of a case besides plain SGD."""

    optimizer: str
    limits: Limits
    groups: Sequence[ParameterGroup]


@pytest.mark.parametrize(
    ("how", "steps"),
    [
        ({}, 2),
        ({"limits": Limits(norm=1.0)}, 0),
        ({"limits": Limits(value=1.0)}, 0),
        ({"optimizer": "adam"}, 0),
        ({"groups": [read_group("fc1:momentum=0.5")]}, 1),
        ({"groups": [read_group("fc1:weight_decay=0.5")]}, 1),
        ({"groups": [read_group("fc1:lr=0.5")]}, 2),
    ],
    ids=["plain", "norm", "clipped", "adam", "momentum", "decay", "rates"],
)
def test_what_prevents_it(how: How, steps: int, model: Path, tmp_path: Path) -> None:
    """A gradient that is clipped, whose norm is taken, or that an optimizer with another formula reads has memory."""
    assert updating_steps(case_of(model, tmp_path, **how)) == ["OuterSGD"] * steps


def test_other_reasons(models_root: Path) -> None:
    """Names, small L1s, no third level, few weights, and passes and updates apart leave steps as they are."""
    program = load_case("tanh_lenet", models_root).program
    all_steps = updating_steps(fuse.fuse_program(program, SPILLING))
    assert all_steps.count("ConvSGD") == 2
    assert len(all_steps) == 3
    update = next(node.name for node in program.graphs[-1].nodes if node.op == "SGD" and "fc" in node.inputs[0])
    named = updating_steps(fuse.fuse_program(program, replace(SPILLING, opt_out=(update,))))
    assert named == ["ConvSGD", "ConvSGD"]
    assert updating_steps(fuse.fuse_program(program, replace(SPILLING, fuse_update=False))) == []
    assert updating_steps(fuse.fuse_program(program, replace(SPILLING, budgets={"L1": 1000}))) == ["OuterSGD"]
    assert updating_steps(fuse.fuse_program(program, replace(SPILLING, outermost="L2"))) == ["OuterSGD"]
    fused = fuse.fuse_program(program, SPILLING)
    small = [n for n in fused.nodes if n.op == "ConvGradW"]
    assert small
    assert all(fused.tensors[n.outputs[0]].type.bytes <= MODEL.small_update_bytes for n in small)


def test_a_second_reader(models_root: Path) -> None:
    """A gradient that another node reads, too, keeps its memory, and so does one that other nodes overwrite before."""
    program = load_case("simple_mlp", models_root).program
    assert updating_steps(fuse.fuse_program(program, SPILLING)) == ["OuterSGD", "OuterSGD"]
    rules: dict[str, Callable[[Program, Options], Program]] = fuse.rules()
    before = program
    for name, rule in rules.items():
        if name != "weight_step":
            before = rule(before, SPILLING)
    (graph,) = before.graphs
    update = next(node for node in graph.nodes if node.op == "SGD")
    other = next(w for w in before.weights if w != update.inputs[0])
    twin = replace(update, name="twin", inputs=(other, *update.inputs[1:]))
    twice = replace(before, graphs=(Graph(graph.name, (*graph.nodes, twin)),))
    assert len(updating_steps(rules["weight_step"](twice, SPILLING))) == 1


def test_rates_at_run_time(model: Path, tmp_path: Path) -> None:
    """A schedule's rates reach the joint steps: the bits are those of updates of their own."""
    lr_schedule = read_schedule("cosine", "2")
    report = build_train_graph(model, "cross_entropy", "sgd", 0.05, "", tmp_path, lr_schedule=lr_schedule, n_batches=4)
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    words = ("train", "-t", report.train, "--l1", "2500")
    assert deployer(*words, "-o", tmp_path / "a", "--dump", first) == 0
    assert deployer(*words, "-o", tmp_path / "b", "--dump", second, "--fused") == 0
    assert "outer_sgd_f32" in (tmp_path / "b" / "TrainingNetwork.c").read_text()
    assert bits(first) == bits(second)
