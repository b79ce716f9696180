"""Libraries of models without training: ONNX Runtime's outputs, the same bits on a Cortex-M, and what is refused."""

import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from deployer.core.target import native
from deployer.sizing.boards import CORES, core_of
from deployer.sizing.emulated import compile_words, link_words, run_program
from deployer.training.step_problem import StepRecord, with_record
from DeployTest.commands.hostile_names import MARK, PIECES
from DeployTest.firmware import nets
from DeployTest.firmware.test_library import WARNINGS, check_symbols, manifest, packaged, ran
from DeployTest.support.building.command_line import deployer
from DeployTest.support.graphs.small_graphs import INT64, Model, constant, node, value
from DeployTest.support.tolerances import table
from DeployTest.targets.simulators import needs_core

pytestmark = [pytest.mark.host]
DRAW = np.random.default_rng(5)
WEIGHTS = {
    "table": DRAW.standard_normal((6, 1, 8, 8), np.float32),
    "kernel": DRAW.standard_normal((4, 1, 3, 3), np.float32),
    "dense": DRAW.standard_normal((144, 3), np.float32),
}
NODES = (
    node("Gather", ("table", "index"), ("row",)),
    node("Add", ("x", "row"), ("sum",)),
    node("Conv", ("sum", "kernel"), ("maps",)),
    node("Relu", ("maps",), ("active",)),
    node("Flatten", ("active",), ("flat",)),
    node("MatMul", ("flat", "dense"), ("logits",)),
    node("ReduceMean", ("active",), ("mean",), axes=[2, 3]),
)
INPUTS = (value("x", (1, 1, 8, 8)), value("index", (1,), INT64))
OUTPUTS = (value("logits", (1, 3)), value("mean", (1, 4, 1, 1)))
MODEL = Model(NODES, INPUTS, OUTPUTS, [constant(name, array) for name, array in WEIGHTS.items()])
PROGRAM = """
#include <stdio.h>
#include "net.h"

static net_t model;

static void put(const float *values, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        union { float f; unsigned u; } bits = {.f = values[i]};
        printf("%08x\\n", bits.u);
    }
}

int main(void) {
    if (net_input_x(&model) || net_predict(&model) != NET_ERROR_STRUCT) return 1;
    if (net_init(&model) != NET_OK || net_predict(0) != NET_ERROR_POINTER) return 2;
    for (int sample = 0; sample < 7; sample++) {
        for (int i = 0; i < (int)NET_INPUT_X_SIZE; i++) net_input_x(&model)[i] = (float)(i * (sample + 3) % 11 - 5) / 4;
        *net_input_index(&model) = sample;
        const net_status_t status = net_predict(&model);
        if (status != net_last_error(&model)) return 3;
        if (sample == 6) return status == NET_ERROR_INPUT ? 0 : 4;
        if (status != NET_OK) return 5;
        put(net_output_logits(&model), NET_OUTPUT_LOGITS_SIZE);
        put(net_output_mean(&model), NET_OUTPUT_MEAN_SIZE);
    }
    return 6;
}
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the model, and a program for it beside."""
    root = tmp_path_factory.mktemp("net")
    folder = packaged("net", MODEL.save(root / "model.onnx"), root / "library")
    (root / "main.c").write_text(PROGRAM)
    return folder


def expected(path: Path) -> "np.ndarray[Any, Any]":
    """ONNX Runtime's outputs for the program's samples."""
    session = onnxruntime.InferenceSession(path)
    rows = []
    for sample in range(6):
        x = ((np.arange(64) * (sample + 3) % 11 - 5) / 4).astype(np.float32).reshape(1, 1, 8, 8)
        rows += [np.ravel(y) for y in session.run(["logits", "mean"], {"x": x, "index": np.array([sample])})]
    return np.concatenate(rows)


def numbers(printed: str) -> "np.ndarray[Any, Any]":
    """The floats whose bits a program printed."""
    return np.array([struct.unpack(">f", bytes.fromhex(line))[0] for line in printed.split()], np.float32)


