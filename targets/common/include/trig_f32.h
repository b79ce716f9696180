/* The circular and hyperbolic functions and their inverses in float32 alone, as those of math_f32.h: the same bits
 * everywhere, infinities and NaN as C's Annex F has them. Polynomials are minimax fits of the relative error. Quotients and
 * roots are those of quotient_f32.h where Siracusa's cluster is faster with them: the others wait for more than the divider. */
#ifndef TRIG_F32_H
#define TRIG_F32_H

#include "math_f32.h"

/* pi / 2 as a sum of two floats. */
#define HALF_PI_F32 LITERAL_F32(0x1.921fb6p+0f)
#define HALF_PI_LOW_F32 LITERAL_F32(-0x1.777a5cp-25f)
#define TURN_WORDS 7

/* What x of 2^15 and more, finite, is beyond the nearest multiple of pi / 2, by Payne and Hanek: of the product with
 * 1 / (2 pi), of which 224 bits are here, only the 64 bits behind the point are computed. They are the part of a turn. */
static inline float far_angle_f32(float x, uint32_t *quarters) {
    static const uint32_t turns[TURN_WORDS] = {0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u,
                                               0x36d8a566u, 0x4f10e410u, 0x7f9458eau};
    const uint32_t bits = bits_of_f32(x), significand = (bits << 8) | 0x80000000u;
    const uint32_t exponent = ((bits >> 23) & 0xffu) - 126u, word = exponent >> 5, shift = exponent & 31u;
    uint32_t high = word ? turns[word - 1] : 0, middle = turns[word], low = turns[word + 1];
    if (shift) {
        high = (high << shift) | (middle >> (32u - shift));
        middle = (middle << shift) | (low >> (32u - shift));
        low = (low << shift) | (turns[word + 2] >> (32u - shift));
    }
    uint64_t part = ((uint64_t)significand * middle) + (((uint64_t)significand * low) >> 32);
    part += (uint64_t)(significand * high) << 32;
    uint32_t quarter = (uint32_t)(part >> 62);
    const uint32_t beyond = (uint32_t)(part >> 61) & 1u;
    part &= 0x3fffffffffffffffu;
    if (beyond) part = 0x4000000000000000u - part;
    quarter += beyond;
    const float top = (float)(uint32_t)(part >> 38) * 0x1p+24f, next = (float)(uint32_t)((part >> 14) & 0xffffffu);
    const float sum = top + next, rest = (next - (sum - top)) + (float)(uint32_t)(part & 0x3fffu) * 0x1p-14f;
    const float scaled = __builtin_fmaf(sum, HALF_PI_F32, __builtin_fmaf(sum, HALF_PI_LOW_F32, rest * HALF_PI_F32));
    const float angle = scaled * 0x1p-48f;
    *quarters = bits >> 31 ? 0u - quarter : quarter;
    return (bits >> 31) != beyond ? -angle : angle;
}

/* What x is beyond the nearest multiple of pi / 2, and that multiple; NaN for infinities. Below 2^15 the first difference
 * loses nothing, as the first of three parts of pi / 2 has 21 bits. */
static inline float angle_f32(float x, uint32_t *quarters) {
    *quarters = 0;
    const float size = __builtin_fabsf(x);
    if (size >= LITERAL_F32(0x1p+15f)) return size < INFINITY_F32 ? far_angle_f32(x, quarters) : NAN_F32;
    if (!(size > LITERAL_F32(0x1.921fb4p-1f))) return x;
    const float shifter = LITERAL_F32(0x1.8p+23f);
    const float turns = __builtin_fmaf(x, LITERAL_F32(0x1.45f306p-1f), shifter) - shifter;
    float r = __builtin_fmaf(-turns, LITERAL_F32(0x1.921fbp+0f), x);
    r = __builtin_fmaf(-turns, LITERAL_F32(0x1.5110b4p-22f), r);
    r = __builtin_fmaf(-turns, LITERAL_F32(0x1.84698ap-48f), r);
    *quarters = (uint32_t)(int32_t)turns;
    return r;
}

/* sin(r) = r + r^3 P(r^2), cos(r) = 1 - (r^2 / 2 - r^4 Q(r^2)) for r from -pi / 4 to pi / 4. */
static inline float sine_f32(float r) {
    const float r2 = r * r;
    float p = LITERAL_F32(0x1.7c111cp-19f);
    p = __builtin_fmaf(p, r2, LITERAL_F32(-0x1.a0591ep-13f));
    p = __builtin_fmaf(p, r2, LITERAL_F32(0x1.111174p-7f));
    p = __builtin_fmaf(p, r2, LITERAL_F32(-0x1.555556p-3f));
    return __builtin_fmaf(p, r2 * r, r);
}

static inline float cosine_f32(float r) {
    const float r2 = r * r, half = LITERAL_F32(0.5f) * r2, whole = LITERAL_F32(1.0f) - half;
    float q = LITERAL_F32(0x1.99e42cp-16f);
    q = __builtin_fmaf(q, r2, LITERAL_F32(-0x1.6c0c2p-10f));
    q = __builtin_fmaf(q, r2, LITERAL_F32(0x1.55554ap-5f));
    return whole + __builtin_fmaf(q, r2 * r2, (LITERAL_F32(1.0f) - whole) - half);
}

static inline float sinf_f32(float x) {
    uint32_t quarters;
    const float r = angle_f32(x, &quarters), y = quarters & 1u ? cosine_f32(r) : x == 0.0f ? x : sine_f32(r);
    return quarters & 2u ? -y : y;
}

static inline float cosf_f32(float x) {
    uint32_t quarters;
    const float r = angle_f32(x, &quarters), y = quarters & 1u ? sine_f32(r) : cosine_f32(r);
    return (quarters + 1u) & 2u ? -y : y;
}

