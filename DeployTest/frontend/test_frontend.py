"""Parse and check: every oddity of real graphs loads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deployer.core import artefact
from deployer.core.errors import (
    FileProblem,
    OptionProblem,
)
from deployer.core.ir import Program, TensorType
from deployer.frontend import check, parse
from deployer.frontend.dataset import data_inputs, load
from deployer.frontend.raw_graph import Source
from deployer.verify.program import verify_program
from deployer.verify.reference import run_inference, run_training, with_oracle
from DeployTest.support.graphs.small_graphs import (
    BOOL,
    BUFFER,
    DATA,
    INT64,
    OPTIMIZER,
    TRAIN,
    Case,
    Model,
    chain,
    constant,
    infer,
    losses_and_weights,
    node,
    ops,
    raises,
    value,
    with_nodes,
)

pytestmark = [pytest.mark.host, pytest.mark.training]


def test_small_case_has_roles_and_meaning(tmp_path: Path) -> None:
    program = Case().program(tmp_path)
    verify_program(program)
    assert (program.data, program.weights, program.accumulators) == (("x", "t"), ("w",), (BUFFER,))
    assert (program.flag, program.outputs, program.updated) == (
        "lazy_reset_grad",
        ("loss",),
        {"w_updated": "w"},
    )
    assert [g.name for g in program.graphs] == ["train", "optimizer"]
    assert program.tensors["loss"].type == TensorType("float32", ())
    assert program.storage("w_out") == BUFFER
    assert program.storage("w_updated") == "w"
    assert artefact.from_jsonable(Program, artefact.to_jsonable(program)) == program


def test_small_case_trains(tmp_path: Path) -> None:
    program = Case().program(tmp_path)
    folder = Case().dataset(tmp_path)
    losses, weights = losses_and_weights(program, folder)
    dataset = load(folder, program)
    w = dataset.weights["w"].astype(np.float64)
    expected = []
    for update in range(2):
        total = np.zeros_like(w)
        for b in (0, 1):
            x, t = (a.astype(np.float64) for a in dataset.sample(2 * update + b))
            error = x @ w.T - t
            expected.append((error**2).mean())
            total += 2 / error.size * error.T @ x
        w -= 0.25 * total
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    np.testing.assert_allclose(weights["w"], w, atol=1e-5)
    oracle = with_oracle(program, dataset)
    np.testing.assert_allclose(oracle.expected_losses, expected, rtol=1e-7)


def test_source_round_trip(tmp_path: Path) -> None:
    train = TRAIN.save(tmp_path / "m_train" / "network.onnx")
    source = parse.read_graphs(train, OPTIMIZER.save(tmp_path / "m_optimizer" / "network.onnx"))
    assert artefact.from_jsonable(Source, artefact.to_jsonable(source)) == source


def test_options_of_a_field_come_in_any_order() -> None:
    """A value is what one of the options of its field takes, wherever None and classes stand among them."""
    for hint in (int | str | None, None | int | str, TensorType | None | int | str, str | TensorType | int):
        assert [artefact.from_jsonable(hint, x) for x in (3, "a")] == [3, "a"]
        with pytest.raises((TypeError, ValueError)):
            artefact.from_jsonable(hint, [3])


def test_unsorted_graph_is_sorted_and_stable(tmp_path: Path) -> None:
    straight = Case().program(tmp_path)
    reverse = Case(train=replace(TRAIN, nodes=TRAIN.nodes[::-1])).program(tmp_path)
    assert sorted(ops(reverse)) == sorted(ops(straight))
    verify_program(reverse)
    for seed in range(10):
        shuffled = [TRAIN.nodes[i] for i in np.random.default_rng(seed).permutation(5)]
        assert sorted(ops(Case(train=replace(TRAIN, nodes=shuffled)).program(tmp_path))) == sorted(ops(straight))
    assert ops(straight) == ["Gemm", "MSELoss", "MSELossGrad", "Gemm", "InPlaceAccumulatorV2"]


def test_duplicate_opsets_and_both_domains(tmp_path: Path) -> None:
    nodes = [helper.make_node(n.op_type, n.input, n.output, n.name) for n in TRAIN.nodes]
    nodes[0].attribute.add(name="transB", i=1, type=onnx.AttributeProto.INT)
    nodes[3].attribute.add(name="transA", i=1, type=onnx.AttributeProto.INT)
    opsets = (("", 21), ("", 21), ("", 15), ("com.microsoft", 1), ("com.microsoft", 1))
    same = Case(train=replace(TRAIN, nodes=nodes, opsets=opsets)).program(tmp_path)
    assert same == Case().program(tmp_path)


@pytest.mark.parametrize("axes", [0, [0], [-2], (1, 0)])
def test_axes_as_attribute_or_input(tmp_path: Path, axes: object) -> None:
    listed = [axes] if isinstance(axes, int) else list(axes)  # type: ignore[call-overload]
    attribute = infer(tmp_path, chain(node("ReduceSum", ("x",), ("y",), axes=axes, keepdims=0)))
    initializers = (constant("axes", np.array(listed)),)
    as_input = infer(tmp_path, chain(node("ReduceSum", ("x", "axes"), ("y",), keepdims=0), initializers=initializers))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = x.sum(tuple(listed))
    for program in (attribute, as_input):
        verify_program(program)
        np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], expected)
    assert "axes" not in as_input.tensors


def test_partial_and_unknown_value_infos(tmp_path: Path) -> None:
    infos = (value("y", ("batch", 4)), value("w_grad", None), value("y_grad", (2, 4), 0))
    assert Case(train=replace(TRAIN, infos=infos)).program(tmp_path) == Case().program(tmp_path)


def test_untrusted_flag_output(tmp_path: Path) -> None:
    for shape in ((1,), (4, 3), (9, 9)):
        outputs = (TRAIN.outputs[0], value("w_out", shape, BOOL))
        assert Case(train=replace(TRAIN, outputs=outputs)).program(tmp_path).tensors["w_out"].type.dtype == "float32"


def test_loss_of_one_element_may_be_declared_with_another_rank(tmp_path: Path) -> None:
    program = Case(train=replace(TRAIN, outputs=(value("loss", (1,)), TRAIN.outputs[1]))).program(tmp_path)
    assert program.tensors["loss"].type.shape == ()


def test_empty_optional_names(tmp_path: Path) -> None:
    program = infer(
        tmp_path,
        chain(node("Gemm", ("x", "w", ""), ("y",)), initializers=(constant("w", np.eye(3, dtype="f4")),)),
    )
    assert program.nodes[0].inputs == ("x", "w")
    verify_program(program)


def test_unnamed_and_repeated_node_names(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        node("Relu", ("a",), ("b",), "r"),
        node("Relu", ("b",), ("y",), "r"),
    ]
    assert [n.name for n in infer(tmp_path, chain(*nodes)).nodes] == ["Relu_a", "r", "r_2"]


@pytest.mark.parametrize(
    ("attrs", "kind"),
    [
        ({"value": helper.make_tensor("t", TensorProto.FLOAT, (1,), [2.0])}, "float32[1]"),
        ({"value_float": 2.0}, "float32[]"),
        ({"value_floats": [2.0, 2.0, 2.0]}, "float32[3]"),
        ({"value": helper.make_tensor("t", TensorProto.DOUBLE, (), [2.0])}, "float32[]"),
        ({"value": helper.make_tensor("t", TensorProto.FLOAT16, (3,), np.full(3, 2, "f2"))}, "float32[3]"),
    ],
)
def test_constant_forms(tmp_path: Path, attrs: dict[str, object], kind: str) -> None:
    program = infer(tmp_path, chain(node("Constant", (), ("c",), **attrs), node("Mul", ("x", "c"), ("y",))))
    assert ops(program) == ["Mul"]
    assert str(program.tensors["c"].type) == kind
    assert program.tensors["c"].role == "constant"
    np.testing.assert_array_equal(run_inference(program, {"x": np.ones((2, 3), "f4")})["y"], np.full((2, 3), 2))


@pytest.mark.parametrize("attrs", [{"value_int": -1}, {"value_ints": [3, -1]}])
def test_integer_constants_become_shapes(tmp_path: Path, attrs: dict[str, object]) -> None:
    program = infer(tmp_path, chain(node("Constant", (), ("s",), **attrs), node("Reshape", ("x", "s"), ("y",))))
    assert ops(program) == []
    assert program.storage("y") == "x"
    verify_program(program)


def test_shape_feeds_reshape(tmp_path: Path) -> None:
    nodes = (
        node("Flatten", ("x",), ("f",), axis=1),
        node("Relu", ("f",), ("r",)),
        node("Shape", ("x",), ("s",)),
        node("Reshape", ("r", "s"), ("y",)),
    )
    program = infer(tmp_path, chain(*nodes, x=(2, 3, 1, 1)))
    assert ops(program) == ["Relu"]
    assert program.tensors["y"].type.shape == (2, 3, 1, 1)
    assert (program.storage("f"), program.storage("y")) == ("x", "r")
    verify_program(program)


def test_constants_fold_and_large_ones_do_not(tmp_path: Path) -> None:
    nodes = (
        node("Relu", ("c",), ("r",)),
        node("Reshape", ("r", "s"), ("v",)),
        node("Add", ("x", "v"), ("y",)),
    )
    for size, expected in ((6, ["Add"]), (600_000, ["Relu", "Add"])):
        initializers = (constant("c", np.full(size, -1, "f4")), constant("s", np.array([2, -1])))
        program = infer(tmp_path, chain(*nodes, x=(2, size // 2), initializers=initializers))
        assert ops(program) == expected
        verify_program(program)


def test_view_of_a_constant_is_a_constant(tmp_path: Path) -> None:
    initializers = (constant("c", np.ones(600_000, "f4")), constant("s", np.array([2, 300_000])))
    nodes = (node("Reshape", ("c", "s"), ("v",)), node("Add", ("x", "v"), ("y",)))
    program = infer(tmp_path, chain(*nodes, x=(2, 300_000), initializers=initializers))
    assert program.tensors["v"].role == "constant"
    assert "c" not in program.tensors


def test_chains_of_views_and_views_as_outputs(tmp_path: Path) -> None:
    nodes = (
        node("Identity", ("x",), ("a",)),
        node("Unsqueeze", ("a",), ("b",), axes=[0]),
        node("Relu", ("b",), ("r",)),
        node("Squeeze", ("r",), ("c",), axes=0),
        node("Flatten", ("c",), ("y",), axis=0),
    )
    program = infer(tmp_path, chain(*nodes))
    verify_program(program)
    assert ops(program) == ["Relu"]
    assert (program.storage("b"), program.storage("y")) == ("x", "r")
    x = np.array([[-1, 2, -3], [4, -5, 6]], "f4")
    np.testing.assert_array_equal(run_inference(program, {"x": x})["y"], [[0, 2, 0, 4, 0, 6]])


def test_lowering_reaches_kernels(tmp_path: Path) -> None:
    nodes = (node("SoftmaxCrossEntropyLoss", ("x", "labels"), ("y", "")),)
    program = infer(tmp_path, Model(nodes, (value("x", (2, 3)), value("labels", (2,), INT64)), (value("y", ()),)))
    assert ops(program) == ["LogSoftmax", "NegativeLogLikelihoodLoss"]
    verify_program(program)


def test_unused_initializers_and_dead_nodes_vanish(tmp_path: Path) -> None:
    unused = (
        constant("loss_grad", np.float32(1)),
        helper.make_tensor("odd", TensorProto.BFLOAT16, (1,), [1]),
    )
    train = with_nodes(
        TRAIN, node("Relu", ("y",), ("dead",)), node("NoSuchOp", ("dead",), ("deader",)), initializers=unused
    )
    assert Case(train=train).program(tmp_path) == Case().program(tmp_path)


def test_further_outputs_of_a_training_graph_are_not_kept(tmp_path: Path) -> None:
    train = with_nodes(TRAIN, node("Relu", ("y",), ("r",)), outputs=(*TRAIN.outputs, value("r", None)))
    assert Case(train=train).program(tmp_path) == Case().program(tmp_path)


def test_constants_among_the_inputs_of_the_optimizer(tmp_path: Path) -> None:
    """Initializers that it lists as inputs, first and last, are constants; the others keep their types."""
    inputs = (value("first", (1,)), *OPTIMIZER.inputs, value("last", (1,)))
    initializers = (constant("first", np.array([0.5], "f4")), constant("last", np.array([2], "f4")))
    nodes = (
        node("Mul", (BUFFER, "first"), ("half",)),
        node("Mul", ("half", "last"), ("g",)),
        node("SGD", ("w", "g"), ("w_updated",), lr=0.25),
    )
    optimizer = replace(OPTIMIZER, nodes=nodes, inputs=inputs, initializers=initializers)
    program = Case(optimizer=optimizer).program(tmp_path)
    assert (program.data, program.weights, program.accumulators) == (("x", "t"), ("w",), (BUFFER,))
    assert program.tensors["w_updated"].type == TensorType("float32", (4, 3))


def test_initializer_that_is_also_an_input_is_a_constant(tmp_path: Path) -> None:
    model = chain(node("Mul", ("x", "c"), ("y",)), initializers=(constant("c", np.float32(2)),))
    program = infer(tmp_path, replace(model, inputs=(*model.inputs, value("c", ()))))
    assert program.data == ("x",)


def test_accumulator_without_an_output_name(tmp_path: Path) -> None:
    bare = helper.make_node("InPlaceAccumulatorV2", TRAIN.nodes[4].input, [], "acc")
    train = replace(TRAIN, nodes=(*TRAIN.nodes[:4], bare), outputs=TRAIN.outputs[:1])
    program = Case(train=train).program(tmp_path)
    verify_program(program)
    assert program.storage(program.graphs[0].nodes[-1].outputs[0]) == BUFFER


def test_private_names_of_the_optimizer_are_renamed(tmp_path: Path) -> None:
    optimizer = replace(OPTIMIZER, nodes=(node("SGD", ("w", BUFFER), ("y",), "fc"),), outputs=(value("y", (4, 3)),))
    program = Case(optimizer=optimizer).program(tmp_path)
    assert program.updated == {"optimizer/y": "w"}
    assert program.graphs[1].nodes[0].name == "optimizer/fc"
    verify_program(program)


def test_frozen_parameter_as_graph_input(tmp_path: Path) -> None:
    gemm = node("Gemm", ("x", "w", "b"), ("y",), "fc", transB=1)
    inputs = (*TRAIN.inputs[:2], value("b", (4,)), *TRAIN.inputs[2:])
    case = Case(train=replace(TRAIN, nodes=(gemm, *TRAIN.nodes[1:]), inputs=inputs))
    program = case.program(tmp_path, data_inputs=2)
    assert (program.data, program.weights) == (("x", "t"), ("b", "w"))
    verify_program(program)
    assert case.program(tmp_path).data == ("x", "t", "b")
    with raises(OptionProblem, "3, before 'w'"):
        case.program(tmp_path, data_inputs=4)


def test_learning_rate_override(tmp_path: Path) -> None:
    program = Case().program(tmp_path, learning_rate=0.5)
    assert program.graphs[1].nodes[0].attrs["lr"] == 0.5


def test_external_data(tmp_path: Path) -> None:
    model = chain(node("Mul", ("x", "c"), ("y",)), initializers=(constant("c", np.full((2, 3), 2, "f4")),))
    path = model.save(tmp_path / "network.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    program = check.check_program(parse.read_graphs(path, None))
    np.testing.assert_array_equal(program.tensors["c"].array, np.full((2, 3), 2))
    (tmp_path / "weights.bin").unlink()
    with raises(FileProblem, str(path), "weights.bin", "put the external data file into"):
        parse.read_graphs(path, None)


def real_case(name: str) -> Path:
    """The training folder of a published case; skips where it is absent."""
    case = DATA / "training" / name
    if not case.is_dir():
        pytest.skip(f"{case} is absent")
    return parse.train_dir(case)


@pytest.mark.parametrize(
    ("name", "nodes", "weights", "constants"),
    [("SimpleMLP", 10, 2, ["fc1_bias", "fc2_bias"]), ("Autoencoder", 48, 14, [])],
)
def test_real_case(name: str, nodes: int, weights: int, constants: list[str]) -> None:
    folder = real_case(name)
    source = parse.read_graphs(folder / "network.onnx", parse.optimizer_dir(folder) / "network.onnx")
    program = check.check_program(source, data_inputs=data_inputs(folder))
    verify_program(program)
    assert artefact.dumps(program) == artefact.dumps(check.check_program(source, data_inputs=2))
    assert [len(g.nodes) for g in program.graphs] == [nodes, weights]
    assert len(program.weights) == len(program.accumulators) == len(program.updated) == weights
    assert [t.name for t in program.tensors.values() if t.role == "constant"] == constants
    assert program.tensors[program.outputs[0]].type == TensorType("float32", ())
    dataset = load(folder, program)
    for dtype in (np.float32, np.float64):
        losses, finals = run_training(program, dataset, dtype)
        np.testing.assert_allclose(losses, dataset.expected_losses, atol=1e-5, rtol=0)
        assert set(finals) == set(dataset.expected_weights)
        for key, expected in dataset.expected_weights.items():
            np.testing.assert_allclose(finals[key], expected, atol=1e-5, rtol=0)