def test_predictions(net: Path, tmp_path: Path) -> None:
    """Both outputs are ONNX Runtime's for each sample; a number that is no row of the table is refused."""
    ran("make", "-s", "-C", net, f"CFLAGS=-O1 {' '.join(WARNINGS)} -DNET_ASSERTS")
    ran("make", "-s", "-C", net, "clean")
    ran("make", "-s", "-C", net, "build/libnet.a", f"CFLAGS=-O1 {' '.join(WARNINGS)}")
    check_symbols(net / "build/libnet.a", "net")
    flags = ["-O1", *WARNINGS, f"-I{net}/include"]
    ran("gcc", "-std=c11", *flags, net.parent / "main.c", net / "build/libnet.a", "-lm", "-o", tmp_path / "main")
    found = numbers(ran(tmp_path / "main"))
    np.testing.assert_allclose(found, expected(net.parent / "model.onnx"), **table()["several"]["float32"])
    ran("g++", "-std=c++17", *flags, "-fsyntax-only", "-xc++", net / "include/net.h")


@pytest.mark.cortex_m
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0plus"])
def test_cortex_m(core: str, net: Path, tmp_path: Path) -> None:
    """Under QEMU the program prints the bits that it prints here."""
    needs_core(core)
    words = compile_words(core_of(core))
    ran("make", "-s", "-C", net, "build/libnet.a")
    ran("gcc", f"-I{net}/include", net.parent / "main.c", net / "build/libnet.a", "-lm", "-o", tmp_path / "main")
    sources = [*sorted(net.glob("src/*.c")), net.parent / "main.c", CORES / "start.c"]
    ran(*words, *WARNINGS, f"-I{net}/include", *sources, *link_words(core_of(core)), "-o", tmp_path / "program.elf")
    assert run_program(core_of(core), tmp_path / "program.elf") == ran(tmp_path / "main")


def test_bits_of_infer(net: Path, tmp_path: Path) -> None:
    """The example's sample is that of `deployer infer`, and its outputs have the same bits."""
    model, dump = net.parent / "model.onnx", tmp_path / "out.npz"
    assert deployer("infer", "-t", model, "-p", native().name, "-o", tmp_path / "c", "--dump", dump) == 0
    printed = ran("make", "-s", "-C", net, "run")
    with np.load(dump) as arrays:
        for name, array in arrays.items():
            bits = [f"0x{word:08x}" for word in array.ravel().view(np.uint32).tolist()]
            assert bits == re.findall(rf"^output_{name} \d+ (\w+)", printed, re.MULTILINE)
        assert {*arrays} == {"logits", "mean"}


def test_folder(net: Path) -> None:
    """Weights are constants, memory holds the largest values alone, and nothing speaks of training."""
    sizes = manifest(net)["bytes"]
    assert sizes["frozen"] >= sum(array.nbytes for array in WEIGHTS.values())
    assert sizes["weights"] == 0
    largest = 4 * (64 + 144)  # of a step: the convolution's operands
    assert largest <= sizes["struct"] <= largest + 4 * (3 + 4 + 1 + 2) + 8 * 8  # beside: outputs, index, alignment
    assert f"static net_t model; /* {sizes['struct']} bytes */" in (net / "README.md").read_text()
    texts = {str(path.relative_to(net)): path.read_text() for path in net.rglob("*") if path.suffix in (".c", ".h")}
    assert "src/net_state.c" not in texts
    for name, text in texts.items():
        assert not re.search(r"train_step|_update\b|flash_save|learning_rate|net_loss", text), name
    assert not (net / "weights.bin").exists()


def test_struct_has_the_size_that_is_said(net: Path, tmp_path: Path) -> None:
    """The manifest's bytes are those of the struct."""
    (tmp_path / "size.c").write_text(
        f'#include "net.h"\n_Static_assert(sizeof(net_t) == {manifest(net)["bytes"]["struct"]}, "");'
    )
    ran("gcc", "-std=c11", f"-I{net}/include", "-fsyntax-only", tmp_path / "size.c")


