"""Measure the accuracy of kernels beside that of others: writes the tables of docs/accuracy.md.

Run as `python -m DeployTest.benchmarks.accuracy`, with PyTorch installed for its column; `--only WORD` prints the rows
of functions with this in their name, and writes nothing. Exit code 1 where a row breaks the contract.
"""

import argparse
import sys
from collections.abc import Sequence

from DeployTest.benchmarks.upkeep.commits import stamp
from DeployTest.support.kernels import accuracy
from DeployTest.support.kernels.accuracy import Row, measure
from DeployTest.support.kernels.accuracy_cases import CASES
from DeployTest.support.references.peers import torch_module


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and write or print the rows."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.benchmarks.accuracy", description=__doc__)
    parser.add_argument("--only", metavar="WORD", help="functions with this in their name; nothing is written")
    only: str | None = parser.parse_args(words).only
    if torch_module() is None:
        print("PyTorch is not installed: its column stays empty", file=sys.stderr)
    rows: list[Row] = []
    for case in CASES:
        if only is None or only in case.function:
            found = measure(case)
            rows += found
            print("\n".join(map(accuracy.line, found)), flush=True)
    if not rows:
        print(f"no function has {only!r} in its name", file=sys.stderr)
        return 2
    if only is None:
        accuracy.write(rows)
        stamp(__file__)
    broken = [row for row in rows if not row.kept]
    print(f"{len(rows)} rows, {len(broken)} break the contract")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
