"""Steps that differ in addresses alone share a function of the generated C; every step is called once, in order."""

import re
from pathlib import Path

import pytest
from cases import canonical_hash, compile_case, load_case, result_hash

from deployer import render
from deployer.loop_views import CallView, LoopView, StepView
from deployer.sharing import common_sizes, functions_and_calls
from deployer.stages import generate

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
