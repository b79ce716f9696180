/* dX = inv_std (dY scale - total / count - ((X - mean) inv_std + rest) dot / count), with count elements in a row; the portable kernel
 * defines the order. */
#include "layer_norm_grad_f32.h"
#include "hal.h"
#include "layer_slopes.h"
#include "share_f32.h"

void layer_norm_grad_f32(const void *args) {
    const layer_norm_grad_f32_args_t *p = args;
    const share_t share = share_of(p->r * p->c);
    const float inverse = 1.0f / p->count;
    uint32_t r = share.begin / p->c, first = share.begin - r * p->c;
    for (uint32_t left = share.end - share.begin, run; left > 0; left -= run, first = 0, r++) {
        const float whole = p->rest ? __builtin_fmaf(p->rest[r], p->dot[r], p->total[r]) : p->total[r];
        const float inv_std = p->inv_std[r], shift = whole * inverse, slope = inv_std * p->dot[r] * inverse;
        run = hal_min(left, p->c - first);
        const float *const dy = p->dy + r * p->dy_r + first, *const x = p->x + r * p->x_r + first, *const scale = p->scale + first;
        float *const dx = p->dx + r * p->dx_r + first;
        if (p->added)
            added_row(dx, dy, x, scale, p->added + r * p->added_r + first, p->mean[r], inv_std, shift, slope, run);
        else
            slope_row(dx, dy, x, scale, p->mean[r], inv_std, shift, slope, run);
        if (p->gated) gate_row(dx, x, run);
    }
}
