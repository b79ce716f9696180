"""A small dense net with a bias, samples of three classes, and a fleet of both."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from DeployTest.support.building.command_line import deployer

SAMPLES, WIDTH, HIDDEN, CLASSES, BATCH, RATE = 61, 5, 4, 3, 4, 0.1


def samples(count: int, seed: int) -> dict[str, np.ndarray]:
    """Drawn samples, whose class is their largest of three numbers."""
    x = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return {"x": x, "labels": x[:, :CLASSES].argmax(1)}


class FleetPlace:
    """A model, samples and validation samples in a folder, and the command with these."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, folder / "net.onnx"
        self.data, self.validation = folder / "data.npz", folder / "validation.npz"
        np.savez(self.data, **samples(SAMPLES, 3))
        np.savez(self.validation, **samples(24, 4))
        draw = np.random.default_rng(5)
        shapes = {"w1": (WIDTH, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, CLASSES)}
        weights = [numpy_helper.from_array(draw.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
        nodes = [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["a"]),
            helper.make_node("Tanh", ["a"], ["t"]),
            helper.make_node("MatMul", ["t", "w2"], ["y"]),
        ]
        ends = [helper.make_tensor_value_info(n, 1, ["n", s]) for n, s in (("x", WIDTH), ("y", CLASSES))]
        graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        onnx.save(model, self.model)

    def words(self, out: Path, *words: object, batch: int = BATCH) -> list[object]:
        """The command, on the back end without Flower unless the words have another one."""
        words = (*words, *(() if "--data" in words else ("--data", self.data)))
        words = (*words, *(() if "--backend" in words else ("--backend", "loop")))
        named = ["--loss", "cross_entropy", "--lr", RATE, "--batch-size", batch]
        return ["fleet", self.model, *named, "-o", out, *words]

    def run(self, name: str, *words: object, batch: int = BATCH) -> tuple[int, Path]:
        """Run the command; its exit code and folder."""
        out = self.folder / name
        return deployer(*self.words(out, *words, batch=batch)), out


def trained(out: Path) -> dict[str, np.ndarray]:
    """The weights that a fleet has written."""
    with np.load(out / "trained.npz") as file:
        return {name: file[name] for name in file.files}


def report_of(out: Path) -> dict[str, Any]:
    """The report of a fleet."""
    found: dict[str, Any] = json.loads((out / "report.json").read_text())
    return found
