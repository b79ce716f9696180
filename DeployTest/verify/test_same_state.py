"""Passes checked from the program's own state: which ones, what the dumps hold, drift, and tensors that stand still."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Node
from deployer.core.plan import Options, Plan, RunOptions
from deployer.pipeline import Case
from deployer.running import report
from deployer.running.run import Outcome
from deployer.running.watch import drift_of, drift_svg
from deployer.training.train_graph import build_train_graph
from deployer.verify.checked import FIRST_CHECKS, STATES_BYTES, checked_passes, moments, state_bytes, usual_checks
from deployer.verify.checks import Judge
from deployer.verify.reference import Memory
from deployer.verify.verdict import Expected
from DeployTest.models import autoencoder, dscnn
from DeployTest.support.building.cases import compile_case, faults
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.turned import Run, border_value, opened_border

pytestmark = [pytest.mark.host, pytest.mark.training]
NO_PLAN = Plan(Options(), "", (), 0, (), (), (), (), (), (), {}, RunOptions(1, 1e-5, 0))


@pytest.mark.parametrize("count", [1, 2, 3, 17, 64])
@pytest.mark.parametrize("passes", [64, 65, 100, 127, 7185])
def test_which_passes(passes: int, count: int) -> None:
    """As many as asked for, in order, each once, the last among them, and one in each equal part."""
    chosen = checked_passes(passes, count)
    assert len(chosen) == len(set(chosen)) == count
    assert list(chosen) == sorted(chosen)
    assert chosen[0] >= 0
    assert count == 1 or (chosen[0] == 0 and chosen[-1] == passes - 1)
    for i, index in enumerate(chosen):
        assert i * passes // count <= index < (i + 1) * passes // count
    assert checked_passes(passes, passes) == tuple(range(passes))


@pytest.mark.parametrize("accumulate", [2, 4, 8])
def test_sample_meets_updates(accumulate: int) -> None:
    """Whatever the number of passes per update, some of the checked passes end with one and some do not."""
    ends = [(index + 1) % accumulate == 0 for index in checked_passes(64 * accumulate, 64)]
    assert any(ends)
    assert not all(ends)


def test_moments() -> None:
    """Before and after each checked pass, but for the start of the run and its end, which are known otherwise."""
    assert moments(RunOptions(5, 1e-5, 5)) == (1, 2, 3, 4)
    assert moments(RunOptions(5, 1e-5, 0)) == ()
    assert moments(RunOptions(1, 1e-5, 1)) == ()
    for moment in moments(RunOptions(1000, 1e-5, 64)):
        assert {moment, moment - 1} & set(checked_passes(1000, 64))


def test_usual_checks() -> None:
    """All up to a number, fewer where the states are large, at least one."""
    assert usual_checks(FIRST_CHECKS, 1000) == FIRST_CHECKS
    assert usual_checks(10 * FIRST_CHECKS, 1000) == FIRST_CHECKS
    assert usual_checks(FIRST_CHECKS, STATES_BYTES // 8) == 4
    assert usual_checks(FIRST_CHECKS, STATES_BYTES) == 1


@pytest.mark.slow
def test_dumped_states(tmp_path: Path) -> None:
    """The program dumps its state before a pass, with accumulators; a wrong state fails the passes beside it."""
    train = autoencoder.generate(tmp_path / "m", n_accum=2, n_batches=6)
    case = pipeline.load_training(train)
    built = compile_case(case, tmp_path / "c", "auto", 32000)
    outcome = built.run()
    assert sorted(outcome.states) == [1, 2, 3, 4, 5]
    assert not faults(built, outcome)
    assert set(outcome.states[1]) == {*case.program.updated.values(), *case.program.accumulators}
    assert state_bytes(case.program, True) == sum(array.nbytes for array in outcome.states[1].values())
    first = {name: outcome.states[1][name] for name in case.program.updated.values()}
    assert case.dataset is not None
    for name, array in first.items():
        assert np.array_equal(array, case.dataset.weights[name]), "no update follows the first of two passes"
    assert any(outcome.states[1][name].any() for name in case.program.accumulators)
    wrong = {**outcome.states, 3: {n: a * np.float32(1.001) for n, a in outcome.states[3].items()}}
    said = faults(built, replace(outcome, states=wrong))
    assert [text.split(" from")[0] for text in said] == ["pass 2", "pass 3"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A small case of four passes."""
    return opened_border(tmp_path_factory.mktemp("case"), 1)


