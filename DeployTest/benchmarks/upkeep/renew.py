"""Renew all committed tables of benchmarks: each is run by its module, and notes the commit at which it was measured.

Run as `python -m DeployTest.benchmarks.upkeep.renew`; names of benchmarks renew those alone, `--list` says which there
are and what they need. What cannot run here is skipped, and the reason is said. Exit code 1 where a benchmark failed.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from DeployTest.benchmarks.upkeep.commits import HERE, ROOT, measured_at, name_of

WRITES = re.compile(r"^\s+(?:publish|stamp)\(__file__", re.MULTILINE)
"""A module of this package that has this writes a table."""
NEED = re.compile(r"\b(?:GVSoC|Siracusa's kernels|needs PyTorch|PyTorch is installed|PyTorch installed|AIFES=)")
"""In the first lines of a module, what it needs besides this checkout."""
FOLDER, BEFORE, WRITE = 'metavar="DIR"', '"--before"', "--write"
"""Arguments that a module must be given: a folder for its runs, another commit, that it is to write."""


def benchmarks() -> dict[str, str]:
    """The text of each benchmark that writes a table, by its name."""
    texts = {name_of(str(path)): path.read_text() for path in sorted(HERE.rglob("*.py"))}
    return {name: text for name, text in texts.items() if WRITES.search(text) and name != "upkeep.commits"}


def missing(text: str, environment: Mapping[str, str]) -> str:
    """Why a benchmark cannot run here; empty if it can."""
    needs = set(NEED.findall(text.split('"""')[1]))
    if needs & {"GVSoC", "Siracusa's kernels"} and "GVSOC_INSTALL_DIR" not in environment:
        return "needs GVSoC or its compiler; set GVSOC_INSTALL_DIR"
    if any("PyTorch" in need for need in needs) and importlib.util.find_spec("torch") is None:
        return "needs PyTorch; run this by a Python that has it"
    if "AIFES=" in needs and "AIFES" not in environment:
        return "needs AIfES; set AIFES to its folder"
    if BEFORE in text:
        return "compares two commits; run it by itself with --before COMMIT"
    return ""


def main(words: Sequence[str] | None = None) -> int:
    """Renew the tables, and say which ones were not."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.upkeep.renew", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is and what is missing, and run nothing")
    a = parser.parse_args(words)
    known, failed = benchmarks(), list[str]()
    if unknown := sorted(set(a.names) - known.keys()):
        parser.error(f"no benchmark {unknown[0]} writes a table; there are {', '.join(known)}")
    for name, text in known.items():
        if a.names and name not in a.names:
            continue
        reason = missing(text, os.environ)
        if reason or a.list:
            print(f"{name}: {'skipped: ' + reason if reason else 'can run'}; at {measured_at().get(name)}", flush=True)
            continue
        print(f"{name}: running", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            last = [folder] if FOLDER in text else [WRITE] if f'"{WRITE}"' in text else []
            run = subprocess.run([sys.executable, "-m", f"{__package__}.{name}", *last], cwd=ROOT, check=False)
        failed += [name] if run.returncode else []
    print(f"failed: {', '.join(failed)}" if failed else "no benchmark that ran has failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
