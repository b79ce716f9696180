/* e^x and erf with the bits of expf_f32 and erff_f32, for loops that have their constants in registers. */
#ifndef EXPONENTIAL_H
#define EXPONENTIAL_H

#include "math_f32.h"
#include "pulp.h"

#define EXP_LOWEST LITERAL_F32(-87.0f)

/* The bits of e^x for x from EXP_LOWEST to 88, a normal number. With n = round(x / ln 2) in the low bits of `shifted`, 2^n e^r
 * is exact: n is added to the exponent of e^r. */
static inline uint32_t exp_bits(float x, exp_terms_t t) {
    const float shifted = __builtin_fmaf(x, t.log2_e, t.shifter);
    const float y = t.one + exp_growth_f32(exp_rest_f32(x, shifted - t.shifter, t), t);
    return bits_in_core(y) + (bits_in_core(shifted) << 23);
}

static inline float exp_normal(float x, exp_terms_t t) { return float_in_fpu(exp_bits(x, t)); }

typedef struct {
    exp_terms_t exp;
    erf_terms_t near, far;
} erf_constants_t;

static inline erf_constants_t erf_constants(void) {
    return (erf_constants_t){exp_terms_f32(), erf_near_terms_f32(), erf_far_terms_f32()};
}

/* erf(x), compared by its bits; 1 for NaN, which is a factor besides where this is used. */
static inline float erf_of(float x, erf_constants_t k) {
    const uint32_t bits = bits_in_core(x), size = bits & 0x7fffffffu;
    if (size < 0x3f800000u) return __builtin_fmaf(x, erf_sum_f32(x * x, k.near), x);
    if (__builtin_expect(size >= 0x40800000u, 0)) return __builtin_copysignf(k.exp.one, x);
    return __builtin_copysignf(k.exp.one - exp_normal(-erf_sum_f32(__builtin_fabsf(x), k.far), k.exp), x);
}

#endif
