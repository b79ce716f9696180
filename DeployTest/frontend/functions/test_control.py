"""Nodes with graphs inside: ONNX Runtime's values where shapes and constants say what is computed, else an error."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from deployer.core.errors import UserError
from deployer.core.ir import Program
from deployer.core.operator import Array
from deployer.frontend import check, parse
from deployer.frontend.functions import control as functions
from deployer.operators import control
from deployer.training.train_graph import build_train_graph
from deployer.verify.reference import run_inference
from DeployTest.support.graphs.built_cases import check_differences, opened
from DeployTest.support.graphs.small_graphs import ops, raises
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.models]

ROWS, WIDTH = 3, 2
HEAD = '<ir_version: 10, opset_import: ["" : 20]> agraph '
MODEL = f"""{HEAD}(float[{ROWS},{WIDTH}] x) => (float[{ROWS},{WIDTH},{WIDTH}] y)
<float[{WIDTH},{WIDTH}] w = {{0.5, -0.25, 0.75, 0.375}}, float[{WIDTH}] b = {{0.125, -0.5}}, int64 two = {{2}},
 float[{WIDTH}] first = {{0.0, 0.25}}, int64 turns = {{2}}, bool on = {{1}}> {{
    rows = Shape <start = 0, end = 1> (x)
    many = Greater (rows, two)
    scaled = If (many) <
        then_branch = g () => (h) <float[{WIDTH}] s = {{0.5, 2.0}}> {{ a = Mul (x, s) h = Add (a, b) }},
        else_branch = g () => (h) {{ h = Identity (x) }}>
    last, sums = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], body =
        g (float[{WIDTH}] s, float[{WIDTH}] row) => (float[{WIDTH}] t, float[{WIDTH}] o)
        {{ t = Add (s, row) p = Mul (t, b) o = Tanh (p) }}> (first, scaled)
    end, stack = Loop <body = g (int64 i, bool go, float[{ROWS},{WIDTH}] s) =>
        (bool on_, float[{ROWS},{WIDTH}] t, float[{ROWS},{WIDTH}] o) {{
        on_ = Identity (go)
        zero = Constant <value_int = 0> ()
        even = Equal (i, zero)
        t = If (even) <then_branch = g () => (v) {{ v = MatMul (s, w) }},
                       else_branch = g () => (v) {{ r = Add (s, b) v = Add (r, last) }}>
        o = Sigmoid (t)
    }}> (turns, on, sums)
    axis = Constant <value_ints = [2]> ()
    wide = Unsqueeze (end, axis)
    turned = Transpose <perm = [1, 2, 0]> (stack)
    y = Add (turned, wide)
}}"""


def saved(folder: Path, text: str) -> Path:
    """The file of a model in ONNX's textual form."""
    path = folder / "network.onnx"
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


def read(folder: Path, text: str, notes: list[str] | None = None) -> Program:
    """The program of such a model; what is said of it goes into `notes`."""
    said: list[str] = [] if notes is None else notes
    source = parse.read_graphs(saved(folder, text), None)
    return check.check_program(source, warn=lambda warning: said.append(warning.cause))


def onnx_values(folder: Path, x: Array) -> list[Array]:
    """The outputs of the model in the folder, by ONNX Runtime."""
    session = onnxruntime.InferenceSession(str(folder / "network.onnx"))
    return [np.asarray(result) for result in session.run(None, {"x": x})]


def test_values(tmp_path: Path) -> None:
    """A branch by a shape, slices from the last one on, turns with a branch by their number, captured values."""
    notes: list[str] = []
    program = read(tmp_path, MODEL, notes)
    x = np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float32)
    assert_close("Gemm", run_inference(program, {"x": x})["y"], onnx_values(tmp_path, x)[0])
    told = [note.partition(": ")[2] for note in notes]
    assert told == [
        "then_branch alone is computed: no input changes the condition",
        f"its {ROWS} turns are written out",
        "its 2 turns are written out: no input changes their number",
    ]


def test_gradients(tmp_path: Path) -> None:
    """Through all of it, as central differences have them; a weight of a branch is a constant of the model."""
    report = build_train_graph(saved(tmp_path, MODEL), "mse", "sgd", 0.1, "^(w|b|first)$", tmp_path)
    assert set(report.trained) == {"w", "b", "first"}
    check_differences(*opened(report.train))


SCAN = """{ end, y, z = Scan <num_scan_inputs = 1, %s, body = g (float[%d] s, float[%d] p) =>
    (float[%d] t, float[%d] o, float[%d] q) { t = Sub (p, s) o = Tanh (t) q = Mul (s, p) }> (first, x) }"""
LOOP = """{ y, w = Loop (m, on, x, first) <body = g (int64 i, bool go, float[3,2] s, float[2] u) =>
    (bool e, float[3,2] t, float[2] v) {
    f = Less (i, two) e = And (f, go) t = Sub (s, u) v = ReduceMax <keepdims = 0> (s, zero) }>
    z = Unsqueeze (w, zero) }"""
