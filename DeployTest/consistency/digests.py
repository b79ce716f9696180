"""Committed digests of what Siracusa's cells observe: those of the reference, which the simulator has to give."""

import json
from pathlib import Path

from DeployTest.consistency.cells import Cell, contract, digest_of, listed, observed_kinds
from DeployTest.consistency.observed import Laboratory

FILE = Path(__file__).with_name("siracusa.json")


def reference_digest(cell: Cell, laboratory: Laboratory) -> str:
    """The digest of what the reference observes of the kinds of a cell."""
    kinds = observed_kinds(cell, contract())
    reference = laboratory.observed(cell.subject, cell.reference, cell.workload)
    return digest_of({key: content for key, content in reference.items() if key[0] in kinds})


def committed() -> dict[str, str]:
    """The digests by the names of cells."""
    found: dict[str, str] = json.loads(FILE.read_text())
    return found


def write_digests(laboratory: Laboratory) -> None:
    """Write the digests anew."""
    found = {str(cell): reference_digest(cell, laboratory) for cell in listed("siracusa")}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
