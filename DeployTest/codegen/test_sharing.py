"""Steps that differ in addresses and few sizes share a function of the generated C; all are called once, in order."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from deployer.codegen import generate, render
from deployer.codegen.argument_tables import argument_rows
from deployer.codegen.c_names import Names
from deployer.codegen.c_text import Printer, TableAddress, TileView
from deployer.codegen.call_rows import call_rows
from deployer.codegen.shared_functions import MOST_SIZES, FunctionView, functions_and_calls
from deployer.core.kernel import Kernel
from deployer.expressions.tree import Expr, Number, Var
from deployer.expressions.words import add, mul, word
from deployer.loops.graph_program import GraphStep
from deployer.loops.leaves import HomeExpr, SizeExpr, SlotExpr, sized
from deployer.loops.loop_program import (
    Arguments,
    ArgumentTable,
    AssignStmt,
    Block,
    CallStmt,
    Increase,
    Let,
    LoopProgram,
    LoopStmt,
    Statement,
    Transfer,
    Wait,
)
from DeployTest.support.building.cases import canonical_hash, compile_case, load_case, result_hash

pytestmark = [pytest.mark.host, pytest.mark.training]


class Homes(Names):
    """Homes named after their storage."""

    def __init__(self) -> None:
        pass

    def home(self, storage: str) -> str:
        """The storage in capitals."""
        return f"HOME_{storage.upper()}"


PRINTER = Printer(Homes(), tables={step: TableAddress("relu_f32_args", step) for step in range(10)})


def step(index: int, *statements: Statement, kernel: str = "relu_f32", kind: str = "float32") -> LoopProgram:
    """A step with operands x and y, at homes of their own, of these statements and a call."""
    table = ArgumentTable(index)
    body = (Arguments(kernel, table), *statements, Block((AssignStmt("n", 3), CallStmt(kernel, table))))
    described = Kernel(kernel, (("x", kind, False), ("y", kind, True)), (("n", "u32"),))
    storages = (("x", f"x{index}"), ("y", f"y{index}"))
    return LoopProgram(index, "Relu", f"r{index}", described, index, storages, (), Block(body))


def move(target: Expr, source: Expr, *sizes: Expr) -> Wait:
    """A transfer, waited for at once."""
    return Wait(Transfer("in", 0, target, source, sizes or (8,)))


def copy(index: int, kind: str = "float32") -> Wait:
    """A transfer of a step's own addresses."""
    return move(SlotExpr(index, "x", False), HomeExpr(f"x{index}", kind))


def shared(*programs: LoopProgram) -> tuple[tuple[FunctionView, ...], tuple[str, ...]]:
    """The functions of these steps, and a call for each."""
    functions, calls = functions_and_calls([GraphStep(program) for program in programs], PRINTER)
    return functions, tuple(call.text() for call in calls)


def moves(function: FunctionView) -> list[str]:
    """Its transfers as C."""
    return [str(view.awaited) for view in function.body if view.definition == "c_wait"]


def test_addresses_are_parameters() -> None:
    (function,), calls = shared(step(4, copy(4)), step(7, copy(7)))
    assert function.name == "step_04_like"
    assert function.parameters == "uint32_t step, relu_f32_args_t *args, float *x_slot, float *x_home"
    assert moves(function) == ["hal_dma_in_1d(0, x_slot, x_home, 8)"]
    call: TileView = function.body[-1].body[-1]
    assert (call.definition, call.table) == ("c_call_stmt", "args")
    assert "c_arguments" not in [view.definition for view in function.body]
    assert calls == (
        "step_04_like(4, &relu_f32_args[4], SLOT_04_X, HOME_X4);",
        "step_04_like(7, &relu_f32_args[7], SLOT_07_X, HOME_X7);",
    )


def places(value: Expr) -> tuple[str, int] | None:
    """Slots in L1, at the step's number, and homes in L2, at that of their storage."""
    match value:
        case SlotExpr(index):
            return "AT_L1", index
        case HomeExpr(storage):
            return "AT_L2", int(storage[1:])
    return None


def test_calls_are_rows_of_numbers() -> None:
    """Calls of one function are rows by a macro with their memories; that of a lone step, and of few, have names."""
    _, calls = functions_and_calls([GraphStep(p) for p in (step(4, copy(4)), step(7, copy(7)), sizes(8, 12))], PRINTER)
    macros, rows = call_rows(calls, places)
    assert macros == (
        (
            "RUN_04(STEP, TABLE, X_SLOT_AT, X_HOME_AT)",
            "step_04_like(STEP, &relu_f32_args[TABLE], AT_L1(X_SLOT_AT), AT_L2(X_HOME_AT))",
        ),
    )
    assert [row.text() for row in rows] == ["RUN_04(4, 4, 4, 4);", "RUN_04(7, 7, 7, 7);", "step_08();"]


