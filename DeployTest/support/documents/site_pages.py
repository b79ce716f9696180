"""Parts of the documentation that the product itself knows.

`python -m DeployTest.support.documents.site_pages` (`make pages`) renews them: options, operators, targets and their
keys, kinds of errors, messages as commands print them, benchmarks, and the README's results.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

from deployer.commands.listings import OPERATOR_HEADINGS, operator_rows
from deployer.core import errors
from DeployTest.benchmarks.cluster import decoding
from DeployTest.support.building.command_line import deployer
from DeployTest.support.documents import reference, worked_example
from DeployTest.support.documents.pages import generated, renew
from DeployTest.support.graphs.small_graphs import Model, node, value

DOCS = Path(__file__).resolve().parents[3] / "docs"
Part = tuple[Path, tuple[str, str], Callable[[], str]]


def marks(name: str) -> tuple[str, str]:
    """The marks of a part."""
    return f"<!-- {name} -->", f"<!-- end of {name} -->"


def operators() -> str:
    """A row per operator that a forward model may have."""
    rows = [OPERATOR_HEADINGS, ("---",) * len(OPERATOR_HEADINGS)]
    rows += [row.cells for row in operator_rows() if not row.internal]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def kinds() -> str:
    """A row per kind of error that is raised, with its exit code."""
    lines = ["| kind | exit code | what is wrong |", "|---|---:|---|"]
    for name, kind in sorted(vars(errors).items()):
        if isinstance(kind, type) and issubclass(kind, errors.DeployerError) and not kind.__subclasses__():
            lines.append(f"| `{name}` | {kind.exit_code} | {str(kind.__doc__).splitlines()[0]} |")
    return "\n".join(lines)


def messages() -> str:
    """Commands that fail, each with what it prints."""
    return "\n\n".join(f"**{title}**\n\n```console\n$ {command}\n{said}```" for title, command, said in _failures())


def _failures() -> Iterator[tuple[str, str, str]]:
    """Title, command and message of each."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            _files()
            for title, words in COMMANDS:
                said = io.StringIO()
                with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                    code = deployer(*words.split())
                yield title, f"deployer {words}", f"{said.getvalue()}(exit code {code})\n"
        finally:
            os.chdir(here)


COMMANDS = (
    ("An axis of the model has no fixed length.", "infer -t open.onnx -o out"),
    ("Operators are not supported; the message lists all of them.", "infer -t missing.onnx -o out"),
    ("The scratchpad is too small for the smallest tile.", "infer -t large.onnx --l1 60 -o out"),
    ("A label is outside the classes.", "fit classes.onnx --data labels.npz --loss cross_entropy -o run"),
    ("The target column of a table is ambiguous.", "fit classes.onnx --data kinds.csv --loss cross_entropy -o run"),
    (
        "A cell of a table is not a number.",
        "fit classes.onnx --data kinds.csv --loss cross_entropy --target-column kind -o run",
    ),
    ("The learning rate is too large.", "fit classes.onnx --data data.npz --loss cross_entropy --lr 40 -o run"),
    ("A file has another format than expected.", "fit classes.onnx --data classes.onnx --loss cross_entropy -o run"),
)


def _files() -> None:
    """The files of the commands, in this folder."""
    ends = (value("x", ("N", 4)),), (value("y", ("N", 4)),)
    Model((node("Relu", ("x",), ("y",)),), *ends).save(Path("open.onnx"))
    ends = (value("x", (2, 4)),), (value("y", (2, 4)),)
    strange = node("Wavelet", ("x",), ("h",)), node("Relu", ("h",), ("r",)), node("GeluFast", ("r",), ("y",))
    Model(strange, *ends).save(Path("missing.onnx"))
    weight = onnx.numpy_helper.from_array(np.ones((64, 3), np.float32), "w")
    product = (node("MatMul", ("x", "w"), ("y",)),)
    for name, batch in (("large.onnx", 1), ("classes.onnx", 4)):
        ends = (value("x", (batch, 64)),), (value("y", (batch, 3)),)
        Model(product, *ends, (weight,)).save(Path(name))
    x = np.random.default_rng(0).standard_normal((8, 64), np.float32)
    np.savez("data.npz", x=x, labels=np.arange(8) % 3)
    np.savez("labels.npz", x=x, labels=np.arange(8) % 4)
    Path("kinds.csv").write_text("kind,height,weight\ncat,25,4.5\ndog,NA,30\n")


STAGES = ("node", "training", "program", "tiling", "homes", "step", "code", "addresses", "verdict")
"""Artefacts of the demo that docs/architecture.md shows."""
PARTS: tuple[Part, ...] = (
    (DOCS.parent / "README.md", marks("demo"), worked_example.stage("demo")),
    *((DOCS / "architecture.md", marks(name), worked_example.stage(name)) for name in STAGES),
    (DOCS / "reference/options.md", marks("options"), reference.options),
    (DOCS / "reference/targets.md", marks("targets"), reference.targets),
    (DOCS / "reference/benchmarks.md", marks("benchmarks"), reference.benchmark_pages),
    (decoding.PAGE, decoding.MARKS, decoding.table),
    (DOCS / "how-to/target.md", marks("target keys"), reference.target_keys),
    (DOCS.parent / "README.md", marks("results"), reference.results),
    (DOCS / "operators.md", marks("operators"), operators),
    (DOCS / "errors.md", marks("kinds"), kinds),
    (DOCS / "errors.md", marks("messages"), messages),
)


def stale() -> list[str]:
    """The parts that are not as they would be made now."""
    return [f"{page.name}: {begin}" for page, (begin, end), make in PARTS if generated(page, (begin, end)) != make()]


def main() -> int:
    """Renew all parts."""
    for page, ends, make in PARTS:
        renew(page, ends, make())
    return 0


if __name__ == "__main__":
    sys.exit(main())
