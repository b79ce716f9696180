/* w = w - lr * g, in one rounding; neighbours go to one core, so that they share vectors. */
#include "sgd_f32.h"
#include "share_f32.h"

void sgd_f32(const void *args) {
    const sgd_f32_args_t *p = args;
    const share_t share = share_of(p->n);
    const float lr = -p->lr, *g = p->g;
    float *w = p->w;
    for (uint32_t i = share.begin; i < share.end; i++) w[i] = __builtin_fmaf(lr, g[i], w[i]);
}