def test_calls_with_other_memories_keep_names() -> None:
    """A macro has its memories, so a call whose operand lies elsewhere has none of it."""
    _, calls = functions_and_calls([GraphStep(p) for p in (step(4, copy(4)), step(7, copy(7)))], PRINTER)
    macros, rows = call_rows(calls, lambda value: ("AT_L1" if value == HomeExpr("x7", "float32") else "AT_L2", 1))
    assert (macros, rows) == ((), calls)


@pytest.mark.parametrize(
    "other",
    [
        step(7, move(SlotExpr(7, "x", False), HomeExpr("x7", "float32"), 9)),
        step(7, move(HomeExpr("x7", "float32"), SlotExpr(7, "x", False))),
        step(7, move(SlotExpr(7, "x", False), SlotExpr(7, "x", False))),
        step(7, move(SlotExpr(7, "x", True), HomeExpr("x7", "float32"))),
        step(7, copy(7), copy(7)),
        step(7, copy(7), kernel="relu_grad_f32"),
        step(7, copy(7, "int32"), kind="int32"),
    ],
    ids=["number", "order", "one address twice", "stage", "statements", "kernel", "type"],
)
def test_anything_else_is_not_shared(other: LoopProgram) -> None:
    functions, calls = shared(step(4, copy(4)), other)
    assert [f.name for f in functions] == ["step_04", "step_07"]
    assert calls == ("step_04();", "step_07();")
    assert [f.parameters for f in functions] == ["void", "void"]


def sizes(index: int, *values: int) -> LoopProgram:
    """A step whose transfer has named sizes."""
    named = (sized(value, f"x_{at}") for at, value in enumerate(values))
    return step(index, move(SlotExpr(index, "x", False), 0, *named))


def test_sizes_that_differ_are_parameters() -> None:
    """A size that differs between steps is a parameter; one that all steps have stays in the text."""
    (function,), calls = shared(sizes(4, 12, 5), sizes(7, 16, 5), sizes(8, 12, 5))
    assert function.parameters == "uint32_t step, relu_f32_args_t *args, float *x_slot, uint32_t x_0"
    assert moves(function) == ["hal_dma_in_1d(0, x_slot, 0, x_0, 5)"]
    assert function.title == "Relu, 3 steps"
    assert [call.split(", ")[-1] for call in calls] == ["12);", "16);", "12);"]


def test_a_lone_step_keeps_its_sizes() -> None:
    (function,), _ = shared(sizes(4, 12))
    assert moves(function) == ["hal_dma_in_1d(0, SLOT_04_X, 0, 12)"]


def test_two_sizes_of_one_name_are_two_parameters() -> None:
    values = {4: (12, 3, 12), 7: (16, 5, 16)}
    (function,), calls = shared(*(step(i, move(0, 0, *(SizeExpr(n, "x") for n in v))) for i, v in values.items()))
    assert moves(function) == ["hal_dma_in_2d(0, 0, 0, x, x_2, x)"]
    assert calls == ("step_04_like(4, &relu_f32_args[4], 12, 3);", "step_04_like(7, &relu_f32_args[7], 16, 5);")


def alike(index: int, **values: int) -> LoopProgram:
    """A step whose transfer has sizes of these names."""
    return step(index, move(0, 0, *(SizeExpr(value, name) for name, value in values.items())))


def test_equal_sizes_of_one_kind_are_one_parameter() -> None:
    """Bytes of two operands, but not bytes and rows; and only if they are equal in all steps."""
    rows = {4: {"x_bytes": 12, "x_rows": 12, "y_bytes": 12}, 7: {"x_bytes": 16, "x_rows": 16, "y_bytes": 16}}
    (function,), calls = shared(*(alike(i, **sizes) for i, sizes in rows.items()))
    assert moves(function) == ["hal_dma_in_2d(0, 0, 0, x_bytes, x_rows, x_bytes)"]
    assert calls == ("step_04_like(4, &relu_f32_args[4], 12, 12);", "step_04_like(7, &relu_f32_args[7], 16, 16);")
    (function,), calls = shared(*(alike(i, **sizes) for i, sizes in {**rows, 8: {**rows[7], "y_bytes": 20}}.items()))
    assert moves(function) == ["hal_dma_in_2d(0, 0, 0, x_bytes, x_rows, y_bytes)"]
    assert calls[-1] == "step_04_like(8, &relu_f32_args[8], 16, 16, 20);"


