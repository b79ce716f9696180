"""The check of a captured step beside the module itself, run by PyTorch in float64, before anything is compiled."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.errors import CaptureMismatch
from deployer.core.operator import Array
from deployer.torch.eager import EagerStep, eager_step
from deployer.torch.evaluator import Evaluation, Evaluator
from deployer.torch.step import CapturedStep
from deployer.torch.tracing.trace import Loss

BOUND = 1e-9
"""Largest allowed difference, of a tensor's largest magnitude: both sides compute in float64, in another order."""
NOISE = 1e-11
"""The same, of the largest gradient, or buffer, of all: a sum that is zero but for rounding has no magnitude itself.

A norm divides the rounding of its mean, of 1.1e-16 of the inputs, by sqrt(eps), which is 1/316 by default: this leaves
room for inputs of some hundreds, and says nothing of a tensor that float32 could train.
"""
LEAST = 1e-12
"""The same in itself, where all gradients are such sums, of terms of order one."""
HINT = "report the module, or train it with check=False, which the report then says"


@dataclass(frozen=True)
class Compared:
    """Largest difference of all tensors, as a share of the bound, and its tensor."""

    share: float
    tensor: str


def check_step(
    step: CapturedStep, module: nn.Module, loss: Loss, data: Mapping[str, Tensor], *, seed: int = 0, first: float = 1.0
) -> Compared:
    """Compare the step with `.backward()` on the module, on these data and on drawn ones.

    The module keeps its tensors, gradients, attributes and hooks. Raises CaptureMismatch that names the first tensor
    which differs: the loss, a gradient, one that is there on one side only, or a buffer.
    """
    evaluator = Evaluator(step)
    worst = Compared(0.0, "")
    for passes, batch in enumerate((data, drawn_batch(data, seed)), 1):
        names = dict(zip(step.data, batch.values(), strict=False))
        arrays = {n: x.detach().cpu().numpy() for n, x in names.items()}
        if len(step.data) > len(batch):  # what the gradient begins with
            arrays[step.data[-1]] = np.full((), first)
        ours = evaluator.run(arrays, passes)
        theirs = eager_step(module, loss, batch, seed=seed, passes=passes, first=first, drops=step.drops)
        found = compare(ours, theirs)
        worst = max(worst, found, key=lambda each: each.share)
    return worst


def drawn_batch(data: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """A batch like another: floats normal with its mean and deviation, within its range; integers of those it has."""
    r = np.random.default_rng([seed, len(data)])
    drawn = {}
    for name, tensor in data.items():
        values = tensor.detach().cpu().numpy()
        if values.dtype.kind == "f" and values.size:
            new = r.normal(values.mean(), values.std() or 1.0, values.shape)
            new = np.clip(new, values.min(), values.max()) if values.std() else values
        else:
            new = r.choice(values.reshape(-1), values.shape) if values.size else values
        drawn[name] = torch.from_numpy(np.asarray(new, values.dtype))
    return drawn


def compare(ours: Evaluation, theirs: EagerStep) -> Compared:
    """The largest difference of a step's results; CaptureMismatch where one is beyond the bound."""
    missing = sorted(theirs.gradients.keys() - ours.gradients.keys())
    if missing:
        raise CaptureMismatch(
            f"PyTorch gives parameter {missing[0]!r} a gradient, and the captured step none", hint=HINT
        )
    zero = [n for n, g in ours.gradients.items() if n not in theirs.gradients and np.any(g)]
    if zero:
        raise CaptureMismatch(f"PyTorch gives parameter {zero[0]!r} no gradient, and the captured step one", hint=HINT)
    largest = max((float(np.abs(g).max(initial=0)) for g in theirs.gradients.values()), default=0.0)
    pairs = [("the loss", np.asarray(ours.loss), np.asarray(theirs.loss), 0.0)]
    pairs += [(f"the gradient of {n!r}", ours.gradients[n], g, largest) for n, g in theirs.gradients.items()]
    widest = max((float(np.abs(theirs.states[n]).max(initial=0)) for n in ours.states), default=0.0)
    pairs += [(f"buffer {n!r}", value, theirs.states[n], widest) for n, value in ours.states.items()]
    worst = Compared(0.0, "")
    for what, a, b, scale in pairs:
        worst = max(worst, _compared(what, a, b, scale), key=lambda each: each.share)
    return worst


def _compared(what: str, ours: Array, theirs: Array, scale: float) -> Compared:
    if ours.shape != theirs.shape:
        facts = [("captured", str(list(ours.shape))), ("PyTorch", str(list(theirs.shape)))]
        raise CaptureMismatch(f"{what} has another shape in the captured step than in PyTorch", facts, HINT)
    finite = np.isfinite(theirs)
    allowed = BOUND * float(np.abs(theirs[finite]).max(initial=0)) + NOISE * scale + LEAST
    with np.errstate(invalid="ignore"):
        off = np.where(finite, np.abs(ours - theirs), np.where(_same(ours, theirs), 0.0, np.inf))
    off = np.where(np.isnan(off), np.inf, off)
    share = float(off.max(initial=0)) / allowed
    if share > 1:
        at = np.unravel_index(int(off.argmax()), off.shape)
        place = [("at", str([int(i) for i in at]))] if off.ndim else []
        facts = [*place, ("captured", f"{float(ours[at]):.9g}"), ("PyTorch", f"{float(theirs[at]):.9g}")]
        facts.append(("off by", f"{float(off.max()):.3g}, and {allowed:.3g} is allowed"))
        raise CaptureMismatch(f"{what} differs from PyTorch's in the captured step", facts, HINT)
    return Compared(share, what)


def _same(ours: Array, theirs: Array) -> Array:
    """Mask of elements that are the same infinity, or both NaN."""
    return np.asarray((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
