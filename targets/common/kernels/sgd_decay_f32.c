/* w = w - lr (g + weight_decay w). */
#include "hal.h"
#include "sgd_decay_f32.h"

void sgd_decay_f32(const void *args) {
    const sgd_decay_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->w[i] = __builtin_fmaf(-p->lr, __builtin_fmaf(p->weight_decay, p->w[i], p->g[i]), p->w[i]);
}
