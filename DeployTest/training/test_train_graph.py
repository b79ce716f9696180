"""The form of written training cases: names, order, types, arrays, bytes."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from deployer.core.errors import DeployerWarning
from deployer.frontend import parse
from deployer.frontend.dataset import MARK
from deployer.training.samples import write_npz
from deployer.verify.reference import run_training
from DeployTest.support.graphs.built_cases import (
    GENERATED,
    LAST,
    built,
    check_differences,
    generate,
    mlp,
    one_pass,
    opened,
    random,
)
from DeployTest.support.graphs.small_graphs import BOOL, FLOAT, INT64, node, value
from DeployTest.support.tolerances import table

DOUBLE, UINT8 = onnx.TensorProto.DOUBLE, onnx.TensorProto.UINT8
pytestmark = [pytest.mark.host, pytest.mark.training]


LONG = ("dscnn_plain", "resnet8_batch", "mobilenet_v1_batch", "mobilenet_v1_accum")
"""Cases that take long; others are like them but for the batch, the accumulation or the seed."""
MARKED = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in GENERATED]


@pytest.fixture(scope="module", params=MARKED)
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The *_train folder of a generated case."""
    return generate(request.param, tmp_path_factory.mktemp(request.param))


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
    ours = {"ReluGrad", "SoftmaxCrossEntropyLossGrad", "InPlaceAccumulatorV2", "ConvGradX", "ConvGradW"}
    ours |= {"BatchNormInternal", "BatchNormalizationGrad", "MaxPoolGrad"}
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
    file_inputs = [v for v in declared(graph.input) if not v[0].endswith(".buffer")]
    kinds = {FLOAT: np.float32, INT64: np.int64, BOOL: np.bool_}
    inputs, outputs = (dict(np.load(generated / f"{n}.npz")) for n in ("inputs", "outputs"))
    size, passes = inputs["meta_data_size"].item(), inputs["meta_n_batches"].item()
    further = [f"mb{k}_arr_{i:04d}" for k in range(1, size) for i in (0, 1)]
    first = [f"arr_{i:04d}" for i in range(len(file_inputs))]
    assert list(inputs) == [*first, *further, "meta_data_size", "meta_n_batches", "meta_n_accum"]
    for key, (_, kind, shape) in zip(first, file_inputs, strict=True):
        assert (inputs[key].dtype, inputs[key].shape) == (kinds[kind], shape)
    for key in further:
        like = inputs[key[-8:]]
        assert (inputs[key].dtype, inputs[key].shape) == (like.dtype, like.shape)
    assert inputs[first[-1]].tolist() == [True]
    assert passes % inputs["meta_n_accum"].item() == 0
    assert list(outputs) == [MARK, *(n for n, *_ in file_inputs[2:-1]), "loss"]
    assert all(a.dtype == np.float32 for name, a in outputs.items() if name != MARK)
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


@pytest.mark.matrix(keep=1)
def test_reproducible_to_the_byte(generated: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A second run writes the same bytes, another seed others."""
    module, options = GENERATED[request.node.callspec.params["generated"]]
    seed = options.get("seed", 0)
    again, other = (module.generate(tmp_path / str(n), **options | {"seed": n}) for n in (seed, seed + 1))
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
    """Dots and leading digits are replaced, a duplicate gets a number, and `--trainable` matches either spelling."""
    names = {"a.b": random(4), "a_b": random(4), "1st": random(4)}
    nodes = [node("Add", (f"h{i}" if i else "h", n), (f"h{i + 1}" if i < 2 else "r",)) for i, n in enumerate(names)]
    report = built(tmp_path, mlp(*nodes, LAST, initializers=names), trainable=".")
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


def test_samples_are_put_into_batches(tmp_path: Path) -> None:
    """Samples by themselves are what batches of them are; the first ones fill up the last batch, which is said."""
    model = mlp(node("Relu", ("h",), ("y",)))
    data = {"x": random(5, 3), "target": random(5, 4)}
    whole = {name: np.stack([a[[0, 1]], a[[2, 3]], a[[4, 0]]]) for name, a in data.items()}
    found: list[DeployerWarning] = []
    first = built(tmp_path / "samples", model, trainable="w1", data=data, warn=found.append)
    [warning] = found
    assert "5 samples are not a multiple of the batch size 2" in warning.cause
    second = built(tmp_path / "batches", model, trainable="w1", data=whole, warn=found.append)
    even = built(tmp_path / "even", model, trainable="w1", data={n: a[:4] for n, a in data.items()}, warn=found.append)
    assert len(found) == 1
    assert (first.train / "inputs.npz").read_bytes() == (second.train / "inputs.npz").read_bytes()
    assert len(opened(even.train)[1].samples) == 2


def test_wide_weights_old_opset_and_spare_inputs(tmp_path: Path) -> None:
    """float64 weights become float32, opset 13 becomes 17, 21 stays; an initializer may be declared as an input."""
    for opset, expected in ((13, 17), (21, 21)):
        wide = {"w1": random(4, 3).astype(np.float64)}
        inputs = value("x", (2, 3)), value("w1", (4, 3), DOUBLE), value("spare", (2,))
        model = mlp(node("Relu", ("h",), ("y",)), initializers=wide, inputs=inputs, opsets=(("", opset),))
        with pytest.warns(DeployerWarning, match="what the file has in float64 is float32 here"):
            report = built(tmp_path / str(opset), model)
        file = onnx.load(str(report.train / "network.onnx"))
        assert file.opset_import[0].version == expected
        assert [n for n, *_ in declared(file.graph.input)][:4] == ["x", "spare", "target", "w1"]
        check_differences(*opened(report.train))


@pytest.mark.parametrize("opset", [14, 17])
def test_integers_keep_their_types(opset: int, tmp_path: Path) -> None:
    """Truths, and integers of few bits that wrap, are in the training graph what they are in the model's file."""
    nodes = (
        node("Where", ("mask", "h", "zero"), ("kept",)),
        node("Add", ("few", "more"), ("sums",)),
        node("Cast", ("sums",), ("floats",), to=FLOAT),
        node("Mul", ("kept", "floats"), ("scaled",)),
        node("Where", ("last", "scaled", "zero"), ("some",)),
        node("Pow", ("some", "one"), ("y",)),  # of another version in opset 17 than in 14
    )
    arrays = {
        "zero": np.zeros(1, np.float32),
        "one": np.ones(1, np.float32),
        "few": np.full(4, 200, np.uint8),
        "last": np.arange(4) < 3,
    }
    inputs = value("x", (2, 3)), value("mask", (2, 4), BOOL), value("more", (4,), UINT8)
    model = mlp(*nodes, initializers=arrays, inputs=inputs, opsets=(("", opset),))
    mask, more = np.arange(16).reshape(2, 2, 4) % 3 == 0, np.full((2, 4), 100, np.uint8)
    report = built(
        tmp_path,
        model,
        trainable="w1",
        data={"x": random(2, 2, 3), "mask": mask, "more": more, "target": random(2, 2, 4)},
    )
    file = onnx.load(str(report.train / "network.onnx")).graph
    kinds = {name: kind for name, kind, _ in declared(file.input)}
    kinds |= {tensor.name: tensor.data_type for tensor in file.initializer}
    assert [kinds[name] for name in ("mask", "more", "few", "last")] == [BOOL, UINT8, UINT8, BOOL]
    program, dataset = opened(report.train)
    weights = {n: w.astype(np.float64) for n, w in dataset.weights.items()}
    np.testing.assert_array_equal(one_pass(program, dataset, weights)["floats"], np.full((4,), 300 - 256))
    check_differences(program, dataset)
