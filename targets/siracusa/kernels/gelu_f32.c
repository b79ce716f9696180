/* Y = X (1 + erf(X / sqrt(2))) / 2, with all constants in registers. */
#include "gelu_f32.h"
#include "exponential.h"
#include "share_f32.h"

void gelu_f32(const void *args) {
    const gelu_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const erf_constants_t k = erf_constants();
    const float root = LITERAL_F32(0x1.6a09e6p-1f), half = LITERAL_F32(0.5f);
    float *y = p->y + share.begin;
    for (const float *x = p->x + share.begin, *end = p->x + share.end; x < end; x++)
        *y++ = half * *x * (k.exp.one + erf_of(*x * root, k));
}
