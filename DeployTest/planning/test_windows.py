"""Windowed operators as generated programs: halos, strides, padding, empty boxes, under the checks of the simulator."""

import re
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.plan import Options
from DeployTest.support.graphs.windowed_cases import CASES, EMPTY, Windowed, cut, drawn

pytestmark = [pytest.mark.host, pytest.mark.models]
L1 = 200000
DRAWS = 4


BLOCKS, OF_BLOCKS = {"single": 300, "double": 1700}, ("grad w",)
"""Bytes that those need besides whose tiles hold one of several blocks of products, or two."""
MANY_TILES = ("grad w", "grad w 3x3")
"""Cases of so many tiles that they take long."""


def groups(*alone: str) -> dict[str, list[str]]:
    """The cases by operator, those of a group a program; some stand alone."""
    found: dict[str, list[str]] = {}
    for name, (op, _, _) in CASES.items():
        found.setdefault(f"{op}, {name}" if name in alone else op, []).append(name)
    return found


QUICK = [(1200, "double"), (3000, "single")]
LONG = [pytest.param(*row, marks=pytest.mark.slow) for row in ((1200, "single"), (3000, "double"))]


@pytest.mark.parametrize(("l1", "strategy"), [*QUICK, *LONG])
@pytest.mark.parametrize("group", groups(*OF_BLOCKS))
def test_tiled(group: str, l1: int, strategy: str, tmp_path: Path) -> None:
    """All budgets give the same bits, and kernels touch nothing outside their boxes."""
    names = groups(*OF_BLOCKS)[group]
    case = Windowed(tmp_path, *names)
    results = []
    for budget, order in ((L1, "early"), (l1 + BLOCKS[strategy] * (names[0] in OF_BLOCKS), "late")):
        tiling, plan = pipeline.plan_program(case.program, Options("host", strategy, {"L1": budget}))
        results += case.run(tiling, plan, f"{budget}", ("--dma-order", order))
    whole, tiled = results
    assert {name for name in names if whole[name] != tiled[name]} == set()


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(group, marks=[pytest.mark.slow] * (names[0] in MANY_TILES))
        for group, names in groups(*MANY_TILES).items()
    ],
)
def test_any_tiles(group: str, tmp_path: Path) -> None:
    """Drawn tiles, some with an empty box, give the same bits and the model's cycles."""
    names = groups(*MANY_TILES)[group]
    case = Windowed(tmp_path, *names)
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": L1}))
    [whole], empty = case.run(tiling, plan, "whole"), case.with_empty_box(tiling)
    for i, (edited, plan) in enumerate(drawn(tiling, DRAWS)):
        [result] = case.run(edited, plan, f"{i}", ("--dma-order", ("late", "random")[i % 2]))
        assert {name for name in names if whole[name] != result[name]} == set()
        empty |= case.with_empty_box(edited)
    assert empty >= set(names) & set(EMPTY)


def test_rows_of_one_are_no_level(tmp_path: Path) -> None:
    """An axis on which a tile touches one element or none takes none of the strided levels that a transfer has."""
    case = Windowed(tmp_path, "pad")
    tiling, _ = pipeline.plan_program(case.program, Options("host", "single", {"L1": L1}))
    plan = pipeline.place_edited(cut(tiling, 1, 2, 4, 6), pipeline.ONCE)
    text = "".join(generate.generate_files(plan).values())
    assert re.findall(r"hal_dma_in_(\w+)\(", text) == ["3d"]
