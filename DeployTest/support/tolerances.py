"""The tolerances of all tests, read from tolerances.toml and the library's files of that name."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deployer.core.operator import registry
from deployer.testing import tolerances
from deployer.testing.tolerances import Bound, bound, class_of, sources_of
from deployer.verify.tolerances import TOLERANCES

__all__ = ["Bound", "assert_close", "bound", "class_of", "sources_of", "table"]


@cache
def table() -> dict[str, Any]:
    """The file's content, and the numbers of operators and of verdicts, which the library has."""
    with (Path(__file__).parent / "tolerances.toml").open("rb") as file:
        training = {"loss": TOLERANCES.loss, "weight": TOLERANCES.weight}
        return {**tomllib.load(file), **tolerances.table(), "training": training}


def assert_close(name: str, result: npt.NDArray[Any], reference: npt.NDArray[Any]) -> None:
    """Fail where result and reference differ in shape, or by more than the class of the operator of that name allows.

    A name that is no operator's stands for a result of several: the widest class.
    """
    assert result.shape == reference.shape, f"{name}: {result.shape} instead of {reference.shape}"
    operator = registry().get(name)
    if operator is not None:
        allowed = bound(operator, "forward" if result.dtype != np.float64 else "gradient", result.dtype)
    else:
        entry = table()["several"]["int32" if result.dtype.kind in "iub" else result.dtype.name]
        allowed = Bound(entry["rtol"], entry["atol"])
    np.testing.assert_allclose(result, reference, rtol=allowed.rtol, atol=allowed.atol, err_msg=name)
