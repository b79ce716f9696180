"""Parse and check: every fault of a file or a graph is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deployer import pipeline
from deployer.codegen import generate
from deployer.core.errors import (
    DeployerError,
    FileProblem,
    GraphProblem,
    OptionProblem,
    ShapeMismatch,
    UnsupportedOperator,
)
from deployer.core.plan import Options
from deployer.frontend import parse
from deployer.verify.program import verify_program
from DeployTest.support.graphs.small_graphs import (
    BUFFER,
    INT64,
    OPTIMIZER,
    TRAIN,
    Case,
    Model,
    chain,
    constant,
    infer,
    node,
    raises,
    value,
    with_nodes,
)

pytestmark = [pytest.mark.host, pytest.mark.training]


def test_files_that_are_no_graph(tmp_path: Path) -> None:
    graph_bytes = TRAIN.save(tmp_path / "whole.onnx").read_bytes()
    cases = {
        "empty": b"",
        "text": b"hello, this is not a graph at all\n",
        "cut": graph_bytes[: len(graph_bytes) // 2],
        "zeros": bytes(64),
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with raises(FileProblem, str(tmp_path / name), f"{len(content)} B", "try"):
            parse.read_graphs(tmp_path / name, None)
    with raises(FileProblem, "does not exist"):
        parse.read_graphs(tmp_path / "absent", None)
    with raises(FileProblem, "is a folder"):
        parse.read_graphs(tmp_path, None)


def test_missing_optimizer(tmp_path: Path) -> None:
    train = TRAIN.save(tmp_path / "m_train" / "network.onnx")
    path = tmp_path / "m_optimizer" / "network.onnx"
    assert parse.optimizer_dir(train.parent) == path.parent
    with raises(FileProblem, "optimizer graph is missing", str(path)):
        parse.read_graphs(train, None)
    with raises(FileProblem, str(path), "does not exist"):
        parse.read_graphs(train, path)


def test_case_folder(tmp_path: Path) -> None:
    train = TRAIN.save(tmp_path / "a_train" / "network.onnx").parent
    assert parse.train_dir(train) == parse.train_dir(tmp_path) == train
    (tmp_path / "b_train").mkdir()
    with raises(FileProblem, "holds 2 *_train folders", "a_train, b_train"):
        parse.train_dir(tmp_path)
    with raises(FileProblem, "network.onnx does not exist"):
        parse.train_dir(tmp_path / "b_train")
    with raises(FileProblem, "is not a folder"):
        parse.train_dir(tmp_path / "c")


def test_two_producers(tmp_path: Path) -> None:
    with raises(GraphProblem, "'y' has two producers", "node 'fc' (Gemm)", "node 'again' (Relu)"):
        Case(train=with_nodes(TRAIN, node("Relu", ("x",), ("y",), "again"))).program(tmp_path)
    with raises(GraphProblem, "'x' has two producers", "a graph input"):
        Case(train=with_nodes(TRAIN, node("Relu", ("y",), ("x",)))).program(tmp_path)
    twice = node("Constant", (), ("c",), value_float=1.0)
    with raises(GraphProblem, "'c' has two producers", "constants"):
        infer(tmp_path, chain(twice, twice, node("Mul", ("x", "c"), ("y",))))


def test_missing_producer(tmp_path: Path) -> None:
    with raises(GraphProblem, "'y_gra' has no producer", "node 'Relu_r'", "rename it to 'y_grad'"):
        Case(train=with_nodes(TRAIN, node("Relu", ("y_gra",), ("r",)))).program(tmp_path)
    with raises(GraphProblem, "'y' has no producer", "graph outputs"):
        infer(tmp_path, chain(node("Relu", ("x",), ("z",))))


def test_cycle(tmp_path: Path) -> None:
    nodes = (node("Add", ("x", "c"), ("a",)), node("Relu", ("a",), ("b",)), node("Relu", ("b",), ("c",)))
    with raises(GraphProblem, "cycle of 3 nodes", "Add_a -> Relu_b -> Relu_c -> Add_a"):
        infer(tmp_path, chain(*nodes, node("Relu", ("c",), ("y",))))


def test_empty_names(tmp_path: Path) -> None:
    """An empty name stands for what is left out, so that a value which has it is nobody's."""
    graph = chain(node("Relu", ("x",), ("y",)), node("Constant", (), ("",), value_float=1.0))
    with raises(GraphProblem, "output 1 of the", "has no name"):
        infer(tmp_path, replace(graph, outputs=(*graph.outputs, value("", ()))))
    with raises(GraphProblem, "input 1 of the", "has no name"):
        infer(tmp_path, replace(graph, inputs=(*graph.inputs, value("", (1,)))))
    with raises(GraphProblem, "initializers without name", "the one at 0"):
        infer(tmp_path, replace(graph, initializers=[constant("", np.ones(3, np.float32))]))


