/* g grows by weight_decay w; v = momentum v + g; w goes by lr v, under Nesterov's rule by lr (g + momentum v). */
#include "hal.h"
#include "sgd_momentum_f32.h"

void sgd_momentum_f32(const void *args) {
    const sgd_momentum_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], p->g[i]);
        const float v = __builtin_fmaf(p->momentum, p->v[i], g);
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-p->lr, p->nesterov ? __builtin_fmaf(p->momentum, v, g) : v, p->w[i]);
    }
}
