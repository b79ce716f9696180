"""Fuse: rewrites of the checked program that save memory and time and leave every bit as it was."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import cast

import deployer.fusions
from deployer.core.errors import OptionProblem
from deployer.core.ir import Program
from deployer.core.plan import Options
from deployer.planning.canonical.rewrite import canonical_batch

Rule = Callable[[Program, Options], Program]


def fuse_program(program: Program, options: Options) -> Program:
    """The program after every rule that the options allow, with the names of those that changed it.

    OptionProblem where the options leave out a rule that there is not.
    """
    check_names(options.disabled_rewrites)
    applied = []
    program = canonical_batch(program) if options.canonical_batch else program
    for name, rule in rules().items() if options.allow_rewrites else ():
        before, program = program, program if name in options.disabled_rewrites else rule(program, options)
        applied += [name] * (program != before)
    return replace(program, rewrites=tuple(applied)) if applied else program


def check_names(names: Iterable[str]) -> None:
    """Raise OptionProblem for a name that no rule has."""
    for name in names:
        if name not in rules():
            known = [("rewrites", ", ".join(rules()))]
            raise OptionProblem(f"--no-fusion {name!r} is not a rewrite", known, "one of these, or no name for all")


def name_of(rule: ModuleType) -> str:
    """The name of a rule's module, by which options leave it out."""
    return rule.__name__.rpartition(".")[-1]


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
