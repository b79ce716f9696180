"""The page of what of PyTorch can be trained, from the results of the suite."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from DeployTest.suites.coverage.core import LOWERED, core_operators, overloads
from DeployTest.suites.coverage.score import EMPTY, KINDS, RIGHT, Result, blamed, refusals
from DeployTest.support.documents.pages import renew

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "pytorch-coverage.md"
CORE, SCORES, BLAMED = (
    (f"<!-- {name} -->", f"<!-- end of {name} -->") for name in ("core", "scores", "refused operators")
)
SUITES = {"operators": "op_db", "modules": "module_db"}
SHOWN, NAMED, LONGEST = 60, 4, 160
"""Rows of refused operators, operators in a row, and characters of a reason."""


def core_table() -> str:
    """Number of operators by support, and a row for each without a lowering."""
    cores = list(core_operators())
    counts = Counter(c.outcome for c in cores)
    words = ", ".join(f"{n} {'are' if n > 1 else 'is'} {outcome}" for outcome, n in counts.most_common())
    count = sum(map(len, overloads().values()))
    rows = [
        f"Of {len(cores)} core operators, which have {count} overloads, {words}.",
        "",
        "| operator | | |",
        "|---|---|---|",
    ]
    rows += [f"| `{c.name}` | {c.outcome} | {c.reason} |" for c in cores if c.outcome != LOWERED]
    return "\n".join(rows) + "\n"


def scores(results: Sequence[Result]) -> str:
    """A sentence and a table for each suite: the entries that are not right."""
    lines = []
    for kind in KINDS:
        of = sorted((r for r in results if r.kind == kind and r.outcome != EMPTY), key=lambda r: r.entry)
        counts, in_c = Counter(r.outcome for r in of), Counter(r.in_c for r in of)
        samples = sum(sum(n for o, n in r.counts.items() if o != EMPTY) for r in of)
        most = max((sum(n for o, n in r.counts.items() if o != EMPTY) for r in of), default=0)
        right = sum(r.counts.get(RIGHT, 0) for r in of)
        others = ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common() if outcome != RIGHT) or "none other"
        lines += [
            f"`{SUITES[kind]}`: of {len(of)} entries with samples {counts[RIGHT]} are right, {others}; "
            f"{right} of {samples} samples are right, at most {most} of an entry. In C a sample is right of "
            f"{in_c[RIGHT]} entries, of {sum(map(in_c.get, filter(None, in_c)))} that have one.",
            "",
        ]
        odd = [r for r in of if r.outcome != RIGHT or r.in_c not in (RIGHT, "")]
        lines += ["| entry | right samples | others | in C | reason |", "|---|---|---|---|---|", *map(_row, odd), ""]
    return "\n".join(lines)


def _row(r: Result) -> str:
    others = sum(n for o, n in r.counts.items() if o not in (RIGHT, EMPTY))
    texts = [text for outcome, text in r.reasons if outcome == r.outcome] or [r.c_reason]
    names = dict.fromkeys(name for text in texts for name in blamed(text) if "." in name and " " not in name)
    plain = next(iter(texts[0].strip().splitlines()[-1:]), "").replace("|", "/").replace("<", "&lt;")[:LONGEST]
    shown = ", ".join(f"`{name}`" for name in list(names)[:NAMED]) or plain
    word = r.outcome if others else ""
    return f"| {r.entry} | {r.counts.get(RIGHT, 0)} | {others} {word} | {r.in_c} | {shown} |"


def blamed_table(results: Sequence[Result]) -> str:
    """The operators for whose sake entries are refused."""
    rows = [f"| `{name}` | {count} |" for name, count in refusals(results)[:SHOWN]]
    return "\n".join(["| operator | entries |", "|---|---|", *rows]) + "\n"


def write(results: Sequence[Result]) -> None:
    """Renew the page."""
    for marks, text in ((CORE, core_table()), (SCORES, scores(results)), (BLAMED, blamed_table(results))):
        renew(DOCUMENT, marks, text)
