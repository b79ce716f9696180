"""Commands that show what the product knows: targets, operators, schemas of its files, completion for a shell."""

import argparse

from rich.table import Table

from deployer.core import target as targets
from deployer.core.operator import Operator, registry
from deployer.core.safe_text import json_text
from deployer.running.terminal import Terminal


def list_targets(a: argparse.Namespace, console: Terminal) -> int:
    """Targets with cores and memories."""
    table = Table("target", "cores", "clock", "levels (budget of bytes)", "description", box=None, header_style="bold")
    records = []
    for name in targets.names():
        t = targets.load(name)
        levels = ", ".join(f"{x.name} {x.budget} of {x.bytes}" for x in t.levels)
        table.add_row(name, str(t.cores), t.clock, levels, t.description)
        sizes = [{"name": x.name, "budget": x.budget, "bytes": x.bytes} for x in t.levels]
        records.append(
            {"name": name, "cores": t.cores, "clock": t.clock, "levels": sizes, "description": t.description}
        )
    console.print(table)
    console.event("end", {"targets": records})
    return 0


def list_operators(a: argparse.Namespace, console: Terminal) -> int:
    """Operators: how each runs, and whether it has a gradient."""
    table = Table("operator", "runs as", "gradient", box=None, header_style="bold")
    records = []
    for name, operator in registry().items():
        kind = operator.kernel.symbol if operator.kernel else "view" if operator.view else "lowered or folded"
        has = type(operator).gradient is not Operator.gradient or operator.composite
        reason = None if has else str(operator.no_gradient)
        table.add_row(name, kind, "yes" if has else f"no: {reason}")
        records.append({"name": name, "runs_as": kind, "gradient": bool(has), "reason": reason})
    console.print(table)
    console.event("end", {"operators": records})
    return 0


def show_schema(a: argparse.Namespace, console: Terminal) -> int:
    """The JSON schema of a file that commands write, alone on standard output."""
    from deployer.commands.json_schema import artefact_schema, record_schema
    from deployer.core.plan import Plan, Tiling
    from deployer.running.report import WARNINGS, Report

    schemas = {
        "plan": lambda: artefact_schema(Plan),
        "tiling": lambda: artefact_schema(Tiling),
        "report": lambda: record_schema(Report, {"warnings": WARNINGS}),
    }
    print(json_text(schemas[a.file]()), end="")
    return 0


def show_completion(a: argparse.Namespace, console: Terminal) -> int:
    """A script that completes this command's words in a shell."""
    import shtab

    from deployer.commands.parser import complete_parser

    print(shtab.complete(complete_parser(), a.shell).rstrip())
    return 0
