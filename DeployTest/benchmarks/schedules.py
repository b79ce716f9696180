"""Every form of the optimizers with every schedule beside PyTorch; with --write it renews docs/schedules.md.

Run as `python -m DeployTest.benchmarks.schedules` where PyTorch is installed. Each run has 100 updates of a small
classifier in generated C. From the state that the program had before each of them PyTorch makes the same update in
float64, with its own scheduler's rate; weights, states and the loss are compared within the bounds of the same state
(docs/verdict.md). Beside that stands how far the losses and the weights are from PyTorch's own run. `--seeds`,
`--steps`, `--courses` and names of forms make other runs. Exit code 1 where an update is beyond its bounds.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deployer import judging, pipeline
from deployer.core.operator import Array, operator_of
from deployer.core.plan import Options
from deployer.core.traits.training import Optimizer
from deployer.lr_schedules.lr_schedule import read_schedule
from deployer.pipeline import Case
from deployer.running.run import Outcome
from deployer.training.train_graph import build_train_graph
from deployer.verify.rounding import with_rounding
from deployer.verify.same_state import OnePass, misfit
from deployer.verify.tolerances import TOLERANCES
from DeployTest.benchmarks.upkeep.commits import publish
from DeployTest.models.parts.dense import dense
from DeployTest.support.building.cases import Built
from DeployTest.support.references.torch_schedules import LR_SCHEDULES, torch_scheduler
from DeployTest.support.references.updates import UPDATES, Update, narrow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schedules.md"
MARKS = ("<!-- schedules -->", "<!-- end of schedules -->")
WIDTHS, LAYERS, BATCH, SAMPLES, STEPS, RATE = (16, 12, 5), ("fc1", "fc2"), 4, 25, 100, 0.01
STATES = {
    "SGD": ("momentum_buffer",),
    "Adam": ("exp_avg", "exp_avg_sq"),
    "AdamW": ("exp_avg", "exp_avg_sq"),
    "RMSprop": ("square_avg", "momentum_buffer"),
    "Adagrad": ("sum",),
}
"""What PyTorch calls the states of an optimizer, in the order of ours."""
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Result:
    """A run: passes beyond their bounds, the worst as a share of them, and how far it is from PyTorch's own run."""

    form: str
    lr_schedule: str
    beyond: int
    worst: float
    loss_drift: float
    weight_drift: float
    said: str


