"""A zoo of ordinary PyTorch modules: each is trained six steps in generated C and by PyTorch, and compared.

Run as `python -m DeployTest.suites.zoo` where PyTorch is installed; with --write it renews docs/zoo.md. A net is right
where every loss and every final parameter of SGD is as close to PyTorch's as a training case has to be to its gold,
parameters have the module's names, and the check of the same state passes.
"""

import argparse
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from deployer import pipeline
from deployer.core.errors import UserError
from deployer.core.operator import Array, losses
from deployer.running.run import Outcome
from deployer.torch import capture
from deployer.training.train_graph import Report, build_train_graph
from deployer.verify.tolerances import TOLERANCES
from DeployTest.suites import zoo_dense, zoo_images, zoo_sequences
from DeployTest.suites.zoo_base import ZOO, Net
from DeployTest.support.cases import compile_case, faults
from DeployTest.support.pages import renew

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"
MARKS = ("<!-- zoo -->", "<!-- end of zoo -->")
REGISTERING = (zoo_dense, zoo_images, zoo_sequences)
"""The modules whose import fills the zoo."""
STEPS, RATE, L1 = 6, 0.05, 64000
RIGHT, OFF, REFUSED, UNFORESEEN = "right", "off", "refused", "unforeseen"


@dataclass(frozen=True)
class Result:
    """What became of a net: the largest differences of losses and of weights, how far weights moved, and why not."""

    net: str
    seed: int
    outcome: str
    parameters: int = 0
    loss: float = 0.0
    weight: float = 0.0
    moved: float = 0.0
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


def by_torch(
    module: nn.Module, loss: str, inputs: Sequence[Sequence[Tensor]], targets: Sequence[Tensor]
) -> tuple[list[float], dict[str, Array]]:
    """Losses, and final parameters by name, after a step of SGD for each input."""
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    function, values = {"mse": F.mse_loss, "cross_entropy": F.cross_entropy}[loss], []
    for arguments, target in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        scores = module(*arguments)
        value = function(scores[0] if isinstance(scores, tuple) else scores, target)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        values.append(value.item())
    return values, {name: p.detach().numpy().copy() for name, p in module.named_parameters()}


def by_us(
    net: Net, folder: Path, inputs: Sequence[Sequence[Tensor]], targets: Sequence[Tensor]
) -> tuple[Report, Outcome, tuple[str, ...]]:
    """The training case's report, its run in generated C on the host, and what the check has against it."""
    captured = capture(net.module, inputs[0])
    data = {name: np.stack([x[i].numpy() for x in inputs]) for i, name in enumerate(captured.inputs)}
    declared = losses()[net.loss].loss
    assert declared is not None
    data[declared.target] = np.stack([t.numpy() for t in targets])
    model = captured.save(folder / "net.onnx")
    report = build_train_graph(model, net.loss, "sgd", RATE, captured.trainable, folder, data=data)
    assert not captured.unused, captured.unused
    case = pipeline.load_training(report.train)
    built = compile_case(case, folder / "out", "auto", L1)
    outcome = built.run()
    return report, outcome, faults(built, outcome)


def judge(name: str, seed: int, folder: Path) -> Result:
    """Train a net both ways."""
    torch.manual_seed(seed)
    net = ZOO[name](np.random.default_rng(seed))
    state = {n: t.clone() for n, t in net.module.state_dict().items()}
    inputs, targets = samples(net, seed)
    net.module.load_state_dict(state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report, outcome, against = by_us(net, folder, inputs, targets)
    except UserError as error:
        return Result(name, seed, REFUSED, reason=" ".join(str(error).split())[:300])
    except Exception:
        return Result(name, seed, UNFORESEEN, reason=traceback.format_exc(limit=-2))
    net.module.load_state_dict(state)
    gold, weights = by_torch(net.module, net.loss, inputs, targets)
    ours = {module_name: outcome.arrays[n] for n, module_name in report.trained.items()}
    expected = {n for n, p in net.module.named_parameters() if p.requires_grad}
    if set(ours) != expected:
        return Result(name, seed, OFF, len(expected), reason=f"trained are {sorted(ours)}, not {sorted(expected)}")
    loss = max(abs(a - b) for a, b in zip(outcome.losses, gold, strict=True))
    weight = max(float(np.abs(ours[n].reshape(weights[n].shape) - weights[n]).max()) for n in expected)
    moved = max(float(np.abs(weights[n] - state[n].numpy()).max()) for n in expected)
    good = loss <= TOLERANCES.loss and weight <= TOLERANCES.weight and not against
    return Result(name, seed, RIGHT if good else OFF, len(expected), loss, weight, moved, "; ".join(against)[:300])


def run(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Result]:
    """Every net with every seed."""
    for name in names:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                yield judge(name, seed, Path(folder))


def document(results: Sequence[Result]) -> str:
    """A row per net."""
    names = list(dict.fromkeys(r.net for r in results))
    right = [n for n in names if all(r.outcome == RIGHT for r in results if r.net == n)]
    seeds = sorted({r.seed for r in results})
    lines = [f"{len(right)} of {len(names)} nets are right with all of the seeds {', '.join(map(str, seeds))}.", ""]
    lines += [
        "| net | parameters | losses differ by | weights differ by | weights moved by | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name in names:
        of = [r for r in results if r.net == name]
        worst = next((r for r in of if r.outcome != RIGHT), of[0])
        cells = [f"{max(getattr(r, field) for r in of):.1e}" for field in ("loss", "weight", "moved")]
        text = (
            ""
            if worst.outcome == RIGHT
            else f"{worst.outcome}: {worst.reason.splitlines()[-1] if worst.reason else ''}"
        )
        numbers = " | ".join(cells) if of[0].parameters else " | | "
        lines.append(f"| {name} | {of[0].parameters or ''} | {numbers} | {text.replace('|', '/')[:200]} |")
    return "\n".join(lines) + "\n"


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
        figures = f"losses {result.loss:.1e} weights {result.weight:.1e} moved {result.moved:.1e}"
        print(f"{result.outcome:10} {result.net:24} {result.seed} {figures} {result.reason}", flush=True)
    if a.write:
        renew(DOCUMENT, MARKS, document(results))
    bad = {r.net for r in results if r.outcome != RIGHT}
    print(f"{len({r.net for r in results})} nets: {len({r.net for r in results} - bad)} right")
    return 1 if any(r.outcome in (OFF, UNFORESEEN) for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
