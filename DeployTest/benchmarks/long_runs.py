"""850 passes of `deployer fit` and of PyTorch in float32, each beside PyTorch in float64; needs PyTorch.

`python -m DeployTest.benchmarks.long_runs` writes long_runs.json and the table of docs/fit.md. The digits' CNN and a
language model of two layers, by SGD and by AdamW, an update after each pass. All three runs begin with the same weights
and see the same batches. The verdict is that of the check, which repeats passes in float64 from the state that the
program had: without drift, so that it has one bound for runs of any length.

AdamW's step is about its rate however small a gradient is. A parameter without gradient, such as the bias of keys in
attention, is moved by rounding alone, and no run is right about it: those are counted, and left out.
"""

import argparse
import copy
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from deployer.fitting.call import fit
from deployer.fitting.fit import Fitted
from deployer.training.order import Order
from DeployTest.benchmarks.fit import RATES, SEED, TRAINED
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.support.graphs.digit_images import digits, digits_source

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "fit.md"
MARKS = ("<!-- drift table -->", "<!-- end of drift table -->")
STEPS, CHECKS = 850, 850
SYMBOLS, WIDTH, LENGTH, TEXTS = 32, 32, 16, 512
"""Symbols of the language, the model's width, and lengths and number of texts."""
NO_GRADIENT = 1e-12
"""A parameter has none where it is smaller than this in every pass of the run in float64."""
BATCHES = {"digits": 32, "language model": 8}
Data = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Apart:
    """Distance of a run from float64: largest difference of a loss and of a weight, and the weights' mean square.

    `idle` is the largest difference of weights without gradient.
    """

    loss: float
    weight: float
    typical: float
    idle: float


@dataclass(frozen=True)
class Row:
    """A net and an optimizer: the first and the last loss, how far weights moved at most, the check, both drifts.

    `idle` of the parameters have no gradient.
    """

    net: str
    optimizer: str
    parameters: int
    idle: int
    first: float
    last: float
    moved: float
    verdict: str
    checked: str
    ours: Apart
    torch: Apart


def texts() -> Data:
    """Texts of a language in which what follows depends on the last two symbols; and the same, one symbol later."""
    draw = np.random.default_rng(SEED)
    table = draw.dirichlet(np.full(SYMBOLS, 0.05), (SYMBOLS, SYMBOLS)).cumsum(-1)
    rows = draw.integers(0, SYMBOLS, (TEXTS, LENGTH + 1))
    for at in range(2, LENGTH + 1):
        sums = table[rows[:, at - 2], rows[:, at - 1]]
        rows[:, at] = np.minimum((draw.random((TEXTS, 1)) > sums).sum(1), SYMBOLS - 1)
    return rows[:, :-1].copy(), rows[:, 1:].copy()


