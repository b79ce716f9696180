/* e^x by the bits of expf_f32 where the result is a normal number, in a loop that has its constants in registers. */
#ifndef EXPONENTIAL_H
#define EXPONENTIAL_H

#include "math_f32.h"
#include "pulp.h"

#define EXP_LOWEST LITERAL_F32(-87.0f) /* e^x is normal from here on; kernels here have no x above 0 */

/* With n = round(x / ln 2) in the low bits of `shifted`, 2^n e^r is exact: n is added to the exponent of e^r. */
static inline float exp_normal(float x, exp_terms_t t) {
    const float shifted = __builtin_fmaf(x, t.log2_e, t.shifter);
    const float y = t.one + exp_growth_f32(exp_rest_f32(x, shifted - t.shifter, t), t);
    return float_in_fpu(bits_in_core(y) + (bits_in_core(shifted) << 23));
}

#endif