def test_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of inputs, outputs and weights never become code: the library compiles without a warning, and runs."""
    monkeypatch.chdir(tmp_path)
    pieces = [piece for key, piece in PIECES.items() if "long" not in key and piece.isprintable()]
    nodes = [node("Add", (piece, f"w{piece}"), (f"y{piece}",), f"n{i}") for i, piece in enumerate(pieces)]
    weights = [constant(f"w{piece}", np.ones((1, 2), np.float32)) for piece in pieces]
    ends = [value(piece, (1, 2)) for piece in pieces], [value(f"y{piece}", (1, 2)) for piece in pieces]
    path = Model(nodes, *ends, weights).save(tmp_path / "model.onnx")
    folder = packaged("net", path, tmp_path / "library")
    printed = ran("make", "-s", "-C", folder, "run", f"CFLAGS={' '.join(WARNINGS)}")
    assert printed.count("output_") == 2 * len(pieces) > 20
    assert not any((place / MARK).exists() for place in (tmp_path, folder))
    package = ElementTree.parse(folder / "deployer.net.pdsc").getroot()
    assert package.findtext("name") == "net"


def test_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A symbolic axis takes the length of --batch-size, and is an error without one."""
    ends = (value("x", ("n", 4)),), (value("y", ("n", 4)),)
    model = Model((node("Relu", ("x",), ("y",)),), *ends).save(tmp_path / "model.onnx")
    assert deployer("package", model, "--name", "net", "-o", tmp_path / "none") == 2
    assert "--batch-size" in capsys.readouterr().err
    folder = packaged("net", model, tmp_path / "library", "--batch-size", 3)
    assert manifest(folder)["inputs"] == [{"name": "x", "type": "float32", "shape": [3, 4]}]
    assert manifest(folder)["output"] == [{"name": "y", "type": "float32", "shape": [3, 4]}]
    assert "net_output(const net_t" in (folder / "include/net.h").read_text()


@pytest.mark.parametrize("words", ["--predict y", "--n-steps 3", "--weights best", "--accumulate-grad-batches 2"])
def test_options_of_training(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of cases and of runs are refused."""
    model = MODEL.save(tmp_path / "model.onnx")
    assert deployer("package", model, "--name", "net", "-o", tmp_path / "out", *words.split()) == 2
    assert f"{words.split()[0]} has no effect on a model, which only predicts" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_batch_of_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A training case has its batch, and refuses another one."""
    (tmp_path / "case").mkdir()
    assert deployer("package", tmp_path / "case", "--name", "net", "-o", tmp_path / "out", "--batch-size", 3) == 2
    assert "--batch-size has no effect on a training case" in capsys.readouterr().err


def test_step_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A captured training step is no model, and the message says what to do with it."""
    path = MODEL.save(tmp_path / "step.onnx")
    onnx.save(with_record(onnx.load(path), StepRecord({})), path)
    assert deployer("package", path, "--name", "net", "-o", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "holds a training step" in said
    assert "deployer train-graph" in said


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that does not exist is not taken for a folder."""
    assert deployer("package", tmp_path / "none.onnx", "--name", "net", "-o", tmp_path / "out") == 2
    assert "none.onnx does not exist" in capsys.readouterr().err


def test_graph_of_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The graph of a training case is answered by the command for its folder, which works."""
    graph = next(nets.dense_case(tmp_path).parent.rglob("*_train/network.onnx"))
    assert deployer("package", graph, "--name", "net", "-o", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "is the graph of a training case" in said
    [command] = [line.split("deployer ")[1].split() for line in said.splitlines() if "deployer package" in line]
    packaged("net", Path(command[1]), tmp_path / "out")


def test_no_state(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`deployer state` says that such a library has none."""
    trains = packaged("other", nets.dense_case(tmp_path / "case"), tmp_path / "trains")
    assert deployer("state", "show", trains / "weights.bin", "--library", net) == 2
    assert "is a library that only predicts, and has no state" in capsys.readouterr().err


def test_idle_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An output that is an input is refused."""
    ends = (value("x", (1, 4)),), (value("y", (1, 4)), value("x", (1, 4)))
    model = Model((node("Relu", ("x",), ("y",)),), *ends).save(tmp_path / "model.onnx")
    assert deployer("package", model, "--name", "net", "-o", tmp_path / "out") == 2
    assert "x" in capsys.readouterr().err


def test_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that does not fit a budget is an error with both numbers, and nothing is written."""
    model = MODEL.save(tmp_path / "model.onnx")
    assert deployer("package", model, "--name", "net", "-o", tmp_path / "out", "--budget", "RAM=400") == 2
    said = capsys.readouterr().err
    assert "400 B" in said
    assert not (tmp_path / "out").exists()
    assert "trainable" not in said