@pytest.mark.parametrize(("last", "expected"), [(20, "x_size * 4"), (22, "x_bytes"), (24, "x_bytes")])
def test_bytes_of_a_slot_are_its_elements(last: int, expected: str) -> None:
    """Four bytes an element need no parameter, if it is so in all steps."""
    rows = {4: (3, 12), 7: (4, 16), 8: (5, last)}
    (function,), calls = shared(*(alike(i, x_size=n, x_pitch=7, x_bytes=size) for i, (n, size) in rows.items()))
    assert moves(function) == [f"hal_dma_in_2d(0, 0, 0, x_size, 7, {expected})"]
    assert calls[-1] == f"step_04_like(8, &relu_f32_args[8], 5{'' if '*' in expected else f', {last}'});"


def test_slots_that_a_table_holds_are_read_from_it() -> None:
    """A slot that a step does not change is no parameter; the kernel's pointer to what it reads is `const`."""

    def program(index: int) -> LoopProgram:
        x, y = SlotExpr(index, "x", False), SlotExpr(index, "y", False)
        plain = step(
            index, move(x, HomeExpr(f"x{index}", "float32")), move(y, HomeExpr(f"y{index}", "float32")), move(x, x)
        )
        return replace(plain, arguments=(("x", x), ("y", y)))

    (function,), calls = shared(program(4), program(7))
    assert moves(function)[:2] == [
        "hal_dma_in_1d(0, (void *)args->x, x_home, 8)",
        "hal_dma_in_1d(0, args->y, y_home, 8)",
    ]
    assert calls[-1] == "step_04_like(7, &relu_f32_args[7], HOME_X7, HOME_Y7);"
    (lone,), _ = shared(program(4))
    assert moves(lone)[0] == "hal_dma_in_1d(0, SLOT_04_X, HOME_X4, 8)"


def test_parameters_stand_in_an_order_of_their_own() -> None:
    """Parameters come in this order: the loop's count, transfers, advances, lengths, and those of the inner loop."""
    names = ["tiles", "bytes", "further", "ahead_step", "length", "ahead_length", "inner"]

    def program(index: int) -> LoopProgram:
        def size(name: str) -> SizeExpr:
            return SizeExpr(index + names.index(name) * index**2, name)

        ahead = (Let("next_n_len", size("ahead_length")), move(0, 0, size("bytes")))
        ahead += (Increase(Var("next_n"), size("ahead_step")),)
        inside = Block((AssignStmt("m", size("inner")),))
        rest = (Let("n_len", size("length")), inside, Increase(Var("n"), size("further")))
        counter = Var("iter")
        return step(index, LoopStmt(counter, size("tiles"), ahead, rest))

    (function,), _ = shared(program(4), program(7))
    assert function.parameters.split(", uint32_t ")[1:] == names


def test_too_many_sizes_are_not_shared() -> None:
    most = [3] * MOST_SIZES
    functions, _ = shared(sizes(4, *most), sizes(7, *(9 for _ in most)), sizes(8, *most))
    assert [f.name for f in functions] == ["step_04_like"]
    functions, _ = shared(sizes(4, *most, 3), sizes(7, *(9 for _ in most), 9), sizes(8, *most, 3))
    assert [f.name for f in functions] == ["step_04_like", "step_07"]


N, A, B = Var("n"), Var("a"), Var("b")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (9216, SizeExpr(9216, "x")),
        (mul(N, 36), word("mul", N, SizeExpr(36, "x"))),
        (add(A, mul(B, 2)), word("add", A, word("mul", B, SizeExpr(2, "x")))),
        (add(mul(add(A, 4), 2), B), word("add", word("mul", word("add", A, 4), 2), B)),
        (add(A, 4), word("add", A, 4)),
        (N, N),
    ],
    ids=str,
)
def test_a_constant_factor_is_named(value: Expr, expected: Expr) -> None:
    assert sized(value, "x") == expected


