"""Numbers that a case may hold: those of the element type, and where training needs it no NaN and no infinity."""

from collections.abc import Sequence

import numpy as np

from deployer.core.errors import DatasetMismatch
from deployer.core.operator import Array

_INT32 = np.iinfo(np.int32)


def narrowed(array: Array, dtype: str, place: str, facts: Sequence[tuple[str, str]]) -> Array:
    """The array as float32 or int32; raises DatasetMismatch for a number beyond that type."""
    if dtype == "float32":
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        far = np.isfinite(array) & ~np.isfinite(narrow)
    else:
        narrow = array.astype(np.int32)
        far = np.zeros(array.shape, bool) if array.dtype == bool else (array < _INT32.min) | (array > _INT32.max)
    if far.any():
        value = str(array[far].reshape(-1)[0])
        raise DatasetMismatch(f"{place} holds {value}, beyond {dtype}", facts, "scale the data, or renumber the labels")
    return narrow


def check_finite(array: Array, place: str) -> None:
    """Raise DatasetMismatch for NaN or infinity in an array, with the index of the first."""
    wild = np.argwhere(~np.isfinite(array))
    if len(wild):
        at = tuple(int(i) for i in wild[0])
        raise DatasetMismatch(
            f"{place} holds {array[at]} at {list(at)}",
            [("not finite", f"{len(wild)} of {array.size} numbers")],
            "correct the data or leave it out, or export the case again",
        )
