"""Passes in parts: steps until a budget is spent, by a counter or by predicted cycles; the longest step."""

import json
import re
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core import target as targets
from deployer.core.plan import Options
from deployer.firmware.segments import step_cycles
from deployer.firmware.sources import library_rules
from deployer.sizing.needs import material
from DeployTest.firmware import nets
from DeployTest.firmware.test_library import WARNINGS, ran

pytestmark = [pytest.mark.host, pytest.mark.training]
HERE = Path(__file__).parent
CHECKED = "-DADAPTED_ASSERTS"


def built(folder: Path, network: Path, program: Path) -> Path:
    """The program of budgets, with asserts and with a counter."""
    flags = [f"-std=c{library_rules().standard}", "-O1", *library_rules().flags, *WARNINGS, CHECKED]
    others = [path for path in sorted(folder.glob("src/*.c")) if path.name != network.name]
    includes = [f"-I{folder}/include", f"-I{folder}/src"]
    sources = [HERE / "check_budget.c", network, *others]
    ran("gcc", *flags, "-DHAL_CYCLES=counted", *includes, *sources, "-lm", "-o", program)
    return program


def test_counter(adapted: Path, tmp_path: Path) -> None:
    """A call ends with the first step behind its budget, and makes one at least; asserts hold meanwhile."""
    program = built(adapted, adapted / "src/adapted.c", tmp_path / "check")
    steps, *calls = map(int, ran(program).replace(":", "").split())
    assert steps > 3
    assert calls == [steps, steps, -(-steps // 2), -(-steps // 3), 1]


def test_asserts(adapted: Path, tmp_path: Path) -> None:
    """A tensor that lies outside of the memory is noticed where asserts are built in."""
    text = (adapted / "src/adapted.c").read_text()
    wrong, count = re.subn(r"( = )\d+(, /\* float32\[1,3\])", r"\g<1>400000\2", text, count=1)
    assert count == 1
    (tmp_path / "adapted.c").write_text(wrong)
    with pytest.raises(AssertionError, match="Assertion"):
        ran(built(adapted, tmp_path / "adapted.c", tmp_path / "check"))


def test_predicted(tmp_path: Path) -> None:
    """Cycles of steps are those of the plan for a target's own costs; page and manifest name the longest step."""
    made = material(pipeline.load_training(nets.dense_case(tmp_path)), "net", Options(target=library_rules().target))
    for graph in made.plan.graphs:
        own = tuple(step.cycles for step in made.plan.steps if step.graph == graph)
        assert step_cycles(made.schedule, graph, targets.load(library_rules().target)) == own


def test_told(adapted: Path) -> None:
    """The page and the manifest have the longest segment of each measured target, and the code the same cycles."""
    segments = json.loads((adapted / "manifest.json").read_text())["segments"]
    page, code = (adapted / "README.md").read_text(), (adapted / "src/adapted.c").read_text()
    table = re.search(r"step_cycles\[ADAPTED_STEPS\] = {([^}]*)}", code)
    assert table
    cycles = [int(word) for word in re.findall(r"(\d+)u", table[1])]
    own = next(row for row in segments if row["target"] == library_rules().costs)
    assert (own["longest_cycles"], own["pass_cycles"]) == (max(cycles), sum(cycles))
    for row in segments:
        assert f"| longest step of a pass, `{row['longest']}` | {row['longest_cycles']} | `{row['target']}` |" in page
