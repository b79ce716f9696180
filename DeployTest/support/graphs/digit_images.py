"""Handwritten digits as samples."""

import importlib
import importlib.util

import numpy as np


def digits_source() -> str:
    """Whose images `digits` gives on this machine."""
    return "scikit-learn's" if importlib.util.find_spec("sklearn") else "drawn: ten kinds with noise"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 images of 8x8, float32 [samples, 1, 8, 8] from 0 to 1, and their digits, in a drawn order.

    Those of scikit-learn where that is installed, else ten kinds with noise.
    """
    draw = np.random.default_rng(0)
    if importlib.util.find_spec("sklearn"):
        x, y = importlib.import_module("sklearn.datasets").load_digits(return_X_y=True)
    else:
        kinds = 16 * (draw.random((10, 64)) < 0.4)
        y = draw.integers(0, 10, 1797)
        x = np.clip(kinds[y] + draw.normal(0, 6, (1797, 64)), 0, 16)
    order = draw.permutation(len(x))
    return (x[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[order].astype(np.int64)
