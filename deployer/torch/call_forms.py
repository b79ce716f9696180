"""Forms in which PyTorch's users call our functions: inputs and target apart, validation behind, no loss."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from deployer.core.errors import OptionProblem

P = ParamSpec("P")
R = TypeVar("R")
VALIDATION = "validation"
SECOND = 2
"""Place of the argument behind a module and its data."""
FORWARD = 4
"""Most arguments by place of a library that only predicts: module, example, folder, name."""


def data_apart(function: Callable[P, R]) -> Callable[P, R]:
    """Make `f(module, x, y, ...)` mean `f(module, (x, y), ...)`, and `f(module, loader, others, ...)` validate others.

    OptionProblem where the validation samples are given twice.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        given: list[Any] = list(args)
        named: dict[str, Any] = dict(kwargs)
        behind = given[SECOND] if len(given) > SECOND else None
        if isinstance(behind, Tensor | np.ndarray):
            x = given[1] if isinstance(given[1], tuple | list) else (given[1],)
            given[1 : SECOND + 1] = [(*x, behind)]
        elif isinstance(behind, DataLoader | Dataset) or (isinstance(behind, tuple) and behind):
            if VALIDATION in named:
                raise OptionProblem(
                    "validation samples are given twice, behind the data and by name", hint="one of them"
                )
            named[VALIDATION] = given.pop(SECOND)
        return function(*given, **named)

    return called


def example_second(function: Callable[P, R]) -> Callable[P, R]:
    """Make `f(module, x, folder, name)` mean `f(module, example=x, folder=folder, name=name)`: there is no loss.

    `f(module, data, loss, optimizer, folder)`, the order of `train`, means `f(module, loss, optimizer, data, folder)`.
    OptionProblem for settings of training, which have no effect then.
    """
    usual = {n: p.default for n, p in inspect.signature(function).parameters.items()}

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        given: list[Any] = list(args)
        named: dict[str, Any] = dict(kwargs)
        is_data = len(given) > 1 and not isinstance(given[1], str) and not callable(given[1]) and given[1] is not None
        if is_data and len(given) > SECOND and (callable(given[SECOND]) or len(given) > FORWARD):
            if "example" in named:
                raise OptionProblem("the example is given twice, behind the module and by name", hint="one of them")
            names = ("loss", "optimizer", "folder", "name")[: len(given) - SECOND]
            named = {"example": given[1], **dict(zip(names, given[SECOND:], strict=False)), **named}
            given = given[:1]
        elif is_data:
            names = ("example", "folder", "name")[: len(given) - 1]
            named = {**dict(zip(names, given[1:], strict=False)), **named}
            given = given[:1]
        loss = given[1] if len(given) > 1 else None
        named_loss = any(named.get(n) is not None for n in ("loss", "criterion", "loss_fn"))
        idle = [n for n in named if n in usual and n not in PREDICTS and named[n] != usual[n]]
        if loss is None and not named_loss and (idle or len(given) > SECOND):
            cause = f"{(idle or ['optimizer'])[0]} has no effect without a loss: the library only predicts"
            raise OptionProblem(cause, hint="loss=..., and a batch (x, y) as the example, for a library that trains")
        return function(*given, **named)

    return called


PREDICTS = {
    "module",
    "loss",
    "example",
    "folder",
    "name",
    "predict_batch",
    "core",
    "budgets",
    "compiled",
    "force",
    "inputs",
    "python",
    "warn",
}
"""Arguments of a library that only predicts."""