@pytest.mark.slow
def test_every_step_is_called_once(models_root: Path, tmp_path: Path) -> None:
    """The optimizer's steps share, and the network still runs the plan's steps in their order, to the same bits."""
    built = compile_case(load_case("autoencoder", models_root), tmp_path / "c", "auto", 16000)
    files = generate.generate_files(built.plan)
    for graph in built.plan.graphs:
        text = files[generate.FILE_NAMES[graph]]
        body = text[text.index(render.prototype(graph)) :]
        called = [int(a or b) for a, b in re.findall(r"(?:step_\d+_like|RUN_\d+)\((\d+),|step_(\d+)\(", body)]
        assert called == [s.index for s in built.plan.steps if s.graph == graph]
    assert "_like(" in files["OptimizerNetwork.c"]
    assert result_hash(built.run()) == canonical_hash("autoencoder", models_root, tmp_path)


def address(value: Expr) -> tuple[str, int] | None:
    """The memory and place in the name of a home's storage; a slot is at the number of its step."""
    match value:
        case HomeExpr(storage):
            memory, place = storage.split()
            return memory, int(place)
        case SlotExpr(step, _, _):
            return "AT_L1", step
    return None


Fields = list[tuple[str, Expr]]


def rows(*tables: Fields, kernel: str = "k") -> tuple[dict[str, str], list[list[str]]]:
    """The macros, and the lines of each row, of steps from 0 on."""
    macros, lines = argument_rows([(step, kernel, table) for step, table in enumerate(tables)], address, PRINTER)
    return macros, [list(lines[step]) for step in range(len(tables))]


def test_rows_that_differ_in_addresses_share_a_macro() -> None:
    """The macro has all else; a row of another size or with fewer fields names its fields and its tensors."""
    sizes: Fields = [(f"n{i}", i) for i in range(3)]
    tables = [[("x", SlotExpr(step, "x", False)), *sizes] for step in range(2)]
    macros, lines = rows(*tables, [("y", SlotExpr(2, "y", False)), *sizes], [("m", 1)], [("m", 1)])
    assert macros == {"STEP_00(STEP, X_AT)": "{.x = AT_L1(X_AT), .n0 = 0, .n1 = 1, .n2 = 2}"}
    assert lines[:2] == [["STEP_00(0, 0)"], ["STEP_00(1, 1)"]]
    assert lines[2] == ["/* 2 */ {.y = SLOT_02_Y, .n0 = 0, .n1 = 1, .n2 = 2}"]
    assert lines[3:] == [["/* 3 */ {.m = 1}"], ["/* 4 */ {.m = 1}"]]


@pytest.mark.parametrize("other", ["AT_L1 9", "AT_L2 9"])
def test_rows_share_a_macro_only_with_addresses_in_the_same_memories(other: str) -> None:
    sizes: Fields = [(f"n{i}", i) for i in range(3)]
    macros, _ = rows([("x", HomeExpr("AT_L1 4")), *sizes], [("x", HomeExpr(other)), *sizes])
    assert len(macros) == other.startswith("AT_L1")


def test_no_field_is_taken_for_a_parameter_of_the_macro() -> None:
    """Fields may have the names of operands, or of whatever names a row's step."""
    fields: Fields = [("step", 1), ("x_at", 2), ("n", 3), ("x", HomeExpr("AT_L1 4"))]
    macros, _ = rows(fields, fields)
    ((name, text),) = macros.items()
    parameters = re.findall(r"\w+", name.partition("(")[2])
    assert not set(parameters) & set(re.findall(r"\.(\w+)", text))


def test_real_numbers_of_several_rows_have_names() -> None:
    """A number with a long text that several rows have is a macro of the first step's, in others' macros, too."""
    rate, sizes = ("lr", Number(0.002)), [(f"n{i}", i) for i in range(4)]
    macros, lines = rows([rate], [rate], [*sizes, rate], [*sizes, rate], [("lr", Number(0.1))])
    lr = "STEP_00_LR"
    assert list(macros.items())[:1] == [(lr, "0x1.0624dep-9f /* 0.00200000009 */")]
    assert macros["STEP_02(STEP)"].endswith(f".n3 = 3, .lr = {lr}}}")
    assert lines[:3] == [[f"/* 0 */ {{.lr = {lr}}}"], [f"/* 1 */ {{.lr = {lr}}}"], ["STEP_02(2)"]]
    assert lines[4] == ["/* 4 */ {.lr = 0x1.99999ap-4f /* 0.100000001 */}"]


def test_zeros_of_both_signs_are_two_numbers() -> None:
    """Rows that differ by the sign of a zero alone have no macro in common."""
    sizes: Fields = [(f"n{i}", i) for i in range(4)]
    macros, lines = rows(*([*sizes, ("low", Number(zero))] for zero in (0.0, -0.0)))
    assert macros == {}
    assert [texts[-1][-12:] for texts in lines] == [".low = 0.0f}", "low = -0.0f}"]
