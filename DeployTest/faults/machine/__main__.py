"""Let every call of the operating system fail once, and memory end, in each command; renew the table of the page."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from DeployTest.faults.machine.campaign import Fault, judged
from DeployTest.faults.machine.commands import COMMANDS
from DeployTest.faults.machine.report import MARKS, PAGE, read, shown, table, told
from DeployTest.support.documents.pages import renew

ROOT = Path(__file__).resolve().parents[3]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign; the exit code is 1 where something was lost."""
    p = argparse.ArgumentParser(prog="python -m DeployTest.faults.machine", description=__doc__)
    p.add_argument("commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)} (default: all)")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes at a time")
    p.add_argument("--share", default="0/1", metavar="I/N", help="of N shares of the points and limits, that number")
    p.add_argument("--write", action="store_true", help="renew the table of docs/testing.md")
    p.add_argument("--lines", action="store_true", help="print a line of JSON for each fault")
    a = p.parse_args(argv)
    names = a.commands or list(COMMANDS)
    if a.lines:
        share, of = map(int, a.share.split("/"))
        folder = Path(tempfile.mkdtemp(prefix="machine-"))
        for fault in judged(names, folder, share, of):
            print(told(fault), flush=True)
        shutil.rmtree(folder)
        return 0
    faults = _apart(names, a.jobs)
    print(table(faults))
    lost = [fault for fault in faults if fault.losses]
    print("\n".join(shown(fault) for fault in lost))
    if a.write:
        renew(PAGE, MARKS, table(faults))
    return 1 if lost else 0


def _apart(names: Sequence[str], jobs: int) -> list[Fault]:
    """The faults of commands, in so many processes, each of which has a share of them."""

    def share(number: int) -> list[Fault]:
        words = [sys.executable, "-m", __spec__.parent, *names, "--lines", "--share", f"{number}/{jobs}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            found = [read(line) for line in process.stdout or ()]
        if process.returncode:
            raise RuntimeError(f"share {number} ended with {process.returncode}")
        print(f"share {number} of {jobs}: {len(found)} faults, {Counter(f.command for f in found)}", file=sys.stderr)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        return [fault for found in pool.map(share, range(jobs)) for fault in found]


if __name__ == "__main__":
    sys.exit(main())
