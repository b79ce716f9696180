"""Steps that differ in addresses and few sizes share a function of the generated C; all are called once, in order."""

import re
from pathlib import Path

import pytest

from deployer.codegen import generate, render
from deployer.codegen.loop_views import CallView, LoopView, StepView, sized
from deployer.codegen.shared_functions import MOST_SIZES, common_sizes, functions_and_calls
from DeployTest.support.cases import canonical_hash, compile_case, load_case, result_hash

pytestmark = [pytest.mark.host, pytest.mark.training]


def step(index: int, line: str, kernel: str = "relu_f32", kind: str = "float") -> StepView:
    """A step of one statement."""
    table, none = f"step_{index:02d}_args", ()
    call = CallView(kernel, f"&{table}", ("args->n = 3;",))
    variables = (f"{kernel}_args_t *args = &{table};",)
    loop = LoopView("once", "tile", "1", variables, (line,), none, none, none, none, none, none, none, none, none, call)
    addresses = ((f"SLOT_{index:02d}_X", "x_slot", kind), (f"HOME_{index}", "x_home", kind))
    return StepView(index, f"Relu r{index}", kernel, table, (), loop, addresses)


def copy(index: int) -> str:
    """A statement about a step's own addresses."""
    return f"move(SLOT_{index:02d}_X, HOME_{index});"


def test_alike_but_for_addresses_is_one_function() -> None:
    functions, calls = functions_and_calls([step(4, copy(4)), step(7, copy(7))])
    (function,) = functions
    assert function.name == "step_04_like"
    assert function.parameters == "uint32_t step, relu_f32_args_t *args, float *x_slot, float *x_home"
    assert function.loop.fetch == ("move(x_slot, x_home);",)
    assert isinstance(function.loop.body, CallView)
    assert (function.loop.variables, function.loop.body.table) == ((), "args")
    assert calls == (
        "step_04_like(4, &step_04_args, SLOT_04_X, HOME_4);",
        "step_04_like(7, &step_07_args, SLOT_07_X, HOME_7);",
    )


@pytest.mark.parametrize(
    "other",
    [
        step(7, copy(7) + " "),
        step(7, "move(HOME_7, SLOT_07_X);"),
        step(7, "move(SLOT_07_X, SLOT_07_X);"),
        step(7, copy(7), kernel="relu_grad_f32"),
        step(7, copy(7), kind="int32_t"),
    ],
    ids=["text", "order", "one address twice", "kernel", "type"],
)
def test_anything_else_is_not_shared(other: StepView) -> None:
    functions, calls = functions_and_calls([step(4, copy(4)), other])
    assert [f.name for f in functions] == ["step_04", "step_07"]
    assert calls == ("step_04();", "step_07();")
    assert [f.parameters for f in functions] == ["void", "void"]


def sizes(index: int, *values: int) -> StepView:
    """A step whose statement has named sizes."""
    named = ", ".join(sized(value, f"x_{at}") for at, value in enumerate(values))
    return step(index, f"move(SLOT_{index:02d}_X, {named});")


def test_sizes_that_differ_are_parameters() -> None:
    """One that all steps have stays in the text."""
    (function,), calls = functions_and_calls([sizes(4, 12, 5), sizes(7, 16, 5), sizes(8, 12, 5)])
    assert function.parameters == "uint32_t step, relu_f32_args_t *args, float *x_slot, uint32_t x_0"
    assert function.loop.fetch == ("move(x_slot, x_0, 5);",)
    assert function.title == "Relu r4 and 2 more like it"
    assert [call.split(", ")[-1] for call in calls] == ["12);", "16);", "12);"]


def test_a_lone_step_keeps_its_sizes() -> None:
    (function,), _ = functions_and_calls([sizes(4, 12)])
    assert function.loop.fetch == ("move(SLOT_04_X, 12);",)


def test_two_sizes_of_one_name_are_two_parameters() -> None:
    lines = {4: "move(12@x, 3@x, 12@x);", 7: "move(16@x, 5@x, 16@x);"}
    (function,), calls = functions_and_calls([step(index, line) for index, line in lines.items()])
    assert function.loop.fetch == ("move(x, x_2, x);",)
    assert calls == ("step_04_like(4, &step_04_args, 12, 3);", "step_04_like(7, &step_07_args, 16, 5);")


def test_too_many_sizes_are_not_shared() -> None:
    most = [3] * MOST_SIZES
    functions, _ = functions_and_calls([sizes(4, *most), sizes(7, *(9 for _ in most)), sizes(8, *most)])
    assert [f.name for f in functions] == ["step_04_like"]
    functions, _ = functions_and_calls([sizes(4, *most, 3), sizes(7, *(9 for _ in most), 9), sizes(8, *most, 3)])
    assert [f.name for f in functions] == ["step_04_like", "step_07"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(9216, "9216@x"), ("n * 36", "n * 36@x"), ("(a + 4) * 2 + b", "(a + 4) * 2 + b"), ("n", "n"), ("n1", "n1")],
)
def test_a_constant_factor_is_named(value: int | str, text: str) -> None:
    assert sized(value, "x") == text


def test_every_step_is_called_once(models_root: Path, tmp_path: Path) -> None:
    """The optimizer's steps share, and the network still runs the plan's steps in their order, to the same bits."""
    built = compile_case(load_case("autoencoder", models_root), tmp_path / "c", "auto", 16000)
    files = generate.run(built.plan)
    for graph in built.plan.graphs:
        text = files[generate.FILE_NAMES[graph]]
        body = text[text.index(render.prototype(graph)) :]
        called = [int(a or b) for a, b in re.findall(r"step_\d+_like\((\d+),|step_(\d+)\(", body)]
        assert called == [s.index for s in built.plan.steps if s.graph == graph]
    assert "_like(" in files["OptimizerNetwork.c"]
    assert result_hash(built.run()) == canonical_hash("autoencoder", models_root, tmp_path)


def test_tables_share_what_they_have_in_common() -> None:
    """Equal sizes become a macro of the first step's; addresses stay, and too few or single sizes are no macro."""
    sizes = [f".n{i} = {i}" for i in range(5)]
    tables = [[".x = SLOT_01_X", *sizes], [".x = SLOT_02_X", *sizes], [".y = HOME_Y", *sizes, ".m = 1"], [".m = 1"]]
    macros, fields = common_sizes([*tables, [".m = 1"]], ["step_01", "step_02", "step_03", "step_04", "step_05"])
    assert macros == {"STEP_01_SIZES": ", ".join(sizes)}
    assert fields[:2] == [[".x = SLOT_01_X", "STEP_01_SIZES"], [".x = SLOT_02_X", "STEP_01_SIZES"]]
    assert fields[2:] == [*tables[2:], [".m = 1"]]
