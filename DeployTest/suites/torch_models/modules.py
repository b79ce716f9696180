"""Ordinary modules of many kinds, six steps of SGD and six of AdamW each in generated C, beside PyTorch.

Run as `python -m DeployTest.suites.torch_models.modules` where PyTorch is installed; with --write it renews
docs/pytorch-coverage.md. Names choose modules.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from DeployTest.suites.torch_models import (
    modules_graphs,
    modules_images,
    modules_representations,
    modules_sequences,
    modules_training,
)
from DeployTest.suites.torch_models.beside import RIGHT, Result, Trial, run, table
from DeployTest.suites.torch_models.modules_base import MODULES
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "pytorch-coverage.md"
MARKS = ("<!-- modules -->", "<!-- end of modules -->")
REGISTERING = (modules_images, modules_sequences, modules_graphs, modules_representations, modules_training)
"""The modules whose import fills the register."""
RATES = {"sgd": 0.05, "adamw": 0.001}


def trials(names: Sequence[str] = ()) -> list[Trial]:
    """The trials of these names, all by default."""
    return [replace(MODULES[name](), name=name) for name in names or MODULES]


def document(results: Sequence[Result]) -> str:
    """The section of the page."""
    names = {r.name for r in results}
    wrong = {r.name for r in results if r.outcome != RIGHT}
    head = (
        f"PyTorch {torch.__version__}: {len(names - wrong)} of {len(names)} modules are right with both optimizers.\n\n"
    )
    return head + table(results)


def main(words: list[str] | None = None) -> int:
    """Run, print each module, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.suites.torch_models.modules", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODULES, []], help="modules, by default all")
    parser.add_argument("--optimizer", choices=list(RATES), help="by default both")
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    a = parser.parse_args(words)
    rates = {name: rate for name, rate in RATES.items() if a.optimizer in (None, name)}
    results = run(trials(a.names), rates)
    if a.write:
        renew(DOCUMENT, MARKS, document(results))
    print(f"{len(results)} runs: {sum(r.outcome == RIGHT for r in results)} right")
    return 0 if all(r.outcome == RIGHT for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
