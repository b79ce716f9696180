"""Transfer to new classes: a frozen part of 8 bits against one of floats, by accuracy, memory and work.

`python -m DeployTest.benchmarks.transfer.transfer`, where PyTorch is installed, writes transfer.json and a table of
docs/fine-tuning.md, in an hour on two cores. Each net is pretrained once on ten classes of drawn samples, quantized,
and gets a new head for classes it has not seen, by the same updates in both forms, over five seeds: those choose the
samples, the head's first weights and their order. RAM, flash and instructions of a step are those of a library for a
Cortex-M7, whose inputs are 8-bit numbers where its frozen part is.
"""

import argparse
import importlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from rich.console import Console

from deployer.fitting.call import fit
from DeployTest.benchmarks.transfer.pictures import FIGURES, WORDS, Array, Random, drawn, picture, word
from DeployTest.benchmarks.upkeep.commits import publish

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "fine-tuning.md"
MARKS = ("<!-- transfer table -->", "<!-- end of transfer table -->")
SOURCE, EACH, BATCH, EPOCHS, PEAK_RATE = 10, 300, 50, 12, 4e-3
"""Of pretraining: classes, samples of each, samples of an update, epochs, and the highest rate of its cycle."""
TARGET, SHOTS, TESTED, HEAD_EPOCHS, HEAD_RATE, HEAD_BATCH = 6, 40, 100, 30, 5e-3, 8
"""Of transfer: classes, samples of each to train and to test, epochs, rate and samples of a pass."""
CALIBRATED, SEEDS = 200, 5
Labels = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Subject:
    """A net by its function in nets.py, and what draws a sample of a class."""

    name: str
    draw: Callable[[int, Random], Array]


def _pictures(size: int) -> Callable[[int, Random], Array]:
    names = list(FIGURES)
    return lambda index, random: picture(names[index], size, random)


SUBJECTS = {
    "MobileNetV2 0.35, 96x96": Subject("mobilenet_v2", _pictures(96)),
    "ResNet8, 32x32": Subject("resnet8", _pictures(32)),
    "DSCNN, 49x10": Subject("dscnn", word),
}
assert len(FIGURES) == SOURCE + TARGET <= WORDS


@dataclass(frozen=True)
class Row:
    """A net's accuracies: of its pretraining, and of transfer in floats and in 8 bits, one for each seed."""

    model: str
    pretrained: float
    floats: tuple[float, ...]
    integers: tuple[float, ...]
    latent_bytes: int


def samples(subject: Subject, first: int, classes: int, each: int, seed: int) -> tuple[Array, Labels]:
    """Samples of classes from `first` on, labelled from zero on."""
    return drawn(lambda index, random: subject.draw(first + index, random), classes, each, seed)


def pretrain(subject: Subject, console: Console) -> tuple[Any, float]:
    """The net after its epochs on the source's classes, in evaluation mode, and its accuracy on others of them."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    net = getattr(importlib.import_module("DeployTest.benchmarks.transfer.nets"), subject.name)(SOURCE)
    x, y = (torch.from_numpy(a) for a in samples(subject, 0, SOURCE, EACH, 0))
    tested, due = samples(subject, 0, SOURCE, TESTED, 1)
    optimizer = torch.optim.Adam(net.parameters())
    passes = len(x) // BATCH
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_RATE, total_steps=EPOCHS * passes)
    for epoch in range(EPOCHS):
        net.train()
        for chosen in torch.randperm(len(x))[: passes * BATCH].reshape(passes, BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x[chosen]), y[chosen]).backward()
            optimizer.step()
            rates.step()
        net.eval()
        with torch.no_grad():
            right = float((net(torch.from_numpy(tested)).argmax(1).numpy() == due).mean())
        console.print(f"{subject.name}: epoch {epoch + 1} of {EPOCHS}, {right:.3f} of other samples are right")
    return net, right


def written(net: Any, subject: Subject, folder: Path) -> dict[str, Path]:
    """The net with a head for the target's classes as files: its frozen part in floats and in 8 bits."""
    torch = importlib.import_module("torch")
    front = importlib.import_module("deployer.torch")
    capture = importlib.import_module("deployer.torch.capture").capture
    net.head = torch.nn.Linear(net.head.in_features, TARGET)
    calibrating, _ = samples(subject, 0, SOURCE, CALIBRATED // SOURCE, 2)
    files = {"floats": folder / "floats.onnx", "integers": folder / "integers.onnx"}
    batch = torch.from_numpy(calibrating[:HEAD_BATCH])
    onnx.save(capture(net, [batch], dropout="off", check=False).model, files["floats"])
    front.quantize(net, calibrating, files["integers"], freeze=["features"], batch_size=HEAD_BATCH, force=True)
    return files


def with_head(model: Path, seed: int) -> Path:
    """A copy of a file whose head has a seed's weights, as nn.Linear draws them."""
    draw = np.random.default_rng(100 + seed)
    proto = onnx.load(model)
    heads = {t.name: t for t in proto.graph.initializer if t.name.startswith("head.")}
    width = heads["head.weight"].dims[1]
    for name in sorted(heads):
        tensor = heads[name]
        values = draw.uniform(-(width**-0.5), width**-0.5, tuple(tensor.dims)).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, name))
    copy = model.with_name(f"{model.stem}_{seed}.onnx")
    onnx.save(proto, copy)
    return copy


