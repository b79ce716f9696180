"""The tolerances of all tests, read from tolerances.toml and the library's file of that name."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deployer.verify.tolerances import TOLERANCES


@cache
def table() -> dict[str, Any]:
    """The file's content, and the numbers a verdict rests on, which the library has."""
    with (Path(__file__).parent / "tolerances.toml").open("rb") as file:
        return {**tomllib.load(file), "training": {"loss": TOLERANCES.loss, "weight": TOLERANCES.weight}}


def tolerance(operator: str, dtype: str) -> tuple[float, float]:
    """(rtol, atol) for results of an operator in a dtype."""
    classes = table()["classes"]
    row: dict[str, Any] = next((c for c in classes.values() if operator in c["operators"]), {})
    entry = row.get(dtype, classes["default"][dtype])
    return entry["rtol"], entry["atol"]


def assert_close(operator: str, result: npt.NDArray[Any], reference: npt.NDArray[Any]) -> None:
    """Fail where result and reference differ in shape or by more than the table allows."""
    assert result.shape == reference.shape, f"{operator}: {result.shape} instead of {reference.shape}"
    dtype = "int32" if result.dtype.kind in "iub" else result.dtype.name
    rtol, atol = tolerance(operator, dtype)
    np.testing.assert_allclose(result, reference, rtol=rtol, atol=atol, err_msg=operator)
