"""Functions for some calls of a kernel: their conditions, which one a step calls, and that a wrong one is named."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from deployer import pipeline
from deployer.calibration import measure
from deployer.calibration.measure import KernelJob
from deployer.codegen.generate import generate_files
from deployer.core import target
from deployer.core.errors import VerifyFailed
from deployer.core.kernel import First, Kernel, Last
from deployer.core.operator import registry
from deployer.core.packages import PackageProblem
from deployer.core.plan import Options, Plan, Tiling
from deployer.core.target import TargetInvalid
from deployer.kernel_models.matrix_splits import EpilogueCost, products
from deployer.kernel_variants import calls, conditions
from deployer.kernel_variants.conditions import (
    Condition,
    KernelVariant,
    chosen,
    costed_of,
    general_of,
    listed_kernels,
    read_list,
    variants_of,
)
from deployer.operators.base.sums import PRODUCTS
from deployer.running import build
from deployer.verify.plan import verify_plan
from deployer.verify.plan_alone import verify_plan_alone
from DeployTest.support.graphs.small_graphs import Model, infer, node, value
from DeployTest.support.kernels.comparing import compare
from DeployTest.support.kernels.convolution_jobs import convolution_jobs, moved_jobs
from DeployTest.support.kernels.int8_jobs import int8_jobs
from DeployTest.support.kernels.joint_jobs import joint_jobs
from DeployTest.support.kernels.kernel_jobs import gemm_form_jobs, gemm_job, gemm_jobs
from DeployTest.targets.simulators import needs_simulator

pytestmark = [pytest.mark.siracusa, pytest.mark.kernels]
TARGET = target.load("siracusa")
KERNELS: dict[str, Kernel] = {op.kernel.symbol: op.kernel for op in registry().values() if op.kernel is not None}
KERNEL = "conv_f32"
LISTED = {symbol: variants_of(symbol, TARGET) for symbol in KERNELS if variants_of(symbol, TARGET)}


NET = Model(
    nodes=(
        node("Conv", ("x", "stem"), ("a",), "stem", strides=[2, 2]),
        node("Conv", ("a", "deep"), ("b",), "deep", group=16, pads=[1, 1, 1, 1]),
        node("Conv", ("b", "wide"), ("c",), "wide"),
        node("ConvGrad", ("c", "b", "wide"), ("db", "dwide"), "dwide", domain="com.microsoft"),
        node(
            "ConvGrad",
            ("db", "a", "deep"),
            ("da", "ddeep"),
            "ddeep",
            domain="com.microsoft",
            group=16,
            pads=[1, 1, 1, 1],
        ),
    ),
    inputs=(
        value("x", (1, 1, 24, 10)),
        value("stem", (16, 1, 10, 4)),
        value("deep", (16, 1, 3, 3)),
        value("wide", (16, 16, 1, 1)),
    ),
    outputs=(value("da", (1, 16, 8, 4)), value("dwide", (16, 16, 1, 1)), value("ddeep", (16, 1, 3, 3))),
)
"""A first layer, a depthwise one and one of single taps, and the gradients of these."""
CALLED = {
    "conv_f32_first",
    "conv_f32_planes",
    "conv_f32_pointwise",
    "conv_grad_w_f32_plane",
    "conv_grad_w_f32_rows",
    "conv_grad_x_f32_planes",
    "conv_grad_x_f32_pointwise",
}


PLANES = '{ body = "copy_f32.h", function = "planes", macros = { CONV_APART = 1 } }'
"""Code of a variant, with a common header."""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiling, Plan]:
    """The net on the cluster."""
    return pipeline.plan_program(infer(tmp_path_factory.mktemp("net"), NET), Options(TARGET.name))


def test_lists() -> None:
    """Each function has a C file or code, each C file is listed, and conditions speak of the kernel's arguments."""
    folder = target.TARGETS_DIR / TARGET.name / "kernels"
    assert {path.parent.name for path in folder.glob("*/*")} == set(LISTED)
    for symbol, found in LISTED.items():
        assert [s.source for s in found if s.source.is_file() == bool(s.code)] == []
        assert {s.source for s in found if not s.code} == set((folder / symbol).glob("*.c"))
        arguments = {name for name, *_ in (*KERNELS[symbol].pointers, *KERNELS[symbol].scalars)}
        assert all(variant.requires and variant.names <= arguments for variant in found)


