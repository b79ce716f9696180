/* g grows by weight_decay w; v = v + g g; w goes by lr g / (sqrt(v) + eps). g is the gradient times FACTOR, rounded. Before it
 * is included, UPDATE names the kernel's arguments, and FACTOR is one of gradient_scale.h. */
#ifndef ADAGRAD_UPDATE_F32_H
#define ADAGRAD_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"
#include "quotient_f32.h"

static inline void adagrad_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], scale * p->g[i]);
        const float v = __builtin_fmaf(g, g, p->v[i]);
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-p->lr, QUOTIENT_F32(g, ROOT_F32(v) + p->eps), p->w[i]);
    }
}

#endif
