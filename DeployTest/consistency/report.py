"""Results of cells in a file, their digest, and the page with their table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from DeployTest.consistency.cells import (
    ABSENT,
    EQUAL,
    FILE,
    OPEN,
    PAIRWISE,
    Result,
    all_cells,
    contract,
    pairwise_rows,
    status_of,
)
from DeployTest.consistency.pairwise import pairs_of, possible_pairs

INTRODUCTION = """# One arithmetic for training, prefill and decoding

A language model is to have the same bits whether a token is trained on, read in a chunk or decoded, in any batch, at
any place of a row, under any plan and on any target. So it is in the cells that ran, besides the known differences
below; the tables say how many did not run yet. `DeployTest/consistency/cells.toml` is the contract: each subject,
a part of a decoder between embedding and scores, under each level of each factor.
Compared as bytes are the part's result, scores, scores of some ids, the log-probability of each label, gradients, and
all weights and states after two updates, with those of the reference: one text a pass, no cache, `host_flat`. A cell
fails that compares no byte, that observes one value everywhere, or that is left out without an entry among those that
do not apply.

```sh
python -m DeployTest.consistency --list all --results out/consistency.jsonl
python -m DeployTest.consistency --page --results out/consistency.jsonl
```
"""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "consistency.md"


def contract_digest(results: Iterable[Result]) -> str:
    """The digest of the file of cells and of what cells showed."""
    total = sha256(FILE.read_bytes())
    for result in sorted(results, key=lambda r: str(r.cell)):
        total.update(f"{result.cell} {result.status} {result.keys} {result.bytes} {result.digest}\n".encode())
    return total.hexdigest()


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Add results to a file, a line each."""
    with path.open("a") as file:
        for result in results:
            row = {name: value for name, value in asdict(result).items() if name != "cell"}
            file.write(json.dumps({"cell": str(result.cell), **row}) + "\n")


def read_results(path: Path) -> dict[str, Result]:
    """The results of a file by the names of cells; those of cells that are no more are left out."""
    cells, found = {str(cell): cell for cell in all_cells()}, {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row: dict[str, Any] = json.loads(line)
        name = row.pop("cell")
        if name in cells:
            row["different"] = tuple(tuple(key) for key in row["different"])
            row["status"] = (
                row["status"] if row["status"] == ABSENT else status_of(cells[name], row["different"], contract())
            )
            found[name] = Result(cells[name], **{**row, "faults": tuple(row["faults"])})
    return found


def covered() -> tuple[int, int, int]:
    """Rows of the covering array, and the pairs that they cover of those that are possible, whether or not they ran."""
    table = contract()
    factors, only, rows = table[PAIRWISE]["factors"], table[PAIRWISE]["only"], pairwise_rows(table)
    possible = possible_pairs(factors, only)
    return len(rows), len(set().union(*(pairs_of(row, factors) for row in rows)) & possible), len(possible)


def report(results: Mapping[str, Result]) -> str:
    """The page: what is compared, and by factor and by subject how many cells, keys, bytes and differences."""
    table, cells = contract(), all_cells()
    rows, covers, possible = covered()
    ran = [result for result in results.values() if result.status != ABSENT]
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        f"{len(ran)} of {len(cells)} cells ran: {_sum(ran, 'keys')} keys and {_sum(ran, 'bytes')} bytes compared,",
        f"{_count(ran, EQUAL)} cells equal, {_count(ran, OPEN)} with a known difference, "
        f"{len(ran) - _count(ran, EQUAL) - _count(ran, OPEN)} with another.",
        f"{rows} combinations of factors, once all ran, cover {covers} of {possible} possible pairs of levels.",
        "",
        f"Digest of cells and results: `{contract_digest(results.values())}`",
        "",
        *_table("factor", [*table["factors"], PAIRWISE], results, lambda cell: cell.factor),
        "",
        *_table("subject", list(table["subjects"]), results, lambda cell: cell.subject),
        "",
        "All subjects are of float32. Cells are absent where their simulator is; digests of Siracusa's are committed.",
        "",
        "## What does not apply",
        "",
        *_listed("not_applicable", lambda e: f"{', '.join(e['factors'])} of {', '.join(e['subjects'])}"),
        "",
        "## Known differences",
        "",
        *_listed("open", lambda e: f"{', '.join(e['kinds'])} of {', '.join(f'`{c}`' for c in e['cells'])}"),
        "",
    ]
    return "\n".join(lines)


def _listed(name: str, title: Any) -> list[str]:
    return [f"- {title(entry)}: {entry['reason']}." for entry in contract().get(name, ())] or ["None."]


def _sum(results: Iterable[Result], name: str) -> int:
    return sum(getattr(result, name) for result in results)


def _count(results: Iterable[Result], status: str) -> int:
    return sum(result.status == status for result in results)


def _table(title: str, names: Sequence[str], results: Mapping[str, Result], key: Any) -> list[str]:
    rows = [f"| {title} | cells | equal | known differences | absent | not run | keys | bytes | differing keys |"]
    rows.append("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        cells = [cell for cell in all_cells() if key(cell) == name]
        own = [results[str(cell)] for cell in cells if str(cell) in results]
        numbers = (
            len(cells),
            _count(own, EQUAL),
            _count(own, OPEN),
            _count(own, ABSENT),
            len(cells) - len(own),
            _sum(own, "keys"),
            _sum(own, "bytes"),
            sum(len(result.different) for result in own),
        )
        rows.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return rows
