"""Reference pages made from the code: options of every command, targets and their keys, benchmarks, results.

`python -m DeployTest.support.documents.site_pages` writes them.
"""

import argparse
import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deployer.commands.parser import commands_of, complete_parser
from deployer.core import level, target
from deployer.core.cost import without_cost
from deployer.core.kernel_model import KernelModel
from deployer.core.operator import registry
from deployer.operators.base.elementwise_dsl import printed_kernels
from DeployTest.benchmarks.upkeep.commits import HERE as BENCHMARKS
from DeployTest.benchmarks.upkeep.commits import measured_at
from DeployTest.benchmarks.upkeep.renew import benchmarks, missing

LEAST_SHARED = 10
"""Arguments that commands must have in common for the later one to refer to the earlier one."""
FORMATTER = argparse.HelpFormatter("deployer", width=10_000, max_help_position=1000)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], right: str = "") -> str:
    """A table in Markdown; `right` has an `r` for each column that is aligned to the right."""
    rules = ["---:" if mark == "r" else "---" for mark in right.ljust(len(headings))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (headings, rules, *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


Rows = list[tuple[str, str]]


def options() -> str:
    """A section per command, with a table of its arguments."""
    before: dict[str, Rows] = {}
    commands = commands_of(complete_parser()).items()
    return "\n\n".join(text for name, parser in commands for text in _command(name, parser, before))


def _command(name: str, parser: argparse.ArgumentParser, before: dict[str, Rows]) -> Iterator[str]:
    """The section of a command; arguments that it has in common with one `before` are not listed again."""
    yield f"## {name}\n\n{_sentence(parser.description or '')}"
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    rows = [(_invocation(a), _help(a)) for a in parser._actions if a not in inner and a.dest != "help"]
    for other, known in before.items():
        if len(known) >= LEAST_SHARED and set(known) <= set(rows):
            yield f"It has the arguments of [{other}](#{other})" + (" and these:" if len(rows) > len(known) else ".")
            rows = [row for row in rows if row not in known]
            break
    else:
        before[name] = rows
    if rows:
        yield table(("argument", "meaning"), rows)
    for action in inner:
        for choice, below in action.choices.items():
            yield from _command(f"{name} {choice}", below, before)


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = ""
    if action.nargs != 0:  # composed here, as Python 3.13 prints short and long options otherwise
        value = f" {FORMATTER._format_args(action, FORMATTER._get_default_metavar_for_optional(action))}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    text = " ".join(FORMATTER._expand_help(action).split()) if action.help else ""
    return text.replace("<", "&lt;").replace("*", "\\*")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def targets() -> str:
    """A row per target, and one per memory level."""
    loaded = [target.load(name) for name in target.names()]
    described = [(f"`{t.name}`", t.description, t.cores, t.most_cores, t.clock) for t in loaded]
    memories = [(f"`{t.name}`", x.name, x.bytes, x.budget, x.reserved) for t in loaded for x in t.levels]
    first = table(("target", "machine", "cores", "at most", "clock"), described, "  rr")
    second = table(("target", "level", "bytes", "default budget", "reserved"), memories, "  rrr")
    return f"{first}\n\n{second}\n\n{_estimates()}"


def _estimates() -> str:
    """A row per target with measured costs: the kernels without, besides those that are printed from formulas."""
    symbols = {op.kernel.symbol for op in registry().values() if op.kernel} - set(printed_kernels())
    names = sorted(path.parent.name for path in target.TARGETS_DIR.glob("*/costs.toml"))
    lacking = [(name, without_cost(target.load(name), symbols)) for name in names]
    rows = [(f"`{name}`", ", ".join(f"`{symbol}`" for symbol in found) or "none") for name, found in lacking]
    return table(("measured target", "kernels whose cycles are estimates"), rows, "  ")


SECTIONS: tuple[tuple[str, type, str], ...] = (
    ("`[[levels]]`", level.Level, "one table per memory, from the innermost one outwards"),
    ("`[[hops]]`", level.Hop, "one table per DMA engine; `costs.toml` usually has them"),
    ("`in` and `out` of a hop", level.Channel, "one transfer direction"),
    ("`[icache]`", level.InstructionCache, "the instruction cache"),
    ("`[kernels.NAME]`", target.KernelCost, "costs of a kernel; `costs.toml` usually has them"),
    (
        "`[kernel_model]`",
        KernelModel,
        "work split of the kernels; `kernel_model.toml` usually has it",
    ),
    ("`[toolchain]`", target.Toolchain, "compiler and run command"),
)
"""The tables of a target's file, the class that reads each, and what it is."""
RENAMED = {"inward": "in", "outward": "out"}


def fields(cls: type) -> dict[str, tuple[str, str, str]]:
    """Type, default and meaning of each field of a dataclass; the meaning is the string behind the field."""
    [body] = [n.body for n in ast.parse(inspect.getsource(cls)).body if isinstance(n, ast.ClassDef)]
    found = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
            default = ast.unparse(node.value) if node.value else "required"
            found[node.target.id] = (ast.unparse(node.annotation), default, " ".join(text.split()))
    return found


KINDS = {
    "str": "text",
    "int": "integer",
    "bool": "true or false",
    "tuple[str, ...]": "list of texts",
    "Channel": "table",
    "InstructionCache": "table",
    "tuple[Level, ...]": "list of tables",
    "tuple[Hop, ...]": "list of tables",
    "dict[str, KernelCost]": "table of tables",
    "KernelModel": "table",
    "float": "number",
    "tuple[int, int]": "list of integers",
    "tuple[int, int, int]": "list of integers",
    "tuple[int, int, int, int]": "list of integers",
    "tuple[float, float, float]": "list of numbers",
    "tuple[tuple[str, str], ...]": "list of pairs of texts",
    "Toolchain | None": "table",
}
"""Types of fields, as TOML has them."""
FILE_TYPES = {"cost": ("InstructionCache", "required")}
"""Type and default of keys that are no text and may not be left out."""
INTERNAL = {"cost_sources", "costs_of", "model_of"}
"""Fields of a target that no file has."""
OPTIONAL = {"description", "toolchain", "kernel_model"}
"""Keys that may be left out, though their field has no default."""
DEFAULTS = {"()": "empty"}


def target_keys() -> str:
    """Tables of all keys that a target's file may have."""
    own = fields(target.Target)
    top = [(n, *own[n]) for n in own if n not in {*target.COSTS, *INTERNAL}]
    top += [(name, *FILE_TYPES.get(name, ("str", "none")), text) for name, text in target.FILE_KEYS.items()]
    parts = [f"**Top level**\n\n{_keys(top)}"]
    for title, cls, what in SECTIONS:
        parts.append(f"**{title}**: {what}\n\n{_keys([(RENAMED.get(n, n), *row) for n, row in fields(cls).items()])}")
        if cls is level.InstructionCache:
            costs = [(n, *own[n]) for n in target.COSTS]
            parts.append(f"**`[cost]`**: cycles outside of kernels; `costs.toml` usually has them\n\n{_keys(costs)}")
    return "\n\n".join(parts)


def _keys(rows: Sequence[tuple[str, str, str, str]]) -> str:
    cells = [
        (f"`{name}`", KINDS[kind], "none" if name in OPTIONAL else DEFAULTS.get(default, default), text)
        for name, kind, default, text in rows
    ]
    return table(("key", "type", "default", "meaning"), cells)


def benchmark_pages() -> str:
    """A row per benchmark that writes a committed table: what it measures, what it needs, and its commit."""
    rows = []
    for name, text in benchmarks().items():
        needs = missing(text, {}).partition(";")[0].removeprefix("needs ")
        what = ast.get_docstring(ast.parse(text)) or ""
        first = " ".join(re.split(r"(?<=[.:])\s", " ".join(what.split()))[0].rstrip(".:").split())
        command = f"`python -m DeployTest.benchmarks.{name}`"
        rows.append((command, first, needs or "-", measured_at().get(name, "-")))
    return table(("command", "measures", "needs", "measured at"), rows)


MODELS = ("autoencoder", "deep_autoencoder", "dscnn", "mobilenet_v1", "cct")
"""Models with results on Siracusa; some have none on one flat memory."""
PUBLISHED = (
    "For scale, [TrainDeeploy](https://arxiv.org/abs/2603.09511) (March 2026) reports up to 4.6 FLOP/cycle for a CCT "
    "of 71 to 126 MFLOP, up to 13.4 for Deep-AE (0.8 MFLOP), and 11 trained images per second, on a RISC-V SoC with a "
    "hardware accelerator. As of 27 November 2026 these are published figures, not runs of ours. The setups differ: "
    "Siracusa runs here without an accelerator, and the model variants are not the same."
)


def results() -> str:
    """The README's table: cycles on Siracusa, bytes and time on one flat memory, of the same models."""
    flat = {row["model"]: row for row in _read("flat.json")["rows"]}
    best: dict[str, Mapping[str, Any]] = {}
    for row in _read("siracusa.json")["rows"]:
        if row["model"] in MODELS and row["mode"] == "auto":
            best.setdefault(row["model"], row)
    rows = [(model, *_on_siracusa(best[model]), *_on_one_memory(flat.get(model))) for model in MODELS]
    headings = (
        "model",
        "L1, B",
        "MFLOP a pass",
        "cycles, pass + update",
        "predicted",
        "FLOP/cycle",
        "of the bound",
        "RAM, B",
        "us a step",
        "PyTorch, us",
    )
    planned = _read("planning.json")
    least, most = (f(planned, key=lambda row: row["seconds"]) for f in (min, max))
    notes = (
        "Batches of 1. Cycles: Siracusa under GVSoC (`python -m DeployTest.benchmarks.siracusa`). `predicted` is the "
        "error of the cost model; the bound is the fewest cycles that FPUs and DMA allow. RAM and time of a step: one "
        "flat memory, beside PyTorch on one core (`python -m DeployTest.benchmarks.flat`); `-` was not measured. "
        f"Planning takes {least['seconds']:.1f} s ({least['steps']} steps, {least['name']}) to "
        f"{most['seconds']:.1f} s ({most['steps']} steps, {most['name']}; `python -m DeployTest.benchmarks.planning "
        "--run`)."
    )
    wrapped = [textwrap.fill(text, 149, break_on_hyphens=False, break_long_words=False) for text in (notes, PUBLISHED)]
    return "\n\n".join((table(headings, rows, " rrrrrrrrr"), *wrapped))


def _on_siracusa(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Budget, work and cycles of a pass, error of the prediction, rate, and share of the bound."""
    off = 100 * (row["predicted_train"] - row["train_cycles"]) / row["train_cycles"]
    cycles = f"{_spaced(row['train_cycles'])} + {_spaced(row['opt_cycles'])}"
    rate, share = f"{row['flop_per_cycle']:.2f}", f"{100 * row['bound_share']:.0f} %"
    return _spaced(row["l1"]), f"{2 * row['macs'] / 1e6:.2f}", cycles, f"{off:+.1f} %", rate, share


def _on_one_memory(row: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Bytes, and microseconds of a step beside PyTorch; dashes for a model that was not measured."""
    if row is None:
        return "-", "-", "-"
    return _spaced(row["ram"]), f"{row['native_us']:.0f}", f"{row['torch_us']:.0f}"


def _read(name: str) -> Any:
    return json.loads((Path(BENCHMARKS) / name).read_text())


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
