/* g grows by weight_decay w; v = momentum v + g; w goes by lr v, under Nesterov's rule by lr (g + momentum v). g is the
 * gradient times FACTOR, rounded. Before it is included, UPDATE names the kernel's arguments, and FACTOR is one of
 * gradient_scale.h. */
#ifndef SGD_MOMENTUM_UPDATE_F32_H
#define SGD_MOMENTUM_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"

static inline void sgd_momentum_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count()) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], scale * p->g[i]);
        const float v = __builtin_fmaf(p->momentum, p->v[i], g);
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-p->lr, p->nesterov ? __builtin_fmaf(p->momentum, v, g) : v, p->w[i]);
    }
}

#endif
