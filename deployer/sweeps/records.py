"""Records of a sweep's runs: their digest, by which one is found again, and the numbers of their reports."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deployer import __version__
from deployer.core.errors import FileProblem
from deployer.core.files.reading import read_json
from deployer.core.safe_text import json_line, json_text
from deployer.running.output import digest as file_digest
from deployer.running.output import write_file

RESULT = "result.json"
REPORT = "report.json"
DIGEST_LETTERS = 12
HINT = "remove this folder; the sweep runs it again"
Numbers = dict[str, float]


@dataclass(frozen=True)
class SweptRun:
    """A run: its number in the sweep, the values of the varied options, and the words of the command."""

    number: int
    values: Mapping[str, str]
    words: tuple[str, ...]

    def digest(self) -> str:
        """A digest of the version, the words, and the content of the files and folders that the words name."""
        hashed = hashlib.sha256(json_line([__version__, *self.words]).encode())
        for word in self.words:
            for path in _files(Path(word)):
                hashed.update(f"{path.name} {file_digest(path)}".encode())
        return hashed.hexdigest()[:DIGEST_LETTERS]


def _files(path: Path) -> list[Path]:
    """The file, or all files below the folder, in the order of their names; none where there is neither."""
    try:
        return [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else []
    except OSError:  # a word that is too long for a name
        return []


@dataclass(frozen=True)
class SweptResult:
    """The end of a run: "passed", "failed" with a fault, or "refused" with an error, and the numbers of its report."""

    outcome: str
    cause: str = ""
    numbers: Numbers = field(default_factory=dict)

    def write(self, folder: Path, digest: str) -> None:
        """Leave it in the run's folder."""
        write_file(folder / RESULT, json_text({"digest": digest, **asdict(self)}).encode())


def known_result(folder: Path, digest: str) -> SweptResult | None:
    """The result that lies in a run's folder; None where the run did not end."""
    if not (folder / RESULT).exists():
        return None
    found = read_json(folder / RESULT, "the result of a run", HINT)
    if not isinstance(found, dict) or found.pop("digest", "") != digest or found.keys() != _FIELDS:
        raise FileProblem(f"{folder / RESULT} is not the result of this run", hint=HINT)
    return SweptResult(**found)


_FIELDS = {"outcome", "cause", "numbers"}


def report_numbers(folder: Path) -> Numbers:
    """Loss, metrics, cycles and bytes that the report of a run in this folder has."""
    if not (folder / REPORT).exists():
        return {}
    report = read_json(folder / REPORT, "the report of a run", HINT)
    numbers: dict[str, Any] = {}
    epochs = report.get("epochs") or []
    if epochs:
        best = max(int(report.get("best_epoch") or 0), 1)
        numbers["loss"] = epochs[-1]["loss"]
        numbers |= {f"validation_{name}": value for name, value in epochs[-1]["metrics"].items()}
        numbers |= {f"best_validation_{name}": value for name, value in epochs[best - 1]["metrics"].items()}
    elif report.get("losses"):
        numbers["loss"] = report["losses"][-1]
    numbers |= _cycles(report)
    for level in report.get("figures", {}).get("memory", []):
        numbers[f"{level['name'].lower()}_bytes"] = level["peak"]
    return {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}


def _cycles(report: Mapping[str, Any]) -> Numbers:
    """Cycles of a pass and of an update: measured where the report has them, else predicted."""
    bench = report.get("bench") or {}
    if bench.get("train_cycles"):
        return {name: bench[name] for name in ("train_cycles", "opt_cycles") if name in bench}
    steps: Sequence[Mapping[str, Any]] = report.get("figures", {}).get("timeline", [])
    graphs = {"train": "train_cycles", "optimizer": "opt_cycles"}
    found = {column: sum(s["cycles"] for s in steps if s["graph"] == graph) for graph, column in graphs.items()}
    return {column: cycles for column, cycles in found.items() if cycles}
