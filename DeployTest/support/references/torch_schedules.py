"""Schedules as the compiler has them and as PyTorch has them."""

from collections.abc import Sequence
from typing import Any

LR_SCHEDULES = {
    "constant": ("constant", ""),
    "step": ("step:step-size=30,gamma=0.5", ""),
    "cosine": ("cosine:end-factor=0.125", ""),
    "linear": ("linear:start-factor=0.75,end-factor=0.125,updates=60", ""),
    "one-cycle": ("one-cycle", ""),
    "warm-up": ("cosine", "10:0.25"),
    "warm-up-step": ("step:step-size=20", "10"),
}
"""For each course the text of --lr-scheduler and that of --warmup-steps."""


def torch_rates(name: str, bases: Sequence[float], updates: int) -> list[list[float]]:
    """The rate that PyTorch's scheduler gives each group in each update; needs torch."""
    import torch

    parameters = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": base} for base in bases]
    optimizer = torch.optim.SGD(parameters, lr=bases[0])
    scheduler = torch_scheduler(name, optimizer, bases, updates)
    rates = []
    for _ in range(updates):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return rates


def torch_scheduler(name: str, optimizer: Any, bases: Sequence[float], updates: int) -> Any:
    """PyTorch's scheduler for a schedule; CosineAnnealingLR has one minimum rate for all groups."""
    from torch.optim import lr_scheduler as schedulers

    def warm(scheduler: Any, first: float) -> Any:
        rise = schedulers.LinearLR(optimizer, first, 1.0, 10)
        return schedulers.SequentialLR(optimizer, [rise, scheduler], [10])

    if name == "constant":
        return schedulers.ConstantLR(optimizer, 1.0, updates)
    if name == "step":
        return schedulers.StepLR(optimizer, 30, 0.5)
    if name == "cosine":
        return schedulers.CosineAnnealingLR(optimizer, updates, bases[0] / 8)
    if name == "linear":
        return schedulers.LinearLR(optimizer, 0.75, 0.125, 60)
    if name == "one-cycle":
        return schedulers.OneCycleLR(optimizer, list(bases), updates, cycle_momentum=False)
    if name == "warm-up":
        return warm(schedulers.CosineAnnealingLR(optimizer, updates - 10), 0.25)
    return warm(schedulers.StepLR(optimizer, 20), 1 / 3)
