/* dX = scale inv_std (dY - dbias / count - ((X - mean) inv_std + rest) dscale / count), as (X - mean) slope +
 * (dY factor + shift) with one of each per channel; rest, what the mean's own rounding leaves, may be absent; gated, zero where X, Y of a Relu, is not above zero. */
#include "channel_norm_grad_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"

void channel_norm_grad_f32(const void *args) {
    const channel_norm_grad_f32_args_t *p = args;
    const share_t share = share_of(p->n * p->c * p->s);
    for (uint32_t i = share.begin; i < share.end;) {
        const uint32_t row = i / p->s, first = i - row * p->s, left = p->s - first;
        const uint32_t n = row / p->c, c = row - n * p->c, run = left < share.end - i ? left : share.end - i;
        const float factor = p->scale[c] * p->inv_std[c], each = factor * p->inverse_count;
        const float slope = -(each * p->inv_std[c] * p->dscale[c]);
        const float whole = p->rest ? __builtin_fmaf(p->rest[c], p->dscale[c], p->dbias[c]) : p->dbias[c];
        const float shift = -(each * whole), mean = p->mean[c];
        const float *dy = p->dy + n * p->dy_n + c * p->dy_c + first;
        const float *x = p->x + n * p->x_n + c * p->x_c + first;
        float *dx = p->dx + n * p->dx_n + c * p->dx_c + first;
        for (uint32_t k = 0; k < run; k++) {
            const float value = __builtin_fmaf(x[k] - mean, slope, __builtin_fmaf(dy[k], factor, shift));
            dx[k] = p->gated ? gated_f32(value, x[k]) : value;
        }
        i += run;
    }
}
