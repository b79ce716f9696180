"""Record of the data read from a source of samples: columns or arrays for the inputs, and one for the target."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deployer.core.safe_text import listed

SHOWN = 20
"""Names of inputs, and of classes, that a line for people lists."""
Kind = Literal["table", "arrays", "images"]


@dataclass(frozen=True)
class Taken:
    """Names of what is read from a source of so many samples: columns of a table, or arrays.

    `target` is empty where nothing is taken for one. `headings` says that a table names its columns, which else have
    numbers from 1 on; `words` says that its target holds names of classes, not numbers.
    """

    kind: Kind
    samples: int
    inputs: tuple[str, ...]
    target: str
    headings: bool = False
    words: bool = False

    def lines(self, place: str, classes: Sequence[str]) -> list[str]:
        """Lines for people: the inputs and the target, then the number of each class that has a name."""
        numbered = self.kind == "table" and not self.headings
        what = "column " if numbered else ""
        inputs = [name if numbered else repr(name) for name in self.inputs]
        target = f"target {what}{self.target if numbered else repr(self.target)}" if self.target else "no target"
        several = "columns " if numbered and len(inputs) > 1 else what
        heading = ", no headings" if numbered else ""
        lines = [f"{place}: {self.samples} samples{heading}, inputs {several}{listed(inputs, SHOWN)}, {target}"]
        names = [f"{number} {name!r}" for number, name in enumerate(classes)]
        return lines + ([f"{place}: classes {listed(names, SHOWN)}"] if names else [])

    def place(self, name: str, index: Sequence[int], shape: Sequence[int], is_target: bool) -> str:
        """The place of a number: its index in the array of that name, or row, from 1 on, and column of a table.

        `shape` is that of one sample.
        """
        if self.kind != "table":
            return f"{name}{list(index)}"
        at = int(np.ravel_multi_index(tuple(index[1:]), tuple(shape))) if shape else 0
        return f"row {index[0] + 1}, {self.column(self.target if is_target and self.target else self.inputs[at])}"

    def column(self, name: str) -> str:
        """A column of a table in a message."""
        return f"column {name!r}" if self.headings else f"column {name}"
