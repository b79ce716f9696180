"""Rows of levels that have every pair of levels of two factors at least once."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

Levels = Mapping[str, Sequence[Any]]
Row = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]
TARGET = "target"


def compatible(pair: Pair, factors: Levels, only: Mapping[str, str]) -> bool:
    """Whether two levels may stand in one row: each is the first of its factor, or its target is the other, or none.

    Chunks are read in plain rows: a cache has no places without a text.
    """
    for (name, level), (other, other_level) in (pair, pair[::-1]):
        if name in only and level != factors[name][0] and other == TARGET and other_level != only[name]:
            return False
        if name == "chunk" and level != 0 and other == "layout" and other_level != "plain":
            return False
    return True


def possible_pairs(factors: Levels, only: Mapping[str, str]) -> set[Pair]:
    """All pairs of levels that may stand in one row."""
    return {
        ((a, x), (b, y))
        for a, b in combinations(factors, 2)
        for x in factors[a]
        for y in factors[b]
        if compatible(((a, x), (b, y)), factors, only)
    }


def pairs_of(row: Row, factors: Levels) -> set[Pair]:
    """The pairs of a row."""
    return {((a, row[a]), (b, row[b])) for a, b in combinations(factors, 2)}


def covering_rows(factors: Levels, only: Mapping[str, str]) -> list[Row]:
    """Rows that cover all possible pairs: each begins with a missing pair, and takes what covers most of the others."""
    missing, rows = possible_pairs(factors, only), list[Row]()
    order = [pair for pair in _in_order(factors) if pair in missing]
    for pair in order:
        if pair not in missing:
            continue
        row: Row = dict(pair)
        for name in (name for name in factors if name not in dict(pair)):
            row[name] = max(
                (level for level in factors[name] if _fits(name, level, row, factors, only)),
                key=lambda level: sum(_pair(factors, name, level, b, y) in missing for b, y in row.items()),
            )
        rows.append({name: row[name] for name in factors})
        missing -= pairs_of(rows[-1], factors)
    return rows


def _in_order(factors: Levels) -> list[Pair]:
    return [((a, x), (b, y)) for a, b in combinations(factors, 2) for x in factors[a] for y in factors[b]]


def _pair(factors: Levels, a: str, x: Any, b: str, y: Any) -> Pair:
    names = list(factors)
    return ((a, x), (b, y)) if names.index(a) < names.index(b) else ((b, y), (a, x))


def _fits(name: str, level: Any, row: Row, factors: Levels, only: Mapping[str, str]) -> bool:
    return all(compatible(_pair(factors, name, level, b, y), factors, only) for b, y in row.items())
