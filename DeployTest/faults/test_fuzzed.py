"""Faults planted in readers: the fuzzer's verdicts are those of a checkout, and one that it sees is told apart."""

from pathlib import Path

import pytest

from DeployTest.faults.fuzz import ledger
from DeployTest.faults.fuzz.worker import kind_of
from DeployTest.faults.mutants.fuzzed import ROOT, Judge, drawn
from DeployTest.faults.mutants.site import Mutant

pytestmark = [pytest.mark.host]
FILE = "deployer/sizing/boards.py"


def mutant(before: str, after: str) -> Mutant:
    """The first place of a text in the reader of boards, replaced by another."""
    source = (ROOT / FILE).read_text()
    start = source.index(before)
    line = source[:start].count("\n") + 1
    return Mutant(FILE, start, start + len(before), line, "planted", before, after, "")


def test_inputs_of_kinds() -> None:
    """The first ones of these kinds alone, in order."""
    found = ledger.numbers(1, ["board", "table"], 9)
    assert [kind_of(1, index)[0] in ("board", "table") for index in found] == [True] * 9
    assert found == sorted(found)
    assert ledger.parsed('[1, ["refused", "", "x"]]\n[2, ["acc') == [(1, ["refused", "", "x"])]


@pytest.mark.slow
def test_planted_faults(tmp_path: Path) -> None:
    """A fault that lets something escape, one that reads otherwise, and changes that nobody can tell."""
    judge = Judge(tmp_path, 1, 60, ["board"], 1)
    judge.record()
    crash = judge.judge(mutant('raw.get("memory", [])', 'raw["memroy"]'))
    assert (crash.outcome, crash.mutant.file) == ("finding", FILE)
    other = judge.judge(mutant('(cause, hint="mega', '(cause + "!", hint="mega'))
    assert other.outcome == "survived", "the words of a message are not verdict"
    moved = judge.judge(mutant("key=lambda memory: -memory.bytes", "key=lambda memory: memory.bytes"))
    assert moved.outcome == "finding"
    assert judge.judge(mutant("return power\n", "return power  # same\n")).outcome == "survived"
    mutants, able, every = drawn(judge, 1, 5)
    assert len(mutants) == 5
    assert 0 < able < every
