"""Libraries whose inputs have 8 bits: the bits of those that take floats, in less memory."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from deployer import pipeline
from deployer.core.errors import DatasetMismatch
from deployer.core.plan import Options
from deployer.firmware.sources import library_rules
from deployer.sizing.library_folder import Library, write_library
from deployer.sizing.needs import model_material
from DeployTest.firmware.test_library import WARNINGS, packaged, ran, trained
from DeployTest.quantized.models import MODELS, Array, float_model, quantized_model, samples
from DeployTest.quantized.test_inputs import by_runtime, bytes_model
from DeployTest.support.building.command_line import deployer, refused

pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.host, pytest.mark.training]
SIGNED, UNSIGNED = ("QInt8", "QInt8", True), ("QUInt8", "QUInt8", False)
PASSES = 4


def head_of(name: str, folder: Path) -> str:
    """The name of the last layer of a model."""
    quantized_model(name, "QDQ", SIGNED, folder)
    return next(node.name for node in onnx.load(folder / f"{name}.onnx").graph.node if node.op_type == "Gemm")


def scaling(path: Path) -> tuple[np.float32, Array]:
    """Scale and zero of a model's input, as its file has them."""
    graph = onnx.load(path).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    first = next(node for node in graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x")
    return np.float32(arrays[first.input[1]]), arrays[first.input[2]]


def numbers_of(path: Path, floats: Array) -> Array:
    """Numbers that QuantizeLinear makes of floats, in the type of the file."""
    scale, zero = scaling(path)
    ends = np.iinfo(zero.dtype)
    return np.clip(np.rint(floats / scale) + int(zero), ends.min, ends.max).astype(zero.dtype)


def case_of(path: Path, folder: Path, **data: Array) -> Path:
    """A training case of a model, with its own samples or others."""
    words = ["train-graph", path, "--loss", "cross_entropy", "--n-steps", PASSES, "--lr", 0.05, "-o", folder]
    if data:
        np.savez(folder.with_suffix(".npz"), **data)
        words += ["--data", folder.with_suffix(".npz")]
    assert deployer(*words) == 0
    return folder


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["residual", "perceptron"])
def test_trains_as_with_floats(name: str, kind: str, tmp_path: Path) -> None:
    """Losses, predictions and the final state are those of the library that takes floats; the struct is smaller."""
    path = quantized_model(name, "QDQ", SIGNED, tmp_path, (last_of(name, tmp_path),))
    case, printed, sizes = case_of(path, tmp_path / "case"), [], []
    for words in ((), ("--inputs", kind)):
        folder = packaged("net", case, tmp_path / f"library{len(words)}", *words)
        ran("make", "-s", "-C", folder, f"CFLAGS=-O1 -DNET_ASSERTS {' '.join(WARNINGS)}")
        printed.append(ran(folder / "build/net_example"))
        sizes.append(json.loads((folder / "manifest.json").read_text()))
    assert printed[0] == printed[1]
    assert len(re.findall("^loss ", printed[0], re.MULTILINE)) == PASSES
    [before, after] = (facts["bytes"]["struct"] for facts in sizes)
    assert before - after >= 2 * np.prod(MODELS[name][1])
    given = next(row for row in sizes[1]["inputs"] if row["name"] == "x")
    scale, zero = scaling(path)
    moved = 128 if kind == "uint8" else 0
    assert (given["type"], np.float32(given["scale"]), given["zero"]) == (kind, scale, int(zero) + moved)
    header = (tmp_path / "library2/include/net.h").read_text()
    assert re.search(rf"^{kind}_t \*net_input_x\(.*n stands for \(n [+-] {abs(int(zero) + moved)}\)", header, re.M)


@pytest.mark.slow
def test_predicts_after_updates(tmp_path: Path) -> None:
    """Predictions in the memory of gradients have the usual bits; one between a pass and its update is refused."""
    path = quantized_model("residual", "QDQ", SIGNED, tmp_path, (head_of("residual", tmp_path),))
    case, printed, sizes = case_of(path, tmp_path / "case"), [], []
    for words in ((), ("--predict-after-update",), ("--predict-after-update", "--inputs", "int8")):
        folder = packaged("net", case, tmp_path / f"library{len(words)}", *words)
        ran("make", "-s", "-C", folder, f"CFLAGS=-O1 -DNET_ASSERTS {' '.join(WARNINGS)}")
        printed.append(ran(folder / "build/net_example"))
        sizes.append(json.loads((folder / "manifest.json").read_text())["bytes"]["struct"])
    assert printed[1:] == printed[:1] * 2
    assert sizes[0] - sizes[1] == 4 * (5 * 8 + 5)  # the gradients
    assert sizes[1] > sizes[2]
    check = tmp_path / "check.c"
    check.write_text(BETWEEN)
    for folder, due in ((tmp_path / "library0", 0), (tmp_path / "library1", 1)):
        program, sources = tmp_path / f"check{due}", sorted((folder / "src").glob("*.c"))
        flags = library_rules().flags
        ran("gcc", "-std=c11", *flags, f"-I{folder / 'include'}", check, *sources, "-lm", f"-DDUE={due}", "-o", program)
        ran(program)


