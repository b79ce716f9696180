"""PyTorch results of a net of the zoo: losses, parameters, and those that rounding leaves open. Needs torch.

Adam's step is about its rate however small a gradient is, so where a gradient is smaller than what rounding does to it,
as that of a bias before a norm is, the direction of the step is rounding's. Those entries are *undetermined*: they are
counted, and no one is right about them.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from deployer.core.operator import Array

Loss = Callable[..., Tensor]
"""(module, *data tensors) -> one float."""
PROBES, SPREAD, UNIT = 4, 3.0, 2.0**-24
"""A gradient may be off by SPREAD times the most that it is in so many float32 passes, in which parameters and inputs
are off by a rounding, UNIT of themselves, besides.
"""


@dataclass
class Trained:
    """Losses, final parameters by name, and for each of them which entries are undetermined, if any are.

    `reach` is how far rounding of an entry's gradients may move it.
    """

    losses: list[float] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    open: dict[str, Array] = field(default_factory=dict)
    reach: dict[str, Array] = field(default_factory=dict)


Held = tuple[Sequence[Mapping[str, Array]], Mapping[str, Array]]
"""Parameters after each step, and masks of those entries that are to be so."""


def by_sgd(module: nn.Module, loss: Loss, batches: Sequence[Sequence[Tensor]], rate: float) -> Trained:
    """A step of SGD for each batch, in float32."""
    optimizer, made = torch.optim.SGD(_trained(module).values(), rate), Trained()
    for batch in batches:
        optimizer.zero_grad()
        made.losses.append(_backward(module, loss, batch))
        optimizer.step()
    made.weights = {name: p.detach().numpy().copy() for name, p in _trained(module).items()}
    return made


def by_adamw(
    module: nn.Module, loss: Loss, batches: Sequence[Sequence[Tensor]], rate: float, held: Held | None = None
) -> Trained:
    """A step of AdamW for each batch, in float64; undetermined is what is so in any of the steps.

    With `held` the entries under its masks are as it says after each step, and nothing is undetermined.
    """
    wide = copy.deepcopy(module).double()
    optimizer, made = torch.optim.AdamW(_trained(wide).values(), rate), Trained()
    slopes: dict[str, list[tuple[Array, Array]]] = {name: [] for name in _trained(wide)}
    begun = {name: p.detach().numpy().copy() for name, p in _trained(wide).items()}
    for index, batch in enumerate(batches):
        optimizer.zero_grad()
        before = copy.deepcopy(wide) if held is None else wide  # with the buffers that the pass reads
        with wide_by_default():
            made.losses.append(_backward(wide, loss, _as(batch, torch.float64)))
        if held is None:
            for name, slope in _slopes(wide, before, loss, batch, index).items():
                slopes[name].append(slope)
        optimizer.step()
        if held is not None:
            _hold(wide, held[0][index], held[1])
    made.weights = {name: p.detach().numpy().copy() for name, p in _trained(wide).items()}
    for name, of_steps in slopes.items():
        if of_steps:
            made.open[name] = np.any([np.abs(g) < off for g, off in of_steps], axis=0)
            made.reach[name] = reach_of(begun[name], of_steps, rate)
    return made


def _trained(module: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


@contextlib.contextmanager
def wide_by_default() -> Iterator[None]:
    """New floats are float64 meanwhile."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def _slopes(
    wide: nn.Module, before: nn.Module, loss: Loss, batch: Sequence[Tensor], index: int
) -> dict[str, tuple[Array, Array]]:
    """The gradient of each parameter, which is in float64, and how far float32 may be off from the state `before`."""
    gradients = {n: p.grad.clone() for n, p in wide.named_parameters() if p.grad is not None}
    off = dict.fromkeys(gradients, torch.zeros((), dtype=torch.float64))
    for probe in range(PROBES):
        noise = torch.Generator().manual_seed(PROBES * index + probe)
        for name, gradient in _probe(before, loss, batch, noise).items():
            off[name] = torch.maximum(off[name], (gradient.double() - gradients[name]).abs())
    return {name: (g.numpy(), SPREAD * off[name].numpy()) for name, g in gradients.items()}


def _hold(wide: nn.Module, state: Mapping[str, Array], masks: Mapping[str, Array]) -> None:
    """Set the entries under the masks."""
    with torch.no_grad():
        for name, p in wide.named_parameters():
            if name in masks:
                given = torch.from_numpy(np.array(state[name], np.float64)).reshape(p.shape)
                p.copy_(torch.where(torch.from_numpy(masks[name]), given, p))


def reach_of(weights: Array, slopes: Sequence[tuple[Array, Array]], rate: float) -> Array:
    """Bound the error of each entry under AdamW: the sum of every step's effect if its gradient is off."""
    gradients = [g for g, _ in slopes]
    exact, total = _adamw(weights, gradients, rate), np.zeros_like(weights)
    for index, (gradient, off) in enumerate(slopes):
        sides = []
        for sign in (-1.0, 1.0):
            shifted = [*gradients[:index], gradient + sign * off, *gradients[index + 1 :]]
            sides.append(np.abs(_adamw(weights, shifted, rate) - exact))
        total += np.maximum(*sides)
    return total


def _adamw(weights: Array, gradients: Sequence[Array], rate: float) -> Array:
    """PyTorch's AdamW with its defaults, over given gradients."""
    (alpha, beta), decay, epsilon = (0.9, 0.999), 0.01, 1e-8
    w, m, v = weights.copy(), np.zeros_like(weights), np.zeros_like(weights)
    for count, g in enumerate(gradients, 1):
        m, v = alpha * m + (1 - alpha) * g, beta * v + (1 - beta) * g * g
        step = (m / (1 - alpha**count)) / (np.sqrt(v / (1 - beta**count)) + epsilon)
        w = w * (1 - rate * decay) - rate * step
    return w


def _backward(module: nn.Module, loss: Loss, batch: Sequence[Tensor]) -> float:
    """Gradients into the parameters; the loss."""
    value = loss(module, *batch)
    value.backward()  # type: ignore[no-untyped-call]
    return value.item()


def _as(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Floats in that type, integers as they are."""
    return [t.to(dtype) if t.is_floating_point() else t for t in tensors]


def _probe(wide: nn.Module, loss: Loss, batch: Sequence[Tensor], noise: torch.Generator) -> dict[str, Tensor]:
    """The gradients of a pass in float32, with parameters and inputs off by a rounding."""

    def disturbed(t: Tensor) -> Tensor:
        return t.float() * (1 + UNIT * (2 * torch.rand(t.shape, generator=noise, dtype=torch.float64) - 1)).to(t.dtype)

    narrow = copy.deepcopy(wide).float()
    with torch.no_grad():
        for mine, exact in zip(narrow.parameters(), wide.parameters(), strict=True):
            mine.copy_(disturbed(exact.detach()).float())
    narrow.zero_grad()
    _backward(narrow, loss, [disturbed(t.double()).float() if t.is_floating_point() else t for t in batch])
    return {n: p.grad for n, p in narrow.named_parameters() if p.grad is not None}
