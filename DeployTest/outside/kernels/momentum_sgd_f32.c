/* v = momentum * v + g, w = w - lr * v, each in one rounding. */
#include "momentum_sgd_f32.h"
#include "hal.h"

void momentum_sgd_f32(const void *args) {
    const momentum_sgd_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        p->v[i] = __builtin_fmaf(p->momentum, p->v[i], p->g[i]);
        p->w[i] = __builtin_fmaf(-p->lr, p->v[i], p->w[i]);
    }
}
