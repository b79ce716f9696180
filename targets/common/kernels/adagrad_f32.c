/* g grows by weight_decay w; v = v + g g; w goes by lr g / (sqrt(v) + eps). */
#include "adagrad_f32.h"
#include "hal.h"
#include "quotient_f32.h"

void adagrad_f32(const void *args) {
    const adagrad_f32_args_t *p = args;
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], p->g[i]);
        const float v = __builtin_fmaf(g, g, p->v[i]);
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-p->lr, QUOTIENT_F32(g, ROOT_F32(v) + p->eps), p->w[i]);
    }
}
