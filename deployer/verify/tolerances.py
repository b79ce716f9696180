"""The tolerances of verdicts, read from tolerances.toml, which explains each of them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deployer.core.files.reading import own_toml


@dataclass(frozen=True)
class Tolerances:
    """`loss` and `weight` are absolute, `relative` a share of an output's largest expected magnitude.

    `movement`, `roundings` and `cancellation` are the factors of the three terms of a movement's bound, `element` is
    that of a single element in a pass; a pass is odd from the share `odd` of its bounds on, and `left` is the share of
    an error that may be left of one that is explained. A decision is near its border within `near` of the largest
    magnitude. An update may store a weight `stored` times, and a mean is rounded by `summed` of the mean magnitude of
    what it sums. A step's result is right within `step` times the error of its reference in float32 and `step_units` of
    its change. Where rounding is estimated, results are off by `rounded` of themselves, and `shared` of their root mean
    square, besides.

    A systematic error may be `slope` of what is due, `deviations` standard deviations of rounding and `seen` times
    what disturbed passes show; one pass `norm` of its change and `sigmas` deviations as a 2-norm. The deviation of an
    element is a unit of its storage and `grain` of the gradients' root mean square, that of a loss `of_loss` of its
    tolerance. Elements due to change by less than `units` units, or `spreads` times what cancellation makes of them,
    are left out.
    """

    loss: float
    weight: float
    relative: float
    movement: float
    roundings: float
    cancellation: float
    element: float
    odd: float
    left: float
    near: float
    stored: float
    summed: float
    step: float
    step_units: float
    rounded: float
    shared: float
    slope: float
    deviations: float
    seen: float
    grain: float
    norm: float
    sigmas: float
    units: float
    spreads: float
    of_loss: float


@cache
def load() -> Tolerances:
    """The file's content."""
    table: dict[str, dict[str, Any]] = own_toml(Path(__file__).with_suffix(".toml"))
    training, movement = table["training"], table["movement"]
    return Tolerances(
        loss=training["loss"],
        weight=training["weight"],
        relative=table["inference"]["relative"],
        movement=movement["relative"],
        roundings=movement["roundings"],
        cancellation=movement["cancellation"],
        **table["same_state"],
        **table["systematic"],
    )


TOLERANCES = load()
