"""Turned decisions: one that rounding turned is named, and nothing else is ever called explained."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.core.ir import Node
from deployer.core.operator import operator_of
from deployer.pipeline import Case
from deployer.verify.checks import Checks, PassCheck
from deployer.verify.flips import MOST_RUNS, MOST_UNITS, Budget, flipping, near_units
from deployer.verify.reference import Memory, run_training
from deployer.verify.tolerances import TOLERANCES
from deployer.verify.verdict import Expected
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.turned import UNIT, Run, at_border, border_value, opened_border, turned_value

pytestmark = [pytest.mark.host, pytest.mark.training]
MUTANTS = 120
SEEDS = range(16)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A case with a unit at its border."""
    return opened_border(tmp_path_factory.mktemp("border"), 1)


def test_right_run(case: Case) -> None:
    """A float32 run whose unit lies where float64 has it passes, and nothing needs to be explained."""
    checks = Run(case, border_value(case)).judge().checks()
    assert len(checks.rows) == case.passes
    assert not checks.faults
    assert not checks.explained


@pytest.mark.parametrize("gate", ["Relu", "LeakyRelu"])
def test_turned_unit_is_named(gate: str, tmp_path: Path) -> None:
    """The one unit, its value in float64, and the pass; without turning it the pass is beyond its bounds."""
    case = opened_border(tmp_path, 1, gate)
    judge = Run(case, turned_value(case)).judge()
    checks = judge.checks()
    assert not checks.faults
    [found] = checks.explained
    assert (found.whose, found.flip.index, found.flip.element) == ("this run", 0, (0, UNIT))
    assert found.flip.value == border_value(case)
    assert checks.rows[0].explained
    assert checks.rows[0].severity > 1
    assert judge.budget.left < MOST_RUNS


def test_without_budget_it_is_a_fault(case: Case) -> None:
    """Nothing is explained that was not searched."""
    judge = Run(case, turned_value(case)).judge()
    judge.budget = Budget(0)
    assert judge.checks().faults


def test_a_unit_far_from_its_border_is_no_explanation(case: Case) -> None:
    """The same effect with a value that no rounding can have: the unit is turned in a pass where it is far away."""

    def flip(index: int, node: Node, memory: Memory) -> None:
        if node.op == "ReluGrad" and index == 1:
            memory[node.outputs[0]] = np.where(memory[node.inputs[1]] > 0, 0, memory[node.inputs[0]])

    checks = Run(case, border_value(case), flip).judge().checks()
    assert checks.faults
    assert not checks.explained


class Mutant:
    """A wrong kernel, drawn by number: of one step, in one pass or all, a block of its result is wrong."""

    def __init__(self, case: Case, number: int) -> None:
        draw = np.random.default_rng([7, number])
        program = case.program
        nodes = [n for n in program.nodes if not operator_of(n).view and program.tensors[n.outputs[0]].type.size > 1]
        self.node = nodes[draw.integers(len(nodes))]
        self.kind = ("wrong sign", "missing tile", "stale slot")[number % 3]
        self.first, self.share = draw.uniform(0, 0.75), draw.uniform(0.25, 1.0)
        self.passes = range(case.passes) if draw.integers(2) else (int(draw.integers(1, case.passes)),)
        self.last: np.ndarray | None = None
        self.changed = False

    def __call__(self, index: int, node: Node, memory: Memory) -> None:
        """Spoil the result."""
        if node is not self.node:
            return
        name = node.outputs[0]
        right = memory[name].copy()
        stale, self.last = self.last, right.copy()
        flat = right.reshape(-1)
        start = int(self.first * flat.size)
        tile = slice(start, start + max(int(self.share * flat.size), 1))
        if index not in self.passes:
            return
        if self.kind == "wrong sign":
            flat[tile] = -flat[tile]
        elif self.kind == "missing tile":
            flat[tile] = 0
        elif stale is not None:
            flat[tile] = stale.reshape(-1)[tile]
        memory[name] = right
        self.changed |= not np.array_equal(right, self.last)


@pytest.mark.slow
def test_no_wrong_kernel_passes_or_is_explained(case: Case) -> None:
    """Wrong kernels beside a turned unit: every one that changes what the run leaves is a fault."""
    sound = Run(case, turned_value(case)).recorded()
    counted = dict.fromkeys(("wrong sign", "missing tile", "stale slot"), 0)
    for number in range(MUTANTS):
        mutant = Mutant(case, number)
        run = Run(case, turned_value(case), mutant)
        wrong = run.recorded()
        same = all(np.array_equal(wrong.final[n], sound.final[n]) for n in sound.final)
        if same and wrong.losses == sound.losses:
            continue
        counted[mutant.kind] += 1
        mutant = Mutant(case, number)
        checks = Run(case, turned_value(case), mutant).judge().checks()
        assert checks.faults, (number, mutant.kind, mutant.node.name, mutant.passes)
    assert min(counted.values()) >= MUTANTS // 6, counted