def test_only_one_way_elsewhere() -> None:
    """Targets without lists have no such functions: a kernel is one function there."""
    others = [target.load(name) for name in target.names() if name != TARGET.name]
    assert others
    assert not any(variants_of(symbol, other) for other in others for symbol in LISTED)


def _special(
    requires: tuple[str, ...], profitable_if: tuple[str, ...] = (), name: str = "few", **let: str
) -> KernelVariant:
    return KernelVariant(name, Path(), requires, profitable_if, let, frozenset())


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("n == 3 and not b", True),
        ("0 <= n <= 2", False),
        ("-n + 4 == m % 4 or first", True),
        ("rounds(9) == 3 and n // 2 == 1", True),
        ("m * 2 - n > m if b else n < m", True),
        ("twice == 6", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    """Comparisons, arithmetic of integers, logic, definitions, and pieces by four cores."""
    values = {"n": 3, "m": 5, "b": False, "first": 0}
    assert _special((text,), twice="2 * n").broken(values, 4) == ("" if holds else text)


@pytest.mark.parametrize("seed", range(20))
def test_conditions_are_what_python_computes(seed: int) -> None:
    """Drawn texts have the value of Python's evaluation, also where that skips a division by zero."""
    draw = np.random.default_rng(seed)

    def drawn(depth: int) -> str:
        if depth == 0:
            return str(draw.choice(["n", "m", "b", "first", "0", "1", "4"]))
        a, b, c = (drawn(depth - 1) for _ in range(3))
        pair = str(draw.choice(["+", "-", "*", "//", "%", "==", "!=", "<", "<=", ">", ">="]))
        logic = f"(not not ({a} {draw.choice(['and', 'or'])} {b}))"  # ours is true or false, Python's one of both
        other = [f"(not {a})", f"(-{a})", f"({a} if {b} else {c})", f"({a} <= {b} < {c})", logic]
        return f"({a} {pair} {b})" if draw.random() < 0.5 else str(draw.choice(other))

    for _ in range(50):
        text, values = drawn(3), {name: int(draw.integers(0, 6)) for name in ("n", "m", "b", "first")}
        condition = Condition(text.replace("not not ", ""), {})
        try:
            expected = bool(eval(text, {"__builtins__": {}}, values))
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                condition.holds(values, 1)
        else:
            assert condition.holds(values, 1) == expected, f"{text} of {values}"


@pytest.mark.parametrize(
    "text", ["n ** 2", "open(n)", "n.real", "[n]", "'n'", "lambda: n", "n >", "1.5", "rounds(n, 2)", "min(n, 2)"]
)
def test_other_expressions_are_refused(text: str, tmp_path: Path) -> None:
    """Nothing else is a condition, and nothing is run."""
    with pytest.raises(TargetInvalid, match="is not a condition"):
        _listed(tmp_path, f'[few]\nrequires = ["{text}"]')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("few = ", "is not TOML"),
        ('[few]\nneeds = ["n > 1"]', "few is not a variant"),
        ('["a b"]\nrequires = ["n > 1"]', "a b is not a variant"),
        ('few = "n > 1"', "few is not a variant"),
        ('like = "other"', "does not exist"),
        ('like = "other"\n[few]\nrequires = ["n > 1"]', "like excludes other keys but include, here few"),
        ('let = "n"\n[few]\nrequires = ["n > 1"]', "let is not a table of names and expressions"),
        ('[few]\nrequires = "n > 1"', "few is not a variant"),
        ("[few]\nrequires = [1]", "few is not a variant"),
        ('[let]\na = "b"\nb = "a"\n[few]\nrequires = ["a > 1"]', "let.a reads b, which is defined later"),
    ],
)
def test_faults_of_lists(text: str, said: str, tmp_path: Path) -> None:
    """A list that is none is the fault of the target, by its file and place."""
    with pytest.raises(TargetInvalid, match=said):
        _listed(tmp_path, text)


