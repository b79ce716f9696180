"""Fuse: rewrites of the checked program that save memory and time and leave every bit as it was."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import cast

import deployer.fusions
from deployer.ir import Program
from deployer.plan import Options

Rule = Callable[[Program, Options], Program]


def run(program: Program, options: Options) -> Program:
    """Every rule in the order of their names, unless options forbid them."""
    for rule in rules().values() if options.fuse else ():
        program = rule(program, options)
    return program


@cache
def rules() -> dict[str, Rule]:
    """All rewrites by name, found by scanning `deployer.fusions`."""
    names = sorted(m.name for m in pkgutil.iter_modules(deployer.fusions.__path__))
    return {name: cast(Rule, importlib.import_module(f"deployer.fusions.{name}").apply) for name in names}
