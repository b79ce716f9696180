"""`deployer hal-test`: conformance check of a target's HAL."""

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from deployer.core.target import load
from deployer.running.conformance import check_hal
from deployer.running.terminal import Terminal


def try_hal(a: argparse.Namespace, console: Terminal) -> int:
    """Build and run the conformance program of a target; 1 where it finds a fault."""
    target = load(a.target)
    with tempfile.TemporaryDirectory() as folder, console.status("build and run"):
        found = check_hal(target, Path(folder))
    for name in dict.fromkeys((*found.checks, *(fault.check for fault in found.faults))):
        wrong = [fault.text for fault in found.faults if fault.check == name]
        console.lines(f"{name}: {'; '.join(wrong) or 'right'}")
    console.event("end", {"target": a.target, "checks": found.checks, "faults": [asdict(f) for f in found.faults]})
    return int(bool(found.faults))
