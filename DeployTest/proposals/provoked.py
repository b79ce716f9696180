"""Requests that provoke the errors whose hints name an option, and the values that those hints leave open."""

import fcntl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deployer.core.target import native
from DeployTest.firmware import nets
from DeployTest.models import simple_mlp
from DeployTest.proposals.hints import LEFT_OUT, Values
from DeployTest.support.building.command_line import deployer

Words = list[object]
WIDE, SAMPLES, CLASSES = 3, 6, 2


def _model(path: Path, nodes: list[onnx.NodeProto], ends: tuple[list[object], list[object]], **arrays: object) -> Path:
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip("xy", ends, strict=True)]
    constants = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Places:
    """Inputs of the requests, each made below a folder when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def mlp(self) -> Path:
        """A small training case."""
        return simple_mlp.generate(self.root / "mlp")

    @cached_property
    def adapter(self) -> Path:
        """A training case of two passes per update."""
        return nets.adapted_case(self.root / "adapter")

    @cached_property
    def library(self) -> Path:
        """A library, with its first image."""
        assert deployer("package", self.adapter, "--name", "adapted", "-o", self.root / "library") == 0
        return self.root / "library"

    @cached_property
    def forward(self) -> Path:
        """A classifier."""
        weights = np.linspace(-1, 1, WIDE * CLASSES).reshape(WIDE, CLASSES)
        node = helper.make_node("MatMul", ["x", "head.weight"], ["y"], "head")
        return _model(self.root / "forward.onnx", [node], ([1, WIDE], [1, CLASSES]), **{"head.weight": weights})

    @cached_property
    def deep(self) -> Path:
        """A classifier of two layers."""
        weights = {
            "body.weight": np.eye(WIDE),
            "head.weight": np.linspace(-1, 1, WIDE * CLASSES).reshape(WIDE, CLASSES),
        }
        nodes = [
            helper.make_node("MatMul", ["x", "body.weight"], ["h"], "body"),
            helper.make_node("MatMul", ["h", "head.weight"], ["y"], "head"),
        ]
        return _model(self.root / "deep.onnx", nodes, ([1, WIDE], [1, CLASSES]), **weights)

    @cached_property
    def old(self) -> Path:
        """The classifier in an opset of ONNX that has no scales along an axis."""
        model = onnx.load(self.forward)
        model.opset_import[0].version = 11
        onnx.save(model, self.root / "old.onnx")
        return self.root / "old.onnx"

    @cached_property
    def open(self) -> Path:
        """A classifier of open lengths."""
        nodes = [helper.make_node("Relu", ["x"], ["y"], "relu")]
        return _model(self.root / "open.onnx", nodes, (["N", "width"], ["N", "width"]))

    @cached_property
    def undecided(self) -> Path:
        """A model with a constant that may be a parameter."""
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", "onnx::Mul_7"], ["y"])]
        arrays = {"w": np.linspace(-1, 1, WIDE * WIDE).reshape(WIDE, WIDE), "onnx::Mul_7": np.linspace(1, 2, WIDE)}
        return _model(self.root / "undecided.onnx", nodes, ([1, WIDE], [1, WIDE]), **arrays)

    @cached_property
    def scaled(self) -> Path:
        """A model without parameters, but a constant."""
        nodes = [helper.make_node("Mul", ["x", "scale"], ["y"])]
        return _model(self.root / "scaled.onnx", nodes, ([1, WIDE], [1, WIDE]), scale=0.5)

    @cached_property
    def rounded(self) -> Path:
        """A model whose input is of integers of any size."""
        values = [helper.make_tensor_value_info("x", 7, [1, WIDE]), helper.make_tensor_value_info("y", 1, [1, 2])]
        weight = numpy_helper.from_array(np.ones((WIDE, 2), np.float32), "head.weight")
        nodes = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("MatMul", ["f", "head.weight"], ["y"])]
        graph = helper.make_graph(nodes, "net", values[:1], values[1:], [weight])
        path = self.root / "rounded.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        np.savez(self.root / "rounded.npz", x=np.arange(6).reshape(2, WIDE), target=np.ones((2, 2), np.float32))
        return path

    @cached_property
    def embedded(self) -> Path:
        """A model whose input is of integers."""
        values = [helper.make_tensor_value_info("x", 7, [4]), helper.make_tensor_value_info("y", 1, [4, 2])]
        table = numpy_helper.from_array(np.ones((5, 2), np.float32), "embedding.weight")
        cut = [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Gather", ["embedding.weight", "i"], ["y"])]
        graph = helper.make_graph(cut, "net", values[:1], values[1:], [table])
        path = self.root / "embedded.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    @cached_property
    def large(self) -> Path:
        """A model whose weights are larger than L2 of every target, in a layer that tiles well."""
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        return _model(self.root / "large.onnx", nodes, ([1, 1024], [1, 1024]), w=np.ones((1024, 1024)) / 1024)

    @cached_property
    def batched(self) -> Path:
        """A classifier whose batch is larger than the number of samples."""
        nodes, batch = [helper.make_node("MatMul", ["x", "w"], ["y"])], 2 * SAMPLES
        return _model(self.root / "batched.onnx", nodes, ([batch, WIDE], [batch, CLASSES]), w=np.ones((WIDE, CLASSES)))

    @cached_property
    def data(self) -> Path:
        """Samples of the classifier."""
        draw = np.random.default_rng(0)
        arrays = {"x": draw.standard_normal((SAMPLES, WIDE)).astype(np.float32), "labels": np.arange(SAMPLES) % CLASSES}
        np.savez(self.root / "data.npz", **arrays)
        return self.root / "data.npz"

    @cached_property
    def indices(self) -> Path:
        """Samples of the model that reads integers."""
        np.savez(self.root / "indices.npz", x=np.arange(8).reshape(2, 4) % 5, target=np.ones((2, 4, 2), np.float32))
        return self.root / "indices.npz"

    @cached_property
    def table(self) -> Path:
        """Samples whose target no usual heading names."""
        rows = [f"{i / 7},{i / 5},{i / 3},{i % CLASSES}" for i in range(SAMPLES)]
        (self.root / "table.csv").write_text("\n".join(["a,b,c,kind", *rows]) + "\n")
        return self.root / "table.csv"

    @cached_property
    def grouped(self) -> Path:
        """A case with two rates."""
        return nets.normed_case(self.root / "grouped")

    @cached_property
    def other(self) -> Path:
        """Another library."""
        assert deployer("package", self.mlp, "--name", "mlp", "-o", self.root / "other") == 0
        return self.root / "other"

    @cached_property
    def idle(self) -> Path:
        """A model with a weight that its output does not need."""
        nodes = [
            helper.make_node("MatMul", ["x", "head.weight"], ["y"], "head"),
            helper.make_node("MatMul", ["x", "idle.weight"], ["z"], "idle"),
        ]
        weight = np.linspace(-1, 1, WIDE * CLASSES).reshape(WIDE, CLASSES)
        arrays = {"head.weight": weight, "idle.weight": 2 * weight}
        return _model(self.root / "idle.onnx", nodes, ([1, WIDE], [1, CLASSES]), **arrays)

    @cached_property
    def held(self) -> Path:
        """A folder that somebody works in."""
        path = self.root / "held"
        (path / ".deployer").mkdir(parents=True)
        self.lock = (path / ".deployer" / "lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        return path

    @cached_property
    def linked(self) -> Path:
        """A folder whose own part is a link."""
        path = self.root / "linked"
        path.mkdir()
        (path / ".deployer").symlink_to(self.root)
        return path

    @cached_property
    def compiled(self) -> Path:
        """A folder of a compiled case."""
        assert deployer("compile", "-t", self.mlp, "-o", self.root / "compiled") == 0
        return self.root / "compiled"

    @cached_property
    def trained(self) -> Path:
        """A folder of a run over epochs."""
        words = ("fit", self.forward, "--data", self.data, "--loss", "cross_entropy", "--epochs", "1")
        assert deployer(*words, "-o", self.root / "trained") == 0
        return self.root / "trained"

    @cached_property
    def scheduled(self) -> Path:
        """A case whose rates follow a schedule."""
        words = ("train-graph", self.forward, "--data", self.data, "--loss", "cross_entropy")
        assert deployer(*words, "--lr-scheduler", "cosine", "-o", self.root / "scheduled") == 0
        return self.root / "scheduled"

    def mine(self, name: str) -> Path:
        """A file that the deployer did not write."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
        return path


