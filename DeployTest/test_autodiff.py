"""Training graphs from forward models: gradients against finite differences and PyTorch, form, and errors."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import autoencoder, deep_autoencoder, simple_mlp
from onnx import numpy_helper
from small_graphs import BOOL, DATA, FLOAT, INT64, Model, chain, constant, node, raises, value
from tolerances import assert_close, table

from deployer.autodiff import Rule
from deployer.dataset import Dataset, data_inputs, load
from deployer.errors import (
    DatasetMismatch,
    FileProblem,
    GraphProblem,
    InternalError,
    NotDifferentiable,
    OptionProblem,
    ShapeMismatch,
    UnsupportedOperator,
)
from deployer.interpret import Memory, run_graph, run_training
from deployer.ir import Program
from deployer.operator import registry
from deployer.samples import write_npz
from deployer.stages import check, parse
from deployer.train_graph import Report, build_train_graph
from deployer.verify import verify_program

pytestmark = [pytest.mark.host, pytest.mark.training]

Array = np.ndarray[Any, Any]
STEP = 1e-5
"""Half width of the central differences: their error is then about 1e-11 for values of order 1."""

GENERATED = {
    "simple_mlp": (simple_mlp, {}),
    "simple_mlp_batch": (simple_mlp, {"batch": 3, "n_accum": 3, "samples": 2}),
    "autoencoder": (autoencoder, {}),
    "autoencoder_accum": (autoencoder, {"n_accum": 2, "n_batches": 8}),
    "deep_autoencoder": (deep_autoencoder, {}),
    "deep_autoencoder_batch": (deep_autoencoder, {"batch": 4}),
}


@pytest.fixture(scope="module", params=GENERATED)
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The *_train folder of a generated case."""
    module, options = GENERATED[request.param]
    return module.generate(tmp_path_factory.mktemp(request.param), **options)


def opened(train: Path) -> tuple[Program, Dataset]:
    """A written case through the compiler's own front end."""
    source = parse.run(train / "network.onnx", parse.optimizer_dir(train) / "network.onnx")
    program = check.run(source, data_inputs=data_inputs(train))
    verify_program(program)
    return program, load(train, program)


def one_pass(program: Program, dataset: Dataset, weights: Mapping[str, Array]) -> Memory:
    """The float64 state after one pass that overwrites the accumulation buffers."""
    memory = Memory(program, np.float64)
    memory.update(weights)
    memory.update({n: np.full(program.tensors[n].type.shape, np.nan) for n in program.accumulators})
    memory.update(zip(program.data, dataset.sample(0), strict=True))
    memory[program.flag] = np.array([1])
    run_graph(program.graphs[0], memory)
    return memory


def gradients(program: Program, dataset: Dataset) -> dict[str, Array]:
    """The gradient of the loss with respect to every trained parameter, from the written backward nodes."""
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}
    memory = one_pass(program, dataset, weights)
    return {n: memory[f"{n}_grad.accumulation.buffer"].copy() for n in program.updated.values()}


def check_differences(program: Program, dataset: Dataset, entries: int = 3) -> None:
    """Compare the largest entry of each gradient and some others with central differences in float64."""
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}

    def loss_with(name: str, index: tuple[int, ...], step: float) -> float:
        moved = {**weights, name: weights[name].copy()}
        moved[name][index] += step
        return one_pass(program, dataset, moved)[program.outputs[0]].item()

    generator = np.random.default_rng(0)
    for name, gradient in gradients(program, dataset).items():
        flat = {int(np.abs(gradient).argmax()), *generator.integers(0, gradient.size, entries - 1).tolist()}
        at = [tuple(map(int, np.unravel_index(i, gradient.shape))) for i in sorted(flat)]
        slopes = [(loss_with(name, i, STEP) - loss_with(name, i, -STEP)) / (2 * STEP) for i in at]
        assert_close(f"gradient of {name}", np.array([gradient[i] for i in at]), np.array(slopes))
        assert np.abs(gradient).max() > 0, f"the gradient of {name} is zero"


def random(*shape: int, seed: int = 0) -> Array:
    """Values away from the places where Relu and Pow are not smooth."""
    return np.random.default_rng([seed, *shape]).uniform(0.25, 1.0, shape).astype(np.float32)


def built(folder: Path, model: Model, loss: str = "mse", trainable: str = "", **options: Any) -> Report:
    """The case of a small model."""
    path = model.save(folder / "model.onnx")
    return build_train_graph(path, loss, "sgd", 0.1, trainable, folder, **options)


