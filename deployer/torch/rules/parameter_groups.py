"""Groups of a module's parameters, in PyTorch's words."""

import re
from collections.abc import Sequence
from typing import Any

from torch import nn

from deployer.core.errors import OptionProblem
from deployer.fitting.call import GroupSpec, exactly, group_of, regular_expression
from deployer.training.groups import ParameterGroup


def parameter_groups(module: nn.Module, groups: Sequence[GroupSpec]) -> tuple[ParameterGroup, ...]:
    """The groups of a module's parameters.

    OptionProblem for a mapping without `params`, and for parameters that the module has not.
    """
    return tuple(group_of(group, lambda params: _pattern(module, params)) for group in groups)


def _pattern(module: nn.Module, params: Any) -> re.Pattern[str]:
    if isinstance(params, str):
        return regular_expression(params)
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
