"""Fuse: rewrites of the checked program that save memory and time and leave every bit as it was."""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import cast

import deployer.fusions
from deployer.core.ir import Program
from deployer.core.plan import Options

Rule = Callable[[Program, Options], Program]


def fuse_program(program: Program, options: Options) -> Program:
    """The program after every rule; unchanged if the options forbid fusion."""
    for rule in rules().values() if options.fuse else ():
        program = rule(program, options)
    return program


@cache
def rules() -> dict[str, Rule]:
    """All rewrites by name: the modules of `deployer.fusions` that define `apply`.

    They come in the order of their names, but each behind those that its `AFTER` names.
    """
    names = sorted(m.name for m in pkgutil.iter_modules(deployer.fusions.__path__))
    modules = {name: importlib.import_module(f"deployer.fusions.{name}") for name in names}
    found: dict[str, Rule] = {}

    def add(name: str) -> None:
        for earlier in getattr(modules[name], "AFTER", ()):
            add(earlier)
        if hasattr(modules[name], "apply"):
            found.setdefault(name, cast(Rule, modules[name].apply))

    for name in names:
        add(name)
    return found