@dataclass(frozen=True)
class Provoked:
    """A request that ends with an error: the words of the command, and values of options that the hint leaves open.

    Where no `-o` is among the words, a new folder is added.
    """

    words: Callable[[Places], Words]
    values: Callable[[Places], Values] = field(default=lambda p: {})
    writes: bool = True


def _fit(p: Places, *words: object) -> Words:
    return ["fit", p.forward, "--data", p.data, "--loss", "cross_entropy", "--epochs", "1", *words]


def _fits(p: Places, loss: str, *words: object) -> Words:
    return ["fits", p.deep, "--loss", loss, "--trainable", "head", "--board", "esp32s3", *words]


def _graph(p: Places, *words: object) -> Words:
    return ["train-graph", p.forward, "--loss", "cross_entropy", *words]


def _quantize(p: Places, model: Path, *words: object) -> Words:
    return ["quantize", model, "--data", p.data, *words]


def _new(p: Places, name: str = "new") -> Values:
    return {"-o": [p.root / f"{name}-of-another-place"]}


PROVOKED: dict[str, Provoked] = {
    "L1 beyond the machine": Provoked(lambda p: ["compile", "-t", p.mlp, "--l1", "9999999"]),
    "L2 beyond the machine": Provoked(lambda p: ["compile", "-t", p.mlp, "--l2", "9999999"]),
    "L1 that holds no tile": Provoked(lambda p: ["compile", "-t", p.mlp, "--l1", "60"]),
    "L1 that double buffering does not fit": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--l1", "60", "--doublebuffer"]
    ),
    "L2 that the tensors do not fit": Provoked(lambda p: ["compile", "-t", p.mlp, "--l1", "4000", "--l2", "64"]),
    "L2 that nothing can be spilled from": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--l1", "2000", "--l2", "64", "--defaultMemLevel", "L3"]
    ),
    "L2 of all machines": Provoked(lambda p: ["compile", "-t", p.large]),
    "L2 of a machine": Provoked(lambda p: ["compile", "-t", p.large, "-p", "siracusa"]),
    "RAM that the tensors do not fit": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-p", native().name, "--budget", "RAM=3000"]
    ),
    "RAM of a library": Provoked(lambda p: ["package", p.adapter, "--name", "adapted", "--budget", "RAM=64"]),
    "L1 of a run over epochs": Provoked(lambda p: _fit(p, "-p", "host", "--l1", "64")),
    "RAM of a run over epochs": Provoked(lambda p: _fit(p, "--budget", "RAM=64")),
    "RAM beyond the machine": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-p", native().name, "--budget", "RAM=2147483647"]
    ),
    "an alias without a level": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-p", native().name, "--l2", "100000"],
        lambda p: {"--budget": ["RAM=100000"]},
    ),
    "a level where nothing lives": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--defaultMemLevel", "L4"], lambda p: {"--defaultMemLevel": ["L2", "L3"]}
    ),
    "an unknown target": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-p", "toaster"], lambda p: {"-p": ["host", native().name]}
    ),
    "an opt-out of no strategy": Provoked(lambda p: ["compile", "-t", p.mlp, "--opt-out", "Gemm"]),
    "an opt-out of what is fused": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--buffering", "training_double", "--opt-out", "InPlaceAccumulatorV2"],
        lambda p: {"--no-fusion": [None]},
    ),
    "buffering without transfers": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-p", native().name, "--doublebuffer"],
        lambda p: {"--buffering": ["auto"]},
    ),
    "a seed of nothing": Provoked(
        lambda p: ["train", "-t", p.mlp, "--seed", "3"],
        lambda p: {"--dma-order": ["random"], "--core-order": ["random"]},
    ),
    "drawn samples that are given": Provoked(
        lambda p: _graph(p, "--data", p.data, "--samples", "2"), lambda p: {"--data": [LEFT_OUT]}
    ),
    "a seed of samples that are given": Provoked(
        lambda p: _graph(p, "--data", p.data, "--seed", "2"), lambda p: {"--data": [LEFT_OUT]}
    ),
    "integers that nothing is drawn for": Provoked(
        lambda p: ["train-graph", p.rounded, "--loss", "mse"], lambda p: {"--data": [p.root / "rounded.npz"]}
    ),
    "a tolerance that cannot fail": Provoked(
        lambda p: ["train", "-t", p.mlp, "--tolerance", "1e9"], lambda p: {"--tolerance": ["0.001"]}
    ),
    "a dump into a folder": Provoked(lambda p: ["train", "-t", p.mlp, "--dump", p.root]),
    "a dump over a file": Provoked(lambda p: ["train", "-t", p.mlp, "--dump", p.mine("dumped.npz")]),
    "nothing generated": Provoked(lambda p: ["train", "-t", p.mlp, "--skipgen"]),
    "latents of no frozen layer": Provoked(
        lambda p: ["fit", p.deep, "--data", p.data, "--loss", "cross_entropy", "--latent-replay"],
        lambda p: {"--trainable": ["head"]},
    ),
    "a policy without a ring": Provoked(
        lambda p: _fits(p, "cross_entropy", "--replay-policy", "reservoir"), lambda p: {"--latent-replay": [4]}, False
    ),
    "classes of a target that has none": Provoked(lambda p: _fits(p, "mse", "--latent-replay", "4"), writes=False),
    "no run to go on with": Provoked(lambda p: _fit(p, "--resume")),
    "another run": Provoked(
        lambda p: [*_fit(p, "--resume", "--lr", "0.5"), "-o", p.trained],
        lambda p: {"-o": [p.root / "again"], "--resume": [LEFT_OUT]},
    ),
    "a rate beyond the guard": Provoked(lambda p: _graph(p, "--lr", "40")),
    "rates of a schedule": Provoked(
        lambda p: ["compile", "-t", p.scheduled, "--lr", "0.5"],
    ),
    "a warm-up as long as the run": Provoked(
        lambda p: _graph(p, "--data", p.data, "--warmup-steps", str(SAMPLES)), lambda p: {"--n-steps": [SAMPLES + 2]}
    ),
    "no complete batch": Provoked(
        lambda p: ["fit", p.batched, "--data", p.data, "--loss", "cross_entropy", "--epochs", "1", "--drop-last"]
    ),
    "a list of rates for none": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--n-steps", "2", "--lr-scheduler", f"list:{_rates(p)}", "--lr", "0"],
        lambda p: {"--lr": ["0.01"]},
    ),
    "fewer passes than an update has": Provoked(
        lambda p: ["compile", "-t", p.adapter, "--accumulate-grad-batches", "4", "--n-steps", "3"],
        lambda p: {"--n-steps": [4], "--accumulate-grad-batches": [3]},
    ),
    "an open length": Provoked(
        lambda p: ["infer", "-t", p.open], lambda p: {"--batch-size": [1], "--axis": ["width=3"]}
    ),
    "two lengths of an axis": Provoked(
        lambda p: ["infer", "-t", p.open, "--batch-size", "2", "--axis", "N=3", "--axis", "width=3"],
        lambda p: {"--batch-size": [LEFT_OUT], "--axis": [LEFT_OUT]},
    ),
    "files that others wrote": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-o", p.mine("theirs/plan.json").parent], lambda p: _new(p)
    ),
    "no folder": Provoked(lambda p: ["compile", "-t", p.mlp, "-o", p.mine("file")], lambda p: _new(p)),
    "a folder at a file's place": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--force", "-o", p.mine("taken/plan.json/x").parents[1]], lambda p: _new(p)
    ),
    "an export over a file": Provoked(
        lambda p: ["export", p.forward, "--weights", p.trained / "trained.npz", "-o", p.mine("there.onnx")],
        lambda p: {"-o": [p.root / "another.onnx"]},
    ),
    "a plan in place of a tiling": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--from", p.compiled / "plan.json"],
        lambda p: {"--from": [p.compiled / "tiling.json"]},
    ),
    "a tiling of other passes": Provoked(
        lambda p: ["compile", "-t", p.mlp, "--from", p.compiled / "tiling.json", "--accumulate-grad-batches", "2"],
        lambda p: {"--accumulate-grad-batches": ["1"]},
    ),
    "more passes than rates": Provoked(
        lambda p: ["compile", "-t", p.scheduled, "--n-steps", "99"], lambda p: {"--lr-scheduler": ["cosine"]}
    ),
    "a rate for several": Provoked(lambda p: ["compile", "-t", p.grouped, "--lr", "0.1"]),
    "an update in each of several passes": Provoked(lambda p: ["compile", "-t", p.adapter, "--fused"]),
    "a folder in use": Provoked(lambda p: ["compile", "-t", p.mlp, "-o", p.held], lambda p: _new(p, "free")),
    "a link in place of a folder": Provoked(
        lambda p: ["compile", "-t", p.mlp, "-o", p.linked], lambda p: _new(p, "plain")
    ),
    "a parameter of nothing": Provoked(
        lambda p: ["train-graph", p.idle, "--loss", "mse", "--trainable", "weight"],
        lambda p: {"--trainable": ["head"]},
    ),
    "a state of another library": Provoked(
        lambda p: [
            "state",
            "export",
            p.other / "weights.bin",
            "--library",
            p.library,
            "-o",
            p.root / "o.npz",
            "--force",
        ],
        lambda p: {"--library": [p.other]},
        writes=False,
    ),
    "a library for several memories": Provoked(lambda p: ["package", p.mlp, "--name", "mlp", "-p", "host"]),
    "no name of a library": Provoked(
        lambda p: ["package", p.mlp, "--name", "A b"], lambda p: {"--name": ["small_letters_1"]}
    ),
    "a module of Python by the name of another": Provoked(
        lambda p: ["package", p.mlp, "--name", "keyword", "--python"]
    ),
    "a prediction of nothing": Provoked(
        lambda p: ["package", p.adapter, "--name", "adapted", "--predict", "nothing"],
        lambda p: {"--predict": ["scores"]},
    ),
    "a state without a file": Provoked(
        lambda p: ["state", "export", p.library / "weights.bin"],
        lambda p: {"-o": [p.root / "exported.npz"]},
        writes=False,
    ),
    "a state of another kind of file": Provoked(
        lambda p: ["state", "export", p.library / "weights.bin", "-o", p.root / "x.txt"],
        lambda p: {"-o": [p.root / "ended.npz"]},
        writes=False,
    ),
    "a state for a model that is not named": Provoked(
        lambda p: ["state", "export", p.library / "weights.bin", "-o", p.root / "x.onnx", "--force"],
        lambda p: {"--model": [p.adapter.parent / "adapted.onnx"]},
        writes=False,
    ),
    "a state of no library": Provoked(
        lambda p: ["state", "show", _alone(p), "--library", p.root],
        lambda p: {"--library": [p.library]},
        writes=False,
    ),
    "what may be a parameter": Provoked(
        lambda p: ["train-graph", p.undecided, "--loss", "mse"],
        lambda p: {
            "--param-group": ["Mul_7:trained", "Mul_7:frozen"],
            "--trainable": ["w"],
            "--parameters": [_parameters(p)],
        },
    ),
    "nothing that is trained": Provoked(
        lambda p: ["train-graph", p.scaled, "--loss", "mse"], lambda p: {"--trainable": ["scale"]}
    ),
    "an initial rule without a weight": Provoked(
        lambda p: ["train-graph", p.embedded, "--data", p.indices, "--loss", "mse", "--init", "lecun_normal"]
    ),
    "a share of ranges that have none": Provoked(lambda p: _quantize(p, p.forward, "--percentile", "99")),
    "a metric without a loss": Provoked(
        lambda p: _quantize(p, p.forward, "--metric", "top_2"), lambda p: {"--loss": ["cross_entropy"]}
    ),
    "scales of channels before ONNX had them": Provoked(lambda p: _quantize(p, p.old)),
    "a target that is no rack": Provoked(lambda p: ["rack", p.mlp, "-p", "host", "--emulate"]),
    "more lanes than a group has": Provoked(lambda p: ["rack", p.mlp, "--emulate", "--lanes", "2000"]),
    "a target that no heading names": Provoked(
        lambda p: ["train-graph", p.forward, "--loss", "cross_entropy", "--data", p.table],
        lambda p: {"--target-column": ["kind"]},
    ),
}
"""By what is wrong with each request."""