def graph_of(report: Report) -> onnx.GraphProto:
    """The written training graph."""
    return onnx.load(str(report.train / "network.onnx")).graph


def produced(report: Report) -> set[str]:
    """The names of everything that the written training graph computes."""
    return {o for n in graph_of(report).node for o in n.output}


def mlp(*extra: onnx.NodeProto, initializers: Mapping[str, Array] = {}, **parts: Any) -> Model:  # noqa: B006
    """x [2,3] -> h = x w1^T [2,4] -> further nodes to y; w2 [5,4] comes too."""
    constants = {"w1": random(4, 3), "w2": random(5, 4), **initializers}
    listed = [constant(n, a) for n, a in constants.items()]
    parts = {"outputs": (value("y", None),), "inputs": (value("x", (2, 3)),), **parts}
    return Model((node("Gemm", ("x", "w1"), ("h",), "first", transB=1), *extra), initializers=listed, **parts)


LAST = node("Gemm", ("r", "w2"), ("y",), "last", transB=1)


# ---- gradients


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
    "pow": ([node("Pow", ("h", "two"), ("y",))], (constant("two", np.float32(2.5)),)),
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
    report = built(tmp_path, model)
    floats = {c.name for c in constants if c.data_type == FLOAT and c.dims}
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


def test_generated_gradients_are_pytorchs(generated: Path) -> None:
    """Every entry of every parameter."""
    program, dataset = opened(generated)
    model = onnx.load(str(generated.with_name(generated.name.removesuffix("_train") + ".onnx")))
    names = {re.sub(r"\W", "_", t.name): t.name for t in model.graph.initializer}
    loss = "cross_entropy" if "labels" in program.data else "mse"
    found = gradients(program, dataset)
    for name, expected in torch_gradients(model, dataset.sample(0), loss, {n: names[n] for n in found}).items():
        assert_close(f"gradient of {name}", found[name], expected)


def test_consumers_gradients_are_pytorchs(tmp_path: Path) -> None:
    """The model whose hidden value has four uses."""
    program, dataset = opened(built(tmp_path, CONSUMERS).train)
    model = onnx.load(str(tmp_path / "model.onnx"))
    expected = torch_gradients(model, dataset.sample(0), "mse", {"w1": "w1", "w2": "w2"})
    for name, gradient in gradients(program, dataset).items():
        assert_close(f"gradient of {name}", gradient, expected[name])


@pytest.mark.parametrize("name", ["SimpleMLP", "Autoencoder"])
def test_published_case_is_reproduced(name: str, tmp_path: Path) -> None:
    """The forward part of a published training graph, differentiated here, gives its published gold."""
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
    report = build_train_graph(path, loss, "sgd", rate, "", tmp_path, data=data)
    assert list(report.trained) == parameters
    ours = np.load(report.train / "outputs.npz")
    np.testing.assert_allclose(ours["loss"], gold["loss"], rtol=0, atol=table()["training"]["loss"])
    for n in parameters:
        np.testing.assert_allclose(ours[n], gold[n], rtol=0, atol=table()["training"]["weight"], err_msg=n)


# ---- what is computed, and what is not


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
    assert list(np.load(report.train / "outputs.npz")) == ["w1", "loss"]


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
    known = {i.name for i in (*graph_of(report).input, *graph_of(report).initializer)}
    for n in graph_of(report).node:
        assert set(filter(None, n.input)) <= known, n.name
        known |= set(n.output)


def test_constant_nodes_and_shape_arithmetic(tmp_path: Path) -> None:
    """A Constant node is frozen; a shape computed from an activation carries no gradient."""
    shaped = mlp(
        node("Constant", (), ("scale",), value=constant("", random(4))),
        node("Mul", ("h", "scale"), ("s",)),
        node("Shape", ("h",), ("n",)),
        node("Reshape", ("s", "n"), ("r",)),
        LAST,
    )
    report = built(tmp_path, shaped)
    assert list(report.trained) == ["w1", "w2"]
    check_differences(*opened(report.train))


# ---- form


