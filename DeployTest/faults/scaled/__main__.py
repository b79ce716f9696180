"""Scale one result at a time and say how small an error is found; draw wrong kernels and say which step is named.

Run as `python -m DeployTest.faults.scaled`; `--write` renews the tables of docs/detection.md, `--results FILE` goes on
where an earlier run was cut off. Exit code 1 where an error of 1e-4 is not found, or another step is named.
"""

import argparse
import json
import math
import multiprocessing
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from DeployTest.faults.scaled.localised import drawn
from DeployTest.faults.scaled.nets import makers, nets
from DeployTest.faults.scaled.search import LEAST, scan
from DeployTest.support.documents.pages import renew

PAGE = Path(__file__).resolve().parents[3] / "docs" / "detection.md"
SMALL, NAMED = (
    ("<!-- small errors -->", "<!-- end of small errors -->"),
    ("<!-- named steps -->", "<!-- end of named steps -->"),
)
ALLOWED = 1e-4
Row = dict[str, Any]


def scanned(key: tuple[str, str], faults: int, seed: int) -> Row:
    """The places of one net, and drawn wrong kernels in it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(nets(Path(folder), (key[0],), (key[1],)))
        places = [asdict(place) for net in found for place in scan(net.case)]
        named = [{**asdict(r), "right": r.right} for r in drawn(iter(found), faults, seed)]
    return {"kind": key[0], "of": key[1], "places": places, "named": named}


def is_missed(place: Row) -> bool:
    """Whether what is trained is more than a ten-thousandth off, and nobody says so."""
    return bool(place["effect"] > LEAST and place["smallest"] * min(place["effect"], 1.0) > ALLOWED)


def small_errors(rows: Sequence[Row]) -> str:
    """A sentence, and a row for each operator: where it was scaled, and the smallest e found at the worst place."""
    places = [place for row in rows for place in row["places"]]
    by: dict[str, list[Row]] = {}
    for place in places:
        by.setdefault(place["op"], []).append(place)
    seen = [p for p in places if p["effect"] > LEAST]
    counts = Counter(p["smallest"] for p in seen)
    shares = ", ".join(f"{counts[e]} from {e:g} on" for e in sorted(counts))
    nets_seen = sum(bool(row["places"]) for row in rows)
    lines = [
        f"{len(places)} results in {nets_seen} nets, {len(seen)} of which change a trained tensor: {shares}.",
        "",
        "| operator | results | with an effect | found from e on | in the mean | visible by the bounds from |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for op, found in sorted(by.items()):
        sizes = [p["smallest"] for p in found if p["effect"] > LEAST]
        mean = f"{10 ** (sum(map(_log, sizes)) / len(sizes)):.0e}" if sizes else ""
        worst = f"{max(sizes):.0e}" if sizes else ""
        visible = f"{max(p['visible'] for p in found if p['effect'] > LEAST):.0e}" if sizes else ""
        lines.append(f"| {op} | {len(found)} | {len(sizes)} | {worst} | {mean} | {visible} |")
    return "\n".join(lines)


def _log(size: float) -> float:
    return math.log10(min(size, 1.0))


def named_steps(rows: Sequence[Row]) -> str:
    """Tabulate the wrong kernels of each kind: drawn, failed by the verdict, and named."""
    found = [each for row in rows for each in row["named"]]
    lines = ["| fault | drawn | failed | step named |", "|---|---:|---:|---:|"]
    for fault in [*sorted({f["fault"] for f in found}), ""]:
        of = [f for f in found if fault in ("", f["fault"])]
        counts = f"{len(of)} | {sum(f['failed'] for f in of)} | {sum(f['right'] for f in of)}"
        lines.append(f"| {fault or 'all'} | {counts} |")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Scan, and print or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m DeployTest.faults.scaled", description=__doc__)
    parser.add_argument("names", nargs="*", help="operators, losses, optimizers; all by default")
    parser.add_argument("--kind", action="append", help="operator, loss, optimizer or statistic; all by default")
    parser.add_argument("--faults", type=int, default=1, help="wrong kernels drawn in each net (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the drawn wrong kernels (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="nets at a time (default 2)")
    parser.add_argument("--results", type=Path, help="a file of results, to which those of other nets are added")
    parser.add_argument("--write", action="store_true", help="renew the tables of docs/detection.md")
    options = parser.parse_args(words)
    lines = options.results.read_text().splitlines() if options.results and options.results.exists() else []
    rows: list[Row] = [json.loads(line) for line in lines]
    done = {(row["kind"], row["of"]) for row in rows}
    keys = [k for k in makers() if k not in done and (not options.kind or k[0] in options.kind)]
    keys = [k for k in keys if not options.names or k[1] in options.names]
    with multiprocessing.Pool(options.jobs) as pool:
        for row in pool.imap_unordered(partial(scanned, faults=options.faults, seed=options.seed), keys):
            rows.append(row)
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(row["kind"], row["of"], flush=True)
            for place in row["places"]:
                size = f"{place['smallest']:.0e}" if place["effect"] > LEAST else "no effect"
                print(f"    {place['op']} {place['node']}[{place['output']}]: {size}")
            for each in row["named"]:
                print(
                    f"    {each['fault']} in step {each['step']} ({each['op']}): {'named' if each['right'] else each}"
                )
    rows.sort(key=lambda row: (row["kind"], row["of"]))
    print(small_errors(rows), named_steps(rows), sep="\n\n")
    if options.write:
        renew(PAGE, SMALL, small_errors(rows))
        renew(PAGE, NAMED, named_steps(rows))
    missed = [p for r in rows for p in r["places"] if is_missed(p)]
    return 1 if missed or any(not each["right"] for r in rows for each in r["named"]) else 0


if __name__ == "__main__":
    sys.exit(main())
