/* Whole numbers near a float, and the smaller and the larger of two: no result is rounded. NaN stays NaN. */
#ifndef WHOLE_F32_H
#define WHOLE_F32_H

#include <stdint.h>

/* x without what is behind the point, with its sign; floats of 2^23 and more have nothing there. */
static inline float truncf_f32(float x) {
    return __builtin_fabsf(x) < 0x1p+23f ? __builtin_copysignf((float)(int32_t)x, x) : x;
}

/* The largest whole number that is not above x; -0 for -0. */
static inline float floorf_f32(float x) {
    const float whole = truncf_f32(x);
    return whole > x ? whole - 1.0f : whole;
}

/* The smallest whole number that is not below x; -0 from -0 to above -1. */
static inline float ceilf_f32(float x) {
    const float whole = truncf_f32(x);
    return whole < x ? whole + 1.0f : whole;
}

/* The nearest whole number, of two the even one: adding 2^23 to the magnitude rounds it so. */
static inline float roundf_f32(float x) {
    const float size = __builtin_fabsf(x);
    return size < 0x1p+23f ? __builtin_copysignf((size + 0x1p+23f) - 0x1p+23f, x) : x;
}

static inline float least_f32(float a, float b) {
    return a < b || a != a ? a : b;
}

static inline float most_f32(float a, float b) {
    return a > b || a != a ? a : b;
}

#endif