@pytest.mark.parametrize(
    ("files", "text", "said"),
    [
        (["few"], '[few]\nrequires = ["columns > 1"]', "few reads columns, which is not an argument of the kernel"),
        (
            ["few"],
            '[let]\nwide = "columns > 1"\nwider = "2 * wide"\n[few]\nprofitable_if = ["wider"]',
            "few reads columns, which is not an argument of the kernel",
        ),
        ([], '[few]\nrequires = ["n > 1"]', "few has no C file few.c beside it, and no code"),
        (["few"], f"[few]\ncode = {PLANES}", "few has code, and a C file few.c"),
        (["../conv_f32"], f"general = {PLANES}\n[few]\ncode = {PLANES}", "general has code, and a C file conv_f32.c"),
        (["few", "more"], '[few]\nrequires = ["n > 1"]', "has no entry for more.c beside it"),
        (["few"], "", "has no entry for few.c beside it"),
        (["few"], '[few]\nwork = "bricks"', "few has the cost model bricks; the kernel's are .*strips"),
        (["few"], '[few]\nwork = ["strips"]', "few is not a variant"),
    ],
)
def test_lists_and_their_files(files: list[str], text: str, said: str, tmp_path: Path) -> None:
    """A list and the files beside it must match; conditions may name only arguments of the kernel."""
    with pytest.raises(TargetInvalid, match=said) as found:
        _listed(tmp_path, text, *files)
    assert str(tmp_path / KERNEL / "variants.toml") in str(found.value)


WRONG_CODE = {
    "a text": ('"conv.h"', "it is 'conv.h', and not a table"),
    "no body": ('{ function = "planes" }', "it lacks 'body'"),
    "no function": ('{ body = "conv.h" }', "it lacks 'function'"),
    "another key": ('{ body = "conv.h", function = "planes", call = "x" }', "it has no key 'call'"),
    "a folder": ('{ body = "../../secret.h", function = "planes" }', "body is '../../secret.h', and not the name of a"),
    "no header": ('{ body = "conv.c", function = "planes" }', "body is 'conv.c', and not the name of a header"),
    "an end of a line": (r'{ body = "conv.h\"\n#error", function = "planes" }', "and not the name of a header"),
    "C for a function": ('{ body = "conv.h", function = "planes(0); system" }', "which is not an identifier of C"),
    "a number for it": ('{ body = "conv.h", function = 3 }', "function is 3, which is not an identifier"),
    "C for a macro": ('{ body = "conv.h", function = "f", macros = { "A(x)" = 1 } }', "macro 'A(x)' is not an identif"),
    "C for a value": (
        '{ body = "conv.h", function = "f", macros = { A = "1;" } }',
        "macro A is '1;', which is neither",
    ),
    "a fraction": ('{ body = "conv.h", function = "f", macros = { A = 1.5 } }', "macro A is 1.5, which is neither"),
    "a truth": ('{ body = "conv.h", function = "f", macros = { A = true } }', "macro A is True, which is neither"),
    "a large number": ('{ body = "conv.h", function = "f", macros = { A = 99999999999 } }', "macro A is 99999999999"),
    "a list of macros": ('{ body = "conv.h", function = "f", macros = ["A"] }', "macros is ['A'], and not a table"),
    "an include": ('{ body = "conv.h", function = "f", include = "hal.h" }', "include is 'hal.h', and not a list of"),
    "an absent header": (
        '{ body = "no_such.h", function = "f" }',
        "code of few includes no_such.h, which is no header",
    ),
}
"""By fault: code of a variant, and what is said of it."""


