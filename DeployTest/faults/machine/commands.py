"""The commands that meet faults: what lies there before each, and its words; all below one folder, the first result
of a command being an earlier one that the fault must leave alone."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from DeployTest.firmware.nets import adapted_case
from DeployTest.models import simple_mlp
from DeployTest.support.building.command_line import deployer

WIDE, CLASSES, SAMPLES = 3, 2, 8
FOLDERS = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
"""Folders of the environment, below that of the command."""


@dataclass(frozen=True)
class Command:
    """A command with what it finds: `prepare` makes its inputs and an earlier result in the current folder.

    `tells` are results that tell of the run, and so of one before it that was cut short; `renews` are those that it
    writes again and again, whose contents the next run goes on from.
    """

    prepare: Callable[[], None]
    words: Sequence[str]
    tells: Sequence[str] = ()
    renews: Sequence[str] = ()


def _run(*words: str) -> None:
    if deployer(*words) != 0:
        raise RuntimeError(f"what the command is to find was not made: {' '.join(words)}")


def _classifier() -> None:
    weights = np.linspace(-1, 1, WIDE * CLASSES, dtype=np.float32).reshape(WIDE, CLASSES)
    ends = [("x", (1, WIDE)), ("y", (1, CLASSES))]
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in ends]
    nodes = [helper.make_node("MatMul", ["x", "head.weight"], ["y"], "head")]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [numpy_helper.from_array(weights, "head.weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
    draw = np.random.default_rng(0)
    samples = draw.standard_normal((SAMPLES, WIDE)).astype(np.float32)
    np.savez("data.npz", x=samples, labels=np.arange(SAMPLES) % CLASSES)


def _forget_an_object() -> None:
    """Remove an object from the user's cache, so that the command compiles it again."""
    first = sorted(Path(os.environ["XDG_CACHE_HOME"]).rglob("*.o"))[0]
    first.unlink()


def _trained() -> None:
    simple_mlp.generate(Path("case"))
    _run("train", "-t", "case", "-o", "out", "--n-steps", "2", "--dump", "dump.npz")
    _forget_an_object()


FIT = ("fit", "model.onnx", "--data", "data.npz", "--loss", "cross_entropy", "--seed", "3", "-o", "run")


def _fitted() -> None:
    _classifier()
    _run(*FIT, "--epochs", "1")
    _forget_an_object()


def _packaged() -> None:
    adapted_case(Path("case"))
    _run("package", "case/adapted_train", "--name", "adapted", "-o", "library", "--n-steps", "2")


def _exported() -> None:
    _classifier()
    np.savez("weights.npz", **{"head.weight": np.ones((WIDE, CLASSES), np.float32)})
    _run("export", "model.onnx", "--weights", "weights.npz", "-o", "trained.onnx")
    np.savez("weights.npz", **{"head.weight": np.full((WIDE, CLASSES), 2, np.float32)})


def _saved() -> None:
    _packaged()
    Path("state.npz").write_bytes(b"earlier")
    Path("image.bin").write_bytes(b"earlier")


EXPORT = ("state", "export", "library/weights.bin", "-o", "state.npz", "--force")


def _arrays() -> None:
    _packaged()
    _run(*EXPORT[:-1])
    Path("image.bin").write_bytes(b"earlier")


COMMANDS = {
    "train": Command(_trained, ("train", "-t", "case", "-o", "out", "--dump", "dump.npz", "--plotMemAlloc")),
    "fit": Command(
        _fitted,
        (*FIT, "--epochs", "3", "--resume"),
        tells=("run/report.html", "run/report.json"),
        renews=("run/best.safetensors", "run/checkpoint.safetensors"),
    ),
    "package": Command(_packaged, ("package", "case/adapted_train", "--name", "adapted", "-o", "library")),
    "export": Command(_exported, ("export", "model.onnx", "--weights", "weights.npz", "-o", "trained.onnx", "--force")),
    "state show": Command(_saved, ("state", "show", "library/weights.bin")),
    "state export": Command(_saved, EXPORT),
    "state import": Command(
        _arrays, ("state", "import", "state.npz", "--library", "library", "-o", "image.bin", "--force")
    ),
}
