"""Five epochs of the keyword net and of ResNet8 by `deployer fit`, on samples that this draws.

`python -m DeployTest.benchmarks.epochs DIR` writes models, samples and the runs with their reports to DIR, epochs.json,
and the table of docs/fit.md. `--data-only` stops before the runs. The twelve words are courses of loud bands over time,
which are shifted, stretched and noisy; the ten kinds of images are shapes and stripes of two colours, anywhere.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deployer.commands.fit import Lines
from deployer.fitting.call import fit
from deployer.fitting.history import ACCURACY
from deployer.running.terminal import Terminal
from DeployTest.benchmarks.flat import processor
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.models import dscnn, resnet8

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "fit.md"
MARKS = ("<!-- epochs table -->", "<!-- end of epochs table -->")
EPOCHS, BATCH, SEED = 5, 8, 0
TRAINED, HELD_OUT = 960, 240
Samples = dict[str, np.ndarray]


def words(draw: np.random.Generator, count: int, classes: int = 12) -> Samples:
    """Features of 49 moments and 10 bands: two loud bands whose course over time is the word's own."""
    kinds = np.random.default_rng(SEED).uniform((0, -6, 0.5, 0), (9, 6, 2, 6.3), (classes, 2, 4))
    labels = draw.integers(0, classes, count)
    moments, bands = np.linspace(0, 1, 49)[:, None], np.arange(10)[None, :]
    rows = []
    for label in labels:
        at = (moments - draw.uniform(-0.1, 0.1)) * draw.uniform(0.85, 1.15)
        lr_schedules = [
            start + slope * at + 1.5 * np.sin(6.3 * speed * at + phase) for start, slope, speed, phase in kinds[label]
        ]
        loud = sum(np.exp(-np.square(bands - np.clip(lr_schedule, 0, 9)) / 2) for lr_schedule in lr_schedules)
        rows.append(draw.uniform(0.7, 1.3) * loud + draw.normal(0, 0.35, (49, 10)) - 0.5)
    return {"input": np.stack(rows)[:, None].astype(np.float32), "labels": labels}


def pictures(draw: np.random.Generator, count: int, classes: int = 10) -> Samples:
    """Images of 32x32 in colours: squares, discs, rings, crosses and stripes, in two sizes."""
    down, across = np.mgrid[:32, :32].astype(np.float64)
    labels, rows = draw.integers(0, classes, count), []
    for label in labels:
        size = (5.0, 9.0)[label % 2] * draw.uniform(0.9, 1.1)
        y, x = (values - draw.uniform(10, 22) for values in (down, across))
        far, most = np.hypot(y, x), np.maximum(abs(y), abs(x))
        shapes = [most < size, far < size, abs(far - size) < 1.5, (np.minimum(abs(y), abs(x)) < 1.5) & (most < size)]
        shapes.append(np.sin((y + x) * 9 / size) > 0)
        colours = draw.uniform((-1, 0.3), (-0.3, 1), (3, 2)).T[:: draw.choice((-1, 1))]
        image = np.where(shapes[label // 2][None], colours[0][:, None, None], colours[1][:, None, None])
        rows.append(image + draw.normal(0, 0.15, (3, 32, 32)))
    return {"input": np.stack(rows).astype(np.float32), "labels": labels}


@dataclass(frozen=True)
class Recipe:
    """A net, where its samples come from, and its rate."""

    generate: Callable[..., Path]
    samples: Callable[[np.random.Generator, int], Samples]
    rate: float


RECIPES = {"dscnn": Recipe(dscnn.generate, words, 0.002), "resnet8": Recipe(resnet8.generate, pictures, 0.005)}


@dataclass(frozen=True)
class Row:
    """A run: the mean loss of each epoch, the validation's accuracy after it, seconds in all, and the verdict."""

    net: str
    losses: tuple[float, ...]
    accuracy: tuple[float, ...]
    seconds: float
    verdict: str
    checked: str


def prepared(name: str, folder: Path) -> None:
    """Write model and samples."""
    draw = np.random.default_rng(SEED + 1)
    RECIPES[name].generate(folder / "case", batch=BATCH, samples=1, n_batches=1)
    for file, count in (("train.npz", TRAINED), ("validation.npz", HELD_OUT)):
        np.savez(folder / file, **RECIPES[name].samples(draw, count))


def measured(name: str, folder: Path, console: Terminal) -> Row:
    """The run, whose report is in the folder `run`, as a row."""
    began, shown = time.perf_counter(), Lines(console)
    files = folder / "case" / f"{name}.onnx", folder / "train.npz"
    options: dict[str, Any] = {"lr": RECIPES[name].rate, "epochs": EPOCHS, "trainable": r"(weight|bias)$"}
    options |= {
        "validation": folder / "validation.npz",
        "folder": folder / "run",
        "force": True,
        "callback": shown,
        "progress": False,
    }
    try:
        fitted = fit(*files, "cross_entropy", "adamw", **options)
    finally:
        shown.bar.stop()
    losses = tuple(round(row.loss, 4) for row in fitted.rows)
    accuracy = tuple(round(row.metrics[ACCURACY], 4) for row in fitted.rows)
    return Row(name, losses, accuracy, round(time.perf_counter() - began, 1), fitted.verdict, fitted.checked)


def main() -> None:
    """Make samples, train, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--data-only", action="store_true", help="write models and samples alone")
    a, console, rows = parser.parse_args(), Terminal(), []
    for name in RECIPES:
        folder = a.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        prepared(name, folder)
        if a.data_only:
            continue
        rows.append(measured(name, folder, console))
        console.print(f"{name}: {rows[-1]}; {folder / 'run' / 'report.html'}", soft_wrap=True)
    if rows:
        record = {"processor": processor(), "rows": [asdict(row) for row in rows]}
        RESULT.write_text(json.dumps(record, indent=1) + "\n")
        publish(__file__, PAGE, MARKS, page_table(record))


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"AdamW, {TRAINED} samples in batches of {BATCH}, {HELD_OUT} held out; total seconds, with planning,",
        f"building, validation and checks ({record['processor']}, with other work).",
        "",
        "| net | loss by epochs | validation accuracy by epochs | seconds | verdict |",
        "|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        losses, accuracy = (", ".join(f"{x:.3f}" for x in row[name]) for name in ("losses", "accuracy"))
        lines.append(f"| {row['net']} | {losses} | {accuracy} | {row['seconds']:.0f} | {row['verdict']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