@pytest.mark.parametrize(
    ("shape", "array"),
    [
        ((), np.zeros(1, np.float32)),
        *(((3,), np.zeros(3, kind)) for kind in (np.int64, np.bool_, np.float16, np.float64)),
    ],
)
def test_initializer_of_another_type(shape: tuple[int, ...], array: np.ndarray, tmp_path: Path) -> None:
    """An initializer has the type that its graph input declares; an unknown extent matches any."""
    right = replace(chain(node("Add", ("x", "w"), ("y",))), initializers=[constant("w", np.ones(3, np.float32))])
    for extent in (3, "n", None):
        shown = value("w", None if extent is None else (extent,))
        infer(tmp_path / str(extent), replace(right, inputs=(*right.inputs, shown)))
    graph = replace(right, inputs=(*right.inputs, value("w", shape)), initializers=[constant("w", array)])
    with raises(ShapeMismatch, "graph input 'w' has an initializer of another type", "declared", "initializer"):
        infer(tmp_path, graph)


def test_duplicate_input_and_no_outputs(tmp_path: Path) -> None:
    with raises(GraphProblem, "graph input 'x' of the train graph is defined twice"):
        Case(train=replace(TRAIN, inputs=(*TRAIN.inputs, value("x", (2, 3))))).program(tmp_path)
    with raises(GraphProblem, "has no outputs"):
        infer(tmp_path, replace(chain(node("Relu", ("x",), ("y",))), outputs=()))


def test_unreachable_weights(tmp_path: Path) -> None:
    extra = value("v", (4, 3)), value("v_grad.accumulation.buffer", (4, 3))
    inputs = (*TRAIN.inputs, *extra)
    optimizer = Model(
        (*OPTIMIZER.nodes, node("SGD", ("v", extra[1].name), ("v_updated",))),
        (*OPTIMIZER.inputs, *extra),
        (*OPTIMIZER.outputs, value("v_updated", (4, 3))),
    )
    with raises(GraphProblem, "weight 'v' is unreachable: no InPlaceAccumulatorV2"):
        Case(replace(TRAIN, inputs=inputs), optimizer).program(tmp_path)
    accumulate = node("InPlaceAccumulatorV2", (extra[1].name, "w_grad", "lazy_reset_grad"), ("v_out",))
    with raises(GraphProblem, "weight 'v' is unreachable: the loss 'loss' does not depend on it"):
        Case(with_nodes(TRAIN, accumulate, inputs=inputs), optimizer).program(tmp_path)
    with raises(GraphProblem, "belongs to no weight", extra[1].name):
        Case(with_nodes(TRAIN, accumulate, inputs=inputs)).program(tmp_path)


def test_optimizer_that_does_not_fit(tmp_path: Path) -> None:
    with raises(GraphProblem, "optimizer input 'v' is not an input of the training graph"):
        Case(optimizer=replace(OPTIMIZER, inputs=(*OPTIMIZER.inputs, value("v", (4, 3))))).program(tmp_path)
    for shape, element in (((3, 4), 1), ((4, 3), INT64)):
        wrong = (value("w", shape, element), OPTIMIZER.inputs[1])
        with raises(ShapeMismatch, "'w' differs between", "float32[4,3]"):
            Case(optimizer=replace(OPTIMIZER, inputs=wrong)).program(tmp_path)
    with raises(GraphProblem, "weight 't' is in the optimizer graph, but has no gradient accumulator"):
        Case(optimizer=replace(OPTIMIZER, inputs=(*OPTIMIZER.inputs, value("t", (2, 4))))).program(tmp_path)
    stray = with_nodes(OPTIMIZER, node("Relu", ("w",), ("z",)), outputs=(value("z", None), *OPTIMIZER.outputs))
    with raises(GraphProblem, "reads 'w' after it was overwritten", "node 'step' (SGD)"):
        Case(optimizer=stray).program(tmp_path)
    early = replace(stray, nodes=stray.nodes[::-1])
    with raises(GraphProblem, "optimizer output 'z' overwrites no weight"):
        Case(optimizer=early).program(tmp_path)
    relu = (node("Relu", ("w",), ("w_updated",)),)
    with raises(OptionProblem, "learning rate", "Relu"):
        Case(optimizer=replace(OPTIMIZER, nodes=relu)).program(tmp_path, learning_rate=0.1)


def test_update_that_reads_no_accumulator(tmp_path: Path) -> None:
    blind = (node("Relu", ("w",), ("z",)), node("SGD", ("w", "z"), ("w_updated",), "step", lr=0.25))
    with raises(GraphProblem, "the update of weight 'w' reads no gradient accumulator", "w_updated"):
        Case(optimizer=replace(OPTIMIZER, nodes=blind)).program(tmp_path)


