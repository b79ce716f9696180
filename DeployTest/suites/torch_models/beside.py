"""A module trained by us in generated C, and by PyTorch from the same weights over the same batches. Needs torch.

It is right where every loss and every final parameter is as close to PyTorch's as a training case has to be to its
gold, or as close to PyTorch's in float64 as PyTorch's own run in float32 is, entries aside whose direction rounding
decides with AdamW; and where all parameters have the module's names.
"""

import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import deployer.torch as front
from deployer.core.errors import DeployerError
from deployer.torch.objectives import LossSpec, Objective, arguments_of, objective_of
from deployer.torch.tracing.draws import EagerDraws
from deployer.verify.tolerances import TOLERANCES
from DeployTest.suites.zoo_torch import Loss, by_adamw, by_sgd, wide_by_default

RIGHT, OFF, REFUSED, UNFORESEEN = "right", "off", "refused", "unforeseen"
PEERS = {"sgd": by_sgd, "adamw": by_adamw}


@dataclass(frozen=True)
class Trial:
    """A module to be made from a seed, its data inputs by argument, what its loss takes, and the loss."""

    name: str
    build: Callable[[], nn.Module]
    inputs: dict[str, Tensor]
    target: Tensor | None
    loss: LossSpec
    batch: int


@dataclass(frozen=True)
class Result:
    """The outcome of a trial with an optimizer: largest differences, movement of weights, entries left to rounding."""

    name: str
    optimizer: str
    outcome: str
    parameters: int = 0
    loss: float = 0.0
    weight: float = 0.0
    moved: float = 0.0
    open: int = 0
    reason: str = ""


def judge(trial: Trial, optimizer: str, rate: float) -> Result:
    """Train both ways over all batches of the trial's data, once."""
    torch.manual_seed(0)
    module = trial.build().train()
    state = {n: p.detach().numpy().copy() for n, p in module.named_parameters() if p.requires_grad}
    named = {**trial.inputs, **({} if trial.target is None else {"target": trial.target})}
    try:
        trained = front.train(
            module, named, trial.loss, optimizer, lr=rate, batch_size=trial.batch, shuffle=False,
            warn=lambda warning: None,
        )  # fmt: skip
    except DeployerError as error:
        return Result(trial.name, optimizer, REFUSED, reason=" ".join(str(error).split())[:300])
    except Exception:
        return Result(trial.name, optimizer, UNFORESEEN, reason=traceback.format_exc(limit=-2)[-300:])
    torch.manual_seed(0)
    peer = trial.build().train()
    keywords = not set(trial.inputs).isdisjoint(arguments_of(peer))
    targets = () if trial.target is None else ("target",)
    objective = objective_of(peer, trial.loss, tuple(trial.inputs), targets, keywords=keywords)
    objective = _drawing(objective)
    batches = [[*rows, torch.tensor(i + 1)] for i, rows in enumerate(split(list(named.values()), trial.batch))]
    gold = PEERS[optimizer](peer, objective, batches, rate)
    result = _compared(trial, optimizer, state, (trained.losses, trained.weights), gold, (0.0, 0.0))
    if result.outcome == RIGHT or optimizer == "sgd":
        return result
    torch.manual_seed(0)
    narrow = trial.build().train()
    own = _by_float32(narrow, objective, batches, rate)
    limits = _compared(trial, optimizer, state, own, gold, (0.0, 0.0))
    return _compared(trial, optimizer, state, (trained.losses, trained.weights), gold, (limits.loss, limits.weight))


def _drawing(objective: Objective) -> Loss:
    """The objective with the random numbers of the program's pass, whose number is the last of the data."""

    def loss(module: nn.Module, *data: Tensor) -> Tensor:
        *rows, passes = data
        with EagerDraws(0, int(passes), dtype=torch.get_default_dtype()):
            return objective(module, *rows)

    return loss


def _by_float32(module: nn.Module, objective: Any, batches: Sequence[Sequence[Tensor]], rate: float) -> tuple[Any, Any]:
    """PyTorch's own losses and weights in float32."""
    parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
    optimizer, losses = torch.optim.AdamW(parameters.values(), rate), []
    for batch in batches:
        optimizer.zero_grad()
        loss = objective(module, *batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {n: p.detach().numpy().copy() for n, p in parameters.items()}


def split(tensors: Sequence[Tensor], batch: int) -> list[list[Tensor]]:
    """Batches of all tensors, in order."""
    return [list(row) for row in zip(*(t.split(batch) for t in tensors), strict=True)]


def _compared(
    trial: Trial, optimizer: str, state: dict[str, Any], ours: tuple[Any, Any], gold: Any, own: tuple[float, float]
) -> Result:
    """The largest differences; `own` are those of PyTorch's run in float32."""
    losses, weights = ours
    missing = sorted(set(state) ^ set(weights))
    unmoved = [n for n in missing if n in state and np.array_equal(gold.weights[n], state[n])]
    if set(missing) - set(unmoved):
        reason = f"trained are not all parameters: {', '.join(missing)[:200]}"
        return Result(trial.name, optimizer, OFF, len(state), reason=reason)
    loss = max(abs(a - b) for a, b in zip(losses, gold.losses, strict=True))
    worst, moved, count, where = 0.0, 0.0, 0, ""
    for name, mine in weights.items():
        theirs = gold.weights[name]
        left = gold.open.get(name, np.zeros(theirs.shape, bool))
        apart = np.abs(mine.reshape(theirs.shape) - theirs)[~left].max(initial=0.0)
        worst, where = (float(apart), name) if apart > worst else (worst, where)
        moved = max(moved, float(np.abs(theirs - state[name]).max(initial=0.0)))
        count += int(left.sum())
    good = loss <= max(TOLERANCES.loss, own[0]) and worst <= max(TOLERANCES.weight, own[1])
    reason = "" if good else f"losses differ by {loss:.1e}, weights by {worst:.1e} in {where}"
    return Result(trial.name, optimizer, RIGHT if good else OFF, len(state), loss, worst, moved, count, reason)


def table(results: Sequence[Result]) -> str:
    """A row for each trial and optimizer."""
    head = "| module | optimizer | parameters | losses differ by | weights differ by | moved by | undetermined | |"
    rows = [
        f"| {r.name} | {r.optimizer} | {r.parameters or ''} | {r.loss:.1e} | {r.weight:.1e} | {r.moved:.1e} |"
        f" {r.open or ''} | {'' if r.outcome == RIGHT else f'{r.outcome}: {shown(r.reason)}'} |"
        for r in results
    ]
    return "\n".join([head, "|---" * 8 + "|", *rows]) + "\n"


def shown(reason: str) -> str:
    """A reason as a cell, without what would end it."""
    return re.sub(r"\s+", " ", reason).replace("|", "/").replace("<", "")[:200]


def run(trials: Iterable[Trial], optimizers: dict[str, float]) -> list[Result]:
    """All trials with all optimizers; each is printed."""
    results = []
    torch.set_num_threads(1)
    for trial in trials:
        for optimizer, rate in optimizers.items():
            result = judge(trial, optimizer, rate)
            results.append(result)
            print(
                f"{result.outcome:10} {result.name:24} {result.optimizer:6} losses {result.loss:.1e} weights"
                f" {result.weight:.1e} moved {result.moved:.1e} open {result.open} {result.reason}",
                flush=True,
            )
    return results


__all__ = ["OFF", "REFUSED", "RIGHT", "UNFORESEEN", "Result", "Trial", "judge", "run", "table", "wide_by_default"]
