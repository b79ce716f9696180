/* dX = inv_std (dY scale - total / count - ((X - mean) inv_std + rest) dot / count) with the sums of dY scale and of
 * dY scale ((X - mean) inv_std + rest) over each row, in the order of sum_f32.h; rest, what the mean's own rounding leaves, may
 * be absent. What `added` points to is added to the rounded result. Gated, dX is zero where X, Y of a Relu, is not above zero. A
 * core has whole rows. */
#include "layer_input_grad_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void layer_input_grad_f32(const void *args) {
    const layer_input_grad_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    const float inverse = p->inverse_count;
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        float *dx = p->dx + r * p->dx_r;
        const float mean = p->mean[r], inv_std = p->inv_std[r];
        sum_t total = {0}, dot = {0};
        for (uint32_t c = 0; c < p->c;) {
            const uint32_t count = sum_next(&total, p->block, c, p->c - c);
            sum_next(&dot, p->block, c, count);
            for (const uint32_t end = c + count; c < end; c++) {
                const float scaled = dy[c] * p->scale[c];
                total.block += scaled;
                dot.block = __builtin_fmaf(scaled, x[c] - mean, dot.block);
            }
        }
        float sum = sum_value(&total, p->block), product = sum_value(&dot, p->block) * inv_std;
        if (p->rest) {
            product = __builtin_fmaf(p->rest[r], sum, product);
            sum = __builtin_fmaf(p->rest[r], product, sum);
        }
        const float shift = sum * inverse, slope = inv_std * product * inverse;
        for (uint32_t c = 0; c < p->c; c++) {
            dx[c] = inv_std * __builtin_fmaf(mean - x[c], slope, __builtin_fmaf(dy[c], p->scale[c], -shift));
            if (p->added) dx[c] += p->added[r * p->added_r + c];
            if (p->gated) dx[c] = gated_f32(dx[c], x[c]);
        }
    }
}
