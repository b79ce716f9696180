"""Arguments in PyTorch's words: settings of losses and optimizers, limits of gradients, groups of parameters."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import nn

from deployer.core.errors import OptionProblem
from deployer.training.groups import ParameterGroup, read_group
from deployer.training.update_graph import Limits

GroupSpec: TypeAlias = ParameterGroup | str | Mapping[str, Any]
"""A group, its text as in `--param-group`, or a mapping with `params` and what differs for them, as in PyTorch."""


def hyperparameters(
    *, betas: tuple[float, float] | None = None, nesterov: bool = False, **given: float | None
) -> dict[str, float]:
    """The settings that are given, by their names on the command line."""
    if betas is not None:
        if not isinstance(betas, Sequence) or isinstance(betas, str) or len(betas) != 2:
            raise OptionProblem(f"betas is {betas!r}", hint="two numbers, such as (0.9, 0.999)")
        given = {**given, "beta1": float(betas[0]), "beta2": float(betas[1])}
    found = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    return found | ({"nesterov": 1} if nesterov else {})


def grad_limits(max_grad_norm: float | None, max_grad_value: float | None) -> Limits:
    """The limits of gradients; OptionProblem for one that is not positive."""
    return Limits(max_grad_value, max_grad_norm)


def parameter_groups(module: nn.Module, groups: Sequence[GroupSpec]) -> tuple[ParameterGroup, ...]:
    """The groups of a module's parameters.

    OptionProblem for a mapping without `params`, and for parameters that the module has not.
    """
    return tuple(_group(module, group) for group in groups)


def _group(module: nn.Module, group: GroupSpec) -> ParameterGroup:
    if isinstance(group, ParameterGroup):
        return group
    if isinstance(group, str):
        return read_group(group)
    given = dict(group)
    form = '{"params": "head", "lr": 0.001}, where params is a regular expression, names, or parameters of the module'
    if "params" not in given:
        raise OptionProblem("a parameter group has no params", [("found", ", ".join(map(str, given)))], form)
    pattern = _pattern(module, given.pop("params"))
    rate, frozen, betas = given.pop("lr", None), given.pop("frozen", False), given.pop("betas", None)
    nesterov = bool(given.pop("nesterov", False))
    numbers: dict[str, float | None] = {str(name): float(value) for name, value in given.items()}
    settings = hyperparameters(betas=betas, nesterov=nesterov, **numbers)
    return ParameterGroup(pattern, rate, bool(frozen), settings=settings)


def _pattern(module: nn.Module, params: Any) -> re.Pattern[str]:
    if isinstance(params, str):
        try:
            return re.compile(params)
        except re.error as error:
            cause = f"params {params!r} of a parameter group is no regular expression"
            raise OptionProblem(cause, [("cause", str(error))], "a regular expression, or a list of names") from None
    known = {id(p): name for name, p in module.named_parameters()}
    items = [params] if isinstance(params, nn.Parameter) else list(params)
    names = [item if isinstance(item, str) else known.get(id(item), "") for item in items]
    strange = [str(item)[:80] for item, name in zip(items, names, strict=True) if name not in known.values()]
    if strange or not names:
        facts = [("found", strange[0] if strange else "none"), ("parameters", ", ".join(known.values()))]
        raise OptionProblem(
            "a parameter group has parameters that the module has not", facts, "parameters of the module"
        )
    return exactly(names)


def exactly(names: Sequence[str]) -> re.Pattern[str]:
    """An expression for these names alone."""
    return re.compile(f"^(?:{'|'.join(map(re.escape, names))})$")
