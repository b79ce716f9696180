"""Empty boxes and small tiles on the bare-metal targets: the bits of the host."""

from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.plan import Options
from DeployTest.support.graphs.windowed_cases import EMPTY, Windowed, drawn, has_empty_box, small_l1
from DeployTest.targets.simulators import TARGETS, needs_simulator
from DeployTest.targets.test_riscv_hal import noise, run_script
from DeployTest.targets.transfer_script import Script

pytestmark = pytest.mark.models
L1 = 120000
DRAWS = 3


@pytest.mark.matrix(keep=4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EMPTY)
def test_empty_boxes(name: str, target: str, tmp_path: Path) -> None:
    """A tile that touches nothing of an operand waits for nothing and reads nothing."""
    needs_simulator(target)
    case = Windowed(tmp_path, name)
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": L1}))
    expected = case.run(tiling, plan, "host")
    tiling, plan = pipeline.plan_program(case.program, Options(target, "single", {"L1": L1}))
    edits = [(edited, plan) for edited, plan in drawn(tiling, 4 * DRAWS) if has_empty_box(edited)]
    assert len(edits) >= DRAWS
    for i, (edited, plan) in enumerate(edits[:DRAWS]):
        assert case.run(edited, plan, f"{i}") == expected


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", ["sum", "variance", "grad w", "max pool grad overlap", "average pool grad", "layer norm grad"]
)
def test_small_l1(name: str, target: str, tmp_path: Path) -> None:
    """Sums split along several dims, and windows around a tile, in a small L1: the bits of one tile on the host."""
    needs_simulator(target)
    case = Windowed(tmp_path, name)
    results = []
    for label, l1 in (("host", L1), (target, small_l1(name))):
        tiling, plan = pipeline.plan_program(case.program, Options(label, "double", {"L1": l1}))
        results += case.run(tiling, plan, f"{label}{l1}")
    assert results[0] == results[1]


@pytest.mark.parametrize("target", TARGETS)
def test_empty_transfers(target: str, tmp_path: Path) -> None:
    """A transfer of no bytes takes no ticket, moves nothing, and can be waited for."""
    needs_simulator(target)
    script = Script()
    for level in range(3):
        script.fill(level, 0, noise(2000, level))
    boxes = ((0,), (0, 3, 8), (16, 0, 32), (0, 2, 8, 2, 32), (16, 0, 32, 2, 64), (16, 2, 32, 0, 64))
    for case in range(16 * len(boxes)):
        script.start(("in", "out")[case % 2], case % 64, case // 2 % 2, 100, 200, *boxes[case % len(boxes)])
    for ticket in range(64):
        script.wait(ticket)
    for hop in range(2):
        script.start("in", hop, hop, 300, 400, 16, 2, 32)
        script.wait(hop)
    for level in range(3):
        script.dump(level, 0, 2000, f"level {level}")
    run_script(target, tmp_path, script)
