"""Confusion matrix of a classification: how often each expected class was predicted as each class."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deployer.core.operator import Array
from deployer.core.safe_text import html_text
from deployer.reports.html import table

MOST_CLASSES, LISTED = 24, 20
"""A matrix of more classes is a list of its most frequent confusions, so many."""
STRONG = 0.55
"""From this share on a cell is so dark that its text is light."""


@dataclass(frozen=True)
class Confusion:
    """Counts as (expected class, predicted class, count), without zeros; `names` of the classes, if there are some."""

    classes: int
    names: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]

    @property
    def matrix(self) -> Array:
        """The counts, expected classes along the first axis."""
        counts = np.zeros((self.classes, self.classes), np.int64)
        for expected, predicted, count in self.cells:
            counts[expected, predicted] = count
        return counts

    def name(self, label: int) -> str:
        """The name of a class."""
        return self.names[label] if label < len(self.names) else str(label)


def confusion_of(classes: int, names: Sequence[str], expected: Array, predicted: Array) -> Confusion:
    """The confusion of two equally long arrays of labels."""
    places, counts = np.unique(np.stack([expected.ravel(), predicted.ravel()]), axis=1, return_counts=True)
    cells = tuple((int(e), int(p), int(n)) for (e, p), n in zip(places.T, counts, strict=True))
    return Confusion(classes, tuple(names), cells)


def confusion(found: Confusion) -> str:
    """The matrix as a table whose cells are as dark as their share of the row, or the most frequent confusions."""
    total = sum(count for *_, count in found.cells)
    right = sum(count for expected, predicted, count in found.cells if expected == predicted)
    shares = "Rows are expected classes, columns predicted ones." if found.classes <= MOST_CLASSES else ""
    percent = 100 * right / max(total, 1)
    said = f"<p>{right} of {total} labels right ({percent:.1f} %), by the final weights. {shares}</p>"
    return said + (_matrix(found, found.matrix) if found.classes <= MOST_CLASSES else _listed(found))


def _matrix(found: Confusion, matrix: Array) -> str:
    names = [html_text(found.name(label)) for label in range(found.classes)]
    heads = "".join(f"<th>{name}</th>" for name in ("", *names, "recall"))
    rows = [f"<tr>{heads}</tr>"]
    for name, row in zip(names, matrix, strict=True):
        sums = max(int(row.sum()), 1)
        cells = "".join(_cell(int(count), int(count) / sums) for count in row)
        recall = _percent(int(row[len(rows) - 1]), int(row.sum()))
        rows.append(f'<tr><th class="left">{name}</th>{cells}<td>{recall}</td></tr>')
    predicted = matrix.sum(0)
    precisions = "".join(f"<td>{_percent(int(matrix[at, at]), int(n))}</td>" for at, n in enumerate(predicted))
    rows.append(f'<tr><th class="left">precision</th>{precisions}<td></td></tr>')
    return f'<div class="wide"><table class="confusion">{"".join(rows)}</table></div>'


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "none"


def _cell(count: int, share: float) -> str:
    kind = f"heat h{round(10 * share)}" + (" strong" if share >= STRONG else "")
    return f'<td class="{kind}">{count}</td>'


def _listed(found: Confusion) -> str:
    sums = Counter[int]()
    for expected, _, count in found.cells:
        sums[expected] += count
    wrong = sorted((-n, e, p) for e, p, n in found.cells if e != p)[:LISTED]
    rows = [(found.name(e), found.name(p), str(-n), f"{-100 * n / sums[e]:.1f} %") for n, e, p in wrong]
    said = f'<p class="soft">The most frequent confusions of {found.classes} classes.</p>'
    return said + table(("expected", "predicted", "labels", "of the class"), rows)
