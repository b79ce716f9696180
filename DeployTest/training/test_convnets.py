"""The convolutional models against PyTorch, on the host, and in forms that no registry row has."""

import importlib
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployer import pipeline
from deployer.frontend import parse
from DeployTest.models import resnet8
from DeployTest.support.building.cases import compile_case, faults, result_hash, worst_difference
from DeployTest.support.graphs.built_cases import CONVOLUTIONAL, generate
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
TOLERANCE = table()["training"]


@pytest.mark.parametrize("name", CONVOLUTIONAL)
@pytest.mark.torch
def test_training_is_pytorchs(name: str, tmp_path: Path) -> None:
    """The same net, written from its published table, trains to the same losses and weights."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nets = importlib.import_module("DeployTest.support.references.torch_nets")
    module, options = CONVOLUTIONAL[name]
    folder = generate(name, tmp_path)
    net = getattr(nets, module.__name__.rpartition(".")[2])(options.get("batch_norm", True))
    arrays = {t.name: numpy_helper.to_array(t) for t in initializers(folder)}
    state = {n: torch.tensor(a) for n, a in arrays.items()}
    missing, unknown = net.load_state_dict(state, strict=False)
    assert not unknown
    assert all(n.endswith("num_batches_tracked") for n in missing)
    inputs, outputs = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    prefixes = ["", *(f"mb{k}_" for k in range(1, inputs["meta_data_size"].item()))]
    samples = [tuple(torch.tensor(inputs[f"{p}arr_{i:04d}"]) for i in (0, 1)) for p in prefixes]
    counts = (inputs[f"meta_n_{key}"].item() for key in ("batches", "accum"))
    losses, weights = nets.train(net, samples, learning_rate(folder), *counts)
    assert np.abs(np.array(losses) - outputs["loss"]).max() <= TOLERANCE["loss"]
    recorded = {n for n in outputs.files if not n.startswith("meta_")}
    assert {re.sub(r"\W", "_", n) for n in weights} | {"loss"} == recorded
    for n, weight in weights.items():
        difference = np.abs(weight.numpy() - outputs[re.sub(r"\W", "_", n)]).max()
        assert difference <= TOLERANCE["weight"], n


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONVOLUTIONAL))
def test_trains_on_the_host(name: str, tmp_path: Path) -> None:
    """Several passes per update, several images per pass, and layers without batch norm, in L2."""
    case = pipeline.load_training(generate(name, tmp_path))
    built = compile_case(case, tmp_path / "c", "single", 128000, outermost="L3")
    outcomes = [built.run("--dma-order", order) for order in ("early", "late")]
    assert not [fault for outcome in outcomes for fault in faults(built, outcome)]
    assert len({result_hash(outcome) for outcome in outcomes}) == 1


@pytest.mark.slow
def test_batches_in_a_small_l1(tmp_path: Path) -> None:
    """Four images per pass with an L1 too small for one channel of an image: same bits as with a large L1."""
    case = pipeline.load_training(resnet8.generate(tmp_path, batch=4, samples=1, n_batches=1))
    hashes = set()
    for l1 in (128000, 12000):
        outcome = compile_case(case, tmp_path / f"{l1}", "single", l1, outermost="L3").run("--dma-order", "random")
        assert worst_difference(case, outcome) <= TOLERANCE["weight"]
        hashes.add(result_hash(outcome))
    assert len(hashes) == 1


def initializers(folder: Path) -> list[onnx.TensorProto]:
    """Weights and statistics of the forward model beside a *_train folder."""
    return list(onnx.load(str(folder.with_name(folder.name.removesuffix("_train") + ".onnx"))).graph.initializer)


def learning_rate(folder: Path) -> float:
    """As the optimizer graph has it."""
    graph = onnx.load(str(parse.optimizer_dir(folder) / "network.onnx")).graph
    [rate] = {onnx.helper.get_attribute_value(a) for n in graph.node for a in n.attribute}
    return float(rate)
