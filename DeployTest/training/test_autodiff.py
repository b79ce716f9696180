"""Gradients of training graphs against finite differences, PyTorch and published cases."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployer.frontend import parse
from deployer.training.tensors.decisions import pattern_of
from deployer.training.train_graph import build_train_graph
from DeployTest.support.graphs.built_cases import (
    DENSE,
    LAST,
    Array,
    built,
    check_differences,
    generate,
    gradients,
    graph_of,
    mlp,
    opened,
    produced,
    random,
)
from DeployTest.support.graphs.small_graphs import DATA, FLOAT, INT64, Model, constant, node, value
from DeployTest.support.tolerances import assert_close, table

pytestmark = [pytest.mark.host, pytest.mark.training]


@pytest.fixture(scope="module", params=DENSE)
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The *_train folder of a generated case."""
    return generate(request.param, tmp_path_factory.mktemp(request.param))


def test_generated_gradients_are_central_differences(generated: Path) -> None:
    """Every parameter of every generated model."""
    check_differences(*opened(generated))


CONSUMERS = mlp(
    node("Relu", ("h",), ("a",)),
    node("Mul", ("h", "a"), ("b",)),
    node("Mul", ("h", "h"), ("c",)),
    node("Add", ("b", "c"), ("r",)),
    LAST,
)


def test_value_with_several_consumers(tmp_path: Path) -> None:
    """Four uses of h, two of them by one node: four parts, two partial sums, one gradient."""
    report = built(tmp_path, CONSUMERS)
    names = {n for n in produced(report) if n.startswith("h_grad")}
    parts = {"h_grad_0", "h_grad_1", "h_grad_2", "h_grad_3"}
    assert names == parts | {"h_grad_sum", "h_grad_sum_2", "h_grad"}
    adds = [n for n in graph_of(report).node if n.op_type == "Add" and n.output[0].startswith("h_grad")]
    assert [list(n.input) for n in adds] == [
        ["h_grad_0", "h_grad_1"],
        ["h_grad_sum", "h_grad_2"],
        ["h_grad_sum_2", "h_grad_3"],
    ]
    check_differences(*opened(report.train))


def test_value_used_twice_by_one_node(tmp_path: Path) -> None:
    """Its only consumer gives two parts."""
    report = built(tmp_path, mlp(node("Mul", ("h", "h"), ("y",))))
    assert {n for n in produced(report) if n.startswith("h_grad")} == {"h_grad_0", "h_grad_1", "h_grad"}
    check_differences(*opened(report.train))


