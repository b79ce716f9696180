"""The settings that losses and optimizers declare: all of them as options, and those given as a node's attributes."""

from collections.abc import Mapping

from deployer.core.errors import OptionProblem
from deployer.core.operator import Operator, registry
from deployer.core.traits.training import Hyperparameter, Loss, Optimizer

Given = Mapping[str, float]
"""Numbers by the names of settings."""
Attributes = dict[str, float]
PAIRS = {"betas": ("beta1", "beta2")}
"""Arguments that are two settings at once, as in PyTorch."""


def declared_settings() -> dict[str, list[tuple[str, Hyperparameter]]]:
    """Every setting by its name, with the losses and optimizers that have it."""
    found: dict[str, dict[str, Hyperparameter]] = {}
    for operator in registry().values():
        if isinstance(role := operator.training, Loss | Optimizer):
            for setting in role.settings:
                found.setdefault(setting.name, {}).setdefault(role.choice, setting)
    return {name: sorted(found[name].items(), key=lambda pair: pair[0]) for name in sorted(found)}


def split_settings(given: Given, loss: Operator | None) -> tuple[Attributes, dict[str, float]]:
    """The attributes of the loss, and the settings that it does not have, which are the optimizer's.

    Raises OptionProblem for a number that is out of range.
    """
    declared = loss.role(Loss) if loss else None
    ours = {setting.name: setting for setting in (declared.settings if declared else ())}
    attributes = {ours[name].place: _checked(ours[name], value) for name, value in given.items() if name in ours}
    return attributes, {name: value for name, value in given.items() if name not in ours}


def with_settings(choice: str, given: Given) -> tuple[Operator, Attributes]:
    """The optimizer of that choice with the fewest settings that has all that are given, and its attributes.

    Raises OptionProblem for a setting that none has, and for a number that is out of range.
    """
    found = {op.name: op for op in registry().values() if (o := op.role(Optimizer)) and o.choice == choice}
    variants = sorted(((_settings(op), op) for op in found.values()), key=lambda pair: (len(pair[0]), pair[1].name))
    for settings, operator in variants:
        if given.keys() <= settings.keys():
            return operator, {settings[n].place: _checked(settings[n], value) for n, value in given.items()}
    known = sorted({name for settings, _ in variants for name in settings})
    strange = sorted(given.keys() - set(known)) or sorted(given)
    owners = [owner for name in strange for owner, _ in declared_settings().get(name, [])]
    raise OptionProblem(
        f"{', '.join(f'--{name}' for name in strange)} has no effect here",
        [
            ("belongs to", ", ".join(dict.fromkeys(owners)) or "no loss or optimizer"),
            ("optimizer", f"{choice}: {', '.join(f'--{name}' for name in known) or 'no settings'}"),
        ],
        "leave it out, or choose a loss or an optimizer that has it",
    )


def shown(setting: Hyperparameter) -> str:
    """The default as text."""
    return "none" if setting.default is None else f"{setting.default:g}"


def _settings(operator: Operator) -> dict[str, Hyperparameter]:
    declared = operator.role(Optimizer)
    assert declared is not None, f"{operator.name} is not an optimizer"
    return {setting.name: setting for setting in declared.settings}


def _checked(setting: Hyperparameter, value: float) -> float:
    if not setting.fits(value):
        raise OptionProblem(
            f"--{setting.name} {value:g} is out of range",
            [("range", setting.range), ("default", shown(setting)), ("meaning", setting.text)],
        )
    return int(value) if setting.integer else float(value)
