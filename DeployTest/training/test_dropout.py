"""Dropout in training: the same masks for any tiles, cores and targets, in all forms that files have, and left out."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from deployer import pipeline
from deployer.core.errors import UnsupportedOperator
from deployer.operators.base.philox import drawn
from deployer.training.train_graph import CaseReport
from deployer.verify.reference import run_training
from DeployTest.support.building.cases import compile_case, result_hash
from DeployTest.support.building.command_line import bits, deployer
from DeployTest.support.graphs.built_cases import built, check_differences, graph_of, opened, random
from DeployTest.support.graphs.small_graphs import Model, chain, constant, infer, node, raises, value
from DeployTest.targets.simulators import TARGETS, needs_simulator

pytestmark = [pytest.mark.host, pytest.mark.training]
TRAINS, RATIOS = constant("trains", np.array(True)), (0.5, 0.25)
RATIO = [constant(f"ratio{i}", np.float32(ratio)) for i, ratio in enumerate(RATIOS)]


def net(*drops: Any, opset: int = 17, width: int = 37) -> Model:
    """Two layers, with a Dropout behind each."""
    first, second = drops or (
        node("Dropout", (x, f"ratio{i}", "trains"), (y,)) for i, (x, y) in enumerate(("rd", "ey"))
    )
    old = {"broadcast": 1} if opset < 7 else {}
    nodes = [
        node("Gemm", ("x", "w1", "b1"), ("a",), **old),
        *(node("Relu", ("a",), ("r",)), first, node("Gemm", ("d", "w2", "b2"), ("e",), **old), second),
    ]
    arrays = {"w1": random(7, width), "b1": random(width), "w2": random(width, 5), "b2": random(5)}
    weights = [constant(name, array / np.float32(4)) for name, array in arrays.items()]
    constants = [] if drops else [TRAINS, *RATIO]
    return Model(nodes, (value("x", (3, 7)),), (value("y", (3, 5)),), [*weights, *constants], opsets=(("", opset),))


def build(folder: Path, model: Model, **options: Any) -> CaseReport:
    """Its training case, with two passes per update."""
    options = {"n_accum": 2, "samples": 2, "n_batches": 6, **options}
    return built(folder, model, **options)


def test_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The program draws what the reference draws, in an L1 that cuts tensors anywhere."""
    report = build(tmp_path, net(), seed=11)
    assert "dropout: of Dropout_d, Dropout_y, from seed 11" in str(report)
    assert deployer("train", "-t", report.train, "-o", tmp_path / "out", "--l1", 900, "--core-order", "reverse") == 0
    assert "6 of 6 passes checked" in capsys.readouterr().out


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("target", TARGETS)
def test_bits_of_targets(target: str, tmp_path: Path) -> None:
    """Masks, losses and weights of a run are the host's to the bit, though tensors are cut elsewhere."""
    needs_simulator(target)
    case = pipeline.load_training(build(tmp_path, net(), seed=11).train)
    expected = result_hash(compile_case(case, tmp_path / "host", "single", 64000).run())
    assert result_hash(compile_case(case, tmp_path / "cut", "auto", 900, target=target).run()) == expected


def test_gradients(tmp_path: Path) -> None:
    """Those of a pass, whose masks stay, are those of central differences."""
    check_differences(*opened(build(tmp_path, net(), samples=1, n_accum=1, n_batches=1).train))


def test_masks_of_a_run(tmp_path: Path) -> None:
    """Elements of both nodes are those that numpy's words say, in each pass; the backward pass has the same ones."""
    program, dataset = opened(build(tmp_path, net(), seed=1 << 33).train)
    masks: dict[str, list[np.ndarray]] = {}

    def look(node: Any, results: Any) -> None:
        if "Dropout" in node.name:
            masks.setdefault(node.name, []).append(results[0].reshape(-1) != 0)

    run_training(program, dataset, np.float64, look)
    for stream, name in enumerate(("Dropout_d", "Dropout_y")):
        forward, backward = (masks[key] for key in (name, f"{name}_Grad/KeyedDropout"))
        assert len(forward) == dataset.n_batches
        for count, (found, back) in enumerate(zip(forward, backward, strict=True), 1):
            words = drawn(1 << 33, stream, count, found.size) >= RATIOS[stream] * 2.0**32
            assert not (found & ~words).any()
            assert not (back & ~words).any()
            assert found[words].any()
    last = zip(masks["Dropout_y"], masks["Dropout_y_Grad/KeyedDropout"], strict=True)
    assert all(np.array_equal(found, back) for found, back in last)


def test_forms(tmp_path: Path) -> None:
    """Attributes before version 12, inputs since; versions 7 and 10 are inference, and the report says so."""
    old = [node("Dropout", (x,), (y,), ratio=r) for (x, y), r in zip(("rd", "ey"), RATIOS, strict=True)]
    expected = build(tmp_path / "new", net()).losses
    assert build(tmp_path / "old", net(*old, opset=6), loss="mse").losses == expected
    seven = build(tmp_path / "seven", net(*old, opset=7))
    assert seven.dropout == "none of Dropout_d, Dropout_y, which the model has in inference form"
    tested = [node("Dropout", item.input, item.output, ratio=0.5, is_test=1) for item in old]
    off = build(tmp_path / "off", net(), dropout=False)
    assert off.dropout == "left out of Dropout_d, Dropout_y, as asked"
    assert off.losses == seven.losses == build(tmp_path / "tested", net(*tested, opset=6)).losses != expected
    assert not any(item.op_type == "KeyedDropout" for item in graph_of(off).node)


