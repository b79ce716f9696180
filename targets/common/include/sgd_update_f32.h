/* w = w - lr * g, in one rounding. g is the gradient times FACTOR, rounded. Before it is included, UPDATE names the kernel's
 * arguments, and FACTOR is one of gradient_scale.h. */
#ifndef SGD_UPDATE_F32_H
#define SGD_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"

static inline void sgd_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    for (uint32_t i = hal_core_id(); i < p->n; i += hal_core_count())
        p->w[i] = __builtin_fmaf(-p->lr, scale * p->g[i], p->w[i]);
}

#endif
