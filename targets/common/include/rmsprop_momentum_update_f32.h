/* g grows by weight_decay w; v = alpha v + (1 - alpha) g g; b = momentum b + g / (sqrt(v) + eps); w goes by lr b. g is the
 * gradient times FACTOR, rounded. Before it is included, UPDATE names the kernel's arguments, and FACTOR is one of
 * gradient_scale.h. */
#ifndef RMSPROP_MOMENTUM_UPDATE_F32_H
#define RMSPROP_MOMENTUM_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"
#include "quotient_f32.h"

static inline void rmsprop_momentum_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], scale * p->g[i]);
        const float v = __builtin_fmaf(p->alpha, p->v[i], p->one_less_alpha * g * g);
        const float b = __builtin_fmaf(p->momentum, p->b[i], QUOTIENT_F32(g, ROOT_F32(v) + p->eps));
        p->v[i] = v;
        p->b[i] = b;
        p->w[i] = __builtin_fmaf(-p->lr, b, p->w[i]);
    }
}

#endif
