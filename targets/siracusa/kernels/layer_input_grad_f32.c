/* dX = inv_std (dY scale - total / count - ((X - mean) inv_std + rest) dot / count) with the sums of each row, in the order of sum_f32.h;
 * the portable kernel defines it. A core has whole rows. */
#include "layer_input_grad_f32.h"
#include "hal.h"
#include "layer_slopes.h"
#include "layer_sums.h"

void layer_input_grad_f32(const void *args) {
    const layer_input_grad_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), size = p->block, columns = p->c;
    const float inverse = p->inverse_count;
    for (uint32_t r = hal_core_id(); r < p->r; r += cores) {
        const float *const dy = p->dy + r * p->dy_r, *const x = p->x + r * p->x_r;
        const float mean = p->mean[r], inv_std = p->inv_std[r];
        sum_t total = {0}, dot = {0};
        for (uint32_t c = 0; c < columns;) {
            const uint32_t count = sum_next(&total, size, c, columns - c);
            sum_next(&dot, size, c, count);
            add_sums(&total.block, &dot.block, dy + c, x + c, p->scale + c, mean, count);
            c += count;
        }
        float sum = sum_value(&total, size), product = sum_value(&dot, size) * inv_std;
        if (p->rest) {
            product = __builtin_fmaf(p->rest[r], sum, product);
            sum = __builtin_fmaf(p->rest[r], product, sum);
        }
        const float shift = sum * inverse, slope = inv_std * product * inverse;
        float *const dx = p->dx + r * p->dx_r;
        if (p->added)
            added_row(dx, dy, x, p->scale, p->added + r * p->added_r, mean, inv_std, shift, slope, columns);
        else
            slope_row(dx, dy, x, p->scale, mean, inv_std, shift, slope, columns);
        if (p->gated) gate_row(dx, x, columns);
    }
}