@pytest.mark.parametrize("fault", WRONG_CODE)
@pytest.mark.parametrize("general", [False, True])
def test_faults_of_code(fault: str, general: bool, tmp_path: Path) -> None:
    """Code that is no macros, header and function is the fault of the target, for variants and general functions."""
    text, said = WRONG_CODE[fault]
    name = "general" if general else "few"
    lines = f"general = {text}\n" if general else f"[few]\ncode = {text}\n"
    with pytest.raises(TargetInvalid, match=re.escape(said.replace("of few", f"of {name}"))):
        _listed(tmp_path, lines)


def test_headers_of_a_list(tmp_path: Path) -> None:
    """Headers in front of each body are a list of names."""
    for text in ('"hal.h"', '["../hal.h"]', "[1]"):
        with pytest.raises(TargetInvalid, match=r"include is .*, and not a list of headers without folders"):
            _listed(tmp_path, f"include = {text}")


def test_code_is_made(tmp_path: Path) -> None:
    """The C has the macros, a negative one in parentheses, the headers, and a function of the kernel's argument."""
    [few] = _listed(
        tmp_path,
        'include = ["conv_f32.h", "hal.h"]\n[few]\ncode = { body = "copy_f32.h", function = "planes", '
        'macros = { APART = -1, TYPE = "conv_f32_args_t" } }',
    )
    assert few.code
    assert few.code.text("conv_f32_few").splitlines()[1:] == [
        "#define APART (-1)",
        "#define TYPE conv_f32_args_t",
        '#include "conv_f32.h"',
        '#include "hal.h"',
        '#include "copy_f32.h"',
        "",
        "void conv_f32_few(const void *args) { planes(args); }",
    ]


def test_a_macro_defines_a_kernel(tmp_path: Path) -> None:
    """The list of a folder has code of kernels: a comment, headers, and a macro with the kernel's name first."""
    (tmp_path / "kernels.toml").write_text(
        '[exp_f32]\ndoes = "Y = e ^ X."\nbody = "binary_f32.h"\nmacro = "BINARY_F32"\narguments = ["expf_f32", -1]\n'
    )
    assert listed_kernels(tmp_path)["exp_f32"].text("exp_f32").splitlines() == [
        "/* Y = e ^ X. */",
        '#include "exp_f32.h"',
        '#include "binary_f32.h"',
        "",
        "BINARY_F32(exp_f32, expf_f32, (-1))",
    ]


FAULTS_OF_MACROS = {
    'body = "copy_f32.h"': "it lacks 'function' or 'macro'",
    'body = "copy_f32.h"\nmacro = "A"\nfunction = "f"': "it has both 'function' and 'macro'",
    'body = "copy_f32.h"\nmacro = "A("': "macro is 'A(', which is not an identifier of C",
    'body = "copy_f32.h"\nfunction = "f"\narguments = [1]': "arguments are [1], and not a list for a macro",
    'body = "copy_f32.h"\nmacro = "A"\narguments = ["a b"]': "an argument is 'a b', which is neither",
    'body = "copy_f32.h"\nmacro = "A"\ndoes = 1': "does is 1, and not a text",
    'body = "no_such.h"\nmacro = "A"': "relu_f32 includes no_such.h, which is no header of all targets",
}
"""Wrong entries of relu_f32 in the list of a folder, and the cause that the error names."""


@pytest.mark.parametrize("entry", FAULTS_OF_MACROS)
def test_faults_of_macros(entry: str, tmp_path: Path) -> None:
    """A wrong entry of the list of a folder is a fault with the list's path."""
    (tmp_path / "kernels.toml").write_text(f"[relu_f32]\n{entry}\n")
    with pytest.raises(TargetInvalid, match=re.escape(FAULTS_OF_MACROS[entry])):
        listed_kernels(tmp_path)