def net(name: str) -> tuple[Any, Data]:
    """The net with drawn weights, and its samples."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(SEED)
    if name == "digits":
        x, y = digits()
        net = importlib.import_module("DeployTest.support.references.torch_nets").digits(False)
        return net, (x[:TRAINED], y[:TRAINED])
    nets: Any = importlib.import_module("DeployTest.suites.zoo_sequences")
    module = nets.GPT(SYMBOLS, WIDTH, LENGTH)
    for table in (module.words, module.places):
        torch.nn.init.normal_(table.weight, std=0.1)
    return module, texts()


def by_us(module: Any, data: Data, optimizer: str, batch: int, steps: int, checks: int) -> Fitted:
    """A run of `fit`."""
    front: Any = importlib.import_module("deployer.torch")
    torch: Any = importlib.import_module("torch")
    with tempfile.TemporaryDirectory() as folder:
        captured = front.capture(module, [torch.from_numpy(data[0][:batch])])
        model, place = captured.save(Path(folder) / "net.onnx"), Path(folder) / "run"
        options = {"lr": RATES[optimizer], "n_steps": steps, "seed": SEED, "check_passes": checks}
        return fit(model, data, "cross_entropy", optimizer, folder=place, trainable=captured.trainable, **options)


@dataclass(frozen=True, eq=False)
class Peer:
    """The losses of all passes, the final weights by name, and the largest gradient of each of them in any pass."""

    losses: Any
    weights: Mapping[str, Any]
    gradients: Mapping[str, Any]


def by_torch(module: Any, data: Data, optimizer: str, batch: int, steps: int, wide: bool) -> Peer:
    """A run in float64 or in float32."""
    torch: Any = importlib.import_module("torch")
    kind = torch.float64 if wide else torch.float32
    module = copy.deepcopy(module).to(kind).train()
    rule = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer](module.parameters(), lr=RATES[optimizer])
    order, losses = Order(len(data[0]), batch, SEED), list[float]()
    gradients = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    for index in range(steps):
        x, y = (torch.from_numpy(array[order.indices(index)]) for array in data)
        rule.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x.to(kind) if x.is_floating_point() else x), y)
        loss.backward()
        for name, parameter in module.named_parameters():
            torch.maximum(gradients[name], parameter.grad.abs(), out=gradients[name])
        rule.step()
        losses.append(loss.item())
    weights = {name: p.detach().double().numpy() for name, p in module.named_parameters()}
    return Peer(np.array(losses), weights, {name: array.numpy() for name, array in gradients.items()})


def apart(losses: Any, weights: Mapping[str, Any], gold: Peer) -> Apart:
    """Return the distance of a run from the reference."""
    off = {name: np.abs(weights[name].reshape(array.shape) - array) for name, array in gold.weights.items()}
    moved = np.concatenate([array[gold.gradients[name] >= NO_GRADIENT] for name, array in off.items()])
    idle = np.concatenate([array[gold.gradients[name] < NO_GRADIENT] for name, array in off.items()])
    loss = np.abs(np.asarray(losses, np.float64) - gold.losses).max()
    numbers = (loss, moved.max(), np.sqrt(np.square(moved).mean()), idle.max(initial=0.0))
    return Apart(*(float(f"{x:.2e}") for x in numbers))


def measured(name: str, optimizer: str, steps: int, checks: int) -> Row:
    """A row."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    module, data = net(name)
    case = (module, data, optimizer, BATCHES[name], steps)
    before = {n: p.detach().double().numpy().copy() for n, p in module.named_parameters()}
    gold, narrow = by_torch(*case, True), by_torch(*case, False)
    fitted = by_us(*case, checks)
    assert fitted.weights.keys() == before.keys()
    return Row(
        name,
        optimizer,
        sum(array.size for array in before.values()),
        sum(int((array < NO_GRADIENT).sum()) for array in gold.gradients.values()),
        round(fitted.losses[0], 4),
        round(fitted.losses[-1], 4),
        round(max(float(np.abs(gold.weights[n] - before[n]).max()) for n in before), 3),
        fitted.verdict,
        fitted.checked,
        apart(fitted.losses, fitted.weights, gold),
        apart(narrow.losses, narrow.weights, gold),
    )


def main() -> None:
    """Measure, print and write all rows; exit code 1 where the check has something against a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS, help="passes of a run; other numbers are not written")
    parser.add_argument("--checks", type=int, default=CHECKS, help="passes that are repeated in float64")
    a, console, rows = parser.parse_args(), Console(), []
    for name in BATCHES:
        for optimizer in RATES:
            rows.append(measured(name, optimizer, a.steps, a.checks))
            console.print(rows[-1])
    if (a.steps, a.checks) == (STEPS, CHECKS):
        torch: Any = importlib.import_module("torch")
        record = {"torch": torch.__version__, "digits": digits_source(), "rows": [asdict(row) for row in rows]}
        RESULT.write_text(json.dumps(record, indent=1) + "\n")
        publish(__file__, PAGE, MARKS, page_table(record))
    wrong = [f"{row.net} by {row.optimizer}: {row.verdict}" for row in rows if row.verdict == "failed"]
    sys.exit("; ".join(wrong) or 0)


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"{STEPS} passes, `fit` and PyTorch {record['torch']} in float32, each against PyTorch in float64: largest",
        "difference of a loss and of a final weight, and root mean square over all weights (typical). Weights without",
        "gradient, such as the biases of keys, are left out: AdamW moves them only by rounding. The digits are",
        f"{record['digits']}.",
        "",
        "| net | parameters, without gradient | loss | weights moved | passes checked | `fit`: loss | weight | typical "
        "| PyTorch: loss | weight | typical |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    number: Callable[[float], str] = "{:.1e}".format
    for row in record["rows"]:
        drifts = [number(row[who][part]) for who in ("ours", "torch") for part in ("loss", "weight", "typical")]
        lr_schedule = f"{row['first']:.2f} to {row['last']:.3f} | {row['moved']:.2f}"
        head = f"{row['net']}, {row['optimizer']} | {row['parameters']}, {row['idle']}"
        lr_schedule += f" | {CHECKS}: {row['verdict']}"
        lines.append(f"| {head} | {lr_schedule} | {' | '.join(drifts)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
