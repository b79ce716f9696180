"""Operator versions: every operator in every version of ONNX means what the file's imports say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from deployer.core.errors import ShapeMismatch, UnsupportedOperator, UserError
from deployer.core.ir import AttrValue, Node
from deployer.core.operator import Array, Operator, file_of, registry
from deployer.core.samples import Sample
from deployer.verify.reference import run_inference
from DeployTest.frontend.file_nodes import FileNode, file_node, ours, theirs, variants
from DeployTest.support.graphs.small_graphs import BOOL, INT64, Model, chain, constant, infer, node, raises, value
from DeployTest.support.tolerances import assert_close

pytestmark = [pytest.mark.host, pytest.mark.models]

NEWEST = onnx.defs.onnx_opset_version()
LARGEST = 1500
"""Elements of an operand up to which a sample is worth a session of ONNX Runtime."""
FEW = 3
"""Samples in a version that the operator takes as it is; of others all count."""

UNKNOWN = {
    ("Cast", 1): "it has the name of a type, which nobody reads",
    ("Tile", 1): "its inputs tiles and axis are read by nobody",
    ("Scatter", 11): "ONNX deprecates it there",
    ("Resize", 10): "it has other inputs, and pixels in another place",
    **dict.fromkeys((("LSTM", 1), ("GRU", 1), ("GRU", 3), ("RNN", 1)), "output_sequence says which outputs there are"),
}
"""Versions that are refused, and why."""


def _history() -> list[tuple[Operator, int]]:
    schemas = onnx.defs.get_all_schemas_with_history()
    versions = sorted({(s.name, s.since_version) for s in schemas if s.domain == "" and s.name in registry()})
    return [(registry()[name], version) for name, version in versions]


HISTORY = _history()
ROUNDED_BY_OTHERS = {"MeanVarianceNormalization": "far"}
"""Samples on which ONNX Runtime loses digits, here by a rounded mean of a hundred deviations: the meaning in float64
judges those."""


@pytest.mark.matrix(keep=120)
@pytest.mark.parametrize(("operator", "version"), HISTORY, ids=[f"{op.name}-{version}" for op, version in HISTORY])
def test_every_version_means_what_onnxruntime_says(operator: Operator, version: int, tmp_path: Path) -> None:
    """Accepted nodes give the values of others, the rest is refused by name; at least one is accepted."""
    accepted = 0
    for number, sample in enumerate(operator.samples()):
        sample_node = file_node(operator, sample, version)
        rounded = sample.label == ROUNDED_BY_OTHERS.get(operator.name)
        small = sample_node is not None and all(x.size <= LARGEST for x in sample_node.values.values())
        newest = version in file_of(operator).versions
        if sample_node is None or not small or (number >= FEW and newest and not rounded):
            continue
        most = (2 if version in file_of(operator).older else 1) if number == 0 else 0
        for variant in variants(sample_node, most) if most else [sample_node]:
            accepted += _means_the_same(operator, variant, tmp_path, _meaning(operator, sample) if rounded else None)
    assert (accepted > 0) != ((operator.name, version) in UNKNOWN)


def _meaning(operator: Operator, sample: Sample) -> Array:
    """The first output in float64."""
    inputs = [None if x is None else x.astype(np.float64) for x in sample.inputs]
    return np.asarray(operator.reference(Node("meaning", operator.name, (), (), sample.attrs), inputs)[0])


def _means_the_same(operator: Operator, variant: FileNode, folder: Path, meaning: Array | None = None) -> bool:
    """False where the compiler refuses the node by name; `meaning` judges it in place of another runtime."""
    try:
        actual = ours(variant.model(), variant.feed(), folder)
    except UserError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert f"({operator.name})" in refusal or "'y0' has no elements" in refusal
        return False
    expected = theirs(variant) if meaning is None else meaning
    assert expected is not None, f"nobody else knows {operator.name} {variant.attrs}"
    if variant.attrs.get("sorted", 1) == 0:  # any order will do
        actual, expected = np.sort(actual, axis=None), np.sort(expected, axis=None)
    assert_close(operator.name, actual, expected.astype(actual.dtype))
    return True


@pytest.mark.parametrize("name", sorted(name for name, op in registry().items() if file_of(op).versions))
def test_declared_versions_exist(name: str) -> None:
    """A version that ONNX does not have is a slip of the pen; one that ONNX deprecates is not among them."""
    operator = registry()[name]
    versions = {version for op, version in HISTORY if op is operator}
    assert {*file_of(operator).versions, *file_of(operator).older} <= versions
    assert set(file_of(operator).versions).isdisjoint(file_of(operator).older)


@pytest.mark.parametrize(("opset", "size", "right"), [(13, 4, True), (13, 5, False), (17, 4, True), (18, 4, False)])
def test_split_in_equal_parts(opset: int, size: int, right: bool, tmp_path: Path) -> None:
    """From version 18 on `either input 'split' or the attribute 'num_outputs' should be specified`."""
    split = node("Split", ("x",), ("a", "b"), axis=1)
    model = chain(split, node("Sub", ("a", "b"), ("y",)), x=(2, size), opsets=(("", opset),))
    if not right:
        with raises(UserError, "(Split)", "neither" if opset == 18 else "5 elements do not make 2 equal parts"):
            infer(tmp_path, model)
        return
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(run_inference(infer(tmp_path, model), {"x": x})["y"], x[:, :2] - x[:, 2:])


@pytest.mark.parametrize("opset", [6, 7, 10, 12, 13])
def test_mask_of_dropout(opset: int, tmp_path: Path) -> None:
    """Nothing is dropped, so that all of it is 1; before version 12 nothing says what it is, and nobody may read it."""
    attrs = {"is_test": 1} if opset < 7 else {}
    plain = Model(
        (node("Dropout", ("x",), ("y", "mask"), **attrs),),
        (value("x", (2, 3)),),
        (value("y", (2, 3)),),
        opsets=(("", opset),),
    )
    infer(tmp_path, plain)
    read = replace(plain, outputs=(value("mask", (2, 3), BOOL),))
    if opset < 12:
        with raises(UnsupportedOperator, "(Dropout)", "reads its output 1 ('mask')"):
            infer(tmp_path, read)
        return
    mask = run_inference(infer(tmp_path, read), {"x": np.ones((2, 3), np.float32)})["mask"]
    np.testing.assert_array_equal(mask, np.ones((2, 3), np.int32))


def _softmax(op: str, opset: int, **attrs: AttrValue) -> Model:
    weight = constant("w", np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32))
    nodes = (node("MatMul", ("x", "w"), ("s",)), node(op, ("s",), ("y",), **attrs))
    return chain(*nodes, x=(1, 3, 4), initializers=(weight,), opsets=(("", opset),))


@pytest.mark.parametrize("opset", [1, 7, 11, 12, 13, 17, 21])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("attrs", [{"axis": 1}, {}, {"axis": 0}, {"axis": -1}, {"axis": 2}])
def test_softmax_over_several_axes(tmp_path: Path, op: str, attrs: dict[str, AttrValue], opset: int) -> None:
    """Before version 13 all axes from `axis` on are one; from 13 on `axis` is alone, by default the last."""
    model = _softmax(op, opset, **attrs)
    x = np.random.default_rng(4).standard_normal((1, 3, 4)).astype(np.float32)
    actual = run_inference(infer(tmp_path, model), {"x": x})["y"]
    session = onnxruntime.InferenceSession(str(tmp_path / "network.onnx"))
    assert_close(op, actual, session.run(None, {"x": x})[0])


DOCUMENTED = (
    ((), {}),
    ((1, 1), {}),
    ((5,), {}),
    ((4, 5), {}),
    ((3, 4), {"axis": 1}),
    ((2,), {"axis": 0}),
)
"""Shapes of B with A [2, 3, 4, 5], and attributes: the examples in ONNX's text of Add before version 7."""


