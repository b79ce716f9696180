"""Faults as lines of JSON between processes, as text for people, and as the table of the page."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from DeployTest.faults.machine.calls import ERRORS
from DeployTest.faults.machine.campaign import MEMORY, Fault
from DeployTest.faults.machine.commands import COMMANDS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
MARKS = "<!-- machine faults -->", "<!-- end of machine faults -->"
KINDS = (*ERRORS, MEMORY)


def told(fault: Fault) -> str:
    """The fault as a line of JSON."""
    return json.dumps(asdict(fault))


def read(line: str) -> Fault:
    """The fault of a line."""
    values = json.loads(line)
    return Fault(**{**values, "losses": tuple(values["losses"])})


def shown(fault: Fault) -> str:
    """Describe a fault and its violations in a line."""
    losses = "\n".join(f"    {loss}" for loss in fault.losses)
    return f"{fault.command}: {fault.point}\n  {fault.told}, exit code {fault.code}\n{losses}\n{fault.errors[-1000:]}"


def table(faults: Sequence[Fault]) -> str:
    """Points by command and kind, how many ended with 0 all the same, and the losses."""
    headings = ["command", *KINDS, "points", "still successful", "losses"]
    rows = [f"| {' | '.join(headings)} |", "|---" + "|---:" * (len(headings) - 1) + "|"]
    for name in COMMANDS:
        own = [fault for fault in faults if fault.command == name]
        counts = [sum(fault.point.split()[0] == kind for fault in own) for kind in KINDS]
        well, lost = sum(fault.code == 0 for fault in own), sum(map(bool, (fault.losses for fault in own)))
        if own:
            rows.append(f"| `{name}` | {' | '.join(map(str, counts))} | {len(own)} | {well} | {lost} |")
    return "\n".join(rows)
