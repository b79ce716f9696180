"""Drawn samples for transfer: figures on a ground, and spoken words as tracks of a few coefficients over time."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Plane = npt.NDArray[np.float64]
Random = np.random.Generator

FIGURES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "disc": lambda u, v: np.hypot(u, v) - 0.9,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) - 0.75,
    "ring": lambda u, v: abs(np.hypot(u, v) - 0.7) - 0.2,
    "cross": lambda u, v: np.minimum(np.maximum(abs(u), 3.5 * abs(v)), np.maximum(3.5 * abs(u), abs(v))) - 0.95,
    "triangle": lambda u, v: np.maximum(abs(u) * 0.87 + v * 0.5, -v) - 0.5,
    "star": lambda u, v: np.hypot(u, v) - 0.65 - 0.3 * np.cos(5 * np.arctan2(v, u)),
    "clover": lambda u, v: np.hypot(u, v) - 0.65 - 0.3 * np.cos(3 * np.arctan2(v, u)),
    "ellipse": lambda u, v: np.hypot(u, 2.4 * v) - 0.95,
    "crescent": lambda u, v: np.maximum(np.hypot(u, v) - 0.9, 0.75 - np.hypot(u - 0.45, v)),
    "half": lambda u, v: np.maximum(np.hypot(u, v) - 0.9, v),
    "stripes": lambda u, v: np.maximum(np.hypot(u, v) - 0.95, np.cos(8 * u)),
    "checks": lambda u, v: np.maximum(np.maximum(abs(u), abs(v)) - 0.85, np.cos(6 * u) * np.cos(6 * v)),
    "hook": lambda u, v: np.minimum(
        np.maximum(abs(u + 0.6) - 0.22, abs(v) - 0.85), np.maximum(abs(u) - 0.8, abs(v + 0.65) - 0.22)
    ),
    "tee": lambda u, v: np.minimum(
        np.maximum(abs(u) - 0.22, abs(v) - 0.85), np.maximum(abs(u) - 0.8, abs(v + 0.65) - 0.22)
    ),
    "hexagon": lambda u, v: np.maximum(abs(u) * 0.87 + abs(v) * 0.5, abs(v)) - 0.8,
    "pair": lambda u, v: np.minimum(np.hypot(u - 0.5, v), np.hypot(u + 0.5, v)) - 0.38,
}
"""Functions of a plane that are negative inside a figure of radius one."""
WORDS = 18
SHAPE = (1, 49, 10)
"""Of a word: times and coefficients, as ten cepstral coefficients of a second in 20 ms steps."""


def picture(figure: str, size: int, random: Random) -> Array:
    """[3, size, size]: the figure at any place, in any size, turn and colours, with noise."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    radius = random.uniform(0.45, 0.75)
    place, turn = random.uniform(-0.35, 0.35, 2), random.uniform(0, 2 * np.pi)
    dx, dy = (x - place[0]) / radius, (y - place[1]) / radius
    inside = FIGURES[figure](dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn)) < 0
    front, ground = random.uniform(-1, 1, (2, 3))
    front += np.where(front > ground, 0.4, -0.4)
    slope = random.uniform(-0.3, 0.3, (2, 3, 1, 1))
    plane = np.where(inside, front[:, None, None], ground[:, None, None]) + slope[0] * x + slope[1] * y
    return (plane + random.normal(0, 0.15, plane.shape)).astype(np.float32)


def word(index: int, random: Random) -> Array:
    """[1, 49, 10]: the tracks of a word, warped in time, scaled, with a speaker's offset and noise."""
    own = np.random.default_rng(1000 + index)
    knots = own.normal(0, 1, (6, SHAPE[2]))
    start, length = random.uniform(0, 0.3), random.uniform(0.45, 0.7)
    at = (np.arange(SHAPE[1]) / SHAPE[1] - start) / length
    warped = np.clip(at, 0, 1) ** random.uniform(0.7, 1.4) * (len(knots) - 1)
    heard = (at > 0) & (at < 1)
    tracks = [np.interp(warped, np.arange(len(knots)), column) for column in knots.T]
    plane = np.stack(tracks, 1) * heard[:, None] * random.uniform(0.6, 1.4) + random.normal(0, 0.3, SHAPE[2])
    return (plane + random.normal(0, 0.7, plane.shape)).astype(np.float32)[None]


def drawn(
    draw: Callable[[int, Random], Array], classes: int, each: int, seed: int
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Samples of each class in a random order, and their labels."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.repeat(np.arange(classes), each))
    return np.stack([draw(label, random) for label in labels]), labels
