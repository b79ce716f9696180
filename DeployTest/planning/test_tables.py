"""Argument tables that steps fetch by groups: when a plan has them, what they cost, and which faults are noticed."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deployer import pipeline
from deployer.core import artefact
from deployer.core.errors import RunFailed, TilingInfeasible
from deployer.core.plan import Options, Plan, Step, Tiling, target_for
from deployer.planning import plan_choice
from deployer.planning.place import PackingGap
from deployer.planning.plan_choice import plan_with_tables
from deployer.planning.tile import Tiler
from deployer.reports.memory import memory_page
from deployer.tilers.levels.tables import (
    fetched_bytes,
    group_spans,
    hardly_longer,
    resident_tables,
    table_sizes,
    tables_in,
    tables_to_try,
    worthwhile,
)
from deployer.verify.plan import verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from deployer.verify.tiling import verify_tiling
from DeployTest.support.building.cases import Built, check_clock, load_case, result_hash
from DeployTest.support.building.planted import changed
from DeployTest.verify.plan_edits import kernels_alone, refused

pytestmark = [pytest.mark.host, pytest.mark.training]
TEST, RESIDENT_L1, GROUPED_L1 = "autoencoder", 32000, 8000
LEAST = 500


@cache
def planned(root: Path, l1: int, strategy: str = "single", target: str = "host") -> tuple[Tiling, Plan]:
    """The test's plan in that much of L1."""
    return pipeline.plan_case(load_case(TEST, root), Options(target, strategy, {"L1": l1}))


def written(root: Path, folder: Path, l1: int, target: str = "host") -> Built:
    """The test's program in that much of L1."""
    case, (tiling, plan) = load_case(TEST, root), planned(root, l1, target=target)
    pipeline.write_case(case, tiling, plan, folder)
    return Built(case, tiling, plan, folder)


def steps_of(root: Path) -> tuple[Step, ...]:
    """The test's steps."""
    return planned(root, GROUPED_L1)[0].lifetimes.schedule.steps


