"""Rates that a program reads at each update: schedules, the guard, and the same bits as those of constants."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.errors import DeployerWarning, FileProblem, OptionProblem
from deployer.core.kernel import Const
from deployer.core.operator import Operator, operator_of, registry
from deployer.core.traits.training import Optimizer
from deployer.lr_schedules.lr_schedule import LARGEST_RATE, SCHEDULES, TABLE, check_rate, read_schedule
from deployer.lr_schedules.run_time import kernel_args, rate_groups, update_numbers, with_run_time_rates
from deployer.testing.bench import kernel_model, step_of
from deployer.training.groups import read_group
from deployer.training.train_graph import build_train_graph
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import bits, deployer, generated, refused
from DeployTest.support.graphs.built_cases import opened
from DeployTest.support.references.torch_schedules import LR_SCHEDULES, torch_rates

pytestmark = [pytest.mark.host, pytest.mark.training]
MODEL = kernel_model()
UPDATES, RATE = 100, 0.01
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier's case, whose rate is a constant."""
    return simple_mlp.generate(tmp_path_factory.mktemp("case"))


def test_every_schedule_is_compared() -> None:
    """The courses that are compared with PyTorch have every schedule of the table."""
    names = [text.partition(":")[0] for text, _ in LR_SCHEDULES.values()]
    assert {schedule.name for schedule in TABLE if schedule.share is not None} == set(names)


@pytest.mark.parametrize("name", LR_SCHEDULES)
@pytest.mark.torch
def test_schedules_are_pytorchs(name: str) -> None:
    """The rate of each update is that of PyTorch's scheduler, in float32, for groups of different rates at once.

    CosineAnnealingLR's least rate is one for all groups, and so compared for one.
    """
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text, warm_up = LR_SCHEDULES[name]
    bases = (RATE,) if name == "cosine" else (RATE, 0.3)
    ours = read_schedule(text, warm_up).rates(bases, UPDATES, RATE)
    due = np.array(torch_rates(name, bases, UPDATES))
    np.testing.assert_allclose(ours, due, rtol=np.finfo(np.float32).eps, atol=0)


@pytest.mark.parametrize(
    ("text", "warm_up", "due"),
    [
        ("constant", "", {0: 1, 99: 1}),
        ("step:step-size=30,gamma=0.5", "", {0: 1, 29: 1, 30: 0.5, 59: 0.5, 60: 0.25, 99: 0.125}),
        ("cosine", "", {0: 1, 25: (1 + 0.5**0.5) / 2, 50: 0.5, 75: (1 - 0.5**0.5) / 2}),
        ("cosine:end-factor=0.25,updates=50", "", {0: 1, 25: 0.625, 50: 0.25, 99: 0.25}),
        ("linear", "", {0: 1, 50: 0.5, 99: 0.01}),
        ("linear:start-factor=0.5,end-factor=2,updates=10", "", {0: 0.5, 5: 1.25, 10: 2, 99: 2}),
        ("one-cycle:pct-start=0.5,div-factor=10,final-div-factor=100,updates=102", "", {0: 0.1, 25: 0.55, 50: 1}),
        ("one-cycle:div-factor=10,final-div-factor=100", "", {0: 0.1, 29: 1, 99: 0.001}),
        ("constant", "10", {0: 1 / 3, 5: 2 / 3, 10: 1, 99: 1}),
        ("step:step-size=10", "20:0", {0: 0, 10: 0.5, 20: 1, 29: 1, 30: 0.1}),
    ],
)
def test_shares(text: str, warm_up: str, due: dict[int, float]) -> None:
    """Shares of the rate that one can tell by hand."""
    rates = read_schedule(text, warm_up).rates((1.0,), UPDATES, 1.0)
    for update, share in due.items():
        assert rates[update, 0] == np.float32(share) or abs(rates[update, 0] - share) < 1e-7, (update, share)


def test_list(tmp_path: Path) -> None:
    """Rates of a file are taken as they are for the base, and in proportion for other groups."""
    rates = [0.1, 0.003, 1e-5, 0.7]
    (tmp_path / "rates.txt").write_text("\n".join(map(str, rates)))
    lr_schedule = read_schedule(f"list:{tmp_path / 'rates.txt'}")
    ours = lr_schedule.rates((0.05, 0.1), 4, 0.05)
    np.testing.assert_array_equal(ours[:, 0], np.array(rates, np.float32))
    np.testing.assert_allclose(ours[:, 1], 2 * np.array(rates), rtol=np.finfo(np.float32).eps)
    with pytest.raises(OptionProblem, match="needs one rate per update"):
        lr_schedule.rates((0.05,), 5, 0.05)
    for content, said in (("0.1 x", "not a number"), ("", "no rates")):
        (tmp_path / "bad.txt").write_text(content)
        with pytest.raises(FileProblem, match=said):
            read_schedule(f"list:{tmp_path / 'bad.txt'}")


