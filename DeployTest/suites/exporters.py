"""Exporters compared with the front, on modules that exporters change: parameters, first losses, and warnings.

`python -m DeployTest.suites.exporters` prints the table where PyTorch and onnxscript are installed, with --write it
renews docs/exporters.md. Each module is trained for some steps of SGD by PyTorch; its captured model, and each
exporter's file, by the float64 reference of its training case from the same weights and batches.
"""

import argparse
import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from deployer.core.errors import DeployerError, DeployerWarning
from deployer.core.operator import losses
from deployer.core.traits.training import Loss
from deployer.torch import capture
from deployer.training import forward
from deployer.training.tensors.selection import Expected
from deployer.training.train_graph import build_train_graph
from deployer.verify.tolerances import TOLERANCES
from DeployTest.suites.exporter_nets import NETS
from DeployTest.suites.zoo import samples
from DeployTest.suites.zoo_base import ZOO, Net
from DeployTest.suites.zoo_torch import by_sgd
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "exporters.md"
MARKS = ("<!-- exporters -->", "<!-- end of exporters -->")
NET_MARKS = ("<!-- nets -->", "<!-- end of nets -->")
STEPS, RATE, SEED = 6, 0.1, 0
NET_RATE = 0.05
FRONT = "deployer.torch"
KEEPING: dict[str, Any] = {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
WAYS: dict[str, dict[str, Any]] = {
    "`dynamo=False`": {"dynamo": False},
    "`dynamo=True`": {"dynamo": True},
    "`dynamo=False, training=TRAINING, do_constant_folding=False`": KEEPING,
    "`dynamo=True, optimize=False`": {"dynamo": True, "optimize": False},
}
"""Arguments of torch.onnx.export: as they are usual, and as the warning proposes them."""


@dataclass(frozen=True)
class Subject:
    """A module that exporters change, and the shape of its input."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


def batch_norm() -> nn.Module:
    """A convolution and a batch norm in training mode."""
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def equal_norms() -> nn.Module:
    """Two layer norms that begin alike, as they all do."""
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))


def zero_biases() -> nn.Module:
    """Two layers whose biases begin with zeros."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    for layer in (module[0], module[2]):
        nn.init.zeros_(layer.bias)
    return module


class Everything(nn.Module):
    """All of these at once: a batch norm, four equal layer norms, and three biases of zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(36), nn.Linear(36, 36)) for _ in range(3))
        self.last, self.head = nn.LayerNorm(36), nn.Linear(144, 3)
        for layer in self.layers:
            nn.init.zeros_(layer[1].bias)

    def forward(self, x: Tensor) -> Tensor:
        """Images to scores."""
        h = torch.relu(self.norm(self.conv(x))).flatten(2)
        for layer in self.layers:
            h = h + torch.tanh(layer(h))
        return self.head(self.last(h).flatten(1))


SUBJECTS = {
    "batch norm": Subject(batch_norm, (8, 1, 8, 8)),
    "equal layer norms": Subject(equal_norms, (8, 6)),
    "biases of zeros": Subject(zero_biases, (8, 6)),
    "all at once": Subject(Everything, (8, 1, 8, 8)),
}


@dataclass(frozen=True)
class Row:
    """Result of a module on one way to a file.

    How many parameters of how many, and of their elements, are trained by name; how far losses are from PyTorch's; the
    numbers of warnings, without and with `--parameters`.
    """

    subject: str
    way: str
    parameters: tuple[int, int] = (0, 0)
    elements: tuple[int, int] = (0, 0)
    loss: float = 0.0
    warned: tuple[int, int] = (0, 0)
    refused: str = ""

    @property
    def is_right(self) -> bool:
        """Whether PyTorch's problem is trained."""
        whole = self.parameters[0] == self.parameters[1] and self.elements[0] == self.elements[1]
        return not self.refused and whole and self.loss <= TOLERANCES.loss

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        if self.refused:
            return self.subject, self.way, f"refused: {self.refused}", "", "", ""
        said = "none" if not any(self.warned) else f"{self.warned[0]}, {self.warned[1]} with `--parameters`"
        counts = (f"{a} of {b}" for a, b in (self.parameters, self.elements))
        return self.subject, self.way, *counts, f"{self.loss:.1e}", said


def judged(name: str, way: str, folder: Path) -> Row:
    """Train one module on one way."""
    subject = SUBJECTS[name]
    torch.manual_seed(SEED)
    module = subject.make().train()
    state = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    inputs = [torch.randn(subject.shape) for _ in range(STEPS)]
    labels = [torch.randint(0, 3, subject.shape[:1]) for _ in range(STEPS)]
    path, trainable = folder / "net.onnx", ""
    if way == FRONT:
        captured = capture(module, inputs[:1])
        captured.save(path)
        trainable = captured.trainable
    else:
        _export(module, (inputs[0],), path, WAYS[way])
    module.load_state_dict(state)
    sizes = {key: p.numel() for key, p in module.named_parameters()}
    found: list[list[DeployerWarning]] = []
    try:
        data = {onnx.load(path).graph.input[0].name: np.stack([x.numpy() for x in inputs])}
        data["labels"] = np.stack([y.numpy() for y in labels])
        for expected in ((), tuple(sizes)):
            found.append([])
            report = build_train_graph(
                path, "cross_entropy", "sgd", RATE, trainable, folder, data=data, expected=expected,
                warn=found[-1].append, force=True,
            )  # fmt: skip
    except DeployerError as error:
        return Row(name, way, refused=error.cause)
    gold = by_sgd(module, "cross_entropy", [[x] for x in inputs], labels, RATE).losses
    known = [key for key in report.trained.values() if key in sizes]
    constants = forward.load(path).raw.constants
    elements = sum(constants[key].array.size for key in report.trained.values())
    off = float(np.abs(np.array(report.losses) - gold).max())
    warned = (len(found[0]), len(found[1]))
    return Row(name, way, (len(known), len(sizes)), (elements, sum(sizes.values())), off, warned)


FORMS = ("eval", "train")
EXPORTERS = {"dynamo=True": True, "dynamo=False": False}
"""Each exporter's usual call, by the form that a module is exported in."""
RIGHT, WARNED, REFUSED, SILENT, NONE = "right", "warned", "refused", "SILENT", "not exported"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a net's file without and with `--parameters`: a word, and the largest difference of losses."""

    word: str
    loss: float = 0.0
    said: str = ""

    def __str__(self) -> str:
        """The cell of the table."""
        return f"{self.word}, {self.loss:.0e}" if self.word in (WARNED, SILENT) else self.word


def net_of(name: str) -> Net:
    """A net of the zoo, or one of those that are made for exporters, with weights from the seed."""
    torch.manual_seed(SEED)
    return NETS[name]() if name in NETS else ZOO[name](np.random.default_rng(SEED))


def outcomes(name: str, dynamo: bool, form: str, folder: Path) -> tuple[Outcome, Outcome]:
    """Train a net's file by default, and with the numbers of the module's parameters."""
    net, path = net_of(name), folder / "net.onnx"
    inputs, labels = samples(net, SEED)
    net = net_of(name)
    modes = {key: module.training for key, module in net.module.named_modules()}
    state = {key: tensor.clone() for key, tensor in net.module.state_dict().items()}
    words: dict[str, Any] = {"dynamo": dynamo}
    if form == "train" and not dynamo:
        words["training"] = torch.onnx.TrainingMode.PRESERVE
    if form == "eval":
        net.module.eval()
    try:
        _export(net.module, tuple(inputs[0]), path, words)
    except (torch.onnx.errors.OnnxExporterError, RuntimeError, ValueError) as error:
        return Outcome(NONE, said=str(error)), Outcome(NONE, said=str(error))
    for key, module in net.module.named_modules():
        module.training = modes[key]
    net.module.load_state_dict(state)
    parameters = {key: p.detach().numpy().copy() for key, p in net.module.named_parameters()}
    gold = by_sgd(net.module, net.loss, inputs, labels, NET_RATE).losses
    names = [value.name for value in onnx.load(path).graph.input]
    data = {key: np.stack([x[i].numpy() for x in inputs]) for i, key in enumerate(names)}
    declared = losses()[net.loss].role(Loss)
    assert declared is not None
    data[declared.target] = np.stack([y.numpy() for y in labels])
    return _outcome(path, net.loss, data, gold, ()), _outcome(path, net.loss, data, gold, parameters)


def _outcome(path: Path, loss: str, data: dict[str, Any], gold: list[float], expected: Expected) -> Outcome:
    found: list[DeployerWarning] = []
    try:
        report = build_train_graph(
            path, loss, "sgd", NET_RATE, "", path.parent, data=data, expected=expected, warn=found.append, force=True
        )
    except DeployerError as error:
        return Outcome(REFUSED, said=str(error))
    off = float(np.abs(np.array(report.losses) - gold).max())
    right = off <= TOLERANCES.loss
    said = "\n".join(map(str, found))
    return Outcome(RIGHT if right else WARNED if found else SILENT, off, said)


def net_names() -> list[str]:
    """The zoo's nets, of those with an activation alone one with a parameter, and those that are made for exporters."""
    return [name for name in ZOO if not name.startswith("act_") or name == "act_prelu"] + list(NETS)


def net_table() -> str:
    """A row for each net: how it ends for each exporter and form, without and with `--parameters`."""
    heads = ["net", *(f"`{words}`, {form}" for words in EXPORTERS for form in FORMS)]
    lines = [heads, ["---"] * len(heads)]
    for name in net_names():
        cells = [name]
        for dynamo in EXPORTERS.values():
            for form in FORMS:
                with tempfile.TemporaryDirectory() as folder:
                    pair = outcomes(name, dynamo, form, Path(folder))
                cells.append(str(pair[0]) if pair[0].word == pair[1].word == NONE else f"{pair[0]}; {pair[1]}")
        lines.append(cells)
        print(*cells, sep=" | ", file=sys.stderr, flush=True)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _export(module: nn.Module, x: tuple[Tensor, ...], path: Path, words: dict[str, Any]) -> None:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, x, path, verbose=False, **words)


def rows() -> list[Row]:
    """Every module on every way."""
    found = []
    for name in SUBJECTS:
        for way in (FRONT, *WAYS):
            with tempfile.TemporaryDirectory() as folder:
                found.append(judged(name, way, Path(folder)))
    return found


def table(found: list[Row]) -> str:
    """The table as Markdown."""
    heads = ("module", "way", "parameters by name", "their elements", "losses off by", "warnings")
    lines = [heads, ("---",) * len(heads), *(row.cells for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Print the table, or renew the page."""
    arguments = argparse.ArgumentParser(description="Exporters beside the front.")
    arguments.add_argument("--write", action="store_true", help="renew docs/exporters.md")
    text = f"PyTorch {torch.__version__}, {STEPS} steps of SGD.\n\n{table(rows())}"
    if arguments.parse_args().write:
        renew(DOCUMENT, MARKS, text)
        renew(DOCUMENT, NET_MARKS, net_table())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
