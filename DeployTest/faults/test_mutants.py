"""The mutation of the compiler: what is drawn, how places are named, and what counts as killed."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

from DeployTest.faults.mutants.__main__ import AREAS, ROOT, all_mutants, drawn, equivalents
from DeployTest.faults.mutants.c_sites import c_mutants
from DeployTest.faults.mutants.python_sites import python_mutants
from DeployTest.faults.mutants.recording import Recorder
from DeployTest.faults.mutants.runner import FIRST, REST, Overlay, by_file, rounds
from DeployTest.faults.mutants.selection import Record
from DeployTest.faults.mutants.site import Mutant

pytestmark = pytest.mark.host

PYTHON = '''"""A docstring with 1 < 2."""

def choose(a: int = 3) -> int:
    """Another."""
    if not a < 10:
        raise ValueError(f"{a + 1} is too large")
    notes.append(list(zip(a, b, strict=True)))
    total = max(a, 2) if a else sum(x for x in sorted(rows) if x)
    total += a * (2 + a)
    return total


def sample(a):
    return a + 1
'''
PYTHON_MUTANTS = {
    ("3", "(4)"),
    ("not a < 10", "False"),
    ("not a < 10", "True"),
    ("not a < 10", "(a < 10)"),
    ("a < 10", "a <= 10"),
    ("10", "(11)"),
    ("notes.append(list(zip(a, b, strict=True)))", "pass"),
    ("max(a, 2) if a else sum(x for x in sorted(rows) if x)", "(max(a, 2))"),
    ("max(a, 2) if a else sum(x for x in sorted(rows) if x)", "(sum(x for x in sorted(rows) if x))"),
    ("max", "min"),
    ("2", "(3)"),
    ("x", "True"),
    ("sorted(rows)", "list(rows)"),
    ("total += a * (2 + a)", "total = a * (2 + a)"),
    ("a * (2 + a)", "a // (2 + a)"),
    ("2 + a", "2 - a"),
}
C = """/* 1 < 2 */
#define TWO 2
static const char *text = "a && b";

static int step(const int *p, int n) {
    int sum = 0; // 3
    for (int i = 0; i < n; i++) sum += p[i] * 2;
    if (n > 010 && sum) report("%d", n);
    again("%d",
          last(n));
    return sum - 1;
}
"""
C_MUTANTS = {
    ("0", "1"),
    ("<", "<="),
    ("+=", "="),
    ("*", "+"),
    ("2", "3"),
    (">", ">="),
    ("010", "9"),
    ("&&", "||"),
    ('report("%d", n)', "(void)0"),
    ("-", "+"),
    ("1", "2"),
}


def mutants_of(folder: Path, name: str, text: str) -> list[Mutant]:
    """The mutants of a text."""
    path = folder / name
    path.write_text(text)
    mutants = c_mutants(path, name) if name.endswith(".c") else python_mutants(path, name)
    assert all(text[m.start : m.end] == m.before and m.apply(text) != text for m in mutants)
    return mutants


def test_operators_of_python(tmp_path: Path) -> None:
    """Every kind of change; none in docstrings, messages, annotations and test data."""
    assert {(m.before, m.after) for m in mutants_of(tmp_path, "a.py", PYTHON)} == PYTHON_MUTANTS


def test_operators_of_c(tmp_path: Path) -> None:
    """Every kind of change; none in comments, texts, the preprocessor's lines and outside of functions."""
    assert {(m.before, m.after) for m in mutants_of(tmp_path, "a.c", C)} == C_MUTANTS


@pytest.mark.parametrize(("name", "text", "more"), [("a.py", PYTHON, "def f():\n    return 1 < 2\n"), ("a.c", C, "")])
def test_keys_outlast_edits_elsewhere(name: str, text: str, more: str, tmp_path: Path) -> None:
    """A key is of the place's own text; places that look alike have a key each."""
    mutants = mutants_of(tmp_path, name, text)
    later = mutants_of(tmp_path, name, f"{more or '/* more */'}\n\n{text}")
    assert len({m.key for m in mutants}) == len(mutants)
    assert {m.key for m in mutants} <= {m.key for m in later}
    assert not {m.line for m in mutants} >= {m.line for m in later}


