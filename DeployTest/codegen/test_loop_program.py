"""Loop programs: forms that no step uses yet can be printed and run, and their arithmetic is that of C."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mako.template import Template

from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, TableAddress
from deployer.codegen.generate import TEMPLATES
from deployer.core import target as targets
from deployer.core.cost import Clock
from deployer.core.errors import InternalError
from deployer.core.safe_text import CText
from deployer.expressions.functions import WORDS
from deployer.expressions.tree import Call, Expr, Var
from deployer.expressions.words import add, div_up, mul, sub, word
from deployer.loops.leaves import SignedVar, SizeExpr, SlotExpr
from deployer.loops.loop_program import (
    ArgumentTable,
    Block,
    CallStmt,
    Done,
    IfStmt,
    Let,
    LoopStmt,
    Set,
    StartStmt,
    Statement,
    Ticket,
    TicketArray,
    Tickets,
    Transfer,
    Wait,
    WaitAll,
)
from deployer.loops.program_run import ProgramRun

pytestmark = [pytest.mark.host]
TARGETS = Path(targets.__file__).resolve().parents[2] / "targets"


class NoHomes(Names):
    """Names of slots alone."""

    def __init__(self) -> None:
        pass


PRINTER = Printer(NoHomes(), tables={1: TableAddress("conv_i8_args", 4), 2: TableAddress("relu_i8_args", 0)})


def printed(*statements: Statement) -> str:
    """The statements as the template prints them."""
    template = Template(filename=str(TEMPLATES / "network.c.mako"), output_encoding=None)
    view = SimpleNamespace(body=[PRINTER.view(s) for s in statements])
    return str(template.get_def("inside").render(view.body, CText("")))


def test_two_steps_in_one_loop_and_a_fetch_from_before() -> None:
    """One program starts a transfer and another waits for it; a loop calls two kernels; elements have 1 B."""
    ticket = Ticket("x_in", "in", (0,))
    fetch = Transfer("in", 0, SlotExpr(1, "x", False), SlotExpr(1, "x", True), (SizeExpr(48, "x_bytes"),))
    out = Transfer("out", 0, SlotExpr(1, "x", True), SlotExpr(2, "y", False), (6,))
    before = (Tickets((TicketArray("x_in", 1, (Done(),)),)), StartStmt(ticket, fetch))
    turn = Var("tile")
    calls = (CallStmt("conv_i8", ArgumentTable(1)), CallStmt("relu_i8", ArgumentTable(2)))
    loop = LoopStmt(turn, 3, (), (IfStmt(word("equal", turn, 0), (Wait(ticket),)), *calls, Wait(out)))
    assert printed(*before, loop) == (
        "hal_ticket_t x_in[1] = {HAL_DONE};\n"
        "x_in[0] = hal_dma_in_1d(0, SLOT_01_X, STAGE_01_X, 48);\n"
        "for (uint32_t tile = 0; tile < 3; tile++) {\n"
        "    if (tile == 0) hal_dma_wait(x_in[0]);\n"
        "    hal_parallel(conv_i8, &conv_i8_args[4]);\n"
        "    hal_parallel(relu_i8, &relu_i8_args[0]);\n"
        "    hal_dma_wait(hal_dma_out_1d(0, STAGE_01_X, SLOT_02_Y, 6));\n"
        "}\n"
    )
    host = targets.load("host")
    run = ProgramRun(Clock(host.hops), (5, 7) * 3, {})
    run.block(Block(before))
    started = run.clock.now
    run.clock.run(10_000)
    run.block(Block((loop,)))
    assert run.moved[0] == {"in": 48, "out": 18}
    assert run.waits["in"] == [host.hops[0].wait, 0, 0, 0, 0, 0], "the transfer ended under the other step"
    assert sum(run.waits["out"]) + sum(run.waits["in"]) + sum(run.kernels) == run.clock.now - started - 10_000


def test_a_wait_for_nothing_costs_nothing() -> None:
    host = targets.load("host")
    run = ProgramRun(Clock(host.hops), (1,), {})
    ticket = Ticket("x_in", "in", (0,))
    run.block(Block((Tickets((TicketArray("x_in", 2, (Done(),)),)), StartStmt(ticket, Done()), Wait(ticket))))
    assert run.clock.now == 0


def test_tickets_of_slots_and_operands() -> None:
    """Transfers that start together are awaited together: a slot's part of an array, or all; the clock agrees."""
    arrays = (
        TicketArray("in", 2, (Done(), Var("y_first"), Done())),
        TicketArray("w_in", 1, (Done(), Done())),
        TicketArray("z_out", 2, (Done(),)),
    )
    assert [array.index(1, 0) for array in arrays] == [(1, 0), (0,), (1,)]
    waits = (WaitAll(Ticket("in", "in", (Var("use"),)), 3), WaitAll(Ticket("w_in", "in"), 2))
    assert printed(Tickets(arrays), *waits, Wait(Ticket("in", "in", (1, 2)))) == (
        "hal_ticket_t in[2][3] = {{HAL_DONE, y_first}}, w_in[2] = {HAL_DONE}, z_out[2] = {HAL_DONE};\n"
        "hal_dma_wait_all(in[use], 3);\n"
        "hal_dma_wait_all(w_in, 2);\n"
        "hal_dma_wait(in[1][2]);\n"
    )
    host = targets.load("host")
    run = ProgramRun(Clock(host.hops), (1,), {"use": 1})
    fetch = Transfer("in", 0, SlotExpr(1, "x", False), SlotExpr(1, "x", True), (800,))
    array = TicketArray("in", 2, (Done(), Done(), Done()))
    started = tuple(StartStmt(Ticket("in", "in", (1, place)), fetch) for place in range(3))
    run.block(Block((Tickets((array,)), *started, WaitAll(Ticket("in", "in", (0,)), 3))))
    before = run.clock.now
    run.block(Block((WaitAll(Ticket("in", "in", (Var("use"),)), 3),)))
    assert run.clock.now > before, "the transfers are those of slot 1"
    ended = run.clock.now
    run.block(Block(tuple(Wait(Ticket("in", "in", (1, place))) for place in range(3))))
    assert run.clock.now == ended, "each was waited for"


