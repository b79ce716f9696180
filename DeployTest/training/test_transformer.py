"""An encoder block with attention, layer norms and Gelu: as PyTorch trains it, and the same bits in any L1."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployer import pipeline
from DeployTest.models import transformer
from DeployTest.support.building.cases import compile_case, faults, result_hash
from DeployTest.support.building.command_line import deployer
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.training]
TOLERANCE = table()["training"]
BATCH = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The *_train folder."""
    return transformer.generate(tmp_path_factory.mktemp("transformer"), batch=BATCH)


@pytest.mark.torch
def test_training_is_pytorchs(folder: Path) -> None:
    """The same block trains to the same losses and weights."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    net = importlib.import_module("DeployTest.support.references.torch_nets").Encoder(
        transformer.WIDTH, transformer.HIDDEN, transformer.CLASSES
    )
    graph = onnx.load(str(folder.with_name("transformer.onnx"))).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.name != "scale"}
    net.load_state_dict({n: torch.tensor(a.T if n.startswith("fc.w") else a) for n, a in arrays.items()})
    inputs, outputs = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    count, passes = (inputs[f"meta_{key}"].item() for key in ("data_size", "n_batches"))
    prefixes = ["", *(f"mb{k}_" for k in range(1, count))]
    samples = [tuple(torch.tensor(inputs[f"{p}arr_{i:04d}"]) for i in (0, 1)) for p in prefixes]
    losses, weights = importlib.import_module("DeployTest.support.references.torch_nets").train(
        net, samples, transformer.RATE, passes, 1
    )
    assert np.abs(np.array(losses) - outputs["loss"]).max() <= TOLERANCE["loss"]
    for name, weight in weights.items():
        expected = outputs[re.sub(r"\W", "_", name)]
        actual = weight.numpy().T if name.startswith("fc.w") else weight.numpy()
        assert np.abs(actual - expected).max() <= TOLERANCE["weight"], name


@pytest.mark.slow
def test_a_million_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six layers of 128 with 1.2 million parameters train on one flat memory, in no more bytes than live at once."""
    case = transformer.generate(tmp_path / "case", layers=6, tokens=32, width=128, hidden=528)
    with np.load(case / "outputs.npz") as arrays:
        count = sum(arrays[name].size for name in arrays.files if name.endswith(("weight", "bias")))
    assert count > 1_200_000
    assert deployer("train", "-t", tmp_path / "case", "-p", "host_flat", "-o", tmp_path / "out") == 0
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["verdict"] == "passed"
    assert (report["checks"]["passes"], len(report["checks"]["rows"])) == (4, 4)
    assert "gap 0 B" in capsys.readouterr().out


LONG = [pytest.param("auto", 24000, marks=pytest.mark.slow)] + [
    pytest.param(name, l1, marks=pytest.mark.slow) for name in ("single", "double") for l1 in (24000, 10000)
]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "l1"), [("auto", 10000), *LONG])
def test_same_bits_in_any_l1(folder: Path, strategy: str, l1: int, tmp_path: Path) -> None:
    """Right, on the model's clock, and the bits of a run in one tile per step."""
    case = pipeline.load_training(folder)
    expected = result_hash(compile_case(case, tmp_path / "whole", "single", 200000, cores=1).run())
    built = compile_case(case, tmp_path / "c", strategy, l1)
    for order in ("late", "random"):
        outcome = built.run("--dma-order", order, "--core-order", "random")
        assert not faults(built, outcome)
        assert result_hash(outcome) == expected
