/* Whole numbers near a float, remainders, and the smaller and the larger of two: no result is rounded. NaN stays NaN. */
#ifndef WHOLE_F32_H
#define WHOLE_F32_H

#include <stdint.h>

/* x without what is behind the point, with its sign; floats of 2^23 and more have nothing there. */
static inline float truncf_f32(float x) {
    return __builtin_fabsf(x) < 0x1p+23f ? __builtin_copysignf((float)(int32_t)x, x) : x;
}

/* x towards zero as an integer; what is beyond them becomes the nearest, and NaN 0. */
static inline int32_t integer_f32(float x) {
    if (x != x) return 0;
    if (x >= 0x1p+31f) return INT32_MAX;
    return x < -0x1p+31f ? INT32_MIN : (int32_t)x;
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

/* What is left of |x| after as many |y| as it holds, with the sign of x: multiples of y by powers of two are taken away,
 * the largest first, and each difference is exact. */
static inline float fmodf_f32(float x, float y) {
    const float size = __builtin_fabsf(x), divisor = __builtin_fabsf(y);
    if (!(size < __builtin_inff()) || y != y || divisor == 0.0f) return __builtin_nanf("");
    if (size < divisor) return x;
    float left = size, part = divisor;
    while (part <= size - part) part += part;
    for (; part > divisor; part *= 0.5f)
        if (left >= part) left -= part;
    return __builtin_copysignf(left >= divisor ? left - divisor : left, x);
}

#endif