def declared(values: Sequence[onnx.ValueInfoProto]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Name, element type and shape of each."""
    kinds = [(v.name, v.type.tensor_type) for v in values]
    return [(n, k.elem_type, tuple(d.dim_value for d in k.shape.dim)) for n, k in kinds]


def test_form_of_the_graphs(generated: Path) -> None:
    """Names, order and types of inputs and outputs, operators, domains and versions."""
    model = onnx.load(str(generated / "network.onnx"))
    inputs, outputs = declared(model.graph.input), declared(model.graph.output)
    weights = inputs[2 : 2 + (len(inputs) - 3) // 2]
    assert inputs[0][:2] == ("input", FLOAT)
    assert inputs[1][:2] in (("labels", INT64), ("target", FLOAT))
    buffers = [(f"{n}_grad.accumulation.buffer", kind, shape) for n, kind, shape in weights]
    assert inputs[2:] == [*weights, *buffers, ("lazy_reset_grad", BOOL, (1,))]
    assert outputs == [("loss", FLOAT, ()), *((f"{n}_grad.accumulation.out", BOOL, (1,)) for n, *_ in weights)]
    assert all(re.fullmatch(r"[A-Za-z_]\w*", name) for name, *_ in weights)
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (
        10,
        [("", 17), ("com.microsoft", 1)],
    )
    domains = {n.op_type: n.domain for n in model.graph.node}
    ours = {"ReluGrad", "SoftmaxCrossEntropyLossGrad", "InPlaceAccumulatorV2"}
    assert all(domain == ("com.microsoft" if op in ours else "") for op, domain in domains.items())
    steps = [n for n in model.graph.node if n.op_type == "InPlaceAccumulatorV2"]
    assert [list(n.input) for n in steps] == [
        [f"{n}_grad.accumulation.buffer", f"{n}_grad", "lazy_reset_grad"] for n, *_ in weights
    ]
    optimizer = onnx.load(str(parse.optimizer_dir(generated) / "network.onnx")).graph
    assert declared(optimizer.input) == [pair[i] for pair in zip(weights, buffers, strict=True) for i in (0, 1)]
    assert declared(optimizer.output) == [(f"{n}_updated", kind, shape) for n, kind, shape in weights]
    assert {(n.op_type, n.domain, tuple(a.name for a in n.attribute)) for n in optimizer.node} == {("SGD", "", ("lr",))}


def test_form_of_the_arrays(generated: Path) -> None:
    """Keys, order, shapes and dtypes of inputs.npz and outputs.npz."""
    graph = onnx.load(str(generated / "network.onnx")).graph
    kept = [v for v in declared(graph.input) if not v[0].endswith(".buffer")]
    kinds = {FLOAT: np.float32, INT64: np.int64, BOOL: np.bool_}
    inputs, outputs = (dict(np.load(generated / f"{n}.npz")) for n in ("inputs", "outputs"))
    size, passes = inputs["meta_data_size"].item(), inputs["meta_n_batches"].item()
    further = [f"mb{k}_arr_{i:04d}" for k in range(1, size) for i in (0, 1)]
    first = [f"arr_{i:04d}" for i in range(len(kept))]
    assert list(inputs) == [*first, *further, "meta_data_size", "meta_n_batches", "meta_n_accum"]
    for key, (_, kind, shape) in zip(first, kept, strict=True):
        assert (inputs[key].dtype, inputs[key].shape) == (kinds[kind], shape)
    for key in further:
        like = inputs[key[-8:]]
        assert (inputs[key].dtype, inputs[key].shape) == (like.dtype, like.shape)
    assert inputs[first[-1]].tolist() == [True]
    assert passes % inputs["meta_n_accum"].item() == 0
    assert list(outputs) == [*(n for n, *_ in kept[2:-1]), "loss"]
    assert all(a.dtype == np.float32 for a in outputs.values())
    assert outputs["loss"].shape == (passes,)


def test_generated_case_is_well_conditioned(generated: Path) -> None:
    """It reproduces its outputs, float32 stays within 1e-6 of float64, losses are of order 1, all weights move."""
    program, dataset = opened(generated)
    exact, final = run_training(program, dataset, np.float64)
    assert dataset.expected_losses == tuple(float(np.float32(v)) for v in exact)
    for name, expected in dataset.expected_weights.items():
        np.testing.assert_array_equal(final[name].astype(np.float32), expected, err_msg=name)
        assert np.abs(expected - dataset.weights[name]).max() > 2 * table()["training"]["weight"], name
    single, weights = run_training(program, dataset)
    assert np.abs(np.array(single) - exact).max() < 1e-6
    assert max(np.abs(weights[n] - final[n]).max() for n in final) < 1e-6
    assert 0.1 < min(exact) <= max(exact) < 10


def test_reproducible_to_the_byte(generated: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A second run writes the same bytes, another seed others."""
    module, options = GENERATED[request.node.callspec.params["generated"]]
    again, other = (module.generate(tmp_path / str(seed), seed=seed, **options) for seed in (0, 1))
    for folder, file in (
        ("train", "network.onnx"),
        ("train", "inputs.npz"),
        ("train", "outputs.npz"),
        ("optimizer", "network.onnx"),
    ):
        names = [p.with_name(p.name.replace("_train", f"_{folder}")) / file for p in (generated, again)]
        assert names[0].read_bytes() == names[1].read_bytes(), names[0]
    assert (generated / "inputs.npz").read_bytes() != (other / "inputs.npz").read_bytes()


def test_names_become_valid_in_c(tmp_path: Path) -> None:
    """Dots and leading digits go; a name that is taken gets a number; `--trainable` finds either spelling."""
    names = {"a.b": random(4), "a_b": random(4), "1st": random(4)}
    nodes = [node("Add", (f"h{i}" if i else "h", n), (f"h{i + 1}" if i < 2 else "r",)) for i, n in enumerate(names)]
    report = built(tmp_path, mlp(*nodes, LAST, initializers=names))
    assert report.trained == {"w1": "w1", "w2": "w2", "a_b_2": "a.b", "a_b": "a_b", "p_1st": "1st"}
    check_differences(*opened(report.train))
    one = built(tmp_path / "one", mlp(*nodes, LAST, initializers=names), trainable="^p_1st$")
    assert one.trained == {"p_1st": "1st"}


def test_samples_from_a_file(tmp_path: Path) -> None:
    """The same arrays from an archive and from memory; one sample needs no further keys."""
    data = {"x": random(1, 2, 3), "target": random(1, 2, 4)}
    write_npz(tmp_path / "data.npz", data)
    model = mlp(node("Relu", ("h",), ("y",)))
    reports = [
        built(tmp_path / str(i), model, trainable="w1", data=d) for i, d in enumerate((data, tmp_path / "data.npz"))
    ]
    first, second = ((r.train / "inputs.npz").read_bytes() for r in reports)
    assert first == second
    inputs = np.load(reports[0].train / "inputs.npz")
    np.testing.assert_array_equal(inputs["arr_0001"], data["target"][0])
    assert not [key for key in inputs if key.startswith("mb")]
    assert len(opened(reports[0].train)[1].samples) == 1


# ---- errors

RELU = mlp(node("Relu", ("h",), ("y",)))
FAULTS: dict[str, tuple[Model, dict[str, Any], pytest.RaisesExc]] = {
    "unknown_operator": (
        mlp(node("Sin", ("h",), ("y",), "wave")),
        {},
        raises(UnsupportedOperator, "'wave' (Sin)", "no such operator"),
    ),
    "backward_operator": (
        mlp(node("ReluGrad", ("h", "h"), ("y",), "odd")),
        {},
        raises(NotDifferentiable, "'odd' (ReluGrad)", "backward pass", "weights behind it w1", "freeze"),
    ),
    "vector": (
        mlp(node("MatMul", ("h", "v"), ("y",), "dot"), initializers={"v": random(4)}),
        {"trainable": "w1"},
        raises(NotDifferentiable, "'dot' (MatMul)", "vector", "w1", "--trainable"),
    ),
    "exponent": (
        mlp(node("Pow", ("h", "p"), ("y",), "power"), initializers={"p": random(4)}),
        {},
        raises(NotDifferentiable, "'power' (Pow)", "exponent", "p", "freeze"),
    ),
    "no_match": (RELU, {"trainable": "bias"}, raises(OptionProblem, "'bias' matches no", "w1", "try")),
    "no_expression": (RELU, {"trainable": "w["}, raises(OptionProblem, "no regular expression", "unterminated")),
    "unused": (RELU, {"trainable": "w2"}, raises(GraphProblem, "does not depend", "'w2'", "no node", "freeze")),
    "no_way_to_the_loss": (
        mlp(node("Shape", ("h",), ("n",)), node("Reshape", ("x2", "n"), ("y",)), inputs=(value("x", (2, 3)), value("x2", (8,)))),
        {"trainable": "w1"},
        raises(GraphProblem, "does not depend", "'w1'", "'first' (Gemm)"),
    ),
    "nothing_trainable": (chain(node("Relu", ("x",), ("y",))), {}, raises(OptionProblem, "no initializer", "none")),
    "two_outputs": (
        mlp(node("Relu", ("h",), ("y",)), outputs=(value("y", None), value("h", None))),
        {},
        raises(GraphProblem, "2 outputs", "y, h", "leave the output"),
    ),
    "vector_scores": (
        mlp(node("Flatten", ("h",), ("f",), axis=0), node("Squeeze", ("f", "axis"), ("y",)), initializers={"axis": np.array([0])}),
        {"loss": "cross_entropy"},
        raises(ShapeMismatch, "'y'", "SoftmaxCrossEntropyLoss", "float32[8]", "[N, C, ...]", "mse"),
    ),
    "one_class": (
        mlp(node("Gemm", ("h", "v"), ("y",)), initializers={"v": random(4, 1)}),
        {"loss": "cross_entropy"},
        raises(ShapeMismatch, "float32[2,1]", "two classes"),
    ),
    "integer_output": (mlp(node("Shape", ("h",), ("y",))), {"trainable": "w1"}, raises(ShapeMismatch, "int32[2]", "float")),
    "unknown_loss": (RELU, {"loss": "hinge"}, raises(OptionProblem, "no loss 'hinge'", "cross_entropy, mse")),
    "no_samples": (RELU, {"samples": 0}, raises(OptionProblem, "no update", "samples")),
    "too_few_passes": (RELU, {"n_accum": 4, "n_batches": 3}, raises(OptionProblem, "no update", "4")),
    "taken_name": (
        Model((node("Gemm", ("target", "w"), ("y",)),), (value("target", (2, 3)),), (value("y", None),), (constant("w", random(3, 4)),)),
        {},
        raises(GraphProblem, "'target'", "rename"),
    ),
    "no_integer_samples": (
        mlp(node("Relu", ("h",), ("y",)), inputs=(value("x", (2, 3)), value("ids", (2,), INT64))),
        {"trainable": "w1"},
        raises(OptionProblem, "'ids'", "--data"),
    ),
    "data_without_target": (RELU, {"trainable": "w1", "data": {"x": random(2, 2, 3)}}, raises(DatasetMismatch, "'target'", "x float32")),
    "data_of_wrong_shape": (
        RELU,
        {"trainable": "w1", "data": {"x": random(2, 2, 4), "target": random(2, 2, 4)}},
        raises(DatasetMismatch, "'x'", "[2, 3]", "[2, 2, 4]"),
    ),
    "data_of_two_lengths": (
        RELU,
        {"trainable": "w1", "data": {"x": random(2, 2, 3), "target": random(3, 2, 4)}},
        raises(DatasetMismatch, "different numbers", "'target': 3"),
    ),
    "missing_data": (RELU, {"trainable": "w1", "data": Path("nowhere.npz")}, raises(FileProblem, "nowhere.npz", "does not exist")),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named(name: str, tmp_path: Path) -> None:
    """Every fault of a model or of the options has its place, its cause and a way out."""
    model, options, error = FAULTS[name]
    with error:
        built(tmp_path, model, **{"loss": "mse", **options})


@pytest.mark.parametrize(
    ("optimizer", "rate", "error"),
    [
        ("adam", 0.1, raises(OptionProblem, "no optimizer 'adam'", "sgd")),
        ("sgd", 0.0, raises(OptionProblem, "learning rate 0.0")),
        ("sgd", float("nan"), raises(OptionProblem, "learning rate nan")),
        ("sgd", 1e30, raises(DatasetMismatch, "diverges in pass", "smaller learning rate")),
    ],
)
def test_optimizer_faults(optimizer: str, rate: float, error: pytest.RaisesExc, tmp_path: Path) -> None:
    """An unknown optimizer, a rate that is no rate, and one that is too large."""
    path = RELU.save(tmp_path / "model.onnx")
    with error:
        build_train_graph(path, "mse", optimizer, rate, "w1", tmp_path)


def test_missing_model(tmp_path: Path) -> None:
    """The path is in the message."""
    with raises(FileProblem, "model.onnx", "does not exist"):
        build_train_graph(tmp_path / "model.onnx", "mse", "sgd", 0.1, "", tmp_path)


def test_rule_without_gradient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that leaves out a gradient which is needed."""
    monkeypatch.setattr(type(registry()["Relu"]), "gradient", lambda self, n, douts, b: None)
    with raises(NotDifferentiable, "Relu", "no gradient with respect to input 0, 'h'", "w1"):
        built(tmp_path, RELU)


def test_rule_with_wrong_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that gives the gradient another shape is our fault."""

    def wrong(self: object, n: object, douts: Sequence[str], b: Rule) -> None:
        b.emit("Transpose", (douts[0],), (b.grad(0),), perm=(1, 0))

    monkeypatch.setattr(type(registry()["Relu"]), "gradient", wrong)
    with raises(InternalError, "gradient rule of Relu", "float32[4,2]", "float32[2,4]"):
        built(tmp_path, RELU)
