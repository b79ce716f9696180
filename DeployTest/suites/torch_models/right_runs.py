"""Right runs over raw data: how many of them are not passed, and how near to their bounds they come. Needs PyTorch.

Run as `python -m DeployTest.suites.torch_models.right_runs`; `--runs 1000 --write` renews the table of docs/verdict.md.
Each run is of a drawn net, batch, optimizer and schedule, on drawn columns: offsets up to 1e4 times the deviation,
scales from 1e-3 to 1e3, constant and sparse ones. PyTorch trains the same in float32 and in float64 beside it.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deployer import judging, pipeline
from deployer.core.operator import Array
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.pipeline import Case
from deployer.running.report import Report
from deployer.torch.step import CapturedStep, capture_step
from deployer.training.train_graph import build_train_graph
from deployer.verify.tolerances import TOLERANCES
from DeployTest.support.building.cases import Built, compile_case
from DeployTest.support.documents.pages import renew

PAGE = Path(__file__).resolve().parents[3] / "docs" / "verdict.md"
MARKS = ("<!-- right runs -->", "<!-- end of right runs -->")
PASSES, COLUMNS, CLASSES, EACH = 12, 8, 4, 10
L1 = 64000


class Recurrent(nn.Module):
    """A GRU over the columns as a series, and a layer over its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.last = nn.GRU(1, 8, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.last(self.cell(x[..., None])[0][:, -1])  # type: ignore[no-any-return]


class Attention(nn.Module):
    """Attention over the columns with a layer norm before and behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(1, 8), nn.LayerNorm(8)
        self.attention, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, CLASSES)
        self.behind = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        h = self.norm(self.first(x[..., None]))
        return self.last(self.behind(h + self.attention(h, h, h, need_weights=False)[0]).mean(1))  # type: ignore[no-any-return]


def _dense(*first: nn.Module) -> nn.Module:
    return nn.Sequential(*first, nn.Linear(COLUMNS, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def _convolution(norm: nn.Module) -> nn.Module:
    parts = (nn.Unflatten(1, (1, COLUMNS)), nn.Conv1d(1, 4, 3, padding=1), norm, nn.ReLU(), nn.Flatten())
    return nn.Sequential(*parts, nn.Linear(4 * COLUMNS, CLASSES))


NETS: dict[str, Callable[[], nn.Module]] = {
    "dense": _dense,
    "batch norm, dense": lambda: _dense(nn.BatchNorm1d(COLUMNS)),
    "layer norm, dense": lambda: _dense(nn.LayerNorm(COLUMNS)),
    "dense, batch norm": lambda: nn.Sequential(
        nn.Linear(COLUMNS, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)
    ),
    "convolution, batch norm": lambda: _convolution(nn.BatchNorm1d(4)),
    "convolution, group norm": lambda: _convolution(nn.GroupNorm(2, 4)),
    "attention": Attention,
    "recurrent": Recurrent,
    "tanh": lambda: nn.Sequential(
        nn.Linear(COLUMNS, 16), nn.Tanh(), nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, CLASSES)
    ),
}
OPTIMIZERS: dict[str, tuple[str, dict[str, float], float]] = {
    "SGD": ("sgd", {}, 0.05),
    "momentum": ("sgd", {"momentum": 0.9}, 0.02),
    "Adam": ("adam", {}, 0.003),
    "AdamW": ("adamw", {}, 0.003),
}
"""Each with the compiler's name, its settings, and a rate for data of deviation one."""
PEERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 1.0),
    "momentum": lambda p: torch.optim.SGD(p, 1.0, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 1.0),
    "AdamW": lambda p: torch.optim.AdamW(p, 1.0),
}


@dataclass(frozen=True)
class Setting:
    """Settings of a program."""

    net: str
    optimizer: str
    batch: int
    schedule: str

    def build(self) -> nn.Module:
        """The module, from the same seed each time."""
        torch.manual_seed(7)
        return NETS[self.net]().train()


