"""The injector of faults: what it draws, that the right programs pass, that a sample is noticed, and its table."""

import re
from pathlib import Path

import pytest

from DeployTest.faults.inject.draw import GROUPS, draw, proposals
from DeployTest.faults.inject.fault import CLASSES, Fault
from DeployTest.faults.inject.judge import MODES, NAMED, NOTHING, UNSEEN, VERDICT, judge, judge_all
from DeployTest.faults.inject.program import BUFFERINGS, QUANTIZED, RECIPES, Program, Recipe, make, walk
from DeployTest.faults.inject.table import BEGIN, END, QUANTIZED_BEGIN, QUANTIZED_END

pytestmark = [pytest.mark.host, pytest.mark.training, pytest.mark.doublebuffer]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
LEAST = 1500
"""Faults of each seed in the table."""
SEEDS = 3


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The dense case, double-buffered, with the layer in it."""
    return make(RECIPES[0], "double", tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def sites(program: Program) -> dict[str, list[Fault]]:
    """All its faults by class."""
    return proposals(program)


def first(program: Program, kind: str, *, step: int | None = None) -> Fault:
    """The first fault of a class, of a step where one is given."""
    return next(f for f in CLASSES[kind].faults(program) if step in (None, f.step))


@pytest.mark.slow
def test_every_place_is_met(program: Program, sites: dict[str, list[Fault]]) -> None:
    """Each class that has sites, each step and each operand; the same for a seed, and others for another."""
    faults = draw(program, 1, sites=sites)
    assert {f.kind for f in faults} == {kind for kind, faults_of_kind in sites.items() if faults_of_kind}
    places = {(f.step, f.arg) for f in faults}
    expected = {(s.index, o.arg) for s in program.plan.steps for o in s.operands}
    operands = {(f.step, f.arg) for faults_of_kind in sites.values() for f in faults_of_kind} & expected
    assert expected == operands <= places
    assert {s.index for s in program.plan.steps} <= {step for step, _ in places}
    assert draw(program, 1, sites=sites) == faults != draw(program, 2, sites=sites)


def test_census_follows_the_plan(program: Program) -> None:
    """The layer finds an operand for every transfer, and as many kernel calls as the plan has tiles."""
    for step in program.plan.steps:
        assert len(program.census.calls(step.index)) == step.tiles == len(list(walk(step)))
        regions = range(len(program.regions(step)))
        assert all(m.region in regions for e in program.census.executions[step.index] for m in e.moves)


def test_the_right_program_passes(program: Program) -> None:
    """In all modes, with the same bits: judge_all raises otherwise."""
    assert list(judge_all(program, [], MODES, 1)) == []


def test_sample_is_noticed(program: Program, sites: dict[str, list[Fault]]) -> None:
    """One fault of each class in the simulator's default mode."""
    faults = draw(program, 4, 1, sites)[: len(CLASSES)]
    judgements = list(judge_all(program, faults, MODES[:1], 2))
    assert [f"{f.kind}: {f.text}" for f, _, judgement in judgements if judgement.result == UNSEEN] == []
    assert {NAMED, VERDICT} <= {judgement.result for _, _, judgement in judgements}


@pytest.mark.slow
@pytest.mark.parametrize("buffering", BUFFERINGS)
@pytest.mark.parametrize("recipe", [*RECIPES, *QUANTIZED], ids=lambda r: r.name)
def test_every_program(recipe: Recipe, buffering: str, tmp_path: Path) -> None:
    """Some faults of each class, each step and each operand, in all modes."""
    program = make(recipe, buffering, tmp_path)
    judgements = judge_all(program, draw(program, 5, per_class=1), MODES, 2)
    assert [f"{mode.label}, {f.kind}: {f.text}" for f, mode, j in judgements if j.result == UNSEEN] == []


@pytest.mark.slow
def test_crossing_transfers_are_noticed(tmp_path: Path) -> None:
    """Faults of first fetches that start in earlier steps, and of last egresses awaited in later ones, are named."""
    program = make(RECIPES[1], "double", tmp_path)
    cross_step_transfers = {(c.step, c.arg, c.direction) for c in program.plan.cross_step_transfers}
    assert {direction for *_, direction in cross_step_transfers} == {"in", "out"}
    kinds = ("dropped", "doubled", "the slot of another operand", "wait left out", "wait doubled")
    faults = [
        fault
        for kind in kinds
        for fault in CLASSES[kind].faults(program)
        if ((fault.step, fault.arg, "in") in cross_step_transfers and fault.place.startswith("transfer 0 in "))
        or ((fault.step, fault.arg, "out") in cross_step_transfers and " out of " in fault.place)
    ]
    assert {fault.kind for fault in faults} == set(kinds)
    judgements = list(judge_all(program, faults, MODES[:1], 2))
    assert [f"{f.kind}: {f.text}: {j.said}" for f, _, j in judgements if j.result != NAMED] == []