static inline float tanf_f32(float x) {
    uint32_t quarters;
    const float r = angle_f32(x, &quarters);
    if (x == 0.0f) return x;
    return quarters & 1u ? -cosine_f32(r) / sine_f32(r) : sine_f32(r) / cosine_f32(r);
}

/* atan(t) = t + t^3 P(t^2) for t up to 1; above, pi / 2 - atan(1 / t). */
static inline float atanf_f32(float x) {
    const float size = __builtin_fabsf(x);
    const float t = size > 1.0f ? QUOTIENT_F32(LITERAL_F32(1.0f), size) : size, t2 = t * t;
    float p = LITERAL_F32(0x1.7ec704p-9f);
    p = __builtin_fmaf(p, t2, LITERAL_F32(-0x1.0c262ap-6f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.61f8bcp-5f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(-0x1.355464p-4f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.b4dffep-4f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(-0x1.230ab2p-3f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.9978eep-3f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(-0x1.5554dcp-2f));
    const float y = __builtin_fmaf(p, t2 * t, t);
    return __builtin_copysignf(size > 1.0f ? HALF_PI_F32 - (y - HALF_PI_LOW_F32) : y, x);
}

/* (asin(t) - t) / t^3 for t up to 1 / 2, from t^2. */
static inline float arc_f32(float t2) {
    float p = LITERAL_F32(0x1.595c6p-5f);
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.8c3e5p-6f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.747bb8p-5f));
    p = __builtin_fmaf(p, t2, LITERAL_F32(0x1.330204p-4f));
    return __builtin_fmaf(p, t2, LITERAL_F32(0x1.5555c8p-3f));
}

/* asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)), where x is above 1 / 2; acos likewise. */
static inline float asinf_f32(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size > LITERAL_F32(0.5f))) return x == 0.0f ? x : __builtin_fmaf(arc_f32(x * x), x * x * x, x);
    const float t2 = LITERAL_F32(0.5f) * (LITERAL_F32(1.0f) - size), t = ROOT_F32(t2);
    const float twice = 2.0f * __builtin_fmaf(arc_f32(t2), t2 * t, t);
    return __builtin_copysignf(HALF_PI_F32 - (twice - HALF_PI_LOW_F32), x);
}

static inline float acosf_f32(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size > LITERAL_F32(0.5f))) {
        const float x2 = x * x;
        return HALF_PI_F32 - (x - __builtin_fmaf(arc_f32(x2), -(x2 * x), HALF_PI_LOW_F32));
    }
    const float t2 = LITERAL_F32(0.5f) * (LITERAL_F32(1.0f) - size), t = ROOT_F32(t2);
    const float y = __builtin_fmaf(arc_f32(t2), t2 * t, t);
    return x > 0.0f ? 2.0f * y : 2.0f * (HALF_PI_F32 - (y - HALF_PI_LOW_F32));
}

/* e^x / 2 for x from 0 to 90; e^x itself would overflow before its half does. */
static inline float half_exp_f32(float x) {
    return exp_sum_f32(x - LN2_HI_F32, -LN2_LO_F32);
}

/* x + x^3 P(x^2) below 1; (e^x - e^-x) / 2 from there on. */
static inline float sinhf_f32(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size >= 1.0f)) {
        const float x2 = x * x;
        float p = LITERAL_F32(0x1.756c1ep-19f);
        p = __builtin_fmaf(p, x2, LITERAL_F32(0x1.a022bcp-13f));
        p = __builtin_fmaf(p, x2, LITERAL_F32(0x1.1110ep-7f));
        p = __builtin_fmaf(p, x2, LITERAL_F32(0x1.555556p-3f));
        return x == 0.0f ? x : __builtin_fmaf(p, x2 * x, x);
    }
    if (size > LITERAL_F32(90.0f)) return __builtin_copysignf(INFINITY_F32, x);
    const float half = half_exp_f32(size);
    return __builtin_copysignf(half - LITERAL_F32(0.25f) / half, x);
}

static inline float coshf_f32(float x) {
    const float size = __builtin_fabsf(x);
    if (x != x || size > LITERAL_F32(90.0f)) return x != x ? x : INFINITY_F32;
    const float half = half_exp_f32(size);
    return half + QUOTIENT_F32(LITERAL_F32(0.25f), half);
}

/* log(x + sqrt(x^2 + 1)) as log(1 + ...), and log(2 x) where the 1 no longer counts. */
static inline float asinhf_f32(float x) {
    const float size = __builtin_fabsf(x), x2 = size * size;
    float y;
    if (size > LITERAL_F32(0x1p+13f))
        y = logf_f32(size) + LITERAL_F32(0x1.62e43p-1f);
    else
        y = log1pf_f32(size + x2 / (LITERAL_F32(1.0f) + __builtin_sqrtf(LITERAL_F32(1.0f) + x2)));
    return __builtin_copysignf(y, x);
}

/* log(x + sqrt(x^2 - 1)) likewise. */
static inline float acoshf_f32(float x) {
    if (x > LITERAL_F32(0x1p+13f)) return logf_f32(x) + LITERAL_F32(0x1.62e43p-1f);
    const float above = x - LITERAL_F32(1.0f);
    return above >= 0.0f ? log1pf_f32(above + __builtin_sqrtf(above * (above + 2.0f))) : NAN_F32;
}

/* log((1 + x) / (1 - x)) / 2. */
static inline float atanhf_f32(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size <= 1.0f)) return NAN_F32;
    const float y = LITERAL_F32(0.5f) * log1pf_f32(2.0f * size / (LITERAL_F32(1.0f) - size));
    return x == 0.0f ? x : __builtin_copysignf(y, x);
}

#endif
