"""Windowed operators as generated programs: halos, strides, padding, empty boxes, under the checks of the simulator."""

from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.plan import Options
from DeployTest.support.windowed_cases import CASES, EMPTY, Windowed, drawn, has_empty_box

pytestmark = [pytest.mark.host, pytest.mark.models]
L1 = 200000
DRAWS = 4


BLOCKS, OF_BLOCKS = {"single": 300, "double": 1700}, ("grad w",)
"""Bytes that those need besides whose tiles hold one of several blocks of products, or two."""


QUICK = [(1200, "double"), (3000, "single")]
LONG = [pytest.param(*row, marks=pytest.mark.slow) for row in ((1200, "single"), (3000, "double"))]


@pytest.mark.parametrize(("l1", "strategy"), [*QUICK, *LONG])
@pytest.mark.parametrize("name", CASES)
def test_tiled(name: str, l1: int, strategy: str, tmp_path: Path) -> None:
    """All budgets give the same bits, and kernels touch nothing outside their boxes."""
    case = Windowed(name, tmp_path)
    results = set()
    for budget, order in ((L1, "early"), (l1 + BLOCKS[strategy] * (name in OF_BLOCKS), "late")):
        tiling, plan = pipeline.plan_program(case.program, Options("host", strategy, {"L1": budget}))
        results.add(case.run(tiling, plan, f"{budget}", ("--dma-order", order)).tobytes())
    assert len(results) == 1


MANY_TILES = ("grad w", "grad w 3x3")
"""Cases of so many tiles that they take long."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in MANY_TILES)) for n in CASES])
def test_any_tiles(name: str, tmp_path: Path) -> None:
    """Drawn tiles, some with an empty box, give the same bits and the model's cycles."""
    case = Windowed(name, tmp_path)
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": L1}))
    results, empty = {case.run(tiling, plan, "whole").tobytes()}, has_empty_box(tiling)
    for i, (edited, plan) in enumerate(drawn(tiling, DRAWS)):
        flags = ("--dma-order", ("late", "random")[i % 2])
        results.add(case.run(edited, plan, f"{i}", flags).tobytes())
        empty = empty or has_empty_box(edited)
    assert len(results) == 1
    assert empty or name not in EMPTY