def test_keys(tmp_path: Path) -> None:
    """Another seed draws others; a node's own seed stays; the samples of a file do not change masks."""
    losses = [build(tmp_path / str(seed), net(), seed=seed).losses for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
    own = [node("Dropout", (x, f"ratio{i}", "trains"), (y,), seed=5 + i) for i, (x, y) in enumerate(("rd", "ey"))]
    model = net(*own)
    report = build(
        tmp_path / "own", Model(model.nodes, model.inputs, model.outputs, [*model.initializers, TRAINS, *RATIO])
    )
    attrs = [{a.name: a.i for a in n.attribute} for n in graph_of(report).node if n.op_type == "KeyedDropout"]
    assert [(a["seed"], a["stream"]) for a in attrs] == [(5, 0), (6, 1), (6, 1), (5, 0)]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dropout off` is said in the report."""
    model = net().save(tmp_path / "net.onnx")
    words = ("train-graph", model, "--loss", "mse", "--samples", 1, "-o", tmp_path)
    assert deployer(*words, "--dropout", "off") == 0
    assert "dropout: left out of Dropout_d, Dropout_y, as asked" in capsys.readouterr().out


def test_inference_draws_nothing(tmp_path: Path) -> None:
    """A mask of ones beside Y where nothing is dropped; a program that counts no passes refuses to drop."""
    x = (3, 4)
    cast = node("Cast", ("m",), ("y",), to=onnx.TensorProto.FLOAT)
    program = infer(tmp_path, chain(node("Dropout", ("x",), ("p", "m")), cast, x=x))
    np.testing.assert_array_equal(program.tensors["y"].array, np.ones(x))
    drops = Model((node("Dropout", ("x", "", "trains"), ("y",)),), (value("x", x),), (value("y", x),), (TRAINS,))
    with raises(UnsupportedOperator, "(Dropout)", "drops elements at random", "training_mode false"):
        infer(tmp_path, drops)


RUNS = {
    "single": ("--singlebuffer", "--l1", 64000, "--cores", 1),
    "double": ("--doublebuffer", "--l1", 3000, "--dma-order", "late"),
    "spilled": ("--l1", 2500, "--l2", 9000, "--defaultMemLevel", "L3", "--core-order", "random", "--seed", 3),
    "threads": ("-p", "host_flat", "--cores", 3),
}


def test_a_constant_is_dropped(tmp_path: Path) -> None:
    """Dropout of a constant, also of whole channels, differs from pass to pass: it is not folded."""
    ones, drops = constant("ones", np.ones((3, 5), np.float32)), node("Dropout", ("ones", "ratio0", "trains"), ("m",))
    nodes = [node("MatMul", ("x", "w"), ("h",)), drops, node("Mul", ("h", "m"), ("y",))]
    initializers = [constant("w", random(7, 5)), ones, TRAINS, *RATIO]
    model = Model(nodes, (value("x", (3, 7)),), (value("y", (3, 5)),), initializers)
    losses = build(tmp_path, model, trainable="^w$", samples=1, n_accum=6).losses
    assert len(set(losses)) == len(losses)


def test_runtime_form(tmp_path: Path) -> None:
    """ONNX Runtime's DropoutGrad reads the mask of its Dropout: it is drawn again, not kept."""
    report = build(tmp_path, net())
    expected = run_training(*opened(report.train))
    path = report.train / "network.onnx"
    model = onnx.load(str(path))
    for item in model.graph.node:
        if item.op_type != "KeyedDropout":
            continue
        (y,), stream = item.output, next(a.i for a in item.attribute if a.name == "stream")
        forward = node("Dropout", (*item.input, f"ratio{stream}", "trains"), (y, f"mask{stream}"), item.name)
        grad = (*item.input, f"mask{stream}", f"ratio{stream}", "trains")
        backward = node("DropoutGrad", grad, (y,), item.name, domain="com.microsoft")
        item.CopyFrom(backward if "Grad" in item.name else forward)
    model.graph.initializer.extend([TRAINS, *RATIO])
    onnx.save(model, str(path))
    program, dataset = opened(report.train)
    assert not any("mask" in name for name in program.tensors)
    losses, weights = run_training(program, dataset)
    assert losses == expected[0]
    assert all(np.array_equal(weights[name], array) for name, array in expected[1].items())


@pytest.mark.slow
def test_same_bits(tmp_path: Path) -> None:
    """Of all tilings, bufferings, orders and numbers of cores."""
    report, found = build(tmp_path, net(width=101)), {}
    for name, words in RUNS.items():
        dump = tmp_path / f"{name}.npz"
        assert deployer("train", "-t", report.train, "-o", tmp_path / name, "--dump", dump, *words) == 0
        found[name] = bits(dump)
    assert all(run == found["single"] for run in found.values())
