"""Mutants: one small replacement in one source file."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, order=True)
class Mutant:
    """The characters start..end of a file, replaced by other text; `line` is where they begin, counted from 1.

    `context` tells the place from all others of the file without numbers of lines: the function and the line's text.
    """

    file: str
    start: int
    end: int
    line: int
    operator: str
    before: str
    after: str
    context: str

    @property
    def key(self) -> str:
        """A name that outlasts changes elsewhere in the file: of the place's own text, not of its line number."""
        text = "\0".join((self.file, self.operator, self.before, self.after, self.context))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def apply(self, source: str) -> str:
        """The file's text with the replacement."""
        return source[: self.start] + self.after + source[self.end :]

    def __str__(self) -> str:
        return f"{self.key} {self.file}:{self.line} {self.operator}: {shown(self.before)} -> {shown(self.after)}"


def told_apart(mutants: Iterable[Mutant]) -> list[Mutant]:
    """The mutants of a file, those at several places of one context numbered."""
    seen: Counter[str] = Counter()
    numbered = []
    for mutant in sorted(mutants, key=lambda m: (m.start, m.end)):
        seen[mutant.key] += 1
        repeats = seen[mutant.key] - 1
        numbered.append(replace(mutant, context=f"{mutant.context} #{repeats}") if repeats else mutant)
    return numbered


def shown(text: str) -> str:
    """Source text in one short line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def sources(root: Path, folders: tuple[str, ...], suffixes: tuple[str, ...]) -> list[Path]:
    """The files below the folders with one of the suffixes, sorted."""
    files = (p for folder in folders for p in (root / folder).rglob("*") if p.suffix in suffixes)
    return sorted(p for p in files if "__pycache__" not in p.parts)
