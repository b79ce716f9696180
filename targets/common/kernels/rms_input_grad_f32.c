/* dX = inv_std (dY scale - X inv_std dot / count) with dot the sum of dY scale X inv_std over each row, in the order of sum_f32.h;
 * what `added` points to is added to the rounded result. A core has whole rows. */
#include "rms_input_grad_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void rms_input_grad_f32(const void *args) {
    const rms_input_grad_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        float *dx = p->dx + r * p->dx_r;
        const float inv_std = p->inv_std[r];
        sum_t dot = {0};
        for (uint32_t c = 0; c < p->c;)
            for (const uint32_t end = c + sum_next(&dot, p->block, c, p->c - c); c < end; c++)
                dot.block = __builtin_fmaf(dy[c] * p->scale[c], x[c], dot.block);
        const float slope = inv_std * (sum_value(&dot, p->block) * inv_std) * p->inverse_count;
        for (uint32_t c = 0; c < p->c; c++) dx[c] = inv_std * __builtin_fmaf(0.0f - x[c], slope, dy[c] * p->scale[c]);
        if (p->added)
            for (uint32_t c = 0; c < p->c; c++) dx[c] += p->added[r * p->added_r + c];
    }
}