def test_a_file_and_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with a file of all targets and an entry of a package has two, and is refused."""
    (tmp_path / "kernels.toml").write_text('[relu_f32]\nbody = "copy_f32.h"\nmacro = "COPY_F32"\n')
    monkeypatch.setattr(build, "kernel_folders", lambda: {"lab": tmp_path})
    with pytest.raises(PackageProblem, match="kernel relu_f32 has 2 C files"):
        build.kernel_source("relu_f32", build.toolchain(target.load("host")), tmp_path)


def test_code_of_another_list(tmp_path: Path) -> None:
    """With `like`, a list may give the other list's code its own headers, or replace code by a C file."""
    kernels = tmp_path / "machine" / "kernels"
    for folder in ("conv_grad_w_f32", "conv_sgd_f32"):
        (kernels / folder).mkdir(parents=True)
    for header in ("conv_grad_w.h", "conv_gradient.h", "conv_step.h"):
        (kernels.parent / header).touch()
    code = '{ body = "conv_grad_w.h", function = "weights" }'
    text = f'include = ["conv_gradient.h"]\ngeneral = {code}\n[few]\ncode = {code}\n[more]\ncode = {code}\n'
    (kernels / "conv_grad_w_f32" / "variants.toml").write_text(text)
    path = kernels / "conv_sgd_f32" / "variants.toml"
    path.write_text('like = "conv_grad_w_f32"\ninclude = ["conv_step.h"]\n')
    path.with_name("more.c").touch()
    few, more = read_list(path)
    assert few.code
    assert few.code.include == ("conv_step.h",)
    assert (more.code, more.source) == (None, path.with_name("more.c"))
    general = general_of(path)
    assert general
    assert general.include == ("conv_step.h",)
    (kernels / "conv_sgd_f32.c").touch()
    assert general_of(path) is None


def test_a_folder_without_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions for some calls that no list names are refused, too."""
    folder = tmp_path / "machine" / "kernels" / KERNEL
    folder.mkdir(parents=True)
    (folder / "few.c").touch()
    monkeypatch.setattr(conditions, "TARGETS_DIR", tmp_path)
    with pytest.raises(TargetInvalid, match="does not exist"):
        costed_of(KERNEL, replace(TARGET, cost_sources=("machine",)))


def test_names_of_a_list(tmp_path: Path) -> None:
    """The arguments that an entry asks for are those of its conditions, and of the definitions that these need."""
    few, more = _listed(
        tmp_path,
        '[let]\nwide = "n > 1"\nwider = "m if wide else 0"\nother = "c"\n'
        '[few]\nrequires = ["wider", "g"]\nwork = "strips"\n[more]\nrequires = ["oh > 1"]',
        "few",
        "more",
    )
    assert (few.names, few.work) == ({"n", "m", "g"}, "strips")
    assert (more.names, more.work) == ({"oh"}, "")
    with pytest.raises(TargetInvalid, match="few reads 'm', which may differ between calls"):
        few.broken({"n": 2}, 1)


def test_places_of_tiles_tell_no_calls_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on where a tile begins is refused: one call of each kind of tiles is asked, and they lie apart."""
    net = Model(
        nodes=(node("AveragePoolGrad", ("dy",), ("dx",), "pool", kernel_shape=[2, 2], strides=[2, 2]),),
        inputs=(value("dy", (1, 4, 8, 8)),),
        outputs=(value("dx", (1, 4, 16, 16)),),
    )
    few = KernelVariant("few", tmp_path / "few.c", ("row == 0",), (), {}, frozenset({"row"}))
    monkeypatch.setattr(calls, "costed_of", lambda symbol, _: (few,))
    with pytest.raises(TargetInvalid, match="few reads 'row'"):
        pipeline.plan_program(infer(tmp_path, net), Options(TARGET.name, "single", {"L1": 4000}))


def _listed(folder: Path, text: str, *files: str) -> list[KernelVariant]:
    path = folder / KERNEL / "variants.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for name in files:
        (path.parent / f"{name}.c").touch()
    return list(read_list(path))