@pytest.mark.slow
def test_draws() -> None:
    """Of a seed always the same, each in a file of the compiler and still Python; every area has its part."""
    first = drawn(ROOT, 5, 40)
    assert first == drawn(ROOT, 5, 40) != drawn(ROOT, 6, 40)
    assert len(first) == len({m.key for m in first}) == 40
    assert {m.file.split("/")[0] for m in first} == {"deployer", "tilers", "targets"}
    for mutant in first:
        source = (ROOT / mutant.file).read_text()
        changed = mutant.apply(source)
        assert source[mutant.start : mutant.end] == mutant.before
        assert changed != source
        if mutant.file.endswith(".py"):
            ast.parse(changed)


@pytest.mark.slow
def test_equivalent_mutants_exist() -> None:
    """Each excuse is of a place that is still there, and says why."""
    keys = {m.key for folders, _ in AREAS.values() for m in all_mutants(ROOT, folders)}
    assert [key for key, reason in equivalents().items() if key not in keys or len(reason) < 20] == []


def test_headers_of_printed_kernels_are_noted(tmp_path: Path) -> None:
    """Kernels that are printed lie outside of the targets, and may be compiled through one file by its name alone."""
    header = "targets/common/include/trig_f32.h"
    (tmp_path / "all.c").write_text('#include "sin.c"\n')
    (tmp_path / "sin.c").write_text(f'#include "{Path(header).name}"\n#include "sin.h"\n')
    recorder = Recorder(tmp_path / "record", ROOT)
    recorder.note([Path("all.c"), ROOT / "targets/host/hal.c", Path("nowhere.c")], tmp_path)
    assert recorder.compiled == {"": {header, "targets/host/hal.c"}}


def test_rounds_keep_their_budgets() -> None:
    """Both take tests in the order given, at least one each, and no more seconds than they may."""
    seconds = {f"a::{i}": s for i, s in enumerate((1.0, FIRST - 1, 5.0, REST - 5, 1.0))}
    (first, spent), (rest, more) = rounds(list(seconds), seconds)
    assert (first, spent, rest, more) == (["a::0", "a::1"], FIRST, ["a::2", "a::3"], REST)
    assert rounds(["b"], {"b": 10 * REST}) == [(["b"], 10 * REST)]
    assert rounds([], {}) == []
    assert by_file(["a::1", "b::1", "a::2"]) == ["a::1", "a::2", "b::1"]


TOY = """def total(values):
    found = 0
    for value in values:
        found += value
    return found if found else 0
"""
TOY_TESTS = """import os
from deployer.toy import total
def test_sum(): assert total([1, 2]) == 3
def test_place(): assert "toy.py" not in os.listdir("deployer") or "the_copy" not in os.getcwd()
"""


class Reached(Record):
    """A record of which every test reaches every mutant."""

    def tests(self, mutant: Mutant) -> list[str]:
        """All tests."""
        return list(self.seconds)


@pytest.mark.slow
def test_what_counts_as_killed(tmp_path: Path) -> None:
    """A test that passes without the mutant and fails with it; not one that fails in the copy anyway."""
    root = tmp_path / "toy"
    shutil.copytree(ROOT / "DeployTest/faults/mutants", root / "DeployTest/faults/mutants")
    (root / "deployer").mkdir()
    (root / "deployer/toy.py").write_text(TOY)
    (root / "DeployTest/test_toy.py").write_text(TOY_TESTS)
    tests = ["DeployTest/test_toy.py::test_place", "DeployTest/test_toy.py::test_sum"]
    found = {(m.before, m.after): m for m in python_mutants(root / "deployer/toy.py", "deployer/toy.py")}
    overlay = Overlay(root, tmp_path / "the_copy", sys.executable)
    record = Reached(root, (), {}, dict.fromkeys(tests, 0.1))

    assert overlay.judge(found["found += value", "found = value"], record).by == tests[0]
    overlay.find_unsound(tests, 0.2)
    assert overlay.unsound == {tests[0]}
    verdict = overlay.judge(found["found += value", "found = value"], record)
    assert (verdict.outcome, verdict.by) == ("killed", tests[1])
    assert not overlay.judge(found["found if found else 0", "(found)"], record).killed
    assert (overlay.folder / "deployer/toy.py").read_text() == TOY
