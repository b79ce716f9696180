/* Quotients and square roots by multiplications: the bits of the cluster's divider, which takes 14 cycles and serves all
 * cores, in 13 and 12 operations of the FPUs. What is too small or too large for that is left to the divider. */
#ifndef QUOTIENT_H
#define QUOTIENT_H

#include "pulp.h"

#define QUOTIENT_F32(a, b) quotient_of(a, b)
#define ROOT_F32(x) root_of(x)

/* A divisor b, y near 1 / b, and the error e = 1 - b y. */
typedef struct {
    float b, y, e;
} divisor_t;

static inline int unusual_dividend(float a) { return (int32_t)(2 * bits_in_core(a) - 0x40000000u) < 0; }
static inline int unusual_divisor(float b) { return 2 * bits_in_core(b) - 0x60000000u >= 0x40000000u; }

/* Turning the exponent of b around makes a first y, between 1 / b and an eighth above it. Two steps y (1 + e + e^2) leave the
 * error of one rounding. */
static inline divisor_t divisor_of(float b) {
    const float one = LITERAL_F32(1.0f);
    float y = float_in_fpu(0x7f000000u - bits_in_core(b)), e = __builtin_fmaf(-b, y, one);
    y = __builtin_fmaf(__builtin_fmaf(e, e, e), y, y);
    e = __builtin_fmaf(-b, y, one);
    y = __builtin_fmaf(__builtin_fmaf(e, e, e), y, y);
    return (divisor_t){b, y, __builtin_fmaf(-b, y, one)};
}

/* q = a y, corrected by the exact remainder twice. Before the last rounding the second correction, r (1 + e) y, is off by
 * less than 2^-24 of itself, so at most by 2^-25 places of q; a quotient of two floats is at least that far from the middle
 * of two neighbours. The few that are not further are all tried by a test. */
static inline float divided_by(float a, divisor_t by) {
    float q = a * by.y;
    q = __builtin_fmaf(__builtin_fmaf(-by.b, q, a), by.y, q);
    const float r = __builtin_fmaf(-by.b, q, a);
    return __builtin_fmaf(__builtin_fmaf(r, by.e, r), by.y, q);
}

/* a / b for |a| from 2^-63 to below 2^65 and |b| from 2^-31 to below 2^33. */
static inline float quotient_of(float a, float b) {
    if (__builtin_expect(unusual_dividend(a), 0)) return a / b;
    if (__builtin_expect(unusual_divisor(b), 0)) return a / b;
    return divided_by(a, divisor_of(b));
}

/* 1 / b correctly rounded, for a usual divisor: what many quotients by it have in common. */
static inline float inverse_of(float b) { return divided_by(LITERAL_F32(1.0f), divisor_of(b)); }

/* a / b by that inverse. Its error leaves the quotient before the last rounding 3 2^-24 places off at the most, the rounding of
 * a remainder of 25 bits included; those nearer to the middle of two floats are all tried by a test, too. */
static inline float quotient_by(float a, float b, float inverse) {
    const float q = a * inverse;
    return __builtin_fmaf(__builtin_fmaf(-b, q, a), inverse, q);
}

/* y[j] = a[j a_next] / b. */
static inline void quotients_of(float *y, const float *a, uint32_t a_next, float b, uint32_t count) {
    const divisor_t by = divisor_of(b);
    const int seldom = unusual_divisor(b);
    for (; count > 0; count--, a += a_next) {
        const float dividend = *a;
        *y++ = __builtin_expect(seldom | unusual_dividend(dividend), 0) ? dividend / b : divided_by(dividend, by);
    }
}

/* The root of x from 2^-100 on. A first y near 1 / sqrt(x) and its step are those of rsqrt_f32; then g and h near sqrt(x)
 * and 1 / (2 sqrt(x)) are improved at once, and the remainder x - g^2 corrects g. All significands are tried by a test. */
static inline float root_of(float x) {
    const uint32_t bits = bits_in_core(x);
    if (__builtin_expect(bits - 0x0d800000u >= 0x72000000u, 0)) return __builtin_sqrtf(x);
    const float one = LITERAL_F32(1.0f), half = LITERAL_F32(0.5f), start = float_in_fpu(0x5f375a86u - (bits >> 1));
    const float rest = __builtin_fmaf(-(x * start), start, one);
    const float y = __builtin_fmaf(start * rest, __builtin_fmaf(LITERAL_F32(0.375f), rest, half), start);
    float g = x * y, h = half * y;
    const float e = __builtin_fmaf(-h, g, half);
    g = __builtin_fmaf(g, e, g);
    h = __builtin_fmaf(h, e, h);
    return __builtin_fmaf(__builtin_fmaf(-g, g, x), h, g);
}

#endif