def test_choice() -> None:
    """The first that is valid for all calls of a step and profitable for the first call, or none."""
    large, even, other = (
        _special(("n > 4",), name="large"),
        _special((), ("n % 2 == 0",), "even"),
        _special((), name="other"),
    )
    assert chosen((large, even, other), _two_calls) is even
    assert chosen((large,), _two_calls) is None
    assert chosen((), _two_calls) is None


def _two_calls(condition: Condition) -> Iterator[bool]:
    return (bool(condition.holds(values, 1)) for values in ({"n": 8}, {"n": 3}))


def test_steps_call_them(planned: tuple[Tiling, Plan]) -> None:
    """The C of a plan calls and declares what it names, and the plan is right."""
    tiling, plan = planned
    verify_plan(plan, tiling)
    verify_plan_alone(plan)
    assert {step.function for step in plan.steps} == CALLED
    text = generate_files(plan)["InferenceNetwork.c"]
    for function in CALLED:
        assert f"void {function}(const void *args);" in text
        assert f"hal_parallel({function}, " in text


WRONG = {
    "one for windows of one tap": ("conv_f32_planes", "pointwise", "whole and n * g == 1"),
    "the same of a gradient": ("conv_grad_x_f32_planes", "matrix", "whole"),
    "one for depthwise windows": ("conv_f32_pointwise", "planes", "m * c == 1"),
    "one for a first layer": ("conv_f32_planes", "first", "c * g * n == 1"),
    "one for whole rows of taps": ("conv_grad_w_f32_plane", "rows", "dh * dw * g == 1"),
    "none of the kernel": ("conv_f32_planes", "rows", "has no variant 'rows'"),
    "another kernel's": ("conv_grad_x_f32_planes", "first", "has no variant 'first'"),
}
"""By fault: what a step calls, the function that is put in its place, and what the judge says."""


@pytest.mark.parametrize("fault", WRONG)
def test_a_function_that_is_not_valid_is_named(fault: str, planned: tuple[Tiling, Plan]) -> None:
    """Judges of plans, with their tiling or alone, name the step, the function and the condition."""
    called, other, said = WRONG[fault]
    edited, name = _edited(planned[1], called, other)
    for judge in (partial(verify_plan, edited, planned[0]), partial(verify_plan_alone, edited)):
        with pytest.raises(VerifyFailed) as found:
            judge()
        assert found.value.rule == "variant"
        assert name in str(found.value)
        assert said in str(found.value)


@pytest.mark.parametrize(
    ("called", "other"), [("conv_f32_planes", "strips"), ("conv_f32_pointwise", "matrix"), ("conv_f32_first", "")]
)
def test_slower_functions_are_right(called: str, other: str, planned: tuple[Tiling, Plan]) -> None:
    """A valid function that does not pay off is no fault."""
    edited, _ = _edited(planned[1], called, other)
    verify_plan(edited, planned[0])
    verify_plan_alone(edited)


def _edited(plan: Plan, called: str, other: str) -> tuple[Plan, str]:
    """The plan with another function in the first step that calls this one, and the step's name."""
    step = next(s for s in plan.steps if s.function == called)
    steps = tuple(replace(s, variant=other) if s is step else s for s in plan.steps)
    return replace(plan, steps=steps, fused_launches=()), step.name


def test_each_tile_counts(tmp_path: Path) -> None:
    """A function that needs whole sums is neither chosen nor right where they go on in other calls."""
    layer = node("Conv", ("x", "w"), ("y",), "layer")
    shapes = (value("x", (1, 2 * PRODUCTS, 4, 8)), value("w", (8, 2 * PRODUCTS, 1, 1)))
    program = infer(tmp_path, Model((layer,), shapes, (value("y", (1, 8, 4, 8)),)))
    tiling, plan = pipeline.plan_program(program, Options(TARGET.name, "single", {"L1": 26000}))
    [step] = plan.steps
    assert len(step.tile_cycles) > 1
    assert step.variant == "matrix"
    verify_plan(plan, tiling)
    wrong = replace(plan, steps=tuple(replace(s, variant="pointwise") if s is step else s for s in plan.steps))
    with pytest.raises(VerifyFailed, match="which needs sole"):
        verify_plan(wrong, tiling)


