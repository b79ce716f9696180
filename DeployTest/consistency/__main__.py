"""`python -m DeployTest.consistency`: run cells of the contract, and write the page of what they showed.

The exit code is 1 where a cell does not hold.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from DeployTest.consistency.cells import Cell, Result, all_cells, contract, listed, shown
from DeployTest.consistency.digests import write_digests
from DeployTest.consistency.observed import Laboratory
from DeployTest.consistency.report import PAGE, contract_digest, read_results, report, write_results

LISTS = ("fast", "slow", "nightly", "siracusa", "all")


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    p = argparse.ArgumentParser(prog="consistency", description=__doc__)
    p.add_argument("--list", dest="name", choices=LISTS, default="fast", help="the cells (default fast)")
    p.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="those whose names have one of these")
    p.add_argument("--part", default="1/1", metavar="I/N", help="the I-th of N parts of the list")
    p.add_argument("--results", type=Path, help="add results to this file, and run what it lacks")
    p.add_argument("--page", action="store_true", help=f"write {PAGE.name} from the results, and run nothing")
    p.add_argument("--write-digests", action="store_true", help="write those of the reference for Siracusa's cells")
    a = p.parse_args(argv)
    laboratory = Laboratory()
    try:
        if a.write_digests:
            write_digests(laboratory)
            return 0
        known = read_results(a.results) if a.results else {}
        if a.page:
            PAGE.write_text(report(known))
            return 0
        return _run(_chosen(a.name, a.only, a.part), known, laboratory, a.results)
    finally:
        laboratory.close()


def _chosen(name: str, only: Sequence[str], part: str) -> list[Cell]:
    cells = all_cells() if name == "all" else listed(name)
    index, count = map(int, part.split("/"))
    chosen = [cell for cell in cells if not only or any(text in str(cell) for text in only)]
    subjects = list(contract()["subjects"])
    return [cell for cell in chosen if subjects.index(cell.subject) % count == index - 1]


def _run(cells: Sequence[Cell], known: dict[str, Result], laboratory: Laboratory, file: Path | None) -> int:
    results = []
    for cell in cells:
        result = known.get(str(cell)) or shown(cell, laboratory)
        if str(cell) not in known and file is not None:
            write_results(file, [result])
        results.append(result)
        told = "; ".join((*result.faults, *map(str, result.different[:3]), result.reason))
        print(f"{cell}: {result.status}, {result.keys} keys, {result.bytes} B {told}", flush=True)
    broken = [result for result in results if not result.holds]
    bytes_read = sum(result.bytes for result in results)
    print(
        f"{len(results)} cells, {bytes_read} B compared, {len(broken)} do not hold, digest {contract_digest(results)}"
    )
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