def _rates(p: Places) -> Path:
    path = p.root / "rates.txt"
    path.write_text("0.1 0.2")
    return path


def _alone(p: Places) -> Path:
    path = p.root / "alone.bin"
    path.write_bytes((p.library / "weights.bin").read_bytes())
    return path


def _parameters(p: Places) -> Path:
    path = p.root / "parameters.npz"
    weight = np.linspace(-1, 1, WIDE * WIDE).reshape(WIDE, WIDE).astype(np.float32)
    np.savez(path, weight=weight, scale=np.linspace(1, 2, WIDE).astype(np.float32))
    return path


_NO_ERROR = "is printed, or is a part of a warning, a listing or a comment, and ends no command"
_OTHER_COMMAND = "names another command, for a file that was edited by hand"
_TORCH = "is of a step that PyTorch's captured, which DeployTest/front makes"
_MACHINE = "is of a machine without space, memory, time or a tool, which other tests take away"
_WAYS = "is of `deployer fits`, which compiles each before it names it"
_FOREIGN = "is of cases that other tools wrote, which DeployTest/frontend makes"
_EXPLAINS = "says what options are for, and proposes another model"
_CHOICE = "is of a path or a name that only its user can choose anew"
_REASONS = {
    _CHOICE: (
        "another -o, or remove it",
        "another --name where ",
    ),
    _NO_ERROR: (
        " by `deployer calibrate -p ",
        "--strict makes it a failure",
        "arrays by input name, samples along the first axis; or a table (.csv, .tsv) (default: random, from --seed)",
        "--library DIR, the folder of the library, adds the tensors",
        "a case by train-graph --running-stats",
        "--lr 0.01",
        " (--partial-accumulation ",
        "-Wl,--wrap=",
        "-Wl,--no-undefined",
        "frozen by --param-group",
        "--parameters with their numbers, an .npz or .safetensors file, which finds renamed ones; ",
        "--trainable, if that is intended; ",
        "--parameters with their numbers, as an .npz or .safetensors file; --trainable; ",
        "--param-group 'REGEX:trained' trains one all the same",
        "matched by --trainable ",
    ),
    _OTHER_COMMAND: (
        "`deployer rack CASE -p ",
        "package it without --latent-replay",
        "leave it out, or a model whose first layers `deployer quantize --freeze` has quantized",
        "`deployer compile --from` makes the plan of an edited tiling; else keep them in folders of their own",
        " --loss model --data DATA -o case`, then `deployer package case`",
        "--library FOLDER of a library that trains",
        "make it again; to change a plan, edit its tiling.json and give that to `deployer compile --from`",
    ),
    _TORCH: ("--loss model",),
    _MACHINE: (
        "fewer --replicas",
        "-p host simulates its memories and clock",
        "free some, or use another -o",
        "a smaller --batch-size",
        ", or --skipsim to build only",
        "; --skipsim builds only",
        "fewer --n-steps, or ",
    ),
    _WAYS: (
        " --inputs ",
        "--inputs int8",
        "--batch-size 1 --accumulate-grad-batches ",
        "--batch-size 1 --accumulate-grad-batches 1",
        "--optimizer ",
        "--trainable '",
        "deployer train --fused",
    ),
    _FOREIGN: (
        "--predict VALUE, by its name in the training graph",
        "--predict a VALUE that the model computes",
        "--lr-scheduler constant, or another",
        "give --n-steps, or export the case again",
        "--lr, for example 0.01",
        "no --lr-scheduler",
        "numbers that differ when the module is exported, --trainable REGEX, or deployer.torch",
    ),
    _EXPLAINS: (
        " --help` says what it takes",
        "export with static shapes: --batch-size is for first axes, --axis for axes with a name",
        "freeze these weights (leave them out of --trainable), or write the node with other operators",
    ),
    "an option of `deployer lm`, which works on a folder of its own; its tests follow it": (
        "` first, or leave --train out",
        "add --lora",
        "leave one out: --train goes on with the adapters of the last run, if it had some",
        "the options it began with, or no --resume",
        "`deployer lm train FOLDER --text FILE --lora REGEX --adapter DIR` makes one",
        "another file, or --force to overwrite it",
        "--validation FILE with a text of its own, or --separator TEXT, which divides this one",
    ),
    "an option of `deployer sweep`, in front of the words of another command; its tests follow it": (
        "add --sampler ",
        "one --vary for each option, with all its values",
        "NAME=A,B,C such as --vary lr=0.1,0.01",
        "=LOW:HIGH:STEP or a list of values, or --sampler random --runs N",
        "pip install optuna, or --sampler random",
        "--minimize loss, or --maximize COLUMN",
        "--sampler random --runs N",
        "--runs N",
        "pip install distributed, or --workers N for this machine",
    ),
    "an option of `deployer fleet`, which compiles and trains first; its tests follow it": (
        "leave out --devices",
        "a file of samples that no device has, or no --validation",
        "--devices N, or --split files",
        "--strategy fedprox --mu 0.01, for example",
        "leave it out, or --backend threads",
        "pip install 'deployer[fleet]', or --backend loop",
        "--workers ",
        "--backend threads, or --resume after the cause is gone",
        "--split files with such a folder, or another --split",
        "the model's own file, or no --validation",
        "; --resume goes on from there, with other devices, or with ",
        "--min-replies ",
        "--split iid, or --split files",
        "more samples, or fewer --devices",
        "--backend threads",
    ),
    "an option of the command that makes the case, not of the one that refuses it": (
        "--dropout off when the training graph is made, or dropout='off'",
        "the same by an option of the optimizer, such as --weight-decay or --max-grad-norm",
    ),
}
OPEN = {text: reason for reason, texts in _REASONS.items() for text in texts}
"""Texts that name an option and that no request here provokes, each with the reason."""
