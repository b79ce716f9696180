"""The graph that predicts, beside the others in one program: what it reads, leaves alone, and when it is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from deployer import pipeline
from deployer.core.errors import DeployerWarning, OptionProblem, VerifyFailed
from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.core.target import native
from deployer.firmware.prediction import PREDICT, with_prediction
from deployer.pipeline import Case
from deployer.planning.fuse import fuse_program
from deployer.training.train_graph import build_train_graph
from deployer.verify.program import verify_program
from deployer.verify.reference import Memory, as_float32, run_graph
from DeployTest.firmware import nets
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The case of the net with a norm."""
    return pipeline.load_training(nets.normed_case(tmp_path_factory.mktemp("normed")))


@pytest.fixture(scope="module")
def joint(case: Case) -> Program:
    """Its program with the graph that predicts."""
    assert case.train is not None
    warnings: list[DeployerWarning] = []
    program = with_prediction(case.program, case.train, warn=warnings.append)
    verify_program(program)
    assert not warnings
    return program


def test_what_it_reads(joint: Program) -> None:
    """Inputs but no labels, and running statistics; it draws nothing, and writes nothing that lasts."""
    train, predicting, optimizer = joint.graphs
    assert (train.name, predicting.name, optimizer.name) == ("train", PREDICT, "optimizer")
    read = {joint.storage(name) for node in predicting.nodes for name in node.inputs if name}
    assert {nets.INPUT, "mean", "var"} <= read
    assert not read & {"labels", "pass", *joint.accumulators}
    written = {joint.storage(name) for node in predicting.nodes for name in node.outputs if name}
    assert {joint.tensors[name].role for name in written} == {"value"}
    assert joint.held == (nets.INPUT, "labels")
    own = {name for graph in (train, optimizer) for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    assert written.isdisjoint(own)


def test_it_is_fused_as_the_others(joint: Program) -> None:
    """The norm applies the Relu behind it in both graphs that have them, not in the first alone."""
    fused = fuse_program(joint, Options(native().name))
    for before, graph in zip(joint.graphs[:2], fused.graphs[:2], strict=True):
        assert "Relu" in {node.op for node in before.nodes} - {node.op for node in graph.nodes}


@pytest.mark.parametrize("passes", [1, 2])
def test_gradients_outlive_it(case: Case, joint: Program, passes: int) -> None:
    """Accumulated gradients and inputs are alive in all steps of the graph that predicts."""
    options = Options(target=native().name, accumulate=passes)
    plan = pipeline.plan_program(joint, options)[1]
    steps = [step.index for step in plan.steps if step.graph == PREDICT]
    lasting = {joint.storage(name) for name in (*joint.accumulators, *joint.held, *joint.weights)}
    homes = [home for home in plan.homes if home.storage in lasting]
    assert {home.storage for home in homes} == lasting
    for home in homes:
        assert home.first < steps[0], home
        assert home.last > steps[-1], home
    with pytest.raises(VerifyFailed, match="wrongly persistent"):
        pipeline.plan_program(replace(joint, held=()), options)


def test_another_value(case: Case) -> None:
    """Any value of the model may be predicted; its meaning is that of the reference."""
    assert case.train is not None
    assert case.dataset is not None
    pooled = next(node.outputs[0] for node in case.train.nodes if node.op == "GlobalAveragePool")
    program = with_prediction(case.program, case.train, pooled)
    verify_program(program)
    known = {**case.dataset.weights, **dict(zip(program.data, case.dataset.sample(0), strict=True))}
    memory = Memory(program, np.float64)
    memory.update(known)
    run_graph(program.graphs[1], memory)
    x, w = (np.asarray(known[name], np.float64) for name in (nets.INPUT, program.weights[0]))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    normed = np.einsum("ncijkl,mckl->nmij", windows, w) / np.sqrt(1 + 1e-5)
    expected = np.maximum(normed, 0).mean((2, 3), keepdims=True)
    found = as_float32(memory[program.outputs[-1]]).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, **table()["several"]["float32"])


def test_own_loss(tmp_path: Path) -> None:
    """A model whose output is the loss needs the predicted value named by an option."""
    model = nets.normed_model(tmp_path / "net.onnx")
    proto = onnx.load(model)
    proto.graph.node.append(helper.make_node("ReduceMean", ("scores",), ("cost",), "cost", keepdims=0))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("cost", TensorProto.FLOAT, ()))
    onnx.save(proto, model)
    case = pipeline.load_training(build_train_graph(model, "model", "", 0.01, "", tmp_path).train)
    assert case.train is not None
    with pytest.raises(OptionProblem, match="the value that predict returns is ambiguous"):
        with_prediction(case.program, case.train)
    verify_program(with_prediction(case.program, case.train, "scores"))
    for name in (nets.INPUT, "nothing"):
        with pytest.raises(OptionProblem, match="no node of the training graph computes"):
            with_prediction(case.program, case.train, name)
