"""What PyTorch makes of a net of the zoo: losses, parameters, and which of them rounding leaves open. Needs torch.

Adam's step is about its rate however small a gradient is, so where a gradient is smaller than what rounding does to it,
as that of a bias before a norm is, the direction of the step is rounding's. Those entries are *undetermined*: they are
counted, and no one is right about them.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from deployer.core.operator import Array

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mse": F.mse_loss, "cross_entropy": F.cross_entropy}
PROBES, SPREAD, UNIT = 4, 3.0, 2.0**-24
"""A gradient may be off by SPREAD times the most that it is in so many float32 passes, in which parameters and inputs
are off by a rounding, UNIT of themselves, besides.
"""


@dataclass
class Trained:
    """Losses, final parameters by name, and for each of them which entries are undetermined, if any are."""

    losses: list[float] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    open: dict[str, Array] = field(default_factory=dict)


def by_sgd(
    module: nn.Module, loss: str, inputs: Sequence[Sequence[Tensor]], targets: Sequence[Tensor], rate: float
) -> Trained:
    """A step of SGD for each input, in float32."""
    optimizer, made = torch.optim.SGD(module.parameters(), rate), Trained()
    for arguments, target in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        made.losses.append(_backward(module, loss, arguments, target))
        optimizer.step()
    made.weights = {name: p.detach().numpy().copy() for name, p in module.named_parameters()}
    return made


def by_adamw(
    module: nn.Module, loss: str, inputs: Sequence[Sequence[Tensor]], targets: Sequence[Tensor], rate: float
) -> Trained:
    """A step of AdamW for each input, in float64; undetermined is what is so in any of the steps."""
    wide = copy.deepcopy(module).double()
    optimizer, made = torch.optim.AdamW(wide.parameters(), rate), Trained()
    for index, (arguments, target) in enumerate(zip(inputs, targets, strict=True)):
        optimizer.zero_grad()
        made.losses.append(_backward(wide, loss, _as(arguments, torch.float64), _as([target], torch.float64)[0]))
        gradients = {n: p.grad.clone() for n, p in wide.named_parameters() if p.grad is not None}
        off = dict.fromkeys(gradients, torch.zeros(()))
        for probe in range(PROBES):
            noise = torch.Generator().manual_seed(PROBES * index + probe)
            for name, gradient in _probe(wide, loss, arguments, target, noise).items():
                off[name] = torch.maximum(off[name], (gradient.double() - gradients[name]).abs())
        for name, gradient in gradients.items():
            undetermined = (gradient.abs() < SPREAD * off[name]).numpy()
            made.open[name] = undetermined | made.open.get(name, undetermined)
        optimizer.step()
    made.weights = {name: p.detach().numpy().copy() for name, p in wide.named_parameters()}
    return made


def _backward(module: nn.Module, loss: str, arguments: Sequence[Tensor], target: Tensor) -> float:
    """Gradients into the parameters; the loss."""
    scores = module(*arguments)
    value = FUNCTIONS[loss](scores[0] if isinstance(scores, tuple) else scores, target)
    value.backward()  # type: ignore[no-untyped-call]
    return value.item()


def _as(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Floats in that type, integers as they are."""
    return [t.to(dtype) if t.is_floating_point() else t for t in tensors]


def _probe(
    wide: nn.Module, loss: str, arguments: Sequence[Tensor], target: Tensor, noise: torch.Generator
) -> dict[str, Tensor]:
    """The gradients of a pass in float32, with parameters and inputs off by a rounding."""

    def disturbed(t: Tensor) -> Tensor:
        return t.float() * (1 + UNIT * (2 * torch.rand(t.shape, generator=noise, dtype=torch.float64) - 1)).to(t.dtype)

    narrow = copy.deepcopy(wide).float()
    with torch.no_grad():
        for mine, exact in zip(narrow.parameters(), wide.parameters(), strict=True):
            mine.copy_(disturbed(exact.detach()).float())
    narrow.zero_grad()
    _backward(narrow, loss, [disturbed(t.double()).float() if t.is_floating_point() else t for t in arguments], target)
    return {n: p.grad for n, p in narrow.named_parameters() if p.grad is not None}
