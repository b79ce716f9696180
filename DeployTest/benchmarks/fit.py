"""Passes per second of `deployer fit` beside a loop of PyTorch's, on one core; needs PyTorch.

`python -m DeployTest.benchmarks.fit` writes fit.json and the table of docs/fit.md. Both train the digits' CNN from the
same weights, with shuffled batches, an update after each pass, and the loss of each pass in hand; `fit` writes a
checkpoint after each epoch besides. Planning and building are not counted, and no pass is repeated in float64. Time is
processor time, children's included, as other processes share the machine; the two take turns, and a round's ratio is
of two neighbours.
"""

import importlib
import json
import resource
import statistics
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from deployer.fitting.callback import Callback
from deployer.fitting.checkpoint import CheckpointPlace
from deployer.fitting.history import EpochRow
from DeployTest.benchmarks.flat import processor
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.graphs.digit_images import digits, digits_source

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "fit.md"
MARKS = ("<!-- speed table -->", "<!-- end of speed table -->")
TRAINED, ROUNDS, SEED = 1437, 5, 0
RATES = {"sgd": 0.05, "adamw": 0.003}
CASES = ((4, 2), (32, 10))
"""Samples of a batch, and epochs of a run."""


@dataclass(frozen=True)
class Row:
    """Passes per second of processor time in each round, and the mean loss of the last epoch, `fit`'s and PyTorch's."""

    optimizer: str
    batch: int
    ours: tuple[float, ...]
    torch: tuple[float, ...]
    loss: float
    torch_loss: float

    @property
    def ratios(self) -> list[float]:
        """Ratio of passes made by `fit` to those made by PyTorch, round by round."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.torch, strict=True)]

    @property
    def ratio(self) -> float:
        """The median."""
        return statistics.median(self.ratios)


def seconds() -> float:
    """Processor time of this process and of those that it waited for."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


class Watch(Callback):
    """Takes the time from the first pass to the end of the last epoch."""

    def __init__(self) -> None:
        self.began = self.ended = 0.0

    def on_begin(self, passes: int, per_epoch: int, place: CheckpointPlace) -> None:
        """All is built."""
        self.began = seconds()

    def on_epoch_end(self, row: EpochRow) -> None:
        """So far."""
        self.ended = seconds()


def by_us(module: Any, data: tuple[Any, Any], optimizer: str, batch: int, epochs: int) -> tuple[float, float]:
    """Passes per second, and the mean loss of the last epoch."""
    front: Any = importlib.import_module("deployer.torch")
    watch = Watch()
    options = {"lr": RATES[optimizer], "epochs": epochs, "seed": SEED, "check_passes": 0, "drop_last": True}
    fitted = front.train(module, data, "cross_entropy", optimizer, batch_size=batch, callback=watch, **options)
    return len(fitted.losses) / (watch.ended - watch.began), fitted.rows[-1].loss


def by_torch(module: Any, data: tuple[Any, Any], optimizer: str, batch: int, epochs: int) -> tuple[float, float]:
    """The same by the loop that everybody writes."""
    torch: Any = importlib.import_module("torch")
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer]
    x, y = map(torch.from_numpy, data)
    rule = kind(module.parameters(), lr=RATES[optimizer])
    torch.manual_seed(SEED)
    module.train()
    began, losses = seconds(), list[float]()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for first in range(0, len(x) - batch + 1, batch):
            rows = order[first : first + batch]
            rule.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(x[rows]), y[rows])
            loss.backward()
            rule.step()
            losses.append(loss.item())
    return len(losses) / (seconds() - began), statistics.fmean(losses[-len(losses) // epochs :])


def measured(optimizer: str, batch: int, epochs: int) -> Row:
    """A row."""
    torch: Any = importlib.import_module("torch")
    nets: Any = importlib.import_module("DeployTest.support.references.torch_nets")
    torch.set_num_threads(1)
    x, y = digits()
    data, rates, losses = (x[:TRAINED], y[:TRAINED]), dict[Any, list[float]](), dict[Any, float]()
    for number in range(ROUNDS):
        pair = (by_us, by_torch) if number % 2 else (by_torch, by_us)
        for way in pair:
            torch.manual_seed(SEED)
            rate, losses[way] = way(nets.digits(False), data, optimizer, batch, epochs)
            rates.setdefault(way, []).append(round(rate, 1))
    ends = round(losses[by_us], 4), round(losses[by_torch], 4)
    return Row(optimizer, batch, tuple(rates[by_us]), tuple(rates[by_torch]), *ends)


def main() -> None:
    """Measure, print and write all rows; exit code 1 where PyTorch is faster."""
    console, rows = Console(), []
    for batch, epochs in CASES:
        for optimizer in RATES:
            row = measured(optimizer, batch, epochs)
            rows.append(row)
            console.print(f"{row.optimizer}, batches of {row.batch}: {row.ratio:.2f} times PyTorch's passes, {row}")
    torch: Any = importlib.import_module("torch")
    record = {"processor": processor(), "torch": torch.__version__, "digits": digits_source()}
    record |= {"rows": [asdict(row) for row in rows]}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, page_table(record))
    slow = [f"{row.optimizer} in batches of {row.batch}" for row in rows if row.ratio < 1]
    sys.exit(f"PyTorch is faster: {', '.join(slow)}" if slow else 0)


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    rows = [Row(**row) for row in record["rows"]]
    lines = [
        f"Passes per second of processor time, medians of {ROUNDS} rounds, one core ({record['processor']}), PyTorch",
        f"{record['torch']}; in brackets the smallest and largest ratio of a round. The digits are",
        f"{record['digits']}.",
        "",
        "| digits' CNN | `fit` | PyTorch | `fit` / PyTorch |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ours, theirs = (statistics.median(rates) for rates in (row.ours, row.torch))
        spread = f"{row.ratio:.1f} ({min(row.ratios):.1f} to {max(row.ratios):.1f})"
        lines.append(f"| {row.optimizer}, batches of {row.batch} | {ours:.0f} | {theirs:.0f} | {spread} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
