"""The exponential of float32 as `math_f32.h` has it, bit for bit, whatever the machine's own library computes."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def _of_hex(text: str) -> np.float32:
    return np.float32(float.fromhex(text))


_LOG2_E, _SHIFTER = _of_hex("0x1.715476p+0"), _of_hex("0x1.8p+23")
_LN2_HI, _LN2_LO = _of_hex("0x1.62e4p-1"), _of_hex("0x1.7f7d1cp-20")
_TERMS = tuple(map(_of_hex, ("0x1.6a2352p-10", "0x1.123a6cp-7", "0x1.5558f4p-5", "0x1.55549p-3", "0x1.fffffcp-2")))
"""The polynomial's coefficients, the highest power first."""
_HIGHEST, _LOWEST = np.float32(89), np.float32(-104)
"""Above the power is infinite, below 0."""


def exp_f32(x: Floats) -> Floats:
    """e^x of each element: `expf_f32` of `math_f32.h`, with the same bits."""
    with np.errstate(over="ignore", under="ignore"):
        inside = np.where((x >= _LOWEST) & (x <= _HIGHEST), x, np.float32(0))
        rounded = fma_f32(inside, _LOG2_E, _SHIFTER) - _SHIFTER
        rest = fma_f32(-rounded, _LN2_LO, fma_f32(-rounded, _LN2_HI, inside))
        sum_ = np.full_like(rest, _TERMS[0])
        for term in _TERMS[1:]:
            sum_ = fma_f32(sum_, rest, term)
        growth = fma_f32(sum_ * rest, rest, rest)
        whole = rounded.astype(np.int32)
        half = np.trunc(whole / 2).astype(np.int32)
        power = np.ldexp(np.ldexp(np.float32(1) + growth, half), whole - half).astype(np.float32)
    return np.where(np.isnan(x), x, np.where(x > _HIGHEST, np.float32(np.inf), np.where(x < _LOWEST, 0, power)))


def fma_f32(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Floats:
    """a * b + c of finite float32, rounded once.

    The product is exact in float64. The sum is rounded to odd: to the neighbour of the exact sum whose last bit is 1.
    Rounded to float32, that gives what the exact sum gives (Boldo and Melquiond, 2008).
    """
    product, third = np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64)
    product, third = np.broadcast_arrays(product, third)
    total = product + third
    part = total - product
    lost = (product - (total - part)) + (third - part)
    is_even = (total.view(np.uint64) & np.uint64(1)) == 0
    odd = np.where((lost != 0) & is_even, np.nextafter(total, np.copysign(np.inf, lost)), total)
    return odd.astype(np.float32)