@pytest.mark.parametrize(("shape", "attrs"), DOCUMENTED)
@pytest.mark.parametrize(("op", "opset"), [("Add", 1), ("Add", 6), ("Sub", 6), ("Mul", 6), ("Div", 6), ("Pow", 6)])
def test_limited_broadcast(tmp_path: Path, op: str, opset: int, shape: tuple[int, ...], attrs: dict[str, int]) -> None:
    """B is a run of A's axes from `axis` on: neither ONNX Runtime nor ONNX's converter knows that form."""
    functions = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
    r = np.random.default_rng(5)
    a, b = (np.abs(r.standard_normal(s)).astype(np.float32) + np.float32(0.5) for s in ((2, 3, 4, 5), shape))
    axis = attrs.get("axis", 4 - len(shape))
    behind = b.reshape(*shape, *[1] * (4 - axis - len(shape))) if b.size > 1 else b
    model = Model(
        (node(op, ("a", "b"), ("y",), broadcast=1, **attrs),),
        (value("a", a.shape), value("b", shape)),
        (value("y", a.shape),),
        opsets=(("", opset),),
    )
    actual = run_inference(infer(tmp_path, model), {"a": a, "b": b})["y"]
    assert_close(op, actual, functions[op](a, behind))
    if b.size > 1:
        with raises(ShapeMismatch, f"({op})", "broadcasts only where `broadcast` is 1"):
            infer(tmp_path, replace(model, nodes=(node(op, ("a", "b"), ("y",), **attrs),)))
        with raises(ShapeMismatch, f"({op})", "B's axes are not those of A from axis 7 on"):
            infer(tmp_path, replace(model, nodes=(node(op, ("a", "b"), ("y",), broadcast=1, axis=7),)))


