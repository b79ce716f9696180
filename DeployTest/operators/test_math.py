"""math_f32.h and trig_f32.h against float64, over all of float32."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deployer.core.operator import Array
from DeployTest.support.kernels.functions import sweep
from DeployTest.support.tolerances import table

pytestmark = [pytest.mark.host, pytest.mark.kernels]

BITS = np.arange(0, 2**32, 4099, dtype=np.uint32).view(np.float32)
"""About a million floats of every sign and exponent, with subnormals, infinities and NaN."""
CORNERS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 1.1754944e-38], np.float32)
DENSE: dict[str, list[tuple[float, float]]] = {
    "exp": [(-104, 89), (-1, 1)],
    "log": [(0.3, 3), (0, 1e-38)],
    "erf": [(-4.1, 4.1), (0.9, 1.1)],
    "tanh": [(-10, 10), (0.5, 0.7)],
    "expm1": [(-20, 20), (-0.8, 0.8)],
    "log1p": [(-1, 1), (-0.35, 0.5), (1, 1e8)],
    "sigmoid": [(-104, 20), (-2, 2)],
    "softplus": [(-104, 20), (-2, 2)],
    "sin": [(-7, 7), (-1e5, 1e5)],
    "cos": [(-7, 7), (-1e5, 1e5)],
    "tan": [(-7, 7), (-1e5, 1e5)],
    "asin": [(-1, 1), (0.49, 0.51)],
    "acos": [(-1, 1), (0.49, 0.51)],
    "atan": [(-4, 4), (0.9, 1.1)],
    "sinh": [(-91, 91), (-1.1, 1.1)],
    "cosh": [(-91, 91), (-1.1, 1.1)],
    "asinh": [(-4, 4), (-1e4, 1e4)],
    "acosh": [(0.9, 4), (1, 1e4)],
    "atanh": [(-1, 1), (-0.1, 0.1)],
}
EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1.0) / (1.0 + np.exp(-np.abs(x))),
    "softplus": lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def ulps(result: Array, exact: Array) -> Array:
    """Distance in units of the last place of the exact value; 0 where both are the same infinity or NaN.

    Above the largest float the right result is infinity.
    """
    with np.errstate(all="ignore"):
        size = np.abs(exact)
        unit = np.exp2(np.clip(np.floor(np.log2(size)), -126, None) - 23)
        overflow = np.isinf(result) & (size > np.finfo(np.float32).max) & (np.sign(result) == np.sign(exact))
        same = (result == exact) | (np.isnan(result) & np.isnan(exact)) | overflow
        return np.where(same, 0.0, np.abs(result.astype(np.float64) - exact) / unit)


def documented(name: str) -> tuple[str, float]:
    """Largest error found and limit of a function as docs/math.md has them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "math.md").read_text()
    row = re.search(rf"^\| `{name}` .*\| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert row is not None, f"docs/math.md has no row for {name}"
    return row[1], float(row[2])


@pytest.mark.parametrize("name", sorted(EXACT))
def test_function_is_accurate(name: str) -> None:
    """The largest error anywhere is within the table."""
    ranges = [np.linspace(low, high, 100_001, dtype=np.float32) for low, high in DENSE[name]]
    x = np.concatenate([BITS[:: 5 if name == "erf" else 1], CORNERS, *ranges])
    with np.errstate(all="ignore"):
        error = ulps(sweep(name, x), EXACT[name](x.astype(np.float64)))
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= table()["ulp"][name], f"{error[worst]:.2f} ulp at {x[worst]!r}"
    assert documented(name) == (f"{error[worst]:.2f}", table()["ulp"][name]), f"docs/math.md: {error[worst]:.2f}"


def test_odd_functions_keep_signed_zeros() -> None:
    """Of -0 they are -0, whole numbers included."""
    odd = ("erf", "tanh", "expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh")
    for name in (*odd, "floor", "ceil", "round"):
        assert np.signbit(sweep(name, np.array([-0.0], np.float32))[0])


@pytest.mark.parametrize(("name", "exact"), [("floor", np.floor), ("ceil", np.ceil), ("round", np.rint)])
def test_whole_numbers_are_exact(name: str, exact: Callable[[Array], Array]) -> None:
    """Over all of float32, halves and their neighbours, up to the bits of zeros and infinities; NaN stays NaN."""
    halves = np.arange(-5, 5, 0.25, dtype=np.float32)
    x = np.concatenate([BITS, CORNERS, halves, np.nextafter(halves, np.float32(9)), halves * np.float32(2**21)])
    result, numbers = sweep(name, x), ~np.isnan(x)
    assert np.isnan(result[~numbers]).all()
    np.testing.assert_array_equal(result[numbers].view(np.uint32), exact(x[numbers]).view(np.uint32))


def test_rsqrt_is_accurate() -> None:
    """Every sign and exponent, every 16th float of the two octaves that its start tells apart, and the subnormals."""
    octaves = np.arange(0x3F800000, 0x40800000, 16, dtype=np.uint32).view(np.float32)
    x = np.concatenate([BITS, CORNERS, octaves, np.linspace(0, 1.2e-38, 100_001, dtype=np.float32)])
    with np.errstate(all="ignore"):
        error = ulps(sweep("rsqrt", x), 1 / np.sqrt(x.astype(np.float64)))
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= table()["ulp"]["rsqrt"], f"{error[worst]:.2f} ulp at {x[worst]!r}"
    assert documented("rsqrt") == (f"{error[worst]:.2f}", table()["ulp"]["rsqrt"]), f"docs/math.md: {error[worst]:.2f}"


def test_rsqrt_of_special_values() -> None:
    """Zeros give the infinity of their sign, infinity gives zero, what is negative gives NaN."""
    result = sweep("rsqrt", np.array([0.0, -0.0, np.inf, -np.inf, -1.0, -1e-45, np.nan], np.float32))
    np.testing.assert_array_equal(result, np.array([np.inf, -np.inf, 0.0, np.nan, np.nan, np.nan, np.nan], np.float32))
    assert not np.signbit(result[2])


def test_pow_is_accurate() -> None:
    """Random bases and exponents, real and integer ones, over the whole range of results."""
    r = np.random.default_rng(5)
    bases = [
        np.exp(r.uniform(-87, 88, 200_000)),
        r.uniform(0.5, 2, 200_000),
        r.uniform(0.999, 1.001, 200_000),
    ]
    largest = 0.0
    for base, limit in zip(bases, (3, 100, 5e4), strict=True):
        x, y = base.astype(np.float32), r.uniform(-limit, limit, base.size).astype(np.float32)
        for exponent in (y, np.round(y), np.round(y * 2) / 2):
            for sign in (1, -1):
                with np.errstate(all="ignore"):
                    exact = np.power(sign * x.astype(np.float64), exponent.astype(np.float64))
                error = ulps(sweep("pow", sign * x, exponent), exact)
                worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
                at = f"{sign * x[worst]!r} ** {exponent[worst]!r}"
                assert error[worst] <= table()["ulp"]["pow"], f"{error[worst]:.2f} ulp at {at}"
                largest = max(largest, float(error[worst]))
    assert documented("pow") == (f"{largest:.2f}", table()["ulp"]["pow"]), f"docs/math.md: {largest:.2f}"


def test_pow_of_special_values() -> None:
    """Zeros, infinities, NaN and negative bases have the values, and the signs, of IEEE's pow."""
    values = [0.0, 1.0, 2.0, 0.5, 3.0, 5.0, 7.0, np.inf, 1e-45, 1e38, 2.0**23 + 1, 2.0**24 + 2, 16777215.0]
    special = np.array([*values, *(-v for v in values), np.nan], np.float32)
    x, y = (a.reshape(-1) for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    result = sweep("pow", x, y)
    assert ulps(result, exact).max() <= table()["ulp"]["pow"]
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(exact)[numbers])