@pytest.mark.parametrize(
    ("text", "warm_up", "said"),
    [
        ("sine", "", "no schedule 'sine'"),
        ("step", "", "needs step-size"),
        ("step:step-size=0", "", "out of range"),
        ("step:step-size=1.5", "", "not an integer"),
        ("step:step-size=2,step-size=3", "", "once each"),
        ("step:often=2", "", "not SETTING=X"),
        ("cosine:", "", "ends with a colon"),
        ("cosine:end-factor=2", "", "out of range"),
        ("cosine:end-factor=nan", "", "out of range"),
        ("one-cycle:div-factor=0.5", "", "out of range"),
        ("constant:x=1", "", "not SETTING=X"),
        ("list", "", "names no file"),
        ("constant", "0", "out of range"),
        ("constant", "x", "not an integer"),
        ("constant", "3:2", "out of range"),
    ],
)
def test_refused_schedules(text: str, warm_up: str, said: str) -> None:
    """A schedule that is none, and settings that it does not have, by name."""
    with pytest.raises(OptionProblem, match=said):
        read_schedule(text, warm_up)


def test_guard() -> None:
    """Rates that cannot be right are refused, and those that may be meant are not with a flag."""
    for rate in (np.nan, np.inf, -np.inf, 1e60):
        for free in (False, True):
            with pytest.raises(OptionProblem, match="not finite"):
                check_rate(rate, free=free)
    for rate, said in ((-0.1, "not positive"), (0.0, "not positive"), (1e-60, "not positive"), (64.0, "too large")):
        with pytest.raises(OptionProblem, match=said):
            check_rate(rate)
        check_rate(rate, free=True)
    check_rate(LARGEST_RATE)
    with pytest.raises(OptionProblem, match=r"the rate of update 51 .* is too large"):
        read_schedule("linear:end-factor=3").rates((LARGEST_RATE / 2,), UPDATES, LARGEST_RATE / 2)
    assert (
        read_schedule("linear:end-factor=3", "", free=True).rates((LARGEST_RATE / 2,), UPDATES, 1.0).max()
        > LARGEST_RATE
    )


OPTIMIZERS = sorted({op.name: op for op in registry().values() if op.role(Optimizer) and op.kernel}.values(), key=str)


@pytest.mark.parametrize("operator", OPTIMIZERS, ids=lambda op: op.name)
def test_declared_numbers(operator: Operator) -> None:
    """The kernel arguments that change with the rate are those that the optimizer declares, and no others."""
    declared = operator.role(Optimizer)
    assert declared is not None
    found: set[str] = set()
    for sample in operator.samples():
        step = step_of(operator, sample)
        name, rates = declared.rate, (0.125, 0.75)
        nodes = [replace(step.node, attrs={**step.node.attrs, name: rate}) for rate in rates]
        args = [operator.args(node, step.access) for node in nodes]
        found |= {name for name in args[0] if args[0][name] != args[1][name]}
    assert found == set(declared.rated)


def test_numbers_are_those_of_constants(tmp_path: Path) -> None:
    """For each group the numbers of an update are the arguments of a program with that rate as a constant."""
    folder = simple_mlp.generate(tmp_path / "model").parent
    groups = [read_group("fc1:lr=0.002,weight_decay=0.5"), read_group("fc2.bias:lr=0.5")]
    report = build_train_graph(folder / "simple_mlp.onnx", "cross_entropy", "adamw", 0.01, "", tmp_path, groups=groups)
    program, _ = opened(report.train)
    free, bases = with_run_time_rates(program)
    assert rate_groups(free) == len(bases) == 3
    numbers = update_numbers(free, bases)
    types = {name: tensor.type for name, tensor in program.tensors.items()}
    for constant, node in zip(program.graphs[-1].nodes, free.graphs[-1].nodes, strict=True):
        operator = operator_of(node)
        access = operator.access(node, types)
        for name, value in operator.args(constant, operator.access(constant, types)).items():
            own = kernel_args(node, access, MODEL)[name]
            assert own == value or numbers[own.place] == np.float32(value.value if isinstance(value, Const) else np.nan)
    assert "lr" not in {name for node in free.nodes for name in node.attrs if operator_of(node).role(Optimizer)}


