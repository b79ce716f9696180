"""A zoo of ordinary PyTorch modules: each is trained six steps of SGD and of AdamW in generated C and by PyTorch.

Run as `python -m DeployTest.suites.zoo` where PyTorch is installed; with --write it renews docs/zoo.md. A net is right
where every loss and every final parameter is as close to PyTorch's as a training case has to be to its gold, but for
entries that rounding leaves open with AdamW, parameters have the module's names, and the check of the same state
passes.
"""

import argparse
import itertools
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deployer import pipeline
from deployer.core.errors import UserError
from deployer.core.operator import Array
from deployer.running.run import Outcome
from deployer.torch.check import check_step
from deployer.torch.objectives import Objective, objective_of
from deployer.torch.step import capture_step
from deployer.training.train_graph import CaseReport, build_train_graph
from deployer.verify.tolerances import TOLERANCES
from DeployTest.suites import zoo_dense, zoo_images, zoo_sequences
from DeployTest.suites.zoo_base import ZOO, Net
from DeployTest.suites.zoo_reasons import Again, Run, left_to_rounding, turned
from DeployTest.suites.zoo_torch import Trained, by_adamw, by_sgd
from DeployTest.support.building.cases import Built, compile_case, faults
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"
MARKS = ("<!-- zoo -->", "<!-- end of zoo -->")
REGISTERING = (zoo_dense, zoo_images, zoo_sequences)
"""The modules whose import fills the zoo."""
STEPS, L1 = 6, 64000
LONGEST = 320
"""The most characters of a reason in the table."""
OPTIMIZERS = {"sgd": (by_sgd, 0.05), "adamw": (by_adamw, 0.001)}
"""How PyTorch trains with each optimizer, and the rate."""
RIGHT, EXPLAINED, OFF = "right", "explained", "off"
REFUSED, UNFORESEEN = "refused", "unforeseen"
"""What becomes of a net; one that is explained is beyond the tolerances, by a cause that accounts for all of it."""


@dataclass(frozen=True)
class Result:
    """Result of a net with an optimizer: largest differences of losses and weights, and the weights' movement.

    `open` of their `entries` are undetermined; `reason` says why the net has no result.
    """

    net: str
    optimizer: str
    seed: int
    outcome: str
    parameters: int = 0
    loss: float = 0.0
    weight: float = 0.0
    moved: float = 0.0
    open: int = 0
    entries: int = 0
    reason: str = ""


def samples(net: Net, seed: int) -> tuple[list[list[Tensor]], list[Tensor]]:
    """Inputs and targets of each step."""
    torch.manual_seed(seed + 1000)
    inputs = [
        [torch.randint(0, net.ids, shape) if net.ids else torch.randn(shape) for shape in net.inputs]
        for _ in range(STEPS)
    ]
    with torch.no_grad():
        first = net.module(*inputs[0])
    scores = first[0] if isinstance(first, tuple) else first
    if net.loss == "mse":
        return inputs, [torch.randn(scores.shape) for _ in inputs]
    return inputs, [torch.randint(0, scores.shape[1], (scores.shape[0], *scores.shape[2:])) for _ in inputs]


def _objective(net: Net) -> Objective:
    names = tuple(f"x{i}" for i in range(len(net.inputs)))
    return objective_of(net.module, net.loss, names, ("target",))


def by_us(
    net: Net, optimizer: str, folder: Path, inputs: Sequence[Sequence[Tensor]], targets: Sequence[Tensor]
) -> tuple[CaseReport, Built, Outcome]:
    """The training case's report, the case compiled, and its run in generated C on the host."""
    objective = _objective(net)
    batch = dict(zip(objective.data, [*inputs[0], targets[0]], strict=True))
    step = capture_step(net.module, objective, batch, ignores=False)
    check_step(step, net.module, objective, batch)
    columns = [*zip(*inputs, strict=True), targets]
    data = {name: np.stack([t.numpy() for t in x]) for name, x in zip(step.data, columns, strict=True)}
    model = step.save(folder / "net.onnx", loss=net.loss, targets=step.data[-1:])
    rate = OPTIMIZERS[optimizer][1]
    report = build_train_graph(model, net.loss, optimizer, rate, "", folder, data=data)
    assert not step.unused, step.unused
    case = pipeline.load_training(report.train)
    built = compile_case(case, folder / "out", "auto", L1)
    return report, built, built.run()


