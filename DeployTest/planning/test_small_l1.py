"""An L1 smaller than a channel of an image or a row of a layer: sums are split, and add in the same order."""

import re
from pathlib import Path

import pytest

from deployer import pipeline
from deployer.core.errors import RunFailed
from deployer.core.plan import Options, Tiling
from DeployTest.support.graphs.windowed_cases import LARGE, Windowed, small_l1

pytestmark = [pytest.mark.host, pytest.mark.models]
LARGE_L1, SMALL_L2 = 200000, 9000
SUMS = dict.fromkeys(("sum", "mean", "variance", "batch norm grad", "grad w", "grad w strided"), 2)
SUMS |= {"batch norm": 3, "layer norm": 1}
"""Reductions that must be split in one step."""


def split_sums(tiling: Tiling) -> set[int]:
    """The numbers of split reductions that occur in steps."""
    counts = set()
    for step, choice in zip(tiling.lifetimes.schedule.steps, tiling.steps, strict=True):
        counts.add(sum(d.kind == "reduction" and choice.tile[d.name] < d.size for d in step.access.dims))
    return counts


@pytest.mark.parametrize("strategy", [pytest.param("single", marks=pytest.mark.slow), "double"])
@pytest.mark.parametrize("name", LARGE)
def test_same_bits_in_a_small_l1(name: str, strategy: str, tmp_path: Path) -> None:
    """Results in small tiles have the bits of a run in one tile."""
    case = Windowed(tmp_path, name)
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": LARGE_L1}))
    assert split_sums(tiling) == {0}
    expected = case.run(tiling, plan, "whole")
    tiling, plan = pipeline.plan_program(case.program, Options("host", strategy, {"L1": small_l1(name)}))
    assert max(split_sums(tiling)) >= SUMS.get(name, 0)
    for result in case.run(tiling, plan, "small", ("--dma-order", "late"), ("--dma-order", "random")):
        assert [result] == expected


@pytest.mark.parametrize("name", ["max pool grad", "max pool grad overlap", "grad w"])
def test_same_bits_from_l3(name: str, tmp_path: Path) -> None:
    """Results in tiles of a small L2, each divided into tiles of a small L1, have the bits of a run in one tile."""
    case = Windowed(tmp_path, name)
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": LARGE_L1}))
    expected = case.run(tiling, plan, "whole")
    budgets = {"L1": small_l1(name), "L2": SMALL_L2}
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", budgets, outermost="L3"))
    assert any(choice.stage for choice in tiling.steps)
    assert case.run(tiling, plan, "small", ("--dma-order", "random")) == expected


@pytest.mark.parametrize("condition", ["n == 0 && ", " && oh == 0"])
def test_a_sum_that_begins_again_is_seen(condition: str, tmp_path: Path) -> None:
    """If the condition of argument `first` misses a split reduction, the simulator names the argument."""
    case = Windowed(tmp_path, "grad w")
    tiling, plan = pipeline.plan_program(case.program, Options("host", "single", {"L1": small_l1("grad w")}))
    case.run(tiling, plan, "c")
    source = tmp_path / "c" / "InferenceNetwork.c"
    text, count = re.subn(rf"(first = .*){condition}", r"\1", source.read_text())
    assert count == 1
    source.write_text(text)
    pipeline.build_case(plan, tmp_path / "c")
    with pytest.raises(RunFailed, match=r"argument: 'first' of kernel call [0-9]+, of tile"):
        pipeline.execute(pipeline.Case(tmp_path, case.program, None, case.values, {}, ""), plan, tmp_path / "c", ())