def test_one_meaning_under_several_imports(tmp_path: Path) -> None:
    """Imports of one domain may differ where the node means the same; where not, both versions are named."""
    both = (("", 13), ("ai.onnx", 11))
    last = infer(tmp_path, replace(_softmax("Softmax", 11, axis=-1), opsets=both))
    assert last == infer(tmp_path, _softmax("Softmax", 13, axis=-1))
    with raises(UnsupportedOperator, "(Softmax)", "in version 11 of the operator", "another in version 13"):
        infer(tmp_path, replace(_softmax("Softmax", 11, axis=1), opsets=both))
    nodes = (node("ReduceMean", ("x",), ("y",), axes=[1]),)
    model = replace(chain(*nodes), opsets=(("", 13), ("", 18)))
    with raises(UnsupportedOperator, "(ReduceMean)", "version 18", "of 13, 18 that the file imports", "'axes'"):
        infer(tmp_path, model)
    infer(tmp_path, replace(model, opsets=(("", 13), ("", 17))))


def test_imports_that_say_too_little(tmp_path: Path) -> None:
    """No import, versions that ONNX does not have or does not have yet, operators that came later or went."""
    relu = chain(node("Relu", ("x",), ("y",)))
    for opset in (0, -3, NEWEST + 1, 10**9):
        with raises(UnsupportedOperator, "(Relu)", f"version {opset} of the default domain", f"1 to {NEWEST}"):
            infer(tmp_path, replace(relu, opsets=(("", opset),)))
        with raises(UnsupportedOperator, "(ReluGrad)", f"version {opset} of the default domain"):
            infer(tmp_path, replace(chain(node("ReluGrad", ("x", "x"), ("y",))), opsets=(("", opset),)))
    infer(tmp_path, replace(relu, opsets=(("", NEWEST),)))
    with raises(UnsupportedOperator, "(Relu)", "imports no version of the default domain"):
        infer(tmp_path, replace(relu, opsets=(("com.microsoft", 1),)))
    with raises(UnsupportedOperator, "(Expand)", "version 7", "has no such operator"):
        shape = constant("s", np.array([2, 3]))
        infer(tmp_path, chain(node("Expand", ("x", "s"), ("y",)), initializers=(shape,), opsets=(("", 7),)))
    with raises(UnsupportedOperator, "(ReluGrad)", "version 2 of domain com.microsoft"):
        grad = node("ReluGrad", ("x", "x"), ("y",), domain="com.microsoft")
        infer(tmp_path, chain(grad, opsets=(("", 17), ("com.microsoft", 2))))


def test_a_version_that_nobody_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an operator of a newer opset names the supported versions."""
    relu = registry()["Relu"]
    monkeypatch.setattr(type(relu), "file", replace(file_of(relu), versions=(6, 13)))
    with raises(
        UnsupportedOperator, "(Relu)", "version 14 of the operator is not known", "version 1 or 6 or 13 of Relu"
    ):
        infer(tmp_path, chain(node("Relu", ("x",), ("y",))))


def test_gelu_before_and_after_onnx_had_it(tmp_path: Path) -> None:
    """A custom operator in the default domain stays one under an import that has no such operator."""
    gelu = chain(node("Gelu", ("x",), ("y",)))
    programs = [
        infer(tmp_path, replace(gelu, opsets=opsets)) for opsets in ((("", 13),), (("", 21),), (("", 21), ("", 17)))
    ]
    assert programs[0] == programs[1] == programs[2]
    tanh = chain(node("Gelu", ("x",), ("y",), approximate="tanh"), opsets=(("", 21), ("", 17)))
    with raises(UnsupportedOperator, "(Gelu)", "version 17", "attribute 'approximate' is unknown"):
        infer(tmp_path, tanh)


@pytest.mark.parametrize(
    ("opset", "mode", "known"), [(16, "bilinear", True), (16, "linear", False), (20, "linear", True)]
)
def test_modes_of_a_grid(opset: int, mode: str, known: bool, tmp_path: Path) -> None:
    """A later version's name of a mode means nothing in an earlier one, as ONNX Runtime has it."""
    grid = constant("grid", np.zeros((1, 2, 2, 2), np.float32))
    sample = node("GridSample", ("x", "grid"), ("y",), mode=mode)
    model = chain(sample, x=(1, 1, 3, 3), initializers=(grid,), opsets=(("", opset),))
    if known:
        infer(tmp_path, model)
    else:
        with raises(UserError, "mode is 'linear' in version 16"):
            infer(tmp_path, model)