def transferred(model: Path, subject: Subject, seed: int, folder: Path) -> tuple[float, int]:
    """The accuracy on other samples after training the head, and the bytes of what replay keeps of a sample."""
    x, y = samples(subject, SOURCE, TARGET, SHOTS, 10 + seed)
    tested, due = samples(subject, SOURCE, TARGET, TESTED, 50)
    name = onnx.load(model).graph.input[0].name
    fitted = fit(
        with_head(model, seed),
        {name: x, "labels": y},
        "cross_entropy",
        "adamw",
        folder=folder,
        lr=HEAD_RATE,
        trainable="^head",
        epochs=HEAD_EPOCHS,
        seed=seed,
        validation={name: tested, "labels": due},
        metrics=["accuracy"],
        latent_replay=True,
        force=True,
        progress=False,
    )
    assert not fitted.faults, fitted.faults
    assert fitted.replay is not None
    return fitted.rows[-1].metrics["accuracy"], fitted.replay.sample_bytes


def measure(name: str, folder: Path, console: Console) -> Row:
    """The row of a net; its files stay in the folder."""
    subject = SUBJECTS[name]
    net, pretrained = pretrain(subject, console)
    files = written(net, subject, folder)
    right: dict[str, list[float]] = {form: [] for form in files}
    size = 0
    for seed in range(SEEDS):
        for form, model in files.items():
            accuracy, size = transferred(model, subject, seed, folder / f"{form}_run")
            right[form].append(accuracy)
            console.print(f"{name}, seed {seed}: {accuracy:.3f} with {form}")
    return Row(name, pretrained, tuple(right["floats"]), tuple(right["integers"]), size)


def markdown(rows: list[Row]) -> str:
    """A line per net; accuracies in percent."""
    heads = ("net", "pretrained", "head behind floats", "head behind 8 bits", "difference, points", "latent, B")
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for r in rows:
        shown = [f"{100 * fmean(a):.1f} ({100 * min(a):.1f} to {100 * max(a):.1f})" for a in (r.floats, r.integers)]
        difference = 100 * (fmean(r.integers) - fmean(r.floats))
        cells = [r.model, f"{100 * r.pretrained:.1f}", *shown, f"{difference:+.2f}", f"{r.latent_bytes}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and renew the result and the page."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.transfer.transfer", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="nets with this in their name; nothing is written")
    parser.add_argument("--folder", type=Path, help="keep the nets' files in this folder")
    a = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as scratch:
        rows = []
        for name in SUBJECTS:
            if a.only in name:
                folder = (a.folder or Path(scratch)) / SUBJECTS[name].name
                folder.mkdir(parents=True, exist_ok=True)
                rows.append(measure(name, folder, console))
    print(markdown(rows))
    if not a.only:
        RESULT.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
        publish(__file__, PAGE, MARKS, markdown(rows))


if __name__ == "__main__":
    main()
