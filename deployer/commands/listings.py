"""Listing commands: targets, operators, schemas of files, completion for a shell."""

import argparse
from dataclasses import asdict, dataclass

from rich.table import Table

from deployer.core import target as targets
from deployer.core.operator import Operator, file_of, registry
from deployer.core.safe_text import json_text
from deployer.core.traits.training import Loss
from deployer.operators.control import controls
from deployer.running.terminal import Terminal

DEFAULT = "default"
"""Shown for the kernel model of a target that has none and inherits none."""


def list_targets(a: argparse.Namespace, console: Terminal) -> int:
    """Targets with cores, memories, and whose costs and kernel model they take."""
    table = Table(
        "target",
        "cores",
        "clock",
        "levels (budget of bytes)",
        "costs of",
        "kernel model of",
        "description",
        box=None,
        header_style="bold",
    )
    records = []
    for name in targets.names():
        t = targets.load(name)
        levels = ", ".join(f"{x.name} {x.budget} of {x.bytes}" for x in t.levels)
        table.add_row(name, str(t.cores), t.clock, levels, t.costs_of, t.model_of or DEFAULT, t.description)
        sizes = [{"name": x.name, "budget": x.budget, "bytes": x.bytes} for x in t.levels]
        models = {"costs_of": t.costs_of, "kernel_model_of": t.model_of or DEFAULT}
        records.append(
            {"name": name, "cores": t.cores, "clock": t.clock, "levels": sizes, **models, "description": t.description}
        )
    console.print(table)
    console.event("end", {"targets": records})
    return 0


@dataclass(frozen=True)
class OperatorRow:
    """Row of the operator list: ONNX versions with its meaning, implementation, and reason if it has no gradient."""

    name: str
    versions: tuple[int, ...]
    domain: str
    runs_as: str
    gradient: bool
    reason: str | None
    internal: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of a table, as text."""
        notes = [", ".join(map(str, self.versions))] if self.versions else []
        notes += [self.domain] if self.domain else []
        return self.name, "; ".join(notes), self.runs_as, "yes" if self.gradient else f"no: {self.reason}"


OPERATOR_HEADINGS = ("operator", "versions, domain", "runs as", "gradient")


def operator_rows() -> list[OperatorRow]:
    """All operators in the order of their names.

    A forward model has operators of ONNX, and losses. The others are internal to what is made of it: they replace
    others, belong to a backward pass, or update weights.
    """
    rows = []
    for name, operator in registry().items():
        kind = operator.kernel.symbol if operator.kernel else "view" if operator.view else "lowered or folded"
        has = type(operator).gradient is not Operator.gradient or operator.composite
        file = file_of(operator)
        custom = (file.domain or "default domain") if file.custom else ""
        versions = tuple(sorted({*file.versions, *file.older}))
        reason = None if has else str(operator.no_gradient)
        internal = not (versions or operator.role(Loss))
        rows.append(OperatorRow(name, versions, custom, kind, bool(has), reason, internal))
    rows += [OperatorRow(name, c.versions, "", "graphs inside", True, None, False) for name, c in controls().items()]
    return sorted(rows, key=lambda row: row.name)


def list_operators(a: argparse.Namespace, console: Terminal) -> int:
    """Operators: how each runs, and whether it has a gradient; those of files, or internal ones, too."""
    rows = [row for row in operator_rows() if a.all or not row.internal]
    table = Table(*OPERATOR_HEADINGS, box=None, header_style="bold")
    table.columns[0].min_width = max(len(row.name) for row in rows)  # whole names, however narrow the terminal is
    for row in rows:
        table.add_row(*row.cells)
    console.print(table)
    console.event("end", {"operators": [asdict(row) for row in rows]})
    return 0


def show_schema(a: argparse.Namespace, console: Terminal) -> int:
    """The JSON schema of a file that commands write, alone on standard output."""
    from deployer.commands.json_schema import artefact_schema, record_schema
    from deployer.core.plan import Plan, Tiling
    from deployer.fitting.history import FitReport
    from deployer.running.report import WARNINGS, Report

    schemas = {
        "plan": lambda: artefact_schema(Plan),
        "tiling": lambda: artefact_schema(Tiling),
        "report": lambda: record_schema(Report, {"warnings": WARNINGS}),
        "fit-report": lambda: record_schema(FitReport, {}),
    }
    print(json_text(schemas[a.file]()), end="")
    return 0


def show_completion(a: argparse.Namespace, console: Terminal) -> int:
    """A script that completes this command's words in a shell."""
    import shtab

    from deployer.commands.parser import complete_parser

    print(shtab.complete(complete_parser(), a.shell).rstrip())
    return 0