A, B = Var("a"), Var("b")
EXPRESSIONS: dict[str, Expr] = {
    "sum": add(A, 3, B, 4),
    "product": mul(A, 3, add(B, 1), 4),
    "difference": sub(mul(A, 100), add(B, 2)),
    "part of a sum": add(5, sub(mul(A, 100), B)),
    "part of a product": mul(sub(mul(A, 100), B), 3),
    "rounded up": mul(div_up(A, 4), div_up(add(B, 1), 3)),
    "smaller": word("min", A, word("sub", mul(B, 7), B)),
    "clipped": word("window", add(A, B), 2, 9),
    "reached": word("reach", add(A, 1), 3, 2, 6),
    "conditions": word("and", word("greater_equal", A, add(B, 1)), word("not", word("equal", A, 7))),
    "choice": word("choose", word("equal", A, B), 5, word("choose", word("greater_equal", A, B), A, mul(B, 2))),
    "chosen condition": word("choose", word("choose", word("equal", A, 1), word("not", B), B), 1, 2),
    "signed": mul(word("sub", word("signed", add(A, B)), 3, SignedVar("b")), 2),
    "difference of sums": word("sub", add(mul(A, 100), B), add(B, 3), word("sub", mul(A, 2), 1)),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_is_what_c_computes(name: str, tmp_path: Path) -> None:
    """The timeline and the compiled text compute the same numbers for all small values of the variables."""
    values = [(a, b) for a in range(1, 13) for b in range(1, 13)]
    text = PRINTER.text(EXPRESSIONS[name])
    rows = "".join(f"    print({a}, {b});\n" for a, b in values)
    source = tmp_path / "expression.c"
    source.write_text(
        '#include <stdio.h>\n#include "hal.h"\n'
        f'static void print(uint32_t a, uint32_t b) {{ printf("%u\\n", {text}); }}\n'
        f"int main(void) {{\n{rows}}}\n"
    )
    folders = [f"-I{TARGETS / folder}" for folder in ("common/include", "host")]
    subprocess.run(["gcc", "-Wall", "-Werror", *folders, source, "-o", tmp_path / "e"], check=True)
    computed = subprocess.run([tmp_path / "e"], capture_output=True, text=True, check=True).stdout.split()
    results = []
    for a, b in values:
        variables = {"a": a, "b": b}
        run = ProgramRun(Clock(()), (), variables)
        run.block(Block((Let("a", A), Set(Var("result"), EXPRESSIONS[name]))))
        results.append(run.variables["result"] % 2**32)
    assert results == list(map(int, computed))


def test_each_function_of_words_is_compared() -> None:
    """Every function that generated code may have is in one of the expressions; the others have no C."""
    found = {
        node.function
        for tree in EXPRESSIONS.values()
        for node in Block((Let("x", tree),)).walk()
        if isinstance(node, Call)
    }
    assert {f.name for f in found} == {f.name for f in WORDS if f.c}
    with pytest.raises(InternalError, match="mod of word, word has no C"):
        PRINTER.text(word("mod", A, B))


def test_signed_values_have_casts() -> None:
    """A difference that may be negative is computed in signed integers."""
    value = word("sub", word("signed", mul(A, 2)), 3, SignedVar("b"))
    assert PRINTER.text(value) == "(int32_t)(a * 2) - 3 - (int32_t)b"


def test_constants_fold() -> None:
    """All constants of a sum or a product become one, wherever they stand."""
    numbers = np.random.default_rng(3).integers(0, 50, (40, 3)).tolist()
    for x, y, z in numbers:
        assert (add(x, y, z), mul(x, y, z), sub(x, y)) == (x + y + z, x * y * z, x - y)
        assert add(x, A, y) == add(A, x + y)
        assert mul(x, mul(A, y), z) == mul(A, x * y * z)