def test_a_tensor_that_stands_still(case: Case) -> None:
    """An update that is left out for one weight, in one pass or in all: it is said that it did not change."""
    for name in case.program.updated.values():
        for passes in ({2}, set(range(4))):
            kept: dict[str, Any] = {}

            def still(
                index: int,
                node: Node,
                memory: Memory,
                name: str = name,
                passes: set[int] = passes,
                kept: dict[str, Any] = kept,
            ) -> None:
                if node in case.program.graphs[1].nodes and name in {case.program.storage(o) for o in node.outputs}:
                    assert case.dataset is not None
                    before = kept.get(name, case.dataset.weights[name])
                    kept[name] = before if index in passes else memory[name].copy()
                    memory[name] = kept[name]

            checks = Run(case, border_value(case), still).judge().checks()
            assert checks.failed == min(passes)
            assert "did not change, though its gradient is not zero: " in checks.faults[0]
            assert checks.faults[0].endswith(f"({name})")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_wild_state_is_a_fault(value: float, case: Case) -> None:
    """NaN and infinities in a weight, from a pass on, though every pass begins with them from then on."""

    def wild(index: int, node: Node, memory: Memory) -> None:
        if node in case.program.graphs[1].nodes and index == 1:
            broken = memory[node.outputs[0]].copy()
            broken.flat[0] = value
            memory[node.outputs[0]] = broken

    with np.errstate(all="ignore"):
        checks = Run(case, border_value(case), wild).judge().checks()
    assert checks.failed == 1
    assert not checks.explained


def test_drift() -> None:
    """Its largest difference, its growth and its plot, of a difference that grows tenfold in ten passes."""
    expected = [1.0] * 60
    losses = [1.0 + 10.0 ** (-8 + i / 10) for i in range(60)]
    drift = drift_of(losses, expected)
    assert drift is not None
    assert (drift.at, round(drift.tenfold)) == (59, 10)
    assert drift.largest == losses[-1] - 1.0
    assert list(drift.line) == sorted(drift.line, key="_.-:=+*#".index)
    assert drift_svg(drift, 60, 1e-5).count("<rect") == len(drift.columns) == 48
    still = drift_of(expected, expected)
    assert still is not None
    assert (still.largest, still.tenfold) == (0.0, math.inf)
    assert drift_of([], []) is None


def test_drift_is_no_fault(case: Case) -> None:
    """Far from the float64 run in passes that are right is drift; far from the values of others is a fault."""
    run, initial = Run(case, border_value(case)), case.dataset.weights if case.dataset else {}
    recorded, judge = run.recorded(), run.judge()
    outcome = Outcome("", recorded.losses, dict(recorded.final), {}, 0)
    far = {name: array + np.float32(0.01) for name, array in recorded.final.items()}
    own = Expected("float64", tuple(x + 0.1 for x in recorded.losses), far, initial, 4, by_reference=True)

    def judged(expected: Expected, judge: Judge | None) -> report.Report:
        return report.make_report(NO_PLAN, outcome, expected, 1e-5, judge=judge)

    drifted = judged(own, judge)
    assert (drifted.verdict, drifted.faults) == ("passed", ())
    assert len(drifted.drifted) >= len(recorded.losses) + len(far)
    assert judged(own, None).verdict == "failed"
    assert judged(replace(own, by_reference=False), judge).verdict == "failed"
    name = sorted(far)[0]
    assert f"{name} is frozen and has changed" in judged(replace(own, frozen={name: initial[name]}), judge).faults
    standing = Outcome("", recorded.losses, {**recorded.final, name: initial[name]}, {}, 0)
    said = report.make_report(NO_PLAN, standing, own, 1e-5, judge=judge).faults
    assert any(text.startswith(f"{name} did not move") for text in said)


