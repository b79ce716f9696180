/* W = W - lr * a b^T: each product is rounded as a sum of one product is, the step in one rounding. */
#include "hal.h"
#include "outer_sgd_f32.h"
#include "share_f32.h"

void outer_sgd_f32(const void *args) {
    const outer_sgd_f32_args_t *p = args;
    const share_t share = share_of(p->m * p->n);
    uint32_t m = share.begin / p->n, n = share.begin - m * p->n;
    for (uint32_t left = share.end - share.begin; left > 0; m++, n = 0) {
        const uint32_t end = hal_min(p->n, n + left);
        float *w = p->w + m * p->w_m;
        left -= end - n;
        for (; n < end; n++) w[n] = __builtin_fmaf(-p->lr, __builtin_fmaf(p->a[m], p->b[n], 0.0f), w[n]);
    }
}
