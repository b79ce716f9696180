"""The commits at which benchmarks were measured: commits.json, which docs/reference/benchmarks.md shows."""

import json
import subprocess
from pathlib import Path

from DeployTest.support.documents.pages import renew

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
RESULT = HERE / "commits.json"


def commit() -> str:
    """The commit of this checkout; with a `+` where code that is measured was changed since."""
    words = ["git", "-C", str(ROOT)]
    head = subprocess.run([*words, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    paths = ("deployer", "tilers", "targets", "templates")
    changed = subprocess.run(
        [*words, "status", "--porcelain", "--", *paths], capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + "+" * bool(changed.stdout)


def measured_at() -> dict[str, str]:
    """The commit of each benchmark's table, by the benchmark's name."""
    commits: dict[str, str] = json.loads(RESULT.read_text())
    return commits


def name_of(file: str) -> str:
    """The name of a benchmark, which is that of its module in this package."""
    return ".".join(Path(file).resolve().relative_to(HERE).with_suffix("").parts)


def stamp(file: str) -> None:
    """Note that the tables of the benchmark in this file are of this commit; `make pages` shows it."""
    known = measured_at() | {name_of(file): commit()}
    RESULT.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def publish(file: str, page: Path, marks: tuple[str, str], content: str) -> None:
    """Write the part of a page that the benchmark in this file makes, and the commit at which it was measured."""
    renew(page, marks, content)
    stamp(file)