TURNS = {
    "rows": SCAN % ("scan_output_directions = [1, 0]", *[WIDTH] * 5),
    "columns": SCAN % ("scan_input_axes = [1], scan_output_axes = [1, 0]", *[ROWS] * 5),
    "backward": SCAN % ("scan_input_directions = [1], scan_output_axes = [0, -1]", *[WIDTH] * 5),
    "from the end": SCAN % ("scan_input_axes = [-1], scan_output_directions = [0, 1]", *[ROWS] * 5),
    "condition": LOOP,
}


@pytest.mark.parametrize("name", TURNS)
def test_turns(tmp_path: Path, name: str) -> None:
    """Axes and directions of a Scan, each by itself; a Loop with several states that ends by its condition, where its
    count is the largest number, as exporters write it.
    """
    size = ROWS if "input_axes" in TURNS[name] else WIDTH
    initial = ", ".join(str(0.25 * (i + 1)) for i in range(size))
    constants = f"<float[{size}] first = {{{initial}}}, int64 m = {{{2**63 - 1}}}, int64 two = {{2}},"
    constants += " int64[1] zero = {0}, bool on = {1}>"
    ends = f"(float[{ROWS},{WIDTH}] x) => (float[?,?] y, float[?,?] z)"
    program = read(tmp_path, f"{HEAD}{ends} {constants} {TURNS[name]}")
    x = np.random.default_rng(2).standard_normal((ROWS, WIDTH)).astype(np.float32)
    results = run_inference(program, {"x": x})
    for output, wanted in zip("yz", onnx_values(tmp_path, x), strict=True):
        assert_close("Gemm", results[output], wanted)