def test_planning_that_errs_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges compute the arguments of calls for themselves: a function chosen by wrong ones is named."""
    layer = node("Conv", ("x", "w"), ("y",), "layer")
    shapes = (value("x", (1, 2 * PRODUCTS, 4, 8)), value("w", (8, 2 * PRODUCTS, 1, 1)))
    program = infer(tmp_path, Model((layer,), shapes, (value("y", (1, 8, 4, 8)),)))
    right = calls.value_of
    monkeypatch.setattr(calls, "value_of", lambda v, *rest: 1 if isinstance(v, First | Last) else right(v, *rest))
    with pytest.raises(VerifyFailed, match="'pointwise' is not valid for a call, which needs sole") as found:
        pipeline.plan_program(program, Options(TARGET.name, "single", {"L1": 26000}))
    assert found.value.rule == "variant"


def test_length_of_blocks() -> None:
    """The longest sum of one block, which conditions say as a number, is that of the operators."""
    limits = [text for found in LISTED.values() for s in found for text in s.requires if "<= 144" in text]
    assert limits
    assert PRODUCTS == 144


@pytest.mark.parametrize("seed", range(4))
def test_products_take_the_form_that_they_cost(seed: int) -> None:
    """Blocks, lines and vectors are chosen for products whose work has these forms; what has edges may be blocks."""
    forms = {"matrix": "blocks", "lines": "lines", "vector": "line", "apart": "line", "edged": "one_block"}
    draw = np.random.default_rng(seed)
    for _ in range(200):
        batch, m, n, k = (
            int(draw.choice(sizes)) for sizes in ((1, 1, 2, 4), range(1, 40), range(1, 40), range(2, 145))
        )
        job = gemm_job(m, n, k, "nn", batch)
        work, found = (
            products(batch, m, n, k, EpilogueCost(0, 0), False, TARGET.kernel_model),
            measure.variant_of(job, TARGET),
        )
        assert found, job.label
        assert found.name == forms[work.cost_class] or (work.cost_class, found.work) == ("edged", "blocks"), job.label


def _jobs() -> Iterator[KernelJob]:
    """Calls of kernels that have such functions, which tests compare with the host."""
    for jobs in (convolution_jobs, gemm_jobs, gemm_form_jobs, int8_jobs, joint_jobs):
        yield from (job for job in jobs() if job.kernel.symbol in LISTED)


def test_each_function_is_compared() -> None:
    """Some call of those that tests compare with the host takes it, and some takes the kernel's own."""
    called = {measure.function_of(job, TARGET, True) for job in _jobs()}
    assert called == {(symbol, name) for symbol, found in LISTED.items() for name in ("", *(s.name for s in found))}


def test_functions_for_all_calls(tmp_path: Path) -> None:
    """A kernel's general function computes the same as its functions for some calls."""
    needs_simulator(TARGET.name)
    jobs = list(_jobs())
    results = measure.measure_jobs(TARGET, jobs, tmp_path, use_variants=False)
    compare(jobs, {result.label: result for result in results})


def test_edges_of_conditions(tmp_path: Path) -> None:
    """Windows moved by a step select other functions; each gives the host's result."""
    jobs = list(moved_jobs())
    called = {measure.function_of(job, TARGET, True) for job in jobs}
    both = {"conv_f32": {"", "single", "moving"}, "conv_grad_x_f32": {"", "single", "thinned", "halves"}}
    assert all((symbol, name) in called for symbol, names in both.items() for name in names)
    needs_simulator(TARGET.name)
    results = measure.measure_jobs(TARGET, jobs, tmp_path)
    compare(jobs, {result.label: result for result in results})