def test_named_with_the_step(program: Program) -> None:
    """A dropped transfer is named with its step."""
    fault = first(program, "dropped")
    judgement = judge(program, fault, MODES[0])
    assert judgement.result == NAMED, judgement
    assert fault.step in judgement.steps, judgement


def test_same_bits_change_nothing(program: Program) -> None:
    """A flag that is set to what it is changes nothing: results are not taken for a fault's because one was planted."""
    faults = list(CLASSES["lazy-reset flag constant 1"].faults(program))
    assert judge(program, faults[1], MODES[0]).result == NOTHING, faults[1].place


def test_a_fault_that_is_not_reached_is_an_error(program: Program) -> None:
    """Or else a class whose sites do not exist would count as harmless."""
    with pytest.raises(RuntimeError, match="no action was reached"):
        judge(program, Fault("given", -1, "", "", (), "1 999 0 0 0 1 0 0 0 0 0 0 0"), MODES[0])


def test_known_faults_are_classes() -> None:
    """Those that once went unseen stay in."""
    names = {"a step left out", "an optimizer step left out", "w and g of SGD exchanged"}
    assert names <= set(CLASSES)
    assert {c.group for c in CLASSES.values()} == set(GROUPS)


def document_tables(begin: str = BEGIN, end: str = END) -> list[list[list[str]]]:
    """The tables between two marks of docs/detection.md as rows of cells, headings included."""
    text = DOCUMENT.read_text().split(begin)[1].split(end)[0]
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[c.strip() for c in line.strip("|").split("|")] for line in b.splitlines()] for b in blocks]


def test_table_and_classes_agree() -> None:
    """Every class is a row and every row a class, in the order of the groups, for all modes."""
    _, classes, _ = document_tables()
    rows = [row[0] for row in classes[2:]]
    assert rows == [f"{g}: {kind}" for g in GROUPS for kind, c in CLASSES.items() if c.group == g]
    assert classes[0][2:] == [mode.label for mode in MODES]
    assert all(int(row[1]) > 0 for row in classes[2:]), "make detection draws some of each class"


def test_table_has_enough_and_nothing_unseen() -> None:
    """At least 1500 faults of each seed, over all cases, and none that changes bits unnoticed."""
    groups, classes, seeds = document_tables()
    assert not [row for row in classes if UNSEEN in " ".join(row).upper()]
    sums = {row[0]: int(row[2]) for row in seeds[2:] if row[1] == "all six"}
    assert len(sums) == SEEDS
    assert min(sums.values()) >= LEAST
    names = {row[1] for row in seeds[2:]} - {"all six"}
    assert names == {f"{r.name} {b}" for r in RECIPES for b in BUFFERINGS}
    assert [row[0] for row in groups[2:]] == [*GROUPS, "all"]
    for row in groups[2:]:
        for text in row[2:]:
            noticed, live = re.findall(r"\d+", text)[:2]
            assert noticed == live, f"{row[0]}: {text}"


def test_quantized_table_has_nothing_unseen() -> None:
    """Each group whose faults a part of 8 bits can have, in both bufferings, and none that changes bits unnoticed."""
    groups, classes, seeds = document_tables(QUANTIZED_BEGIN, QUANTIZED_END)
    assert not [row for row in classes if UNSEEN in " ".join(row).upper()]
    assert {row[1] for row in seeds[2:]} == {f"{r.name} {b}" for r in QUANTIZED for b in BUFFERINGS} | {"both"}
    assert [row[0] for row in groups[2:]] == [*GROUPS, "all"]
    assert all(len(set(re.findall(r"\d+", text)[:2])) == 1 for text in groups[-1][2:])


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The case with a part of 8 bits, double-buffered, with the layer in it."""
    pytest.importorskip("onnxruntime")
    return make(QUANTIZED[0], "double", tmp_path_factory.mktemp("quantized"))


def test_faults_among_8_bits_are_noticed(quantized: Program) -> None:
    """One fault of each class in a step over 8 bits; elements beside a tile are as wide as its own."""
    steps = {s.index for s in quantized.plan.steps if "Int8" in s.op}
    assert sum(s.tiles > 1 for s in quantized.plan.steps if s.index in steps) > 8
    sites = {kind: [f for f in own if f.step in steps] for kind, own in proposals(quantized).items()}
    faults = [own[len(own) // 2] for own in sites.values() if own]
    assert len(faults) > 40
    judgements = list(judge_all(quantized, faults, MODES[:1], 2))
    assert [f"{f.kind}: {f.text}" for f, _, judgement in judgements if judgement.result == UNSEEN] == []
    [after] = {
        f.place.split(": ")[1].split(" B")[0] for f in sites["an element after the tile"] if _is_first_sum(quantized, f)
    }
    operand = next(o for o in quantized.plan.steps[4].operands if o.mode == "out")
    assert operand.slot_bytes - 4 < int(after) <= operand.slot_bytes  # which words round up


def _is_first_sum(program: Program, fault: Fault) -> bool:
    return program.plan.steps[fault.step].op == "Int8Add" and "call 0:" in fault.place
