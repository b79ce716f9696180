/* m = alpha m + (1 - alpha) g and v = beta v + (1 - beta) g g; w goes by lr m / sqrt(v), both corrected for their start at
 * zero, and decays before or after that. g is the gradient times FACTOR, rounded. Before it is included, UPDATE names the
 * kernel's arguments, and FACTOR is one of gradient_scale.h. */
#ifndef ADAMW_UPDATE_F32_H
#define ADAMW_UPDATE_F32_H

#include "gradient_scale.h"
#include "hal.h"
#include "moments_f32.h"
#include "quotient_f32.h"
#include "share_f32.h"

static inline void adamw_update(const void *args) {
    const UPDATE *p = args;
    const float scale = FACTOR(p);
    const uint32_t count = (uint32_t)*p->count;
    const float first = p->corrected ? moment_weight(p->one_less_alpha, count) : 1.0f;
    const float root = p->corrected ? __builtin_sqrtf(moment_weight(p->one_less_beta, count)) : 1.0f;
    const float rate = p->lr * root / first;
    const float epsilon = p->late ? p->epsilon : p->epsilon * root;
    const float alpha = p->alpha, one_less_alpha = p->one_less_alpha, before = p->before;
    const float beta = p->beta, one_less_beta = p->one_less_beta, after = p->after;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float g = scale * p->g[i];
        const float m = __builtin_fmaf(alpha, p->m[i], one_less_alpha * g);
        const float v = __builtin_fmaf(beta, p->v[i], one_less_beta * g * g);
        const float step = QUOTIENT_F32(m, ROOT_F32(v) + epsilon);
        p->m[i] = m;
        p->v[i] = v;
        p->w[i] = after * __builtin_fmaf(-rate, step, before * p->w[i]);
    }
}

#endif
