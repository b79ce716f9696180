"""The functions of math_f32.h from Python."""

import ctypes
from functools import cache

import numpy as np

from deployer.core.operator import Array
from deployer.testing.bench import compiled

_MATH = """
#include "trig_f32.h"
#include "whole_f32.h"
#define SWEEP(name) void sweep_##name(const float *x, float *y, uint32_t n) { \\
    for (uint32_t i = 0; i < n; i++) y[i] = name##f_f32(x[i]); }
SWEEP(exp) SWEEP(log) SWEEP(erf) SWEEP(tanh) SWEEP(expm1) SWEEP(log1p) SWEEP(sigmoid) SWEEP(softplus)
SWEEP(sin) SWEEP(cos) SWEEP(tan) SWEEP(asin) SWEEP(acos) SWEEP(atan)
SWEEP(sinh) SWEEP(cosh) SWEEP(asinh) SWEEP(acosh) SWEEP(atanh)
SWEEP(floor) SWEEP(ceil) SWEEP(round)
void sweep_rsqrt(const float *x, float *y, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = rsqrt_f32(x[i]);
}
void sweep_pow(const float *x, const float *e, float *y, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) y[i] = powf_f32(x[i], e[i]);
}
"""


@cache
def _library() -> ctypes.CDLL:
    return compiled({"math.c": _MATH}, (), "math")


def sweep(name: str, *inputs: Array) -> Array:
    """A function of math_f32.h over arrays of float32."""
    arrays = [np.ascontiguousarray(x, np.float32) for x in inputs]
    result = np.empty_like(arrays[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)]
    getattr(_library(), f"sweep_{name}")(*pointers, ctypes.c_uint32(result.size))
    return result