def test_reads_of_overwritten_memory(tmp_path: Path) -> None:
    fc, _, *backward = TRAIN.nodes
    stale = (
        node("Identity", (BUFFER,), ("view",)),
        node("Gemm", ("x", "view", "y"), ("z",), "late", transB=1),
        node("MSELoss", ("z", "t"), ("loss",)),
    )
    with raises(GraphProblem, "node 'late' (Gemm) reads 'view' after", "InPlaceAccumulatorV2_w_out", "read 'w_out'"):
        Case(replace(TRAIN, nodes=(fc, *backward, *stale))).program(tmp_path)
    early = Case(replace(TRAIN, nodes=(fc, *stale, *backward))).program(tmp_path)
    verify_program(early)


def test_several_flags_and_double_updates(tmp_path: Path) -> None:
    again = node("InPlaceAccumulatorV2", (BUFFER, "w_grad", "x"), ("w_out_2",))
    with raises(GraphProblem, "several reset flags", "lazy_reset_grad, x"):
        Case(train=with_nodes(TRAIN, again)).program(tmp_path)
    computed = node("InPlaceAccumulatorV2", ("y", "y_grad", "lazy_reset_grad"), ("y_out",))
    with raises(GraphProblem, "'y' feeds a gradient accumulation, but is not a graph input"):
        Case(train=with_nodes(TRAIN, computed)).program(tmp_path)
    twice = node("SGD", ("w_updated", BUFFER), ("w_2",))
    outputs = (*OPTIMIZER.outputs, value("w_2", (4, 3)))
    with raises(GraphProblem, "weight 'w' is updated twice"):
        Case(optimizer=with_nodes(OPTIMIZER, twice, outputs=outputs)).program(tmp_path)


def test_overwriting_what_may_not_change(tmp_path: Path) -> None:
    step = node("SGD", ("x", "g"), ("y",))
    with raises(GraphProblem, "overwrites 'x', which is a data"):
        infer(tmp_path, chain(step, initializers=(constant("g", np.ones((2, 3), "f4")),)))
    step = node("SGD", ("c", "x"), ("y",))
    with raises(GraphProblem, "overwrites 'c', which is a constant"):
        infer(tmp_path, chain(step, initializers=(constant("c", np.ones((2, 3), "f4")),)))


def test_operands_that_are_overwritten(tmp_path: Path) -> None:
    """A node must not overwrite one of its other operands, or a view of one."""
    with raises(GraphProblem, "(InPlaceAccumulatorV2) overwrites", "as another operand", BUFFER):
        twice = node("InPlaceAccumulatorV2", (BUFFER, BUFFER, "lazy_reset_grad"), ("w_out",))
        kept = [n for n in TRAIN.nodes if n.op_type != twice.op_type]
        Case(replace(TRAIN, nodes=(*kept, twice))).program(tmp_path)
    with raises(GraphProblem, "'step' (SGD) overwrites 'w' and reads it as another operand"):
        view = (node("Identity", ("w",), ("z",)), node("SGD", ("w", "z"), ("w_updated",), "step", lr=0.25))
        Case(optimizer=replace(OPTIMIZER, nodes=view)).program(tmp_path)


def test_first_output_must_be_a_loss(tmp_path: Path) -> None:
    with raises(ShapeMismatch, "'w_out', is not a loss"):
        Case(train=replace(TRAIN, outputs=TRAIN.outputs[::-1])).program(tmp_path)


def test_unknown_operator_names_the_nearest(tmp_path: Path) -> None:
    odd = node("MSELos", ("y", "t"), ("loss",), "mse", domain="com.microsoft")
    with raises(UnsupportedOperator, "node 'mse' (MSELos)", "com.microsoft", "MSELoss"):
        Case(train=replace(TRAIN, nodes=(TRAIN.nodes[0], odd, *TRAIN.nodes[2:]))).program(tmp_path)


def test_static_input_that_is_computed(tmp_path: Path) -> None:
    model = chain(node("Reshape", ("x", "s"), ("y",)))
    with raises(UnsupportedOperator, "input 1 ('s'), its 'shape'", "run time", "an initializer, or a Shape or Size of"):
        infer(tmp_path, replace(model, inputs=(*model.inputs, value("s", (1,), INT64))))


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (1, 1, 2)])
def test_static_input_of_a_higher_rank(tmp_path: Path, shape: tuple[int, ...]) -> None:
    wide = constant("s", np.array([3, 2]).reshape(shape))
    with raises(UnsupportedOperator, "input 1 ('s'), its 'shape'", str(list(shape))):
        infer(tmp_path, chain(node("Reshape", ("x", "s"), ("y",)), initializers=(wide,)))