BETWEEN = """#include "net.h"
static net_t model;
int main(void) {
    const net_status_t refused = DUE ? NET_ERROR_DUE : NET_OK;
    if (net_init(&model) || net_predict(&model) || net_train_step(&model, 0)) return 1;
    if (net_predict(&model) != refused) return 2;
    if (net_update(&model) || net_predict(&model) || net_train_step(&model, 0) || net_drop_passes(&model)) return 3;
    return net_predict(&model) != NET_OK;
}
"""
"""A prediction between a pass and its update, and others."""


def test_gradients_of_several_passes_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Predictions cannot have the memory of gradients of several passes."""
    path = quantized_model("residual", "QDQ", SIGNED, tmp_path, (head_of("residual", tmp_path),))
    case = case_of(path, tmp_path / "case")
    words = ("package", case, "--name", "net", "-o", tmp_path / "library", "--n-accum", 2, "--predict-after-update")
    assert "passes per update" in refused(capsys, *words)


def last_of(name: str, folder: Path) -> str:
    """The node that stays float and trains: the last product."""
    if name != "perceptron":
        return head_of(name, folder)
    quantized_model(name, "QDQ", SIGNED, folder)
    return str(onnx.load(folder / f"{name}.onnx").graph.node[-1].name)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("kinds", [SIGNED, UNSIGNED])
def test_model_of_bytes_trains(kinds: tuple[str, str, bool], tmp_path: Path) -> None:
    """A model whose own input has 8 bits trains as the one that quantizes floats, here and as a library."""
    last = head_of("residual", tmp_path)
    path = quantized_model("residual", "QDQ", kinds, tmp_path, (last,))
    xs = np.array(list(samples("residual", PASSES, 5)))
    labels = np.arange(PASSES).reshape(-1, 1) % 5
    floats = trained(case_of(path, tmp_path / "floats", x=xs, labels=labels), tmp_path / "c1")
    narrow = bytes_model("residual", "QDQ", kinds, tmp_path, (last,))
    [item] = onnx.load(narrow).graph.input
    case = case_of(narrow, tmp_path / "bytes", **{item.name: numbers_of(path, xs), "labels": labels})
    assert trained(case, tmp_path / "c2")["loss"].tobytes() == floats["loss"].tobytes()
    folder = packaged("net", case, tmp_path / "library")
    ran("make", "-s", "-C", folder, f"CFLAGS=-O1 {' '.join(WARNINGS)}")
    lines = [line.split() for line in ran(folder / "build/net_example").splitlines()]
    losses = np.array([int(line[2], 16) for line in lines if line[0] == "loss"], np.uint32)
    assert losses.tobytes() == floats["loss"].tobytes()
    assert {row["type"] for row in json.loads((folder / "manifest.json").read_text())["inputs"]} > {
        {"QInt8": "int8", "QUInt8": "uint8"}[kinds[0]]
    }


@pytest.mark.parametrize(("kinds", "kind"), [(SIGNED, "uint8"), (UNSIGNED, "uint8"), (UNSIGNED, "int8")])
def test_predicts(kinds: tuple[str, str, bool], kind: str, tmp_path: Path) -> None:
    """A library that predicts takes numbers, or floats that are quantized for it, and has ONNX Runtime's results."""
    path = quantized_model("residual", "QDQ", kinds, tmp_path)
    made = model_material(pipeline.load_inference_case(path), "net", Options(library_rules().target), inputs=kind)
    library: Library = write_library(made, tmp_path / "library")
    for x in samples("residual", 3, 9):
        due = by_runtime(path, x, True)
        signed = numbers_of(path, x).astype(np.int64) - (128 if kinds == UNSIGNED else 0)
        assert library.predict(x).tobytes() == due.tobytes()
        assert library.predict(signed + (128 if kind == "uint8" else 0)).tobytes() == due.tobytes()
    with pytest.raises(DatasetMismatch, match="not numbers of"):
        library.predict(np.full(MODELS["residual"][1], 256))


def test_floats_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that computes with its floats cannot take numbers in their place."""
    message = refused(
        capsys,
        "package",
        float_model("perceptron", tmp_path / "net.onnx"),
        "--name",
        "net",
        "-o",
        tmp_path / "library",
        "--inputs",
        "int8",
    )
    assert "no input is quantized at once" in message


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_latents_of_bytes(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Latents of numbers are those of floats: a library that trains its head on them prints the same."""
    path = quantized_model("residual", "QDQ", SIGNED, tmp_path, (head_of("residual", tmp_path),))
    case, printed = case_of(path, tmp_path / "case"), []
    for words in ((), ("--inputs", kind)):
        folder = packaged("net", case, tmp_path / f"library{len(words)}", "--latent-replay", 3, *words)
        ran("make", "-s", "-C", folder, f"CFLAGS=-O1 -DNET_ASSERTS {' '.join(WARNINGS)}")
        printed.append(ran(folder / "build/net_example"))
    assert printed[0] == printed[1]
    words = ("package", case, "--name", "net", "-o", tmp_path / "library", "--latent-replay", 3)
    assert "gradients wait for features" in refused(capsys, *words, "--predict-after-update")