def test_a_turn_is_of_one_node(case: Case) -> None:
    """A node of the other graph may have the same name: what it does not read stays as it is."""
    flip = near_units(Run(case, turned_value(case)).judge().passes[0])[0]
    memory = Memory(case.program, np.float64)
    memory[flip.tensor] = np.zeros(case.program.tensors[flip.tensor].type.shape)
    flipping((flip,))(Node(flip.node, "SGD", ("w1",), ("w1_updated",)), memory)
    assert not memory[flip.tensor].any()
    flipping((flip,))(Node(flip.node, "Relu", (flip.tensor,), ("r",)), memory)
    assert np.flatnonzero(memory[flip.tensor]).size == 1


def test_few_units_are_searched(case: Case) -> None:
    """At most 32, nearest first, and always the same."""
    judge = Run(case, turned_value(case)).judge()
    units = near_units(judge.passes[0])
    assert 0 < len(units) <= MOST_UNITS
    assert [u.nearness for u in units] == sorted(u.nearness for u in units)
    assert units == near_units(judge.passes[0])


def report_of(folder: Path) -> dict[str, object]:
    """The JSON report of a run."""
    document: dict[str, object] = json.loads((folder / "report.json").read_text())
    return document


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The compiled program: it ends well with a warning where its own rounding turned the unit, `--strict` does not."""
    for seed in SEEDS:
        train, out = at_border(tmp_path / f"{seed}", seed), tmp_path / f"c{seed}"
        assert deployer("train", "-t", train, "-o", out) == 0
        if report_of(out)["verdict"] == "explained":
            break
    assert report_of(out)["verdict"] == "explained", "no seed turns the unit"
    assert "explained: pass 0, in this run: " in capsys.readouterr().out
    assert deployer("train", "-t", train, "-o", out, "--skipgen", "--strict") == 1
    assert deployer("train", "-t", train, "-o", tmp_path / "none", "--check-passes", "none") == 1
    assert report_of(tmp_path / "none")["verdict"] == "failed"


def test_gold_of_others(case: Case, tmp_path: Path) -> None:
    """A case's own values beyond the tolerance are a fault, unless a decision that turned in them accounts for it."""
    train = at_border(tmp_path, 1)
    loaded = pipeline.load_training(train)
    recorded = Run(loaded, turned_value(loaded)).recorded()
    gold = {"loss": np.array(recorded.losses, np.float32), **recorded.final}
    np.savez(train / "outputs.npz", **gold)
    assert run_and_verdict(train, tmp_path / "c") == "explained"
    gold["w1"] = gold["w1"] + np.float32(1e-3)
    np.savez(train / "outputs.npz", **gold)
    assert run_and_verdict(train, tmp_path / "d") == "failed"
    losses, weights = run_training(loaded.program, loaded.dataset, np.float64)  # type: ignore[arg-type]
    np.savez(train / "outputs.npz", loss=np.array(losses, np.float32), **weights)
    assert run_and_verdict(train, tmp_path / "e") in ("passed", "explained")


def test_gold_needs_every_pass(case: Case) -> None:
    """Another's values are explained from checked passes: not where one of the run's passes was not checked."""
    run = Run(case, turned_value(case))
    recorded, judge = run.recorded(), run.judge()
    gold = Expected("others", recorded.losses, recorded.final, {}, case.passes)
    for passes, explained in ((judge.passes, True), (judge.passes[:-1], False)):
        some = replace(judge, passes=passes, budget=Budget())
        checks = some.explain_trajectory(some.checks(), gold, recorded.losses, recorded.final)
        assert checks.trajectory_explained is explained
    off = replace(gold, losses=tuple(loss + 1e-2 for loss in gold.losses))
    assert not judge.explain_trajectory(judge.checks(), off, recorded.losses, recorded.final).trajectory_explained


def test_what_is_odd_forgets_no_turn(case: Case) -> None:
    """A later pass with an error that no turn accounts for, within its bounds, leaves the turns of earlier ones."""

    def shake(index: int, node: Node, memory: Memory) -> None:
        if node.op == "SGD" and index == 2 and "w2" in node.inputs:
            memory[node.outputs[0]] = memory[node.outputs[0]] * np.float32(1 + 2e-7)

    run = Run(case, turned_value(case), shake)
    recorded, judge = run.recorded(), run.judge()
    gold = Expected("others", recorded.losses, recorded.final, {}, case.passes)
    checks = judge.checks()
    assert TOLERANCES.odd < checks.rows[2].severity < 1
    assert judge.explain_trajectory(checks, gold, recorded.losses, recorded.final).trajectory_explained


def run_and_verdict(train: Path, out: Path) -> object:
    """Run a case and read its verdict."""
    code = deployer("train", "-t", train, "-o", out)
    verdict = report_of(out)["verdict"]
    assert code == (verdict == "failed")
    return verdict


def test_gold_without_any_tolerance(case: Case) -> None:
    """A tolerance of 0 is one: what is off by a bit is explained by nothing."""
    judge = replace(Run(case, turned_value(case)).judge(), tolerance=0.0)
    rows = tuple(PassCheck(one.index, 0.0, "", 0.0, False) for one in judge.passes)
    weights = {name: np.nextafter(judge.passes[-1].after[name], np.float32(1)) for name in judge.passes[-1].after}
    losses = tuple(one.loss for one in judge.passes)
    expected = Expected("test", losses=losses, arrays=weights)
    checks = judge.explain_trajectory(Checks(len(rows), rows), expected, losses, judge.passes[-1].after)
    assert not checks.explained
