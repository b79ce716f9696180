"""The loss that a user gives: a name, a loss of `torch.nn` that has one here, a function, or that of the module."""

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn

from deployer.core.errors import OptionProblem
from deployer.core.operator import loss_role, losses
from deployer.core.traits.training import Loss
from deployer.fitting.argument_names import choice_of
from deployer.torch.objectives import LossSpec, torch_function
from deployer.training.attached_loss import OWN_LOSS
from deployer.training.settings import Given, split_settings

ClassWeights: TypeAlias = Sequence[float] | Mapping[int, float]
"""A weight for each class, in order or by its number."""
ONE, NONE, ANY = "one", "none", "any"
"""Number of arrays that the loss takes: one by name, none where the module returns its loss, any for a function."""


@dataclass(frozen=True, eq=False)
class LossChoice:
    """A loss as it was `given`, with its `name` here, if it has one, its `settings` and `class_weights`."""

    given: LossSpec
    name: str = ""
    settings: dict[str, float] = field(default_factory=dict)
    class_weights: tuple[float, ...] = ()

    @property
    def targets(self) -> str:
        """Number of data arrays that the loss takes, weights of samples aside."""
        return NONE if self.given == OWN_LOSS else ONE if self.name or isinstance(self.given, str) else ANY

    @property
    def takes_labels(self) -> bool:
        """Whether the target is class numbers."""
        operator = losses().get(self.name)
        declared = operator.role(Loss) if operator else None
        return declared is not None and declared.class_axis is not None


def _spoken() -> dict[str, str]:
    """The losses by other names that people write."""
    roles = {choice: operator.role(Loss) for choice, operator in losses().items()}
    return {name: choice for choice, role in roles.items() if role for name in role.spoken}


def choose_loss(loss: LossSpec, given: Given, class_weights: ClassWeights = ()) -> tuple[LossChoice, dict[str, float]]:
    """The loss with its settings, and the settings that it has not, which are the optimizer's.

    A function of `torch.nn.functional`, or a module of `torch.nn` that takes the mean, has the name of that loss.
    OptionProblem for settings and class weights beside a function.
    """
    loss = _made(loss) if isinstance(loss, type) else loss
    if isinstance(loss, str):
        loss = _spoken().get(loss.lower(), choice_of(loss, [*losses(), OWN_LOSS]))
        loss = next((name for name in losses() if loss_role(name).function == loss), loss)
    operator = losses().get(loss) if isinstance(loss, str) else None
    _, rest = split_settings(given, operator)
    own = {n: v for n, v in given.items() if n not in rest}
    if isinstance(loss, str):
        return LossChoice(loss, "" if loss == OWN_LOSS else loss, own, _by_class(class_weights)), rest
    beside = [*own, *(["class_weights"] if len(class_weights) else [])]
    if beside:
        cause = f"{beside[0]} has no effect on a loss that is a function"
        raise OptionProblem(cause, hint=_setting_hint(loss, beside[0]))
    return _of_torch(loss) or LossChoice(loss), rest


def _made(kind: type) -> LossSpec:
    """A loss of a class, with its usual settings; OptionProblem for a class that is none or needs arguments."""
    if issubclass(kind, nn.Module):
        with contextlib.suppress(TypeError):
            return kind()
    raise OptionProblem(f"loss is the class {kind.__name__}", hint=f"{kind.__name__}(...), an instance of it")


def _setting_hint(loss: Any, setting: str) -> str:
    """Return the hint to give a loss that is a function a setting of a loss by name."""
    if not isinstance(loss, nn.Module) or type(loss).__module__.partition(".")[0] != "torch":
        return "set it in the function"
    argument = "weight" if setting == "class_weights" else setting
    if argument not in inspect.signature(type(loss)).parameters:
        return f"leave it out: {type(loss).__name__} has no such setting"
    return f"nn.{type(loss).__name__}({argument}=...) as loss, or the loss by its name"


def _by_class(given: ClassWeights) -> tuple[float, ...]:
    """The weights in the order of the classes; OptionProblem where one from 0 on is missing."""
    if not isinstance(given, Mapping):
        return tuple(map(float, given))
    if sorted(given) != list(range(len(given))):
        facts = [("classes", ", ".join(map(str, given)))]
        raise OptionProblem("class_weights needs a weight for each class", facts, "the classes from 0 on")
    return tuple(float(given[number]) for number in sorted(given))


def _of_torch(loss: Any) -> LossChoice | None:
    """The loss by its name here, of a function or a module of PyTorch; None for another."""
    for name in losses():
        if loss is torch_function(name):
            return LossChoice(loss, name) if not _arguments(name) else None
        if type(loss) is _module_kind(name):
            return _of_module(loss, name)
    return None


def _arguments(name: str) -> dict[str, str]:
    """The arguments with which PyTorch's function means the loss of a name."""
    return dict(loss_role(name).arguments)


def _module_kind(name: str) -> type[nn.Module] | None:
    """PyTorch's module for a loss of ours, such as CrossEntropyLoss."""
    kinds = {kind.lower(): kind for kind in vars(nn) if kind.endswith("Loss")}
    found = kinds.get(f"{name.replace('_', '')}loss")
    return getattr(nn, found) if found else None


def _of_module(loss: nn.Module, name: str) -> LossChoice | None:
    """The loss of a module of PyTorch; None where that has what no loss here has, such as another reduction."""
    declared = loss_role(name)
    usual = type(loss)()
    known = {setting.place: setting for setting in declared.settings}
    allowed = {"reduction": declared.arguments.get("reduction", "mean")}
    found, weights = dict[str, float](), ()
    for key in {**_public(usual), **_public(loss)}:
        value = getattr(loss, key)
        if key == "weight" and declared.weights is not None:
            weights = () if value is None else tuple(value.tolist())
        elif key in known:
            found |= {} if value == getattr(usual, key) else {known[key].name: value}
        elif isinstance(value, torch.Tensor) or value != allowed.get(key, getattr(usual, key, None)):
            return None
    if loss._forward_hooks or loss._forward_pre_hooks or loss._backward_hooks:
        return None
    return LossChoice(loss, name, found, weights)


def _public(loss: nn.Module) -> dict[str, Any]:
    """The settings of a loss of PyTorch: its attributes and buffers, but for the mode, which changes no number."""
    given = {**vars(loss), **loss._buffers}
    return {n: v for n, v in given.items() if not n.startswith("_") and n not in ("training", "size_average", "reduce")}