def reports(folder: Path, *words: object) -> Iterator[tuple[int, dict[str, Any]]]:
    """Exit code and report of a run."""
    code = deployer("train", *words, "-o", folder)
    yield code, json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_expected_values_of_others(tmp_path: Path) -> None:
    """Values that were changed in outputs.npz are no float64 run any more: a run that is off from them fails."""
    train = autoencoder.generate(tmp_path / "m")
    with np.load(train / "outputs.npz") as archive:
        gold = dict(archive)
    [(code, found)] = reports(tmp_path / "c", "-t", train)
    assert (code, found["verdict"], found["checks"]["passes"], len(found["checks"]["rows"])) == (0, "passed", 4, 4)
    assert (tmp_path / "c" / "drift.svg").read_text().startswith("<svg")
    gold["loss"] = gold["loss"] + np.float32(1e-3)
    np.savez(train / "outputs.npz", **gold)
    [(code, found)] = reports(tmp_path / "d", "-t", train)
    assert (code, found["verdict"], found["drifted"]) == (1, "failed", [])
    [(code, found)] = reports(tmp_path / "e", "-t", train, "--check-passes", "none")
    assert (code, found["checks"]["rows"]) == (1, [])
    [(code, found)] = reports(tmp_path / "f", "-t", train, "--check-passes", "2", "--lr", "0.02")
    assert (code, [row["index"] for row in found["checks"]["rows"]]) == (0, [0, 3])


@pytest.mark.slow
def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other texts than numbers, all and none; where nothing trains or runs; a number that differs from the plan's."""
    train = autoencoder.generate(tmp_path / "m")
    capsys.readouterr()
    refused = (
        (("train", "--check-passes", "some"), "'some' is not a whole number above 0"),
        (("optimizer", "--check-passes", "1"), "--check-passes has no effect on an optimizer case"),
        (("optimizer", "--strict"), "--strict has no effect on an optimizer case"),
        (("compile", "--strict"), "--strict has no effect here"),
    )
    for words, text in refused:
        assert deployer(*words, "-t", train, "-o", tmp_path / "c") == 2
        assert text in capsys.readouterr().err
    assert deployer("train", "-t", train, "-o", tmp_path / "c", "--check-passes", "2") == 0
    assert deployer("train", "-t", train, "-o", tmp_path / "c", "--check-passes", "3", "--skipgen") == 2
    assert "--check-passes 3, in the file 2" in capsys.readouterr().err


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Batch norms, and an optimizer that divides a gradient by its own size: of a tiny one it makes a whole step."""
    root = tmp_path_factory.mktemp("adaptive")
    dscnn.generate(root)
    made = build_train_graph(root / "dscnn.onnx", "cross_entropy", "adamw", 1e-3, "", root / "a", samples=3)
    return pipeline.load_training(made.train)


@pytest.mark.slow
def test_rounding_that_an_optimizer_enlarges(adaptive: Case) -> None:
    """Gradients off by a rounding of cancelled sums pass, whatever the optimizer makes of them; wrong ones do not."""

    def noisy(index: int, node: Node, memory: Memory) -> None:
        draw = np.random.default_rng(index)
        for name in adaptive.program.accumulators if node is adaptive.program.graphs[0].nodes[-1] else ():
            scale = np.float32(2**-19) * np.sqrt(np.square(memory[name]).mean())
            memory[name] = memory[name] + scale * draw.uniform(-1, 1, memory[name].shape)

    checks = Run(adaptive, 0.0, noisy).judge().checks()
    assert not checks.faults
    for name in adaptive.program.accumulators[::7]:

        def wrong(index: int, node: Node, memory: Memory, name: str = name) -> None:
            if node is adaptive.program.graphs[0].nodes[-1]:
                memory[name] = -memory[name]

        assert Run(adaptive, 0.0, wrong).judge().checks().faults, name
