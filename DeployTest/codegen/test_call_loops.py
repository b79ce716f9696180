"""Loops over calls of steps make the calls of the same steps in the same order, with the same numbers."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, TableAddress, TileView
from deployer.codegen.call_loops import CalledStep, StepCall, calls_views
from deployer.codegen.render import waits_views
from deployer.core.safe_text import code
from deployer.loops.graph_program import TICKETS
from deployer.loops.loop_program import Ticket, Wait

pytestmark = [pytest.mark.host, pytest.mark.training]


class NoHomes(Names):
    """No home has a name."""

    def __init__(self) -> None:
        pass


def steps(functions: str, told: bool = False) -> list[CalledStep]:
    """Steps that call these functions, each with the next table of its own array, the function x with the first one."""
    used = Counter[str]()
    called = []
    for number, function in enumerate(functions):
        place = TableAddress(f"{function}_args", used[function])
        used[function] += function != "x"
        called.append(CalledStep(StepCall(function, number, not told, place, ("HOME", "8")), told))
    return called


def run(views: Sequence[TileView], i: int = 0) -> Iterator[str]:
    """The statements that are executed, with the values of their numbers."""
    for view in views:
        if view.definition == "c_loop_stmt":
            for turn in range(int(str(view.count))):
                yield from run(view.body, turn)
        elif view.definition == "c_begin":
            yield f"hal_step({eval(str(view.step), {'i': i})});"
        else:
            text = str(getattr(view, "call", "") or view.awaited)
            yield re.sub(r"[^(,&\[\]]*\bi\b[^,\]]*", lambda match: str(eval(match[0], {"i": i})), text).replace(" ", "")


def plain(called: Sequence[CalledStep]) -> list[str]:
    """The same without loops."""
    return [text for step in called for text in run(tuple(step.views()))]


def loops(views: Sequence[TileView]) -> list[int]:
    """The iterations of each loop."""
    return [int(str(view.count)) for view in views if view.definition == "c_loop_stmt"]


@pytest.mark.parametrize(
    ("functions", "expected"),
    [("sabcabcabce", [3]), ("aaaaaa", [6]), ("abababxbabab", [3]), ("abcdef", []), ("abab", []), ("", [])],
)
@pytest.mark.parametrize("told", [False, True])
def test_what_repeats_is_a_loop(functions: str, expected: list[int], told: bool) -> None:
    called = steps(functions, told)
    views = calls_views(called)
    assert loops(views) == expected
    assert list(run(views)) == plain(called)


def test_a_loop_is_written_in_terms_of_its_counter() -> None:
    (_, loop, _) = calls_views(steps("sabcabcabce"))
    assert [str(view.call) for view in loop.body] == [
        "a(1 + 3 * i, &a_args[i], HOME, 8);",
        "b(2 + 3 * i, &b_args[i], HOME, 8);",
        "c(3 + 3 * i, &c_args[i], HOME, 8);",
    ]


@pytest.mark.parametrize("seed", range(40))
def test_any_steps_run_in_their_order(seed: int) -> None:
    """Blocks in any order, some repeated, with tables that some steps share and numbers that some leave out."""
    draw = random.Random(seed)
    blocks = ["".join(draw.choices("abx", k=draw.randint(1, 5))) for _ in range(3)]
    functions = "".join(draw.choice(blocks) * draw.randint(1, 4) for _ in range(12))
    called = steps(functions, draw.random() < 0.5)
    left = [step for step in called if draw.random() < 0.95]
    for chosen in (called, left):
        assert list(run(calls_views(chosen))) == plain(chosen)


def test_uneven_numbers_end_a_loop() -> None:
    """A step whose table is not as far from the last as those before is in no further iteration of their loop."""
    called = steps("aaaaaaaaaaaa")
    moved = replace(called[6].call, table=TableAddress("a_args", 100))
    called[6] = replace(called[6], call=moved)
    views = calls_views(called)
    assert max(loops(views)) < len(called)
    assert list(run(views)) == plain(called)


def test_steps_that_do_more_are_not_the_same() -> None:
    """Statements of the graph around a call count, and so do the call's arguments."""
    called = steps("aaaaaaaaaaaa")
    called[3] = replace(called[3], behind=(TileView("c_wait", {"awaited": code("tickets[0]")}),))
    called[9] = replace(called[9], call=replace(called[9].call, arguments=("HOME", "9")))
    views = calls_views(called)
    assert loops(views) == [5]
    assert list(run(views)) == plain(called)


def test_waits_for_adjacent_tickets_are_one_statement() -> None:
    """Every ticket is awaited once, in the order of the graph's waits."""
    awaited = [3, 4, 5, 9, 8, 2, 3]
    views = waits_views([Wait(Ticket(TICKETS, "out", (number,))) for number in awaited], Printer(NoHomes()))
    texts = [str(v.awaited) if v.definition == "c_wait" else f"{v.tickets} x {v.count}" for v in views]
    assert texts == ["tickets + 3 x 3", "tickets[9]", "tickets[8]", "tickets + 2 x 2"]


def test_tables_that_fall_stay_calls() -> None:
    """A counter has no sign: steps whose tables come in falling order, as shared ones may, are called one by one."""
    called = [
        replace(step, call=replace(step.call, table=TableAddress("f_args", 9 - i)))
        for i, step in enumerate(steps("f" * 9))
    ]
    views = calls_views(called)
    assert not loops(views)
    assert list(run(views)) == plain(called)