def test_same_bits_as_constants(train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A constant schedule gives the bits of the constant, in a program that another schedule leaves as it is."""
    words = ("train-graph", train.parent / "simple_mlp.onnx", "--loss", "cross_entropy", "--optimizer", "adamw")
    words = (*words, "--param-group", "fc1:lr=0.002", "-o")
    assert deployer(*words, tmp_path / "a") == 0
    assert deployer(*words, tmp_path / "b", "--lr-scheduler", "constant") == 0
    runs = {"a": (), "b": (), "c": ("--lr-scheduler", "cosine", "--warmup-steps", "1", "--skipsim")}
    for name, more in runs.items():
        case = tmp_path / ("a" if name == "a" else "b") / "simple_mlp_train"
        dump = () if "--skipsim" in more else ("--dump", tmp_path / f"{name}.npz")
        assert deployer("train", "-t", case, "-o", tmp_path / f"{name}_out", *dump, *more) == 0
    assert bits(tmp_path / "a.npz") == bits(tmp_path / "b.npz")
    assert "learning rates: the case's, set at run time for each of 4 updates" in capsys.readouterr().out
    one, two = generated(tmp_path / "b_out"), generated(tmp_path / "c_out")
    assert {name for name in one if one[name] != two[name]} == {"input.bin"}


def test_asked_for(train: Path) -> None:
    """A case with a constant rate is what it was, and takes a schedule when one is asked for."""
    plain, scheduled = pipeline.load_training(train), pipeline.load_training(train, lr_schedule=read_schedule("linear"))
    assert rate_groups(plain.program) == 0
    assert not plain.notes
    assert rate_groups(scheduled.program) == 1
    [note] = scheduled.notes
    assert "linear, set at run time for each of 4 updates: 0.01 to 0.0025" in note
    assert scheduled.dataset is not None
    assert scheduled.dataset.by_reference


def test_refused_runs(train: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rates that the command line may not have, and rates of a file that are not those of the run."""
    run = ("train", "-t", train, "-o", tmp_path / "out")
    assert "--lr -0.1 is not positive" in refused(capsys, *run, "--lr", "-0.1")
    assert "too large" in refused(capsys, *run, "--lr", "64")
    assert "--any-rate has no effect here" in refused(capsys, *run, "--any-rate")
    single = ("optimizer", "-t", train, "-o", tmp_path / "out", "--lr", "64")
    assert "too large" in refused(capsys, *single)
    (tmp_path / "rates.txt").write_text("0.1 0.1 0.1 0.1")
    listed = (*run, "--lr-scheduler", f"list:{tmp_path / 'rates.txt'}", "--lr", "0")
    assert "cannot replace a learning rate of 0" in refused(capsys, *listed)
    assert "the warm-up does not end before the run" in refused(capsys, *run, "--warmup-steps", "4")
    words = ("train-graph", train.parent / "simple_mlp.onnx", "--loss", "cross_entropy", "--lr-scheduler", "constant")
    assert deployer(*words, "-o", tmp_path) == 0
    case = tmp_path / "simple_mlp_train"
    held = ("train", "-t", case, "-o", tmp_path / "out")
    assert "--lr would replace" in refused(capsys, *held, "--lr", "0.1")
    assert "no rate for each update" in refused(capsys, *held, "--n-steps", "9")
    with np.load(case / "inputs.npz") as file:
        arrays = dict(file)
    for rates, said in (
        (np.zeros((4, 2), np.float32), "belong to other parameter groups"),
        (np.zeros(4, np.float32), "not the rates of updates"),
        (np.full((4, 1), np.nan, np.float32), "holds nan"),
    ):
        np.savez(case / "inputs.npz", **{**arrays, "meta_rates": rates})
        assert said in refused(capsys, *held)


@pytest.mark.parametrize("rate", [-0.5, 0.0, 64.0])
def test_odd_rates_of_files(rate: float, train: Path, tmp_path: Path) -> None:
    """A rate of a file that the command line may not have is taken, with a warning that says where it is."""
    folder = tmp_path / "case"
    shutil.copytree(train.parent, folder)
    path = folder / "simple_mlp_optimizer" / "network.onnx"
    made = onnx.load(str(path))
    next(a for a in made.graph.node[0].attribute if a.name == "lr").f = rate
    onnx.save(made, str(path))
    warnings: list[DeployerWarning] = []
    pipeline.load_training(folder, warn=warnings.append)
    assert [w.cause for w in warnings] == [f"node {made.graph.node[0].name!r} (SGD) has the learning rate {rate:g}"]


def test_names_of_schedules_are_words() -> None:
    """Names and settings go on a command line."""
    for schedule in SCHEDULES.values():
        for word in (schedule.name, *(s.name for s in schedule.settings)):
            assert word.replace("-", "").isalnum()
            assert word == word.lower()
