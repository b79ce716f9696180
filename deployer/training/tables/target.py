"""The target's column of a table: numbers, or words in all rows, which are names of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deployer.core.operator import Array
from deployer.core.safe_text import listed
from deployer.training.tables.taken import Taken
from deployer.training.tables.text import LIMITS, TablePlace, cell_fault, is_number, resembles_number

TARGETS = ("labels", "label", "target", "y")
"""Headings of the target's column, in any case, where the caller names none."""
NUMBERS = "whole numbers from 0 on in all rows, or words in all rows; or a loss that takes floats"
SHOWN = 30
"""Classes that a message lists."""


@dataclass(frozen=True)
class TargetColumn:
    """The cells of the target by rows, the line of each, and the column's name in messages."""

    path: Path
    label: str
    texts: Sequence[str]
    lines: Sequence[int]
    headed: bool

    def numbers(self, dtype: str) -> Array:
        """The numbers of all rows; FileProblem for a cell that is none of that type."""
        whole = dtype == "int32"
        for row, text in enumerate(self.texts):
            if fault := cell_fault(text, whole, LIMITS[dtype]):
                hint = NUMBERS if whole else "a number like 1.5 or 2e-3 in each row; or a loss that takes classes"
                raise self._place(row).error(text, fault, (), hint)
        numbers = np.array(list(map(float, self.texts)))
        return numbers.astype(np.int64) if whole else numbers

    def has_words(self, like: Taken | None) -> bool:
        """Whether the target of class numbers is given by words, as it is where those that are trained have words.

        FileProblem for a cell that is neither a number nor a word, and where some rows have numbers and others words.
        """
        numbers = list(map(is_number, self.texts))
        for row, text in enumerate(self.texts):
            if not numbers[row] and (not text or resembles_number(text)):
                raise self._place(row).error(text, cell_fault(text, whole=True, limit=0), (), NUMBERS)
        if like is not None and like.words:
            return True
        if all(numbers) or not any(numbers):
            return not all(numbers)
        row, other = numbers.index(False), numbers.index(True)
        facts = [("but", f"{self.texts[other]!r} in line {self.lines[other]} (row {other + 1}) is a number")]
        raise self._place(row).error(self.texts[row], "is a word", facts, NUMBERS)

    def classes(self, known: Sequence[str], like: Taken | None) -> tuple[str, ...]:
        """The names of classes from 0 on: the known ones, or the words in sorted order.

        FileProblem for a word that is not known, and for words where those that are trained have numbers.
        """
        if not known and like is not None:
            cause = "is a word, and the target of the samples that are trained has numbers"
            raise self._place(0).error(self.texts[0], cause, (), "class numbers here, too")
        strange = next((row for row, text in enumerate(self.texts) if known and text not in known), None)
        if strange is not None:
            facts = [("classes", listed(list(map(repr, known)), SHOWN))]
            cause = "is not a class of the samples that are trained" if like is not None else "is not a class"
            raise self._place(strange).error(self.texts[strange], cause, facts, "one of these, or the row left out")
        self._check_first()
        return tuple(known) or tuple(sorted(set(self.texts)))

    def numbered(self, classes: Sequence[str]) -> Array:
        """The number of each row's class."""
        number_of = {name: number for number, name in enumerate(classes)}
        return np.array([number_of[text] for text in self.texts], np.int64)

    def _check_first(self) -> None:
        """FileProblem where the first row looks like headings, some of which are numbers."""
        text = self.texts[0]
        if not self.headed and text.lower() in TARGETS and self.texts.count(text) == 1:
            cause = "looks like a heading, and the row is one of samples since another cell of it is a number"
            raise self._place(0).error(text, cause, (), "headings that are not numbers, or none")

    def _place(self, row: int) -> TablePlace:
        return TablePlace(self.path, self.lines[row], row + 1, self.label)
