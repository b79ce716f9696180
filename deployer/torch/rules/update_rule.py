"""The update of a module's parameters: an optimizer by name with PyTorch's words, or an optimizer of `torch.optim`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from deployer.core.errors import OptionProblem
from deployer.core.operator import optimizers, registry
from deployer.core.traits.training import Optimizer
from deployer.fitting.argument_names import choice_of
from deployer.fitting.call import exactly
from deployer.torch.rules.optimizer_state import Kept, kept_by
from deployer.training.groups import ParameterGroup
from deployer.training.settings import PAIRS, Given, with_settings
from deployer.training.update_graph import Limits

OptimizerSpec: TypeAlias = (
    str
    | torch.optim.Optimizer
    | type[torch.optim.Optimizer]
    | Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
)
"""An optimizer by name or class, one of `torch.optim` with its groups, or a function that makes one of parameters."""
WITHOUT_EFFECT = {"params", "lr", "foreach", "fused", "capturable", "differentiable"}
"""Keys of a parameter group that change no number, or are no setting."""


@dataclass(frozen=True, eq=False)
class UpdateRule:
    """The optimizer by its name, its rate and settings, groups of parameters with others, and limits of gradients.

    `live` is the optimizer of PyTorch that it came from, whose rates may change, `bases` are rates by which a program
    tells its groups apart, and `kept` the settings of each that may not change. `begun` is what it keeps of parameters,
    where it has made updates.
    """

    choice: str
    lr: float
    settings: Mapping[str, float] = field(default_factory=dict)
    groups: tuple[ParameterGroup, ...] = ()
    limits: Limits = field(default_factory=Limits)
    any_rate: bool = False
    live: torch.optim.Optimizer | None = None
    bases: tuple[float, ...] = ()
    kept: tuple[Mapping[str, Any], ...] = ()
    begun: Kept = field(default_factory=dict)

    @property
    def rates(self) -> tuple[float, ...]:
        """The present rate of each group of the optimizer that it came from; the only rate of another one."""
        return (self.lr,) if self.live is None else tuple(float(group["lr"]) for group in self.live.param_groups)

    def check_unchanged(self) -> None:
        """Raise OptionProblem where a setting of the optimizer that it came from is another one by now."""
        groups = self.live.param_groups if self.live is not None else []
        for i, (group, settings) in enumerate(zip(groups, self.kept, strict=True)):
            for key, value in settings.items():
                if group.get(key) != value:
                    facts = [("compiled with", repr(value)), ("found", repr(group.get(key)))]
                    hint = "cycle_momentum=False of OneCycleLR and CyclicLR, or another schedule of lr alone"
                    raise OptionProblem(f"{key} of parameter group {i} has changed, and lr alone may", facts, hint)

    def by_base(self, bases: Sequence[float], rates: Sequence[float] | None = None) -> tuple[float, ...]:
        """Rates, by default the present ones, in the order of a program's groups; `bases` are the groups' first rates.

        Groups of an optimizer by name keep their proportion to its rate, or their rates where that is 0 at first.
        """
        now = self.rates if rates is None else rates
        if self.live is not None:
            known = dict(zip(map(np.float32, self.bases), now, strict=True))
            return tuple(float(known[np.float32(base)]) for base in bases)
        exact = {np.float32(rate): rate for rate in (self.lr, *(g.rate for g in self.groups if g.rate is not None))}
        own = [float(exact[np.float32(base)]) for base in bases]
        return tuple(now[0] if rate == self.lr else rate * now[0] / self.lr if self.lr else rate for rate in own)


def update_rule(
    module: nn.Module,
    optimizer: OptimizerSpec,
    lr: float | None,
    given: Given,
    groups: Sequence[ParameterGroup] = (),
    limits: Limits | None = None,
    any_rate: bool = False,
    *,
    apart: bool = False,
) -> UpdateRule:
    """The rule of an optimizer; `given` are its settings, by their names here.

    With `apart` groups of one rate have rates of their own, if only by a rounding: the caller sets rates later.

    OptionProblem for an unknown name, for settings beside an optimizer of PyTorch, and for what that has and no
    optimizer here can do.
    """
    bounds = limits or Limits()
    if callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer | type):
        optimizer = optimizer(module.parameters())
    if not isinstance(optimizer, str | torch.optim.Optimizer | type):
        facts = [("found", type(optimizer).__name__)]
        hint = f"one of {', '.join(optimizers())}, an optimizer of torch.optim, or a function that makes one"
        raise OptionProblem("optimizer is no optimizer", facts, hint)
    if isinstance(optimizer, torch.optim.Optimizer):
        settings = {n.replace("-", "_"): value for n, value in given.items()} | ({} if lr is None else {"lr": lr})
        own = optimizer.param_groups
        beside = [n for n, value in settings.items() if any(group.get(n) != value for group in own)]
        beside = beside or (["param_groups"] if groups else [])
        if beside:
            hint = "set it in the optimizer, or give the optimizer by name"
            raise OptionProblem(f"{beside[0]} has no effect beside an optimizer of torch.optim", hint=hint)
        return _of_torch(module, optimizer, bounds, any_rate, apart)
    if isinstance(optimizer, type):
        optimizer = _known(optimizer)
    choice = choice_of(optimizer, optimizers()) or next(iter(optimizers()))
    rate = RATE if lr is None else lr
    return UpdateRule(choice, rate, reduced(choice, given), tuple(groups), bounds, any_rate)


RATE = 0.01
"""The learning rate by default."""


def reduced(choice: str, given: Given) -> dict[str, float]:
    """The settings without those that an optimizer has by default, which would only cost it a state."""
    if choice not in optimizers():
        return dict(given)
    known = {s.name: s.default for op in _variants(choice) for s in op.settings}
    return {name: value for name, value in given.items() if known.get(name, object()) != value}


def _variants(choice: str) -> Iterable[Optimizer]:
    found = (op.role(Optimizer) for op in registry().values())
    return (optimizer for optimizer in found if optimizer is not None and optimizer.choice == choice)


def _known(kind: type) -> str:
    """The name of an optimizer of PyTorch; OptionProblem for one that has no equivalent."""
    known = {getattr(torch.optim, n): n.lower() for n in vars(torch.optim) if n.lower() in optimizers()}
    if kind not in known:
        hint = f"one of {', '.join(k.__name__ for k in known)}"
        raise OptionProblem(f"there is no update here like that of {kind.__module__}.{kind.__qualname__}", hint=hint)
    return str(known[kind])


def _of_torch(
    module: nn.Module, optimizer: torch.optim.Optimizer, limits: Limits, any_rate: bool, apart: bool
) -> UpdateRule:
    kind = type(optimizer)
    choice = _known(kind)
    names = {id(p): n for n, p in module.named_parameters()}
    strange = sum(id(p) not in names for group in optimizer.param_groups for p in group["params"])
    if strange:
        hint = "an optimizer of the parameters of this module alone"
        raise OptionProblem("the optimizer has parameters that the module has not", [("number", str(strange))], hint)
    members = {names[id(p)]: i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}
    now = [float(group["lr"]) for group in optimizer.param_groups]
    rates = _distinct([rate or RATE for rate in now]) if apart else now
    settings = [_settings(kind, choice, group, i) for i, group in enumerate(optimizer.param_groups)]
    usual = _usual(kind)
    kept = tuple({k: v for k, v in g.items() if k in usual and k not in WITHOUT_EFFECT} for g in optimizer.param_groups)
    trained = [n for n, p in module.named_parameters() if p.requires_grad]
    own = [[n for n in trained if members.get(n) == i] for i in range(len(rates))]
    groups = [ParameterGroup(exactly(own[i]), rates[i], settings=settings[i]) for i in range(len(rates)) if own[i]]
    left = [n for n in trained if n not in members]
    if left:
        groups.append(ParameterGroup(exactly(left), frozen=True))
    one, begun = len(rates) == 1 and not left, kept_by(module, optimizer)
    chosen, own_groups = (settings[0], ()) if one else ({}, tuple(groups))
    return UpdateRule(choice, rates[0], chosen, own_groups, limits, any_rate, optimizer, tuple(rates), kept, begun)


def _distinct(rates: Sequence[float]) -> list[float]:
    """The rates, moved by the least where two are equal: groups are told apart by them, and may change apart."""
    found: list[float] = []
    for rate in rates:
        while np.float32(rate) in map(np.float32, found):
            rate = float(np.nextafter(np.float32(rate), np.float32(np.inf)))
        found.append(rate)
    return found


def _usual(kind: type) -> dict[str, Any]:
    """The defaults of a group of an optimizer of PyTorch."""
    return dict(kind([nn.Parameter(torch.zeros(1))]).param_groups[0])


def _settings(kind: type, choice: str, group: Mapping[str, Any], number: int) -> dict[str, float]:
    """The settings of a group of an optimizer of PyTorch; OptionProblem for one that no optimizer here has."""
    usual = _usual(kind)
    place = f"parameter group {number} of torch.optim.{kind.__name__}"
    known = {s.name.replace("-", "_"): s for op in _variants(choice) for s in op.settings}
    found: dict[str, float] = {}
    for key, value in group.items():
        if key in WITHOUT_EFFECT or key not in usual:  # others are a scheduler's
            continue
        numbers = value if key in PAIRS else (value,)
        names = PAIRS.get(key, (key,))
        if all(name in known for name in names):
            found |= {
                known[n].name: float(v) if not known[n].integer else int(v) for n, v in zip(names, numbers, strict=True)
            }
        elif value != usual[key]:
            facts = [("here", f"always {usual[key]!r}"), ("settings", ", ".join(sorted(known)))]
            raise OptionProblem(f"{place} has {key}={value!r}, which has no equivalent", facts, f"leave {key} out")
    chosen = reduced(choice, found)
    with_settings(choice, chosen)
    return chosen
