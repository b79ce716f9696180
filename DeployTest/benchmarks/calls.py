"""Time of a call of a compiled step, beyond the C that it runs, beside PyTorch's own step; needs PyTorch.

`python -m DeployTest.benchmarks.calls` writes calls.json and the table of docs/pytorch.md. Times are the best of some
rounds on one core; each call makes a pass and its update. The overhead is what a call takes beyond the library's
function alone; another rate in each call is what a scheduler of PyTorch makes of it.
"""

import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from DeployTest.benchmarks.flat import processor
from DeployTest.benchmarks.upkeep.commits import publish

RESULT = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
MARKS = ("<!-- calls table -->", "<!-- end of calls table -->")
ROUNDS, CALLS, SEED = 20, 300, 0
MOST = 20e-6
"""Seconds of overhead that a call may have."""


@dataclass(frozen=True)
class Row:
    """Microseconds of the C alone, of a call, of one with another rate than the last, and of PyTorch's step."""

    net: str
    batch: int
    library: float
    call: float
    with_rate: float
    torch: float


def best(call: Callable[..., Any], *arguments: Any) -> float:
    """The least mean time of a call in microseconds, over all rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call(*arguments)
        times.append((time.perf_counter() - began) / CALLS)
    return round(1e6 * min(times), 2)


def measured(net: str, module: Any, x: Any, y: Any) -> Row:
    """A row; AdamW of PyTorch sets the rates."""
    torch: Any = importlib.import_module("torch")
    front: Any = importlib.import_module("deployer.torch")
    loss = torch.nn.functional.cross_entropy
    optimizer = torch.optim.AdamW(module.parameters())
    step = front.compile_step(module, loss, optimizer, (x, y), cores=1)
    step(x, y)
    library, (pointers, place) = step._variant.library, step._variant.addresses
    rates = itertools.cycle((0.001, 0.002, 0.003))

    def at_another_rate() -> None:
        optimizer.param_groups[0]["lr"] = next(rates)
        step(x, y)

    alone, call, with_rate = best(library.run, pointers, 1, 1, place), best(step, x, y), best(at_another_rate)
    theirs = torch.optim.AdamW(module.parameters())

    def of_torch() -> None:
        theirs.zero_grad()
        value = loss(module(x), y)
        value.backward()
        theirs.step()
        value.item()

    return Row(net, len(x), alone, call, with_rate, best(of_torch))


def main() -> None:
    """Measure, print and write all rows; exit code 1 where a call has more overhead than MOST."""
    torch: Any = importlib.import_module("torch")
    nets: Any = importlib.import_module("DeployTest.support.references.torch_nets")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    nn, console = torch.nn, Console()
    perceptron = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    rows = [measured("perceptron 6-8-3", perceptron, torch.randn(4, 6), torch.arange(4) % 3)]
    rows += [
        measured("digits' CNN", nets.digits(False).train(), torch.randn(n, 1, 8, 8), torch.arange(n) % 10)
        for n in (4, 32)
    ]
    console.print(*rows, sep="\n")
    record = {"processor": processor(), "torch": torch.__version__, "rows": [asdict(row) for row in rows]}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")
    publish(__file__, PAGE, MARKS, page_table(record))
    slow = [row.net for row in rows if max(row.call, row.with_rate) - row.library > 1e6 * MOST]
    sys.exit(f"a call of {slow[0]} has more overhead than {1e6 * MOST:g} us" if slow else 0)


def page_table(record: Mapping[str, Any]) -> str:
    """The table of the results."""
    lines = [
        f"Microseconds of a pass with its update by AdamW, best of {ROUNDS} rounds, one core ({record['processor']}),",
        f"PyTorch {record['torch']}:",
        "",
        "| net | batch | generated C alone | `step(x, y)` | with another rate | PyTorch's step |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in (Row(**each) for each in record["rows"]):
        numbers = (row.library, row.call, row.with_rate, row.torch)
        lines.append(f"| {row.net} | {row.batch} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
