"""Notebooks of the documentation: scripts with `# %%` cells, from which .ipynb files and pages are made.

`python -m DeployTest.support.documents.notebooks` (`make notebooks`) runs all scripts of docs/notebooks, and writes
beside each NAME.py the notebook NAME.ipynb without outputs, the page NAME.md with them, and pictures as SVG.
"""

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "docs/notebooks"
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)
NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")
DIGEST = re.compile(r"\b[0-9a-f]{16}\b")


@dataclass(frozen=True)
class Cell:
    """A cell: its text, and whether that is prose."""

    text: str
    is_prose: bool


@dataclass(frozen=True)
class Output:
    """Text that a cell printed, or the value of its last line; pictures are SVG."""

    kind: str
    text: str


@dataclass(frozen=True)
class Executed:
    """A cell with its outputs."""

    cell: Cell
    outputs: tuple[Output, ...] = field(default=())


def scripts() -> list[Path]:
    """The scripts of all notebooks."""
    return sorted(FOLDER.glob("*.py"))


def cells(script: str) -> list[Cell]:
    """The cells of a script; ValueError where something stands before the first one."""
    before, *parts = CELL.split(script)
    if before.strip():
        raise ValueError(f"text before the first cell: {before.strip()[:40]!r}")
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [Cell(_prose(text) if marked else text.strip("\n"), bool(marked)) for marked, text in pairs]


def _prose(text: str) -> str:
    """Comments without their marks."""
    lines = text.strip("\n").splitlines()
    odd = [line for line in lines if not line.startswith("#")]
    if odd:
        raise ValueError(f"a line of prose is no comment: {odd[0]!r}")
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)


def notebook(found: Sequence[Cell]) -> str:
    """The cells as a notebook of format 4.5, without outputs."""
    rows = []
    for number, cell in enumerate(found):
        row: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": cell.text.splitlines(keepends=True)}
        row["cell_type"] = "markdown" if cell.is_prose else "code"
        rows.append(row | ({} if cell.is_prose else {"execution_count": None, "outputs": []}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": rows, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def executed(found: Sequence[Cell], name: str) -> list[Executed]:
    """The cells with their outputs, run one after another in the present folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [Executed(cell, () if cell.is_prose else _outputs(cell, names, name)) for cell in found]


def _outputs(cell: Cell, names: dict[str, Any], name: str) -> tuple[Output, ...]:
    tree, value, printed = ast.parse(cell.text), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    text = [Output("text", printed.getvalue().strip("\n"))] if printed.getvalue().strip() else []
    return (*text, *_shown(value))


def _shown(value: object) -> Iterator[Output]:
    """The value of a cell as a notebook shows it."""
    if value is None:
        return
    if hasattr(value, "_repr_svg_"):
        yield Output("svg", value._repr_svg_())
    else:
        yield Output("text", repr(value))


def page(name: str, rows: Sequence[Executed]) -> dict[str, str]:
    """The page and its pictures, by the names of their files."""
    files, lines = {}, []
    for row in rows:
        lines.append(row.cell.text if row.cell.is_prose else _fence("python", row.cell.text))
        for output in row.outputs:
            picture = f"{name}-{len(files) + 1}.svg"
            if output.kind == "svg":
                files[picture] = output.text
            lines.append(f"![]({picture})" if output.kind == "svg" else _fence("text", output.text))
    made = f"*This page is a program: run it as [a notebook]({name}.ipynb).*"
    title, _, rest = "\n\n".join(lines).partition("\n")
    return {f"{name}.md": f"{title}\n\n{made}\n{rest}\n", **files}


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def structure(text: str) -> str:
    """A page without what differs between machines: numbers and digests, and how wide they are."""
    return re.sub(r" +", " ", NUMBER.sub("0", DIGEST.sub("0", text)))


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """A folder of its own to run in."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def main(names: Sequence[str]) -> int:
    """Write notebooks, pages and pictures of these names, or all."""
    for script in scripts():
        if names and script.stem not in names:
            continue
        found = cells(script.read_text())
        with scratch():
            rows = executed(found, script.name)
        for old in FOLDER.glob(f"{script.stem}-*.svg"):
            old.unlink()
        made = page(script.stem, rows) | {f"{script.stem}.ipynb": notebook(found)}
        for name, text in made.items():
            (FOLDER / name).write_text(text)
        print(script.stem, "-", ", ".join(made))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