class Peer:
    """The classifier and its optimizer in PyTorch, in float64; `weights` are named as in the training graph."""

    def __init__(self, case: Case, update: Update, lr_schedule: str, steps: int) -> None:
        assert case.dataset is not None
        self.dataset, self.update = case.dataset, update
        self.weights = {
            n: torch.tensor(a.astype(np.float64), requires_grad=True) for n, a in case.dataset.weights.items()
        }
        kind = getattr(torch.optim, update.torch)
        self.optimizer = kind(list(self.weights.values()), RATE, **narrow(update.torch_words))
        self.scheduler = torch_scheduler(lr_schedule, self.optimizer, (RATE,), steps)
        self.nodes = [node for node in case.program.graphs[-1].nodes if operator_of(node).role(Optimizer)]

    def _names(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Each weight with the names of its states in our graph by PyTorch's."""
        for node in self.nodes:
            declared = operator_of(node).role(Optimizer)
            assert declared is not None
            places = [node.inputs[i] for i in sorted(declared.states)]
            yield node.inputs[declared.weight], dict(zip(STATES[self.update.torch], places, strict=False))

    def take(self, state: Arrays, done: int) -> None:
        """Have the weights and states that the program had after so many updates."""
        with torch.no_grad():
            for weight, names in self._names():
                tensor = self.weights[weight]
                tensor.copy_(torch.tensor(np.asarray(state[weight], np.float64).reshape(tensor.shape)))
                own: dict[str, Any] = self.optimizer.state[tensor]
                for theirs, ours in names.items():
                    own[theirs] = torch.tensor(np.asarray(state[ours], np.float64).reshape(tensor.shape))
                if names and self.update.torch != "SGD":
                    own["step"] = torch.tensor(float(done))

    def step(self, index: int) -> float:
        """One update by the sample of a pass, and its loss; the scheduler goes on."""
        x, labels = (torch.tensor(a) for a in self.dataset.sample(index))
        self.optimizer.zero_grad()
        w = self.weights
        hidden = torch.relu(x.double() @ w["fc1_weight"].T + w["fc1_bias"])
        scores = hidden @ w["fc2_weight"].T + w["fc2_bias"]
        loss = torch.nn.functional.cross_entropy(scores, labels.long())
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def state(self, index: int) -> dict[str, Array]:
        """Weights and states by the names of the training graph, and the number of updates."""
        found = {}
        for weight, names in self._names():
            tensor = self.weights[weight]
            found[weight] = tensor.detach().numpy().copy()
            found |= {ours: self.optimizer.state[tensor][theirs].numpy().copy() for theirs, ours in names.items()}
        counts = {name: np.array([index + 1]) for node in self.nodes for name in self._count(node)}
        return {**found, **counts}

    def _count(self, node: Any) -> list[str]:
        """The storage of the number of updates, where the optimizer reads it."""
        declared = operator_of(node).role(Optimizer)
        return ["step"] if declared is not None and declared.count is not None else []


def cases(update: Update, lr_schedule: str, seeds: Sequence[int], steps: int, folder: Path) -> Iterator[Case]:
    """The case of each seed: weights and samples are drawn from it."""
    text, warm_up = LR_SCHEDULES[lr_schedule]
    for seed in seeds:
        place = folder / f"{lr_schedule}_{seed}"
        model = dense(place / "net.onnx", WIDTHS, LAYERS, BATCH, seed, relu=True)
        settings = dict(update.settings)
        report = build_train_graph(
            model, "cross_entropy", update.choice, RATE, "", place, samples=SAMPLES, n_batches=steps, seed=seed + 1,
            settings=settings, lr_schedule=read_schedule(text, warm_up),
        )  # fmt: skip
        yield pipeline.load_training(report.train)


def compared(form: str, lr_schedule: str, update: Update, built: Built, outcome: Outcome, steps: int) -> Result:
    """A run beside PyTorch, pass by pass from its own states, and as a whole."""
    case = built.case
    judge = judging.judge_of(case, built.plan, outcome, TOLERANCES.loss)
    assert judge is not None
    peer, worst, beyond, said = Peer(case, update, lr_schedule, steps), 0.0, 0, ""
    for one in judge.passes:
        theirs = by_torch(peer, one)
        found = misfit(one, theirs, TOLERANCES.loss)
        if found.severity > 1:
            found = misfit(with_rounding(one, one.reference()), theirs, TOLERANCES.loss)
        worst, beyond = max(worst, found.severity), beyond + (found.severity > 1)
        said = said or (f"pass {one.index}, {found.said}" if found.severity > 1 else "")
    own = Peer(case, update, lr_schedule, steps)
    losses = [own.step(index) for index in range(steps)]
    drift = max(abs(a - b) for a, b in zip(outcome.losses, losses, strict=True))
    weights = max(float(np.abs(outcome.arrays[n] - w.detach().numpy()).max()) for n, w in own.weights.items())
    return Result(form, lr_schedule, beyond, worst, drift, weights, said)


def by_torch(peer: Peer, one: OnePass) -> OnePass:
    """The pass by PyTorch from the program's own state, with the bounds of our reference."""
    reference = one.reference()
    peer.take(one.before, one.index)
    loss = peer.step(one.index)
    state = peer.state(one.index)
    return replace(
        reference, loss=loss, after={name: state[name].reshape(np.shape(a)) for name, a in one.after.items()}
    )


def results(
    forms: Sequence[str], lr_schedules: Sequence[str], seeds: Sequence[int], steps: int, folder: Path
) -> Iterator[Result]:
    """All runs. A form's program is built once: rates, weights and samples are data."""
    for form in forms:
        built: Built | None = None
        for lr_schedule in lr_schedules:
            for case in cases(UPDATES[form], lr_schedule, seeds, steps, folder / form):
                if built is None:
                    tiling, plan = pipeline.plan_case(case, Options(), checks=steps)
                    built = Built(case, tiling, plan, folder / form / "c")
                    pipeline.write_case(case, tiling, plan, built.directory)
                    pipeline.build_case(plan, built.directory)
                assert case.program == built.case.program, "the program changes with the rate"
                (built.directory / "input.bin").write_bytes(pipeline.input_bytes(case, built.plan))
                built = replace(built, case=case)
                yield compared(form, lr_schedule, UPDATES[form], built, built.run(), steps)


def table(found: Sequence[Result], seeds: Sequence[int], steps: int) -> str:
    """A row per form and a column per course."""
    forms, lr_schedules = (list(dict.fromkeys(getattr(r, field) for r in found)) for field in ("form", "course"))
    passes, beyond = len(found) * steps, sum(r.beyond for r in found)
    lines = [
        f"{len(found)} runs of {steps} updates, seeds {', '.join(map(str, seeds))}: {passes - beyond} of {passes}"
        " updates are PyTorch's from the same state.",
        "",
        f"| form | {' | '.join(lr_schedules)} |",
        "|---" * (1 + len(lr_schedules)) + "|",
    ]
    for form in forms:
        cells = []
        for lr_schedule in lr_schedules:
            of = [r for r in found if (r.form, r.lr_schedule) == (form, lr_schedule)]
            figures = max(r.loss_drift for r in of), max(r.weight_drift for r in of)
            over = f", {sum(r.beyond for r in of)} beyond" if any(r.beyond for r in of) else ""
            cells.append(f"{100 * max(r.worst for r in of):.2g} %{over}; {figures[0]:.0e}, {figures[1]:.0e}")
        lines.append(f"| {form} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Run, print each run, and write or print the table."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.schedules", description=__doc__)
    parser.add_argument("forms", nargs="*", help="forms of optimizers (default: all)")
    parser.add_argument(
        "--courses", nargs="+", choices=LR_SCHEDULES, default=list(LR_SCHEDULES), help="schedules (default: all)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--write", action="store_true", help=f"renew {PAGE.name}")
    a = parser.parse_args(words)
    torch.set_num_threads(1)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for r in results(a.forms or list(UPDATES), a.lr_schedules, a.seeds, a.steps, Path(folder)):
            found.append(r)
            figures = f"{100 * r.worst:.2g} % of the bounds, drift {r.loss_drift:.1e}, {r.weight_drift:.1e}"
            print(f"{r.form:18} {r.lr_schedule:14} {figures} {r.said}", flush=True)
    text = table(found, a.seeds, a.steps)
    print(text)
    if a.write:
        publish(__file__, PAGE, MARKS, text)
    return 1 if any(r.beyond for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
