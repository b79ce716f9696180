/* dX = dY (Phi(X) + X phi(X)), with the normal distribution and its density, and all constants in registers. */
#include "gelu_grad_f32.h"
#include "exponential.h"
#include "share_f32.h"

void gelu_grad_f32(const void *args) {
    const gelu_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const erf_constants_t k = erf_constants();
    const float root = LITERAL_F32(0x1.6a09e6p-1f), height = LITERAL_F32(0x1.988454p-2f), half = LITERAL_F32(0.5f);
    const float *dy = p->dy + share.begin;
    float *dx = p->dx + share.begin;
    for (const float *from = p->x + share.begin, *end = p->x + share.end; from < end; from++) {
        const float x = *from, exponent = -half * x * x;
        const float power = __builtin_expect(exponent >= EXP_LOWEST, 1) ? exp_normal(exponent, k.exp) : expf_f32(exponent);
        *dx++ = *dy++ * __builtin_fmaf(x, height * power, __builtin_fmaf(half, erf_of(x * root, k), half));
    }
}
