"""Groups of parameters: the update of each parameter, or none."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.core.errors import OptionProblem
from deployer.core.operator import Operator
from deployer.lr_schedules.lr_schedule import check_rate
from deployer.training.forward import matches
from deployer.training.settings import Given, with_settings

RATE, FROZEN, TRAINED = "lr", "frozen", "trained"
FORM = f"REGEX:{RATE}=0.001,weight_decay=0, REGEX:{TRAINED} or REGEX:{FROZEN}"


@dataclass(frozen=True)
class GroupRule:
    """Update rule of a parameter: the optimizer, its rate, and its other attributes."""

    operator: Operator
    rate: float
    attributes: Mapping[str, float]


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters whose names match an expression, with the settings that differ for them.

    `trained` says that all tensors of such names are parameters, `frozen` that those that are stay as they are.
    """

    pattern: re.Pattern[str]
    rate: float | None = None
    frozen: bool = False
    trained: bool = False
    settings: Given = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The option that made it, as far as it names the group."""
        return f"--param-group {self.pattern.pattern!r}"


def read_group(text: str) -> ParameterGroup:
    """A group of the form REGEX:NAME=NUMBER,...; OptionProblem where it has another."""
    pattern, colon, rest = text.rpartition(":")
    place = f"--param-group {text!r}"
    if not colon or not rest:
        raise OptionProblem(f"{place} has no settings for its parameters", hint=FORM)
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise OptionProblem(f"{place} has no regular expression", [("cause", str(error))], FORM) from None
    numbers: dict[str, float] = {}
    words = rest.split(",")
    for word in words:
        name, sign, number = word.partition("=")
        if word in (FROZEN, TRAINED):
            continue
        key = name.strip().replace("_", "-")
        if not sign or not key or key in numbers:
            raise OptionProblem(f"{place}: {word!r} is not NAME=NUMBER, once for each name", hint=FORM)
        numbers[key] = _number(number, f"{place}: {name}")
    if words.count(TRAINED) > 1:
        raise OptionProblem(f"{place}: {TRAINED!r} is defined twice", hint=FORM)
    if FROZEN in words and len(words) > 1:
        raise OptionProblem(f"{place}: a {FROZEN} group has no other settings", hint=f"{pattern}:{FROZEN}")
    return ParameterGroup(expression, numbers.pop(RATE, None), FROZEN in words, TRAINED in words, numbers)


def _number(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise OptionProblem(f"{place} is {text!r}, which is not a number", hint=FORM) from None
    return int(value) if value.is_integer() and "." not in text and "e" not in text.lower() else value


def trained_parameters(parameters: Sequence[str], groups: Iterable[ParameterGroup]) -> tuple[str, ...]:
    """The parameters that no group freezes; OptionProblem where a group has none, two share one, or none is left."""
    owners: dict[str, ParameterGroup] = {}
    for group in groups:
        members = [name for name in parameters if matches(group.pattern, name)]
        if not members:
            listing = [("parameters", ", ".join(parameters) or "none")]
            raise OptionProblem(f"{group.text} matches no trained parameter", listing, "an expression that is found")
        for name in members:
            if name in owners:
                facts = [("parameter", name), ("groups", f"{owners[name].text}, {group.text}")]
                raise OptionProblem("a parameter is in two groups", facts, "expressions that match no name both")
            owners[name] = group
    left = tuple(name for name in parameters if name not in owners or not owners[name].frozen)
    if not left:
        raise OptionProblem("the groups freeze every parameter", [("frozen", ", ".join(parameters))], "leave one out")
    return left


def rules(
    trained: Mapping[str, str],
    choice: str,
    rate: float,
    settings: Given,
    groups: Sequence[ParameterGroup],
    free: bool = False,
) -> dict[str, GroupRule]:
    """The rule of each parameter by its name in the graph; `trained` leads from that to its name in the model.

    Raises OptionProblem for settings that the optimizer does not have, and for numbers out of range; rates may be any
    finite ones with `free`.
    """
    check_rate(rate, free=free)
    for group in groups:
        if group.rate is not None:
            check_rate(group.rate, f"{group.text}: {RATE}", free)
    found = {}
    for name, original in trained.items():
        own, given = rate, dict(settings)
        for group in (g for g in groups if matches(g.pattern, original)):
            own, given = own if group.rate is None else group.rate, {**given, **group.settings}
        operator, attributes = with_settings(choice, given)
        found[name] = GroupRule(operator, own, attributes)
    return found
