/* w = w - lr * (scale * g), the product rounded; neighbours go to one core, so that they share vectors. */
#include "scaled_sgd_f32.h"
#include "share_f32.h"

void scaled_sgd_f32(const void *args) {
    const scaled_sgd_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const float lr = -p->lr, scale = *p->scale, *g = p->g;
    float *w = p->w;
    for (uint32_t i = share.begin; i < share.end; i++) w[i] = __builtin_fmaf(lr, scale * g[i], w[i]);
}