@pytest.mark.parametrize("share", [1, 2, 3, 5, 8, 13, 36])
def test_groups_are_the_longest_that_fit(share: int, models_root: Path) -> None:
    """Groups cover all steps in order, none reaches into another graph or exceeds the room, none could be longer."""
    steps = steps_of(models_root)
    target = target_for(planned(models_root, GROUPED_L1)[0].lifetimes.schedule)
    sizes = table_sizes(steps, target)
    room = max(sum(sizes) // share, *sizes)
    tables = tables_in(room, steps, target)
    spans = group_spans(tables.groups, len(steps))
    assert [step for span in spans for step in span] == list(range(len(steps)))
    bytes_of = [sum(sizes[step] for step in span) for span in spans]
    assert max(bytes_of) == tables.bytes <= room
    assert list(fetched_bytes(tables.groups, steps, target).values()) == bytes_of
    for span, used in zip(spans, bytes_of, strict=True):
        assert len({steps[step].graph for step in span}) == 1
        following = steps[span.stop] if span.stop < len(steps) else None
        assert following is None or following.graph != steps[span[0]].graph or used + sizes[span.stop] > room


def test_resident_where_there_is_room(models_root: Path) -> None:
    """In a large L1 all tables are resident, and neither artefact mentions groups."""
    tiling, plan = planned(models_root, RESIDENT_L1)
    schedule = tiling.lifetimes.schedule
    assert plan.table_bytes == resident_tables(schedule.steps, target_for(schedule)).bytes
    assert '"groups"' not in artefact.dumps(plan) + artefact.dumps(tiling)


def test_groups_where_they_are_quicker(models_root: Path) -> None:
    """In a small L1 the plan with groups has fewer cycles than one with resident tables, and says who fetches what."""
    tiling, plan = planned(models_root, GROUPED_L1)
    schedule = tiling.lifetimes.schedule
    _, resident = plan_with_tables(tiling.lifetimes, resident_tables(schedule.steps, target_for(schedule)))
    assert not resident.groups
    assert len(plan.groups) > len(plan.graphs)
    assert sum(s.cycles for s in plan.steps) < sum(s.cycles for s in resident.steps)
    rectangles = re.findall(r"<title>argument tables of steps (\d+) to (\d+)", memory_page(plan))
    spans = group_spans(plan.groups, len(plan.steps))
    assert [tuple(map(int, pair)) for pair in rectangles] == [(span.start, span[-1]) for span in spans]


@pytest.mark.parametrize(("part", "tried"), [(5, True), (7, False)])
def test_groups_are_tried_beside_large_tables(part: int, tried: bool, models_root: Path) -> None:
    """Groups are tried from a sixth of L1 on: without them, steps of a language model had 128 tiles."""
    steps = steps_of(models_root)
    bytes_of = sum(table_sizes(steps, target_for(planned(models_root, GROUPED_L1)[0].lifetimes.schedule)))
    target = target_for(planned(models_root, bytes_of * part)[0].lifetimes.schedule)
    assert any(tables.alternative for tables in tables_to_try(steps, target)) == tried


def recorded(
    monkeypatch: pytest.MonkeyPatch, root: Path, packing_slack: tuple[int, int]
) -> list[tuple[str, tuple[int, ...]]]:
    """Plan the test where groups gain, with a packing that leaves gaps once: what is tiled and placed, one by one."""
    calls = list[tuple[str, tuple[int, ...]]]()
    tiled, placed = Tiler.tile, plan_choice.place.place_buffers

    def tile(self: Tiler, withheld: tuple[int, ...], *words: Any) -> Tiling:
        calls.append(("tiles with groups" if self.tables.groups else "tiles", withheld))
        return tiled(self, withheld, *words)

    def place(tiling: Tiling, *words: Any, **more: Any) -> Plan:
        calls.append(("addresses with groups" if tiling.groups else "addresses", tiling.packing_slack))
        if len(calls) == 2 and any(packing_slack):
            raise PackingGap(target_for(tiling.lifetimes.schedule).levels[1], packing_slack, 1)
        return placed(tiling, *words, **more)

    monkeypatch.setattr(Tiler, "tile", tile)
    monkeypatch.setattr(plan_choice.place, "place_buffers", place)
    pipeline.plan_case(load_case(TEST, root), Options("host", "single", {"L1": GROUPED_L1}))
    return calls


def test_groups_begin_with_the_gaps_of_the_levels_further_out(
    monkeypatch: pytest.MonkeyPatch, models_root: Path
) -> None:
    """Groups start with the packing slack of L2 from resident tables, and with none of L1, which is another one."""
    assert recorded(monkeypatch, models_root, (16, 64)) == [
        ("tiles", (0, 0)),
        ("addresses", (0, 0)),
        ("tiles", (16, 64)),
        ("addresses", (16, 64)),
        ("tiles with groups", (0, 64)),
        ("addresses with groups", (0, 64)),
    ]


def test_groups_that_gain_nothing_are_not_placed(monkeypatch: pytest.MonkeyPatch, models_root: Path) -> None:
    """Whether groups gain is known from the tiles."""
    monkeypatch.setattr(plan_choice, "worthwhile", lambda cycles, resident: False)
    names = [name for name, _ in recorded(monkeypatch, models_root, (0, 0))]
    assert names == ["tiles", "addresses", "tiles with groups"]


def test_what_is_no_gain_and_no_loss() -> None:
    """Groups must save more than 1 % of an update, sharing may cost 0.1 % of it."""
    assert [worthwhile(cycles, 1000) for cycles in (989, 990, 991)] == [True, False, False]
    assert [hardly_longer(cycles, 1000) for cycles in (1000, 1001, 1002)] == [True, True, False]


def test_artefacts_keep_groups(models_root: Path, tmp_path: Path) -> None:
    """Tiling and plan go to files and back, and the tiling gives the same plan again."""
    tiling, plan = planned(models_root, GROUPED_L1)
    for value in (tiling, plan):
        path = tmp_path / "artefact.json"
        path.write_text(artefact.dumps(value))
        assert artefact.load(type(value), path, sealed=True) == value
    assert pipeline.place_edited(tiling, plan.running) == plan


def test_less_than_all_tables_suffices(models_root: Path, tmp_path: Path) -> None:
    """In an L1 smaller than all tables the program trains to the bits that it has in a large one."""
    whole = written(models_root, tmp_path / "whole", RESIDENT_L1)
    pipeline.build_case(whole.plan, whole.directory)
    small = written(models_root, tmp_path / "small", LEAST)
    assert small.plan.levels[0].peak <= LEAST < whole.plan.table_bytes
    pipeline.build_case(small.plan, small.directory, sanitize=True)
    expected = result_hash(whole.run())
    assert result_hash(small.run("--dma-order", "late")) == expected


@pytest.mark.parametrize("order", ["early", "late", "random"])
def test_clock_and_bits(order: str, models_root: Path, tmp_path: Path) -> None:
    """The simulator's clock is the plan's, fetches included, under full guards and in every order of transfers."""
    built = written(models_root, tmp_path, GROUPED_L1)
    pipeline.build_case(built.plan, tmp_path)
    outcome = built.run("--dma-order", order, "--guards", "full")
    check_clock(built, outcome)
    (tmp_path / "whole").mkdir()
    whole = written(models_root, tmp_path / "whole", RESIDENT_L1)
    pipeline.build_case(whole.plan, whole.directory)
    assert result_hash(outcome) == result_hash(whole.run())


def drop_a_fetch(text: str) -> str:
    """The tables of a later group never come."""
    return re.sub(r"hal_tables\(TABLES, (&tables_(?!00)\d+), sizeof", r"(void)(\1); (void)(sizeof", text, count=1)


def fetch_in_the_first_pass(text: str) -> str:
    """Later passes find the tables of the group before."""
    return re.sub(r"( *)(hal_tables\(.*\n)", r"\1static int done;\n\1if (!done++) \2", text, count=1)


def fetch_twice(text: str) -> str:
    return re.sub(r"( *hal_tables\(.*\n)", r"\1\1", text, count=1)


def fetch_less(text: str) -> str:
    """The group ends an entry too early."""
    return re.sub(r"(hal_tables\(.*)\);", r"\1 - 8);", text, count=1)


def fetch_elsewhere(text: str) -> str:
    return text.replace("hal_tables(TABLES", "hal_tables((char *)TABLES + 8", 1)


def fetch_others(text: str) -> str:
    """A group of as many bytes comes instead: the struct is the next group's, whose first table has other contents."""
    first, second = re.findall(r"static const (tables_\d+)_t", text)[:2]
    return re.sub(rf"hal_tables\(TABLES, &{first}, ", f"hal_tables(TABLES, &{second}, ", text, count=1)


def read_where_it_is_not(text: str) -> str:
    """A step has its table in other memory."""
    place, kernel = re.findall(r"&(TABLES_\d+->(\w+)\[0\])", text)[0]
    elsewhere = f"static {kernel}_args_t elsewhere;\n\n_Static_assert("
    return text.replace("_Static_assert(", elsewhere, 1).replace(place, "elsewhere")


def read_the_next(text: str) -> str:
    """A step takes the table of another step with its kernel."""
    kernel = re.findall(r"&TABLES_\d+->(\w+)\[1\]", text)[0]
    return re.sub(rf"&(TABLES_\d+)->{kernel}\[0\]", rf"&\1->{kernel}[1]", text, count=1)


def write_a_table(text: str) -> str:
    """A step writes into the table of another, which comes later."""
    name = re.findall(r"&(TABLES_\d+->\w+\[1\])", text)[0]
    return re.sub(r"( *)(hal_tables\(.*\n)", rf"\1\2\1*(uint32_t *)&{name} ^= 4;\n", text, count=1)


FAULTS: dict[Callable[[str], str], str] = {
    drop_a_fetch: r"tables: kernel call 0 runs before 'argument tables of steps [1-9]\d* to \d+' are fetched",
    fetch_in_the_first_pass: r"tables: kernel call 0 runs before 'argument tables of steps 0 to \d+' are fetched",
    fetch_twice: r"tables: 'argument tables of steps 0 to \d+' are fetched again",
    fetch_less: r"tables: 'argument tables of steps 0 to \d+' are \d+ B to",
    fetch_elsewhere: r"tables: 'argument tables of steps 0 to \d+' are \d+ B to",
    fetch_others: r"(argument|outside-buffer): operand '\w+' of kernel call 0",
    read_where_it_is_not: r"tables: the arguments of kernel call 0 are not in 'argument tables of steps 0 to",
    read_the_next: r"argument: ",
    write_a_table: r"guard: ",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_is_named(fault: Callable[[str], str], models_root: Path, tmp_path: Path) -> None:
    """A missing, stale or wrong fetch and a table that is not the step's end the run with the check that saw it."""
    built = changed(written(models_root, tmp_path, GROUPED_L1), fault)
    with pytest.raises(RunFailed, match=FAULTS[fault]):
        built.run()


WRONG: dict[str, Callable[[Tiling], Tiling]] = {
    "a step without a group": lambda t: replace(t, groups=t.groups[1:]),
    "a group over two graphs": lambda t: replace(t, groups=tuple(g for g in t.groups if g != optimizer(t))),
    "a group too long": lambda t: replace(t, groups=(t.groups[0], *t.groups[2:])),
    "bounds out of order": lambda t: replace(t, groups=(t.groups[0], t.groups[2], t.groups[1], *t.groups[3:])),
    "a step twice": lambda t: replace(t, groups=(t.groups[0], *t.groups)),
    "a step that is none": lambda t: replace(t, groups=(*t.groups, len(t.steps))),
    "an area too small": lambda t: replace(t, table_bytes=t.table_bytes - 4),
    "no groups": lambda t: replace(t, groups=()),
}


def optimizer(tiling: Tiling) -> int:
    """The first step of the second graph."""
    return next(s.index for s in tiling.lifetimes.schedule.steps if s.graph == "optimizer")


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_bounds_are_refused(fault: str, models_root: Path) -> None:
    """The verifier refuses such a tiling, and the plan that says the same."""
    tiling, plan = planned(models_root, GROUPED_L1)
    verify_tiling(tiling)
    verify_plan(plan, tiling)
    verify_plan_alone(plan)
    wrong = WRONG[fault](tiling)
    edited = replace(plan, groups=wrong.groups, table_bytes=wrong.table_bytes)
    for check in (
        lambda: verify_tiling(wrong),
        lambda: verify_plan(edited, tiling),
        lambda: verify_plan_alone(edited),
    ):
        refused("table", check)


def test_a_fetch_without_cycles_is_refused(models_root: Path) -> None:
    """A step that fetches tables cannot take the cycles of its kernels and waits alone."""
    tiling, plan = planned(models_root, GROUPED_L1)
    refused("cycles", lambda: verify_plan(kernels_alone(plan, plan.steps[plan.groups[1]].name), tiling))


def test_the_least_l1_has_room_for_one_table(models_root: Path) -> None:
    """The error of an L1 that is too small counts the least area, which one table needs."""
    with pytest.raises(TilingInfeasible) as caught:
        planned(models_root, 64)
    largest = max(
        table_sizes(steps_of(models_root), target_for(planned(models_root, GROUPED_L1)[0].lifetimes.schedule))
    )
    assert f"(argument tables {largest} B)" in dict(caught.value.facts)["free"]
