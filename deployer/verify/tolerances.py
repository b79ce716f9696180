"""The tolerances of verdicts, read from tolerances.toml, which explains each of them."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Tolerances:
    """`loss` and `weight` are absolute, `relative` a share of an output's largest expected magnitude.

    `movement`, `roundings` and `cancellation` are the factors of the three terms of a movement's bound.
    """

    loss: float
    weight: float
    relative: float
    movement: float
    roundings: float
    cancellation: float


@cache
def load() -> Tolerances:
    """The file's content."""
    with Path(__file__).with_suffix(".toml").open("rb") as file:
        table: dict[str, dict[str, Any]] = tomllib.load(file)
    training, movement = table["training"], table["movement"]
    return Tolerances(
        loss=training["loss"],
        weight=training["weight"],
        relative=table["inference"]["relative"],
        movement=movement["relative"],
        roundings=movement["roundings"],
        cancellation=movement["cancellation"],
    )


TOLERANCES = load()