def test_nodes_without_the_form_of_their_operator(tmp_path: Path) -> None:
    with raises(UnsupportedOperator, "(Relu)", "it has 0 inputs", "at least 1 inputs"):
        infer(tmp_path, chain(node("Relu", (), ("y",))))
    with raises(DeployerError, "(Gemm)"):
        infer(tmp_path, chain(node("Gemm", ("x",), ("y",))))
    with raises(DeployerError, "(Gemm)"):
        infer(tmp_path, chain(node("Gemm", ("x", "x"), ("y",), transB="yes")))
    short = node("InPlaceAccumulatorV2", (BUFFER, "w_grad"), ("w_out",))
    with raises(UnsupportedOperator, "it has 2 inputs", "at least 3 inputs"):
        Case(train=replace(TRAIN, nodes=(*TRAIN.nodes[:4], short))).program(tmp_path)


def test_too_many_outputs_and_odd_attributes(tmp_path: Path) -> None:
    with raises(UnsupportedOperator, "2 outputs", "at most 1"):
        infer(tmp_path, chain(node("Relu", ("x",), ("y", "z"))))
    body = helper.make_graph([], "body", [], [])
    with raises(UnsupportedOperator, "attribute 'body'", "GRAPH"):
        infer(tmp_path, chain(node("Relu", ("x",), ("y",), body=body)))
    with raises(UnsupportedOperator, "(Constant)", "value"):
        infer(tmp_path, chain(node("Constant", (), ("c",), value_string="a"), node("Mul", ("x", "c"), ("y",))))


@pytest.mark.parametrize("shape", [("batch", 3), None, (0, 3)])
def test_input_without_static_shape(tmp_path: Path, shape: tuple[int, ...] | None) -> None:
    with raises(ShapeMismatch, "graph input 'x'", "export with static shapes"):
        infer(tmp_path, Model((node("Relu", ("x",), ("y",)),), (value("x", shape),), (value("y", None),)))


@pytest.mark.parametrize(
    "element", [TensorProto.BFLOAT16, TensorProto.STRING, TensorProto.UINT4, TensorProto.COMPLEX64]
)
def test_element_types_without_a_target_type(tmp_path: Path, element: int) -> None:
    name = TensorProto.DataType.Name(element)
    with raises(ShapeMismatch, f"'x' has element type {name}"):
        infer(
            tmp_path,
            Model((node("Relu", ("x",), ("y",)),), (value("x", (1,), element),), (value("y", None),)),
        )


def test_sequence_input(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    with raises(ShapeMismatch, "'x' is a sequence_type"):
        infer(tmp_path, Model((node("Relu", ("x",), ("y",)),), (sequence,), (value("y", None),)))


@pytest.mark.parametrize("place", ["outputs", "infos"])
def test_sequence_output_and_value(tmp_path: Path, place: str) -> None:
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    with raises(ShapeMismatch, "'y' is a sequence_type"):
        infer(tmp_path, replace(chain(node("Relu", ("x",), ("y",))), **{place: (sequence,)}))


def test_file_of_a_newer_form(tmp_path: Path) -> None:
    path = chain(node("Relu", ("x",), ("y",))).save(tmp_path / "network.onnx")
    model = onnx.load(path)
    for version in (onnx.IR_VERSION + 1, 2**40):
        model.ir_version = version
        path.write_bytes(model.SerializeToString())
        with raises(FileProblem, f"IR version {version}", str(onnx.IR_VERSION)):
            parse.read_graphs(path, None)


def test_graph_without_a_step(tmp_path: Path) -> None:
    """A graph whose results are known at compile time needs no step, and has a plan all the same."""
    model = chain(node("Shape", ("x",), ("y",)))
    program = infer(tmp_path, replace(model, outputs=(value("y", (2,), INT64),)))
    for strategy in ("auto", "single", "double"):
        _, plan = pipeline.plan_program(program, Options(strategy=strategy))
        assert plan.steps == ()
        assert generate.generate_files(plan)


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    big = chain(node("Mul", ("x", "c"), ("y",)), initializers=(constant("c", np.array([1e300])),))
    with raises(ShapeMismatch, "'c' holds 1e+300, which float32 cannot hold"):
        infer(tmp_path, big)
    labels = constant("labels", np.array([1 << 40, 0]))
    with raises(ShapeMismatch, f"'labels' holds {1 << 40}, which int32 cannot hold"):
        infer(tmp_path, chain(node("SoftmaxCrossEntropyLoss", ("x", "labels"), ("y",)), initializers=(labels,)))


def test_declared_type_that_contradicts(tmp_path: Path) -> None:
    with raises(ShapeMismatch, "'loss' is declared", "float32[2]"):
        Case(train=replace(TRAIN, outputs=(value("loss", (2,)), TRAIN.outputs[1]))).program(tmp_path)