OLD_MODEL = (
    node("Slice", ("x",), ("cut",), starts=[0], ends=[6], axes=[1]),
    node("MatMul", ("cut", "w"), ("s",)),
    node("Clip", ("s",), ("c",), max=1.5),
    node("Dropout", ("c",), ("d",), ratio=0.3),
    node("Reshape", ("d", "shape"), ("r",)),
    node("Softmax", ("r",), ("p",), axis=1),
    node("Unsqueeze", ("p",), ("u",), axes=[1]),
    node("ReduceMean", ("u",), ("m",), axes=[1, 3], keepdims=0),
    node("Squeeze", ("m",), ("y",), axes=[0]),
)
"""Nodes whose form or meaning changed after opset 9."""


def test_training_graph_of_an_old_model(tmp_path: Path) -> None:
    """A model of opset 9 becomes a training graph of a newer one with the same forward meaning."""
    from deployer.training import train_graph

    r = np.random.default_rng(6)
    initializers = (
        constant("w", r.standard_normal((6, 8)).astype(np.float32)),
        constant("shape", np.array([1, 4, 4], np.int64)),
    )
    model = Model(OLD_MODEL, (value("x", (2, 7)),), (value("y", (4,)),), initializers, opsets=(("", 9),))
    path = model.save(tmp_path / "old.onnx")
    x, target = r.standard_normal((3, 2, 7)).astype(np.float32), np.zeros((3, 4), np.float32)
    report = train_graph.build_train_graph(path, "mse", "sgd", 1e-3, "", tmp_path, data={"x": x, "target": target})
    session = onnxruntime.InferenceSession(str(path))
    first = float(np.mean(np.square(session.run(None, {"x": x[0]})[0].astype(np.float64))))
    assert_close("MSELoss", np.array(report.losses[0], np.float32), np.array(first, np.float32))
    model_file = onnx.load(str(report.train / "network.onnx"))
    standard = [n for n in model_file.graph.node if n.domain == "" and onnx.defs.has(n.op_type)]
    for item in standard:
        onnx.checker.check_node(item, _context(model_file))
    assert INT64 in {t.data_type for t in model_file.graph.initializer}


@pytest.mark.parametrize("opset", [18, 20])
def test_scale_of_a_group(opset: int, tmp_path: Path) -> None:
    """Before version 21 of the set GroupNormalization has a scale and a bias per group; a training graph keeps that."""
    from deployer.training import train_graph

    r = np.random.default_rng(8)
    factors = [constant(name, r.standard_normal(2).astype(np.float32)) for name in ("scale", "bias")]
    weight = constant("w", r.standard_normal((4, 4, 1, 1)).astype(np.float32))
    nodes = (
        node("Conv", ("x", "w"), ("h",)),
        node("GroupNormalization", ("h", "scale", "bias"), ("y",), num_groups=2),
    )
    model = chain(*nodes, x=(2, 4, 3, 5), initializers=[weight, *factors], opsets=(("", opset),))
    path = model.save(tmp_path / "groups.onnx")
    x = r.standard_normal((2, 2, 4, 3, 5)).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x[0]})
    assert_close("GroupNormalization", run_inference(infer(tmp_path, model), {"x": x[0]})["y"], expected)
    data = {"x": x, "target": np.zeros_like(x)}
    report = train_graph.build_train_graph(path, "mse", "sgd", 1e-3, "", tmp_path, data=data)
    first = np.mean(np.square(expected.astype(np.float64))).astype(np.float32)
    assert_close("MSELoss", np.array(report.losses[0], np.float32), np.array(first))
    wrong = [weight, *(constant(name, np.ones(4, np.float32)) for name in ("scale", "bias"))]
    with raises(ShapeMismatch, "(GroupNormalization): scale and bias are not of shape [2]"):
        infer(tmp_path, replace(model, initializers=tuple(wrong)))


def _context(model: onnx.ModelProto) -> onnx.checker.C.CheckerContext:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {o.domain: o.version for o in model.opset_import}
    return context
