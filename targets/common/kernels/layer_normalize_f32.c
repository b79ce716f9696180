/* Y = ((X - mean) inv_std + rest) scale + bias, with mean, inv_std and rest of a row, scale and bias of a column; bias may be
 * absent, and so may rest, what the mean's own rounding leaves; then Relu, where fused. */
#include "layer_normalize_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"

void layer_normalize_f32(const void *args) {
    const layer_normalize_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t r = i / p->c, first = i - r * p->c, left = p->c - first;
        const uint32_t end = first + (left < share.end - i ? left : share.end - i);
        const float mean = p->mean[r], inv_std = p->inv_std[r], rest = p->rest ? p->rest[r] : 0.0f;
        const float *x = p->x + r * p->x_r;
        float *y = p->y + r * p->y_r;
        i += end - first;
        for (uint32_t c = first; c < end; c++) {
            const float unit = __builtin_fmaf(x[c] - mean, inv_std, rest);
            y[c] = p->bias ? __builtin_fmaf(unit, p->scale[c], p->bias[c]) : unit * p->scale[c];
            if (p->relu) y[c] = relu_f32_of(y[c]);
        }
    }
}