def judge(name: str, optimizer: str, seed: int, folder: Path) -> Result:
    """Train a net both ways."""
    torch.manual_seed(seed)
    net = ZOO[name](np.random.default_rng(seed))
    state = {n: t.clone() for n, t in net.module.state_dict().items()}
    inputs, targets = samples(net, seed)
    net.module.load_state_dict(state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report, built, outcome = by_us(net, optimizer, folder, inputs, targets)
            against = faults(built, outcome)
    except UserError as error:
        return Result(name, optimizer, seed, REFUSED, reason=" ".join(str(error).split())[:300])
    except Exception:
        return Result(name, optimizer, seed, UNFORESEEN, reason=traceback.format_exc(limit=-2))
    net.module.load_state_dict(state)
    peer, rate = OPTIMIZERS[optimizer]
    batches = [[*x, y] for x, y in zip(inputs, targets, strict=True)]
    objective = _objective(net)
    gold = peer(net.module, objective, batches, rate)
    weights = gold.weights
    ours = {module_name: outcome.arrays[n] for n, module_name in report.trained.items()}
    expected = {n for n, p in net.module.named_parameters() if p.requires_grad}
    if set(ours) != expected:
        reason = f"trained are {sorted(ours)}, not {sorted(expected)}"
        return Result(name, optimizer, seed, OFF, len(expected), reason=reason)
    loss = max(abs(a - b) for a, b in zip(outcome.losses, gold.losses, strict=True))
    left = {n: gold.open.get(n, np.zeros(weights[n].shape, bool)) for n in expected}
    apart = {n: np.abs(ours[n].reshape(weights[n].shape) - weights[n]) for n in expected}
    weight = max(float(apart[n][~left[n]].max(initial=0.0)) for n in expected)
    moved = max(float(np.abs(weights[n] - state[n].numpy()).max()) for n in expected)
    good = loss <= TOLERANCES.loss and weight <= TOLERANCES.weight and not against
    counts = sum(int(mask.sum()) for mask in left.values()), sum(weights[n].size for n in expected)
    outcome_word, reason = RIGHT if good else OFF, "; ".join(against)[:300]
    if not (good or against):
        net.module.load_state_dict(state)
        again = partial(_again, net, batches, rate)
        reason = because(Run(report.trained, built, outcome), gold, again)
        outcome_word = EXPLAINED if reason else OFF
    return Result(name, optimizer, seed, outcome_word, len(expected), loss, weight, moved, *counts, reason)


def because(run: Run, gold: Trained, again: Again) -> str:
    """Explain a right run that is off: a flipped decision or, with AdamW, rounding of gradients."""
    return turned(run, gold) or (left_to_rounding(run.states(), run.outcome.losses, gold, again) if gold.reach else "")


def _again(
    net: Net,
    batches: Sequence[Sequence[Tensor]],
    rate: float,
    states: Sequence[Mapping[str, Array]],
    masks: Mapping[str, Array],
) -> Trained:
    """AdamW with entries as they are in these states."""
    return by_adamw(net.module, _objective(net), batches, rate, held=(states, masks))


def run(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Result]:
    """Every net with every optimizer and every seed."""
    for name, optimizer, seed in itertools.product(names, OPTIMIZERS, seeds):
        with tempfile.TemporaryDirectory() as folder:
            yield judge(name, optimizer, seed, Path(folder))


def document(results: Sequence[Result]) -> str:
    """A row per net."""
    names = list(dict.fromkeys(r.net for r in results))
    seeds = sorted({r.seed for r in results})
    lines = []
    for optimizer in OPTIMIZERS:
        of = [r for r in results if r.optimizer == optimizer]
        right = [n for n in names if all(r.outcome == RIGHT for r in of if r.net == n)]
        text = f"With {optimizer} {len(right)} of {len(names)} nets are right with all of the seeds"
        open_ones = sum(r.open for r in of)
        share = (
            f"; {open_ones} of {sum(r.entries for r in of)} entries of parameters are undetermined" if open_ones else ""
        )
        known = {n for n in names if all(r.outcome in (RIGHT, EXPLAINED) for r in of if r.net == n)}
        odd = len(known.difference(right))
        others = f"; {odd} more {'is' if odd == 1 else 'are'} explained" if odd else ""
        lines.append(f"{text} {', '.join(map(str, seeds))}{others}{share}.")
    head = "".join(f" {o}: losses differ by | weights differ by | moved by |" for o in OPTIMIZERS)
    lines += ["", f"| net | parameters |{head} undetermined | |", "|---" * (4 + 3 * len(OPTIMIZERS)) + "|"]
    return "\n".join([*lines, *(_row([r for r in results if r.net == name]) for name in names)]) + "\n"


def _row(of: Sequence[Result]) -> str:
    """The row of a net."""
    cells = []
    for optimizer in OPTIMIZERS:
        own = [r for r in of if r.optimizer == optimizer and r.parameters]
        cells += [f"{max(getattr(r, f) for r in own):.1e}" if own else "" for f in ("loss", "weight", "moved")]
    entries = sum(r.entries for r in of if r.open or r.optimizer != "sgd")
    cells.append(f"{sum(r.open for r in of)} of {entries}" if any(r.open for r in of) else "")
    worst = next((r for r in sorted(of, key=lambda r: r.outcome == EXPLAINED) if r.outcome != RIGHT), None)
    reason = worst.reason.splitlines()[-1] if worst and worst.reason else ""
    cells.append(f"{worst.optimizer}, {worst.outcome}: {reason}".replace("|", "/")[:LONGEST] if worst else "")
    return f"| {of[0].net} | {of[0].parameters or ''} | {' | '.join(cells)} |"


def main(words: list[str] | None = None) -> int:
    """Run, print each net, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.suites.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="nets, by default all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    a = parser.parse_args(words)
    torch.set_num_threads(1)
    results = []
    for result in run(a.names or list(ZOO), a.seeds):
        results.append(result)
        figures = f"losses {result.loss:.1e} weights {result.weight:.1e} moved {result.moved:.1e} open {result.open}"
        print(
            f"{result.outcome:10} {result.net:24} {result.optimizer:6} {result.seed} {figures} {result.reason}",
            flush=True,
        )
    if a.write:
        renew(DOCUMENT, MARKS, document(results))
    bad = {r.net for r in results if r.outcome != RIGHT}
    odd = {r.net for r in results if r.outcome == EXPLAINED}
    counts = f"{len({r.net for r in results} - bad)} right, {len(odd)} with a run that is explained"
    print(f"{len({r.net for r in results})} nets: {counts}")
    return 1 if any(r.outcome in (OFF, UNFORESEEN) for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
