/* g grows by weight_decay w; m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g g; w goes by lr m / sqrt(v), both
 * corrected for their start at zero. */
#include "adam_f32.h"
#include "hal.h"
#include "moments_f32.h"
#include "share_f32.h"

void adam_f32(const void *args) {
    const adam_f32_args_t *p = args;
    const uint32_t count = (uint32_t)*p->count;
    const float root = __builtin_sqrtf(moment_weight(p->one_less_beta2, count));
    const float rate = p->lr * root / moment_weight(p->one_less_beta1, count);
    const float eps = p->eps * root;
    const share_t share = share_of(p->n);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const float g = __builtin_fmaf(p->weight_decay, p->w[i], p->g[i]);
        const float m = __builtin_fmaf(p->beta1, p->m[i], p->one_less_beta1 * g);
        const float v = __builtin_fmaf(p->beta2, p->v[i], p->one_less_beta2 * g * g);
        p->m[i] = m;
        p->v[i] = v;
        p->w[i] = __builtin_fmaf(-rate, m / (__builtin_sqrtf(v) + eps), p->w[i]);
    }
}
