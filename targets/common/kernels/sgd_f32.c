/* w = w - lr * g, in one rounding. */
#include "hal.h"
#include "sgd_f32.h"

void sgd_f32(const void *args) {
    const sgd_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->w[i] = __builtin_fmaf(-p->lr, p->g[i], p->w[i]);
}
