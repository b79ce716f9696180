/* g grows by weight_decay w; m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g g; w goes by lr m / sqrt(v), both
 * corrected for their start at zero. g is the gradient times FACTOR, rounded. Before it is included, UPDATE names the kernel's
 * arguments, and FACTOR is one of gradient_scale.h. */
#ifndef ADAM_UPDATE_F32_H
#define ADAM_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"
#include "moments_f32.h"
#include "quotient_f32.h"
#include "share_f32.h"

static inline void adam_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    const uint32_t count = (uint32_t)*p->count;
    const float root = __builtin_sqrtf(moment_weight(p->one_less_beta2, count));
    const float rate = p->lr * root / moment_weight(p->one_less_beta1, count);
    const float eps = p->eps * root;
    const float beta1 = p->beta1, one_less_beta1 = p->one_less_beta1, decay = p->weight_decay;
    const float beta2 = p->beta2, one_less_beta2 = p->one_less_beta2;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float g = __builtin_fmaf(decay, p->w[i], scale * p->g[i]);
        const float m = __builtin_fmaf(beta1, p->m[i], one_less_beta1 * g);
        const float v = __builtin_fmaf(beta2, p->v[i], one_less_beta2 * g * g);
        p->m[i] = m;
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-rate, QUOTIENT_F32(m, ROOT_F32(v) + eps), p->w[i]);
    }
}

#endif
