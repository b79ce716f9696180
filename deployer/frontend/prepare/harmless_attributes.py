"""Attributes of files' nodes that cannot change a value, read from harmless_attributes.toml, which explains each."""

from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.files.reading import own_toml
from deployer.core.signatures import Extra

EVERY = "every"
"""The table of all operators."""


@cache
def harmless(op: str) -> tuple[Extra, ...]:
    """The attributes that a node of that operator may have beside its form."""
    table = _table()
    rows = {**table.get(EVERY, {}), **table.get(op, {})}
    return tuple(
        Extra(name, tuple(row["kinds"]), row["reason"], values=tuple(row["values"]) if "values" in row else None)
        for name, row in rows.items()
    )


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    """Attributes by operator and name."""
    return own_toml(Path(__file__).with_suffix(".toml"))