ENDS = "(float[2] x, int64 n, bool c) => (float[2] y)"
TURN = "g (int64 i, bool go, float[2] s) => (bool go, float[2] t)"
SLICE = "body = g (float p) => (float o) { o = Relu (p) }"
ON = "<bool on = {1}>"
ELSE = "else_branch = g () => (x) {}> }"
REFUSED = {
    "condition": (
        f"{{ y = If (c) <then_branch = g () => (v) {{ v = Relu (x) }}, {ELSE}",
        "input 0 ('c'), its condition, is computed at run time",
    ),
    "count": (
        f"{{ y = Loop (n, , x) <body = {TURN} {{ t = Relu (s) }}> }}",
        "input 0 ('n'), the number of its turns, is computed",
    ),
    "end": (
        "<int64 m = {3}> { y = Loop (m, , x) <body = g (int64 i, bool go, float[2] s) => (bool e, float[2] t) {"
        " t = Relu (s) r = ReduceMax <keepdims = 0> (t) k = Constant <value_float = 0.5> () e = Less (r, k) }> }",
        "whether it goes on after turn 1 is computed at run time",
    ),
    "turns": (
        f"<int64 m = {{21}}> {{ y = Loop (m, , x) <body = {TURN} {{ t = Relu (s) }}> }}",
        "it takes 21 turns or more, which are written out",
    ),
    "endless": (
        f"{{ y = Loop (, , x) <body = {TURN} {{ t = Relu (s) }}> }}",
        "it takes 21 turns or more, which are written out",
    ),
    "nested": (
        f"<int64 m = {{10}}> {{ y = Loop (m, , x) <body = {TURN} {{"
        f" t = Loop (m, , s) <body = {TURN} {{ t = Relu (s) }}> }}> }}",
        "graphs inside of nodes are written out more often than",
    ),
    "none": (
        "<int64 m = {0}> { z, o = Loop (m, , x) <body ="
        " g (int64 i, bool go, float[2] s) => (bool go, float[2] t, float[2] t) { t = Relu (s) }>"
        " y = ReduceSum <keepdims = 0> (o) }",
        "it takes no turn, so its output 1 has no elements",
    ),
    "values": (
        "<int64 m = {2}> { y = Loop (m, , x) <body = g (int64 i, bool go) => (bool go, float[2] t) { t = Relu (x) }> }",
        "its graph 'body' takes 2 values and is given 3",
    ),
    "values of no turn": (
        "<bool off = {0}> { y = Loop (, off, x) <body = g () => (float[2] t) { t = Relu (x) }> }",
        "its graph 'body' takes 0 values and is given 3",
    ),
    "results of no turn": (
        "<bool off = {0}> { y = Loop (, off, x) <body = g (int64 i, bool go, float[2] s) => (bool go) {}> }",
        "its graph 'body' gives 1 values, of which 2 are read",
    ),
    "other branch": (
        f"{ON} {{ y = If (on) <then_branch = g () => (v) {{ v = Relu (x) }},"
        " else_branch = g (float[2] s) => (s) {}> }",
        "its graph 'else_branch' takes 1 values and is given 0",
    ),
    "draws": (
        "<bool on = {1}, float half = {0.5}>"
        f" {{ y = If (on) <then_branch = g () => (v) {{ v = Dropout (x, half, on) }}, {ELSE}",
        "it drops elements at random inside of another node",
    ),
    "order": (
        f"{ON} {{ y = If (on) <then_branch = g () => (v) {{ v = Relu (r) r = Neg (x) }}, {ELSE}",
        "is not in order",
    ),
    "twice": (
        f"{ON} {{ y = If (on) <then_branch = g () => (v) <float[2] v = {{1.0, 2.0}}> {{ v = Relu (x) }}, {ELSE}",
        "has two producers of 'v'",
    ),
    "default": (
        f"{ON} {{ y = Loop (, on, x) <body = {TURN} <float[2] s = {{1.0, 2.0}}> {{ t = Relu (s) }}> }}",
        "has two producers of 's'",
    ),
    "fewer": (
        f"<int64 m = {{2}}> {{ z, y = Loop (m, , x) <body = {TURN} {{ t = Relu (s) }}> }}",
        "no graph inside gives its output 'y'; values that they give: body 2",
    ),
    "axes": (
        f"{{ y = Scan <num_scan_inputs = 1, scan_output_axes = [0, 0], {SLICE}> (x) }}",
        "it has 1 sequences as output, 2 axes and 1 directions of them",
    ),
    "directions": (
        f"{{ y = Scan <num_scan_inputs = 1, scan_input_directions = [2], {SLICE}> (x) }}",
        "scan_input_directions is (2,)",
    ),
    "integer": (
        f"<int8 on = {{1}}> {{ y = If (on) <then_branch = g () => (v) {{ v = Relu (x) }}, {ELSE}",
        "INT8",
    ),
    "word": (
        f'{ON} {{ y = If (on) <then_branch = g () => (v) {{ v = Constant <value_floats = ["a", "b"]> () }}, {ELSE}',
        "attribute 'value_floats' is of kind STRINGS",
    ),
    "nested float": (
        f"<bool on = {{1}}, float f = {{1.0}}> {{ y = If (on) <then_branch = g () => (v) {{"
        f" v = If (f) <then_branch = g () => (w) {{ w = Relu (x) }}, else_branch = g () => (x) {{}}> }}, {ELSE}",
        "FLOAT",
    ),
    "uneven": (
        f"{ON} {{ y = If (on) <then_branch = g () => (v) {{ v = Relu (x) }}, else_branch = g () => () {{}}> }}",
        "its graphs give 1 and 0 values",
    ),
    "unmade": (
        f"{ON} {{ y = If (on) <then_branch = g () => (v) {{ v = Relu (lost) }}, {ELSE}",
        "'lost' has no producer",
    ),
    "slices": (
        "<float[3,2] a = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float k = {0.5}> { y, o = Scan <num_scan_inputs = 2, body ="
        " g (float s, float p, float[2] q) => (float t, float[2] q) { t = Add (s, p) }> (k, x, a) }",
        "its sequences have [2, 3] slices",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Decisions by the model's inputs, excessive sizes and faulty graphs are refused with the reason."""
    monkeypatch.setattr(functions, "MOST_INNER", 24)
    monkeypatch.setattr(control, "MOST_TURNS", 20)
    text, reason = REFUSED[name]
    with raises(UserError, reason):
        read(tmp_path, f"{HEAD}{ENDS} {text}")


def test_what_is_not_computed_may_be_anything(tmp_path: Path) -> None:
    """The operators of a branch that is not taken are not asked for."""
    branches = "then_branch = g () => (v) { v = Relu (x) }, else_branch = g () => (v) { v = Det (x) }"
    text = f"{ON} {{ y = If (on) <{branches}> }}"
    assert ops(read(tmp_path, f"{HEAD}{ENDS} {text}")) == ["Relu"]


def test_functions_with_graphs_inside(tmp_path: Path) -> None:
    """A function of the file whose node has graphs that read the function's values and attributes."""
    text = (
        '<ir_version: 10, opset_import: ["" : 20, "own" : 1]> agraph (float[2] x) => (float[2] y)'
        " { h = own.Leaky <slope = 0.25> (x) y = own.Leaky <slope = 0.5> (h) }"
        ' <domain: "own", opset_import: ["" : 20]> Leaky <slope> (a) => (out) {'
        " n = Size (a) two = Constant <value_int = 2> () few = Equal (n, two) m = Neg (a)"
        " out = If (few) <then_branch = g () => (v) { v = LeakyRelu <alpha : float = @slope> (m) },"
        " else_branch = g () => (v) { v = Identity (a) }> }"
    )
    program = read(tmp_path, text)
    x = np.array([1.5, -2.0], np.float32)
    assert_close("Gemm", run_inference(program, {"x": x})["y"], onnx_values(tmp_path, x)[0])
