"""Classes that come one after another, learned by a packaged library with a ring of latents, and without one.

`python -m DeployTest.benchmarks.transfer.incremental`, where PyTorch is installed, writes incremental.json and a table
of docs/fine-tuning.md, in half an hour. The frozen part is that of `transfer`, of 8 bits. A stream has six new classes
as three tasks of two; a pass of eight has two new samples, each of them seen once, and six records of the ring. Without
replay the two fill the pass. For comparison the same samples come in random order, with the largest ring. The library
is compiled for this machine, whose bits are those of a microcontroller.
"""

import argparse
import importlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console

from deployer.cli import main as deployer
from DeployTest.benchmarks.transfer.pictures import Array
from DeployTest.benchmarks.transfer.transfer import (
    HEAD_BATCH,
    PAGE,
    SEEDS,
    SOURCE,
    SUBJECTS,
    TARGET,
    TESTED,
    Labels,
    Subject,
    pretrain,
    samples,
    with_head,
    written,
)
from DeployTest.benchmarks.upkeep.commits import publish

RESULT = Path(__file__).with_suffix(".json")
MAIN = Path(__file__).with_name("incremental_main.c")
MARKS = ("<!-- incremental table -->", "<!-- end of incremental table -->")
NETS = ("ResNet8, 32x32", "DSCNN, 49x10")
TASKS, EACH, NEW, PASSES, RATE = 3, 120, 2, 3, 2e-3
"""Of a stream: tasks, samples of a class, new samples of a pass, passes for these, and the rate."""
RINGS = (30, 60, 240)
"""Records; the last is the ring of classes in random order."""
FORMS = (*(f"ring of {slots}" for slots in RINGS), "no replay", "random order")


@dataclass(frozen=True)
class Row:
    """A net's accuracies over all classes at the end of the stream, a number for each seed, by form."""

    model: str
    latent_bytes: int
    accuracies: dict[str, tuple[float, ...]]


def library(model: Path, slots: int, folder: Path) -> tuple[Path, int]:
    """The program that learns a stream, and the bytes of a latent."""
    case, made, program = folder / "case", folder / "library", folder / "learn"
    graph = ["train-graph", str(model), "--loss", "cross_entropy", "--optimizer", "adamw", "--lr", str(RATE)]
    words = [*graph, "--trainable", "^head", "--samples", str(HEAD_BATCH), "-o", str(case), "--force", "--quiet"]
    assert deployer(words) == 0
    words = [
        "package",
        str(case / f"{model.stem}_train"),
        "--name",
        "learner",
        "-o",
        str(made),
        "--latent-replay",
        str(slots),
        "--force",
    ]
    assert deployer([*words, "--quiet"]) == 0
    latent = json.loads((made / "manifest.json").read_text())["replay"]
    sources = sorted((made / "src").glob("*.c"))
    flags = ["-std=c11", "-O2", "-ffp-contract=off", f"-I{made / 'include'}", "-DLATENT_TYPE=int8_t"]
    subprocess.run(["gcc", *flags, *map(str, sources), str(MAIN), "-lm", "-o", str(program)], check=True)
    return program, int(latent["latent_bytes"])


def stream(subject: Subject, seed: int, in_order: bool) -> tuple[Array, Labels]:
    """The samples of the new classes, task after task, or in random order."""
    x, y = samples(subject, SOURCE, TARGET, EACH, 200 + seed)
    order = np.argsort(y * TASKS // TARGET, kind="stable") if in_order else np.arange(len(y))
    return x[order], y[order]


def learned(program: Path, subject: Subject, seed: int, replays: bool, in_order: bool) -> float:
    """The accuracy over all classes at the end of the stream."""
    x, y = stream(subject, seed, in_order)
    tested, due = samples(subject, SOURCE, TARGET, TESTED, 50)
    head = np.array([len(x), len(x) // TASKS, len(tested), NEW, PASSES, replays], np.uint32)
    arrays = (head, x, y.astype(np.int32), tested, due.astype(np.int32))
    file = program.with_name("stream.bin")
    file.write_bytes(b"".join(array.tobytes() for array in arrays))
    run = subprocess.run([program, file], capture_output=True, text=True, check=True)
    right = [[int(word) for word in line.split()] for line in run.stdout.splitlines()]
    assert len(right) == TASKS
    return sum(right[-1]) / len(tested)


def measure(name: str, folder: Path, console: Console) -> Row:
    """The row of a net."""
    subject = SUBJECTS[name]
    model = written(pretrain(subject, console)[0], subject, folder)["integers"]
    found: dict[str, list[float]] = {form: [] for form in FORMS}
    size = 0
    for seed in range(SEEDS):
        start = with_head(model, seed)
        for slots in RINGS:
            program, size = library(start, slots, folder)
            found[f"ring of {slots}"].append(learned(program, subject, seed, True, True))
        found["no replay"].append(learned(program, subject, seed, False, True))
        found["random order"].append(learned(program, subject, seed, True, False))
        console.print(f"{name}, seed {seed}: { ({form: each[-1] for form, each in found.items()}) }")
    return Row(name, size, {form: tuple(each) for form, each in found.items()})


def markdown(rows: Sequence[Row]) -> str:
    """A line per net; accuracies in percent."""
    heads = ("net", "latent, B", *FORMS)
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for row in rows:
        found = [row.accuracies[form] for form in FORMS]
        shown = [f"{100 * fmean(a):.1f} ({100 * min(a):.1f} to {100 * max(a):.1f})" for a in found]
        lines.append(f"| {' | '.join((row.model, f'{row.latent_bytes}', *shown))} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and renew the result and the page."""
    argparse.ArgumentParser(
        prog="python -m DeployTest.benchmarks.transfer.incremental", description=__doc__
    ).parse_args()
    importlib.import_module("torch").set_num_threads(1)
    console = Console(stderr=True)
    rows = []
    for name in NETS:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, Path(folder), console))
    print(markdown(rows))
    RESULT.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, markdown(rows))


if __name__ == "__main__":
    main()
