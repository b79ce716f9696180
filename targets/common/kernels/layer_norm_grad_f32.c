/* dX = inv_std (dY scale - total / count - ((X - mean) inv_std + rest) dot / count), with count elements in a row; rest, what
 * the mean's own rounding leaves, may be absent; what `added` points to is added to the rounded result; gated, that is zero where
 * X, Y of a Relu, is not above zero. */
#include "layer_norm_grad_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"

void layer_norm_grad_f32(const void *args) {
    const layer_norm_grad_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    const float inverse = 1.0f / p->count;
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t r = i / p->c, first = i - r * p->c, left = p->c - first;
        const uint32_t end = first + (left < share.end - i ? left : share.end - i);
        const float mean = p->mean[r], inv_std = p->inv_std[r];
        const float whole = p->rest ? __builtin_fmaf(p->rest[r], p->dot[r], p->total[r]) : p->total[r];
        const float shift = whole * inverse, slope = inv_std * p->dot[r] * inverse;
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        float *dx = p->dx + r * p->dx_r;
        i += end - first;
        for (uint32_t c = first; c < end; c++) {
            dx[c] = inv_std * __builtin_fmaf(mean - x[c], slope, __builtin_fmaf(dy[c], p->scale[c], -shift));
            if (p->added) dx[c] += p->added[r * p->added_r + c];
            if (p->gated) dx[c] = gated_f32(dx[c], x[c]);
        }
    }
}