@dataclass
class Count:
    """Verdicts of a net's runs, the largest share of the bounds, and the final distance of the weights."""

    verdicts: list[str] = field(default_factory=list)
    severity: list[float] = field(default_factory=list)
    ours: float = 0.0
    theirs: float = 0.0


def settings(runs: int, seed: int) -> Iterator[tuple[Setting, int]]:
    """Drawn settings, each net in turn, and the number of a program's data."""
    draw = np.random.default_rng(seed)
    names = list(NETS)
    for at in range((runs + EACH - 1) // EACH):
        net = names[at % len(names)]
        batch = int(draw.choice([1, 2, 4, 8, 16, 32]))
        batch = max(batch, 4) if "batch norm" in net else batch
        setting = Setting(net, str(draw.choice(list(OPTIMIZERS))), batch, str(draw.choice(["constant", "cosine"])))
        yield from ((setting, number) for number in range(min(EACH, runs - EACH * at)))


def columns(setting: Setting, draw: np.random.Generator) -> Array:
    """Rows of raw columns: each has an offset, a scale, and may be constant or sparse."""
    rows = draw.standard_normal((PASSES, setting.batch, COLUMNS))
    offset = 10.0 ** draw.uniform(0, 4) * draw.choice([0.0, 1.0, -1.0], COLUMNS, p=[0.5, 0.25, 0.25])
    kind = draw.choice(["plain", "constant", "sparse"], COLUMNS, p=[0.7, 0.15, 0.15])
    rows = np.where(kind == "constant", 0.0, rows)
    rows = np.where((kind == "sparse") & (draw.random(rows.shape) < 0.9), -offset, rows)
    return np.asarray((rows + offset) * 10.0 ** draw.uniform(-3, 3), np.float32)


def loss_of(module: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy."""
    return nn.functional.cross_entropy(module(x), labels)


def rate_of(setting: Setting, x: Array) -> float:
    """A rate at which a net without a norm in front does not diverge on these data."""
    rate = OPTIMIZERS[setting.optimizer][2]
    normed = setting.net.startswith(("batch norm", "layer norm"))
    slow = setting.optimizer in ("SGD", "momentum") and not normed
    return float(np.float32(rate / max(1.0, float(np.square(x.astype(np.float64)).mean())))) if slow else rate


def case_of(setting: Setting, step: CapturedStep, x: Array, labels: Array, folder: Path) -> Case:
    """The training case of the step over these data; its program takes the rates when it runs."""
    name, numbers, _ = OPTIMIZERS[setting.optimizer]
    data = dict(zip(step.data, (x, labels), strict=True))
    report = build_train_graph(
        step.save(folder / "step.onnx"), "model", name, rate_of(setting, x), "", folder / "case", data=data,
        n_batches=PASSES, settings=numbers, lr_schedule=read_schedule(setting.schedule), force=True,
        warn=lambda warning: None,
    )  # fmt: skip
    return pipeline.load_training(report.train, changing=None)


def peers(setting: Setting, case: Case, x: Array, labels: Array, dtype: torch.dtype) -> dict[str, Array]:
    """PyTorch's weights after the run in that type, by the rates of the case."""
    module = setting.build().to(dtype)
    assert case.dataset is not None
    optimizer = PEERS[setting.optimizer](module.parameters())
    for index in range(PASSES):
        for group in optimizer.param_groups:
            group["lr"] = float(case.dataset.rates[index, 0])
        optimizer.zero_grad()
        loss_of(module, torch.from_numpy(x[index]).to(dtype), torch.from_numpy(labels[index])).backward()
        optimizer.step()
    return {n: p.detach().double().numpy() for n, p in module.named_parameters()}


def runs(count: int, seed: int) -> Iterator[tuple[Setting, Report, float, float]]:
    """Each run with the report on it, and how far our and PyTorch's float32 weights end from PyTorch's float64."""
    torch.set_num_threads(1)
    step: CapturedStep | None = None
    built: Built | None = None
    with tempfile.TemporaryDirectory() as place:
        for at, (setting, number) in enumerate(settings(count, seed)):
            draw = np.random.default_rng([seed, at])
            x, labels = columns(setting, draw), draw.integers(0, CLASSES, (PASSES, setting.batch))
            if step is None or number == 0:
                first = {"x": torch.from_numpy(x[0]), "labels": torch.from_numpy(labels[0])}
                step, built = capture_step(setting.build(), loss_of, first), None
            case = case_of(setting, step, x, labels, Path(place))
            if built is None:
                built = compile_case(case, Path(place) / "c", "auto", L1)
            pipeline.write_case(case, built.tiling, built.plan, built.directory)
            pipeline.build_case(built.plan, built.directory)
            outcome = pipeline.execute(case, built.plan, built.directory)
            report, _ = judging.judged(case, built.plan, outcome, TOLERANCES.loss)
            wide, narrow = (peers(setting, case, x, labels, dtype) for dtype in (torch.float64, torch.float32))
            yield setting, report, _apart(_by_module(outcome.arrays), wide), _apart(narrow, wide)


def _apart(values: dict[str, Array], wide: dict[str, Array]) -> float:
    named = {re.sub(r"\W", "_", name): array for name, array in values.items()}
    pairs = [(named[re.sub(r"\W", "_", n)].reshape(a.shape), a) for n, a in wide.items()]
    return max((float(np.abs(a - b).max()) for a, b in pairs), default=float("nan"))


def _by_module(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The trained tensors by the names of the module as C has them."""
    return {name.removeprefix("p_"): array for name, array in arrays.items()}


def table(counts: Mapping[str, Count]) -> str:
    """A row for each net, and one for all."""
    rows = [
        "| net | runs | passed | explained | failed | of the bounds | median | weights off by | PyTorch in float32 |"
    ]
    rows.append("|---" * 9 + "|")
    for name, count in counts.items():
        cells = [str(count.verdicts.count(verdict)) for verdict in ("passed", "explained", "failed")]
        shares = [f"{100 * max(count.severity):.0f} %", f"{100 * float(np.median(count.severity)):.0f} %"]
        cells += [*shares, f"{count.ours:.1e}", f"{count.theirs:.1e}"]
        rows.append(f"| {name} | {len(count.verdicts)} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Run, and print or write the table; exit code 1 where a run failed."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.suites.torch_models.right_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="number of runs (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn runs (default 1)")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/verdict.md")
    options = parser.parse_args(words)
    counts, failed = {name: Count() for name in NETS}, 0
    for setting, report, ours, theirs in runs(options.runs, options.seed):
        count = counts[setting.net]
        count.verdicts.append(report.verdict)
        rows = [row for row in report.checks.rows if not row.explained]
        worst = max(rows, key=lambda row: row.severity, default=None)
        count.severity.append(worst.severity if worst else 0.0)
        count.ours, count.theirs = max(count.ours, ours), max(count.theirs, theirs)
        failed += report.verdict == "failed"
        said = f"{100 * worst.severity:.0f} % ({worst.worst})" if worst else ""
        text = f"{setting.net}, {setting.optimizer}, {setting.batch}, {setting.schedule}: {report.verdict} {said}"
        print(text, f"{ours:.1e} {theirs:.1e}", *report.faults[:3], sep="\n    " if report.faults else " ", flush=True)
    everything = Count()
    for count in counts.values():
        everything.verdicts += count.verdicts
        everything.severity += count.severity
        everything.ours, everything.theirs = max(everything.ours, count.ours), max(everything.theirs, count.theirs)
    text = table({**{n: c for n, c in counts.items() if c.verdicts}, "all": everything})
    print(text)
    if options.write:
        renew(PAGE, MARKS, text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