def test_shared_weight(tmp_path: Path) -> None:
    """A parameter used by two nodes has one buffer, and both parts of its gradient."""
    tied = mlp(node("Relu", ("h",), ("r",)), node("Gemm", ("r", "w1"), ("y",), "back"))
    report = built(tmp_path, tied)
    assert list(report.trained) == ["w1"]
    assert {"w1_grad_0", "w1_grad_1", "w1_grad"} <= produced(report)
    check_differences(*opened(report.train))


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 1), (1, 4), (2, 4), (3, 1, 4), (3, 2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_broadcasting_is_summed(op: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """A parameter of any shape that broadcasts with h, or that h broadcasts to."""
    model = mlp(node(op, ("h", "p"), ("y",)), initializers={"p": random(*shape, seed=1)})
    report = built(tmp_path, model, trainable="p|w1")
    check_differences(*opened(report.train))


AXIS1, SHAPE = constant("axis", np.array([1])), constant("shape", np.array([4, 2]))
SHAPE3 = constant("shape3", np.array([3, 2, 4]))
CHAINS = {
    "relu": ([node("Relu", ("h",), ("y",))], ()),
    "identity": ([node("Identity", ("h",), ("y",))], ()),
    "pow": ([node("Pow", ("h", "two"), ("y",))], (constant("two", np.float32(3)),)),
    "transpose": ([node("Transpose", ("h",), ("y",), perm=[1, 0])], ()),
    "reshape": ([node("Reshape", ("h", "shape"), ("y",))], (SHAPE,)),
    "flatten": ([node("Flatten", ("h",), ("y",), axis=0)], ()),
    "unsqueeze": ([node("Unsqueeze", ("h", "axis"), ("y",))], (AXIS1,)),
    "squeeze": (
        [node("Unsqueeze", ("h", "axis"), ("u",)), node("Squeeze", ("u", "axis"), ("y",))],
        (AXIS1,),
    ),
    "expand": ([node("Expand", ("h", "shape3"), ("y",))], (SHAPE3,)),
    "reduce_sum": ([node("ReduceSum", ("h", "axis"), ("y",), keepdims=0)], (AXIS1,)),
    "reduce_mean": ([node("ReduceMean", ("h",), ("y",), axes=[0])], ()),
    "sum": ([node("Sum", ("h", "h", "w2t"), ("y",))], (constant("w2t", random(4)),)),
    "matmul": ([node("MatMul", ("h", "square"), ("y",))], (constant("square", random(4, 4)),)),
    "matmul_batch": ([node("MatMul", ("stack", "h"), ("y",))], (constant("stack", random(3, 5, 2)),)),
    "gemm": (
        [node("Gemm", ("h", "g", "g_bias"), ("y",), transA=1, alpha=0.5, beta=2.0)],
        (constant("g", random(2, 3)), constant("g_bias", random(4, 1))),
    ),
    "gemm_trans": ([node("Gemm", ("g", "h"), ("y",), transA=1, transB=1)], (constant("g", random(4, 3)),)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_operator_in_a_chain(name: str, tmp_path: Path) -> None:
    """Gradients through each differentiable operator, and into its own parameters."""
    nodes, constants = CHAINS[name]
    model = mlp(*nodes)
    model = Model(model.nodes, model.inputs, model.outputs, (*model.initializers, *constants))
    floats = {c.name for c in constants if c.data_type == FLOAT and c.dims}
    report = built(tmp_path, model, trainable=pattern_of(["w1", *floats]))
    assert set(report.trained) == {"w1"} | floats
    check_differences(*opened(report.train))


@pytest.mark.parametrize("shape", [(2, 5), (1, 5, 2), (2, 2, 3, 1)], ids=str)
def test_cross_entropy_with_spatial_scores(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Labels have the scores' shape without the class axis."""
    size = int(np.prod(shape)) // 2
    nodes = (node("Gemm", ("x", "w"), ("h",), transB=1), node("Reshape", ("h", "shape"), ("y",)))
    constants = constant("w", random(size, 3)), constant("shape", np.array(shape))
    model = Model(nodes, (value("x", (2, 3)),), (value("y", shape),), constants)
    report = built(tmp_path, model, "cross_entropy")
    labels = graph_of(report).input[1]
    dims = tuple(d.dim_value for d in labels.type.tensor_type.shape.dim)
    assert (labels.name, labels.type.tensor_type.elem_type, dims) == ("labels", INT64, (shape[0], *shape[2:]))
    check_differences(*opened(report.train))


def torch_gradients(
    model: onnx.ModelProto, data: Sequence[Array], loss: str, names: Mapping[str, str]
) -> dict[str, Array]:
    """The gradients by PyTorch's float64 autograd, for graphs of Gemm (transB), Relu, Mul and Add."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ops = {"Relu": torch.relu, "Mul": torch.mul, "Add": torch.add}
    ops["Gemm"] = lambda x, w, b=None: torch.nn.functional.linear(x, w, b)
    values = {
        t.name: torch.tensor(numpy_helper.to_array(t), dtype=torch.float64, requires_grad=True)
        for t in model.graph.initializer
    }
    values[model.graph.input[0].name] = torch.tensor(data[0], dtype=torch.float64)
    for n in model.graph.node:
        values[n.output[0]] = ops[n.op_type](*(values[i] for i in n.input))
    y = values[model.graph.output[0].name]
    if loss == "mse":
        torch.nn.functional.mse_loss(y, torch.tensor(data[1], dtype=torch.float64)).backward()
    else:
        torch.nn.functional.cross_entropy(y, torch.tensor(data[1], dtype=torch.int64)).backward()
    return {new: values[old].grad.numpy() for new, old in names.items()}


@pytest.mark.torch
def test_generated_gradients_are_pytorchs(generated: Path) -> None:
    """Every entry of every parameter."""
    program, dataset = opened(generated)
    model = onnx.load(str(generated.with_name(generated.name.removesuffix("_train") + ".onnx")))
    names = {re.sub(r"\W", "_", t.name): t.name for t in model.graph.initializer}
    loss = "cross_entropy" if "labels" in program.data else "mse"
    actual = gradients(program, dataset)
    for name, expected in torch_gradients(model, dataset.sample(0), loss, {n: names[n] for n in actual}).items():
        assert_close(f"gradient of {name}", actual[name], expected)


@pytest.mark.torch
def test_consumers_gradients_are_pytorchs(tmp_path: Path) -> None:
    """The model whose hidden value has four uses."""
    program, dataset = opened(built(tmp_path, CONSUMERS).train)
    model = onnx.load(str(tmp_path / "model.onnx"))
    expected = torch_gradients(model, dataset.sample(0), "mse", {"w1": "w1", "w2": "w2"})
    for name, gradient in gradients(program, dataset).items():
        assert_close(f"gradient of {name}", gradient, expected[name])


@pytest.mark.parametrize("name", ["SimpleMLP", "Autoencoder", "DSCNN", "ResNet8"])
def test_published_case_is_reproduced(name: str, tmp_path: Path) -> None:
    """The forward part of a published training graph, differentiated by autodiff, gives the published results."""
    folder = DATA / "training" / name / f"{name.lower()}_train"
    if not folder.is_dir():
        pytest.skip("the published cases are not here")
    graph = onnx.load(str(folder / "network.onnx")).graph
    inputs, gold = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    listed = [i.name for i in graph.input if not i.name.endswith((".buffer", "reset_grad"))]
    first = {n: inputs[f"arr_{i:04d}"] for i, n in enumerate(listed)}
    at = next(i for i, n in enumerate(graph.node) if n.op_type.endswith("Loss"))
    output, target = graph.node[at].input
    parameters = listed[2:]
    constants = [constant(n, first[n]) for n in parameters]
    model = Model(graph.node[:at], graph.input[:1], (value(output, None),), constants)
    keys = ["arr_{:04d}", *(f"mb{k}_arr_{{:04d}}" for k in range(1, int(inputs["meta_data_size"][0])))]
    data = {n: np.stack([inputs[k.format(i)] for k in keys]) for i, n in enumerate((listed[0], target))}
    rate = onnx.load(str(parse.optimizer_dir(folder) / "network.onnx")).graph.node[0].attribute[0].f
    path = model.save(tmp_path / "model.onnx")
    loss = "mse" if target == "target" else "cross_entropy"
    report = build_train_graph(path, loss, "sgd", rate, pattern_of(parameters), tmp_path, data=data)
    assert list(report.trained) == parameters
    ours = np.load(report.train / "outputs.npz")
    np.testing.assert_allclose(ours["loss"], gold["loss"], rtol=0, atol=table()["training"]["loss"])
    for n in parameters:
        np.testing.assert_allclose(ours[n], gold[n], rtol=0, atol=table()["training"]["weight"], err_msg=n)


def test_no_gradient_nobody_needs(tmp_path: Path) -> None:
    """Neither the input's gradient nor anything before the first trained layer."""
    full = built(tmp_path / "full", mlp(node("Relu", ("h",), ("r",)), LAST))
    assert {"w1_grad", "h_grad", "r_grad", "y_grad"} <= produced(full)
    assert not produced(full) & {"x_grad", "target_grad"}
    last = built(tmp_path / "last", mlp(node("Relu", ("h",), ("r",)), LAST), trainable="w2")
    assert not produced(last) & {"w1_grad", "h_grad", "r_grad", "x_grad"}


def test_frozen_parameters_stay_initializers(tmp_path: Path) -> None:
    """A frozen weight before the trained one and behind it: only the latter needs a gradient through it."""
    report = built(tmp_path, mlp(node("Relu", ("h",), ("r",)), LAST), trainable="^w1$")
    graph = graph_of(report)
    assert (list(report.trained), report.frozen) == (["w1"], ("w2",))
    assert "w2" in {t.name for t in graph.initializer}
    assert not {"w2", "w2_grad.accumulation.buffer"} & {i.name for i in graph.input}
    program, dataset = opened(report.train)
    check_differences(program, dataset)
    assert list(np.load(report.train / "outputs.npz")) == ["meta_float64", "w1", "loss"]


def test_unused_branch_is_left_out(tmp_path: Path) -> None:
    """A branch that the output does not need goes, with its weights."""
    branch = node("MatMul", ("h", "side"), ("nowhere",)), node("Relu", ("h",), ("r",)), LAST
    model = mlp(*branch, initializers={"side": random(4, 4)})
    report = built(tmp_path, model)
    assert list(report.trained) == ["w1", "w2"]
    assert "nowhere" not in produced(report)
    assert "side" not in {t.name for t in graph_of(report).initializer}


def test_unsorted_model(tmp_path: Path) -> None:
    """The written graph has producers first."""
    model = mlp(node("Relu", ("h",), ("r",)), LAST)
    report = built(tmp_path, Model(model.nodes[::-1], model.inputs, model.outputs, model.initializers))
    names = {i.name for i in (*graph_of(report).input, *graph_of(report).initializer)}
    for n in graph_of(report).node:
        assert set(filter(None, n.input)) <= names, n.name
        names |= set(n.output)


def test_constant_nodes_and_shape_arithmetic(tmp_path: Path) -> None:
    """A Constant node that is not asked for is frozen; a shape computed from an activation carries no gradient."""
    shaped = mlp(
        node("Constant", (), ("scale",), value=constant("", random(4))),
        node("Mul", ("h", "scale"), ("s",)),
        node("Shape", ("h",), ("n",)),
        node("Reshape", ("s", "n"), ("r",)),
        LAST,
    )
    report = built(tmp_path, shaped, trainable="^w")
    assert list(report.trained) == ["w1", "w2"]
    assert report.frozen == ("scale",)
    check_differences(*opened(report.train))
