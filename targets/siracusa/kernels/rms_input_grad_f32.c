/* dX = inv_std (dY scale - X inv_std dot / count) with dot the sum of dY scale X inv_std over each row; the portable kernel defines the
 * order. It is layer normalization's about a mean of 0, without the sum that a mean adds. A core has whole rows. */
#include "rms_input_grad_f32.h"
#include "hal.h"
#include "layer_slopes.h"
#include "layer_sums.h"

void rms_input_grad_f32(const void *args) {
    const rms_input_grad_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), size = p->block, columns = p->c;
    for (uint32_t r = hal_core_id(); r < p->r; r += cores) {
        const float *const dy = p->dy + r * p->dy_r, *const x = p->x + r * p->x_r, inv_std = p->inv_std[r];
        sum_t dot = {0};
        for (uint32_t c = 0, count; c < columns; c += count) {
            float total = 0.0f;
            count = sum_next(&dot, size, c, columns - c);
            add_sums(&total, &dot.block, dy + c, x + c, p->scale + c, 0.0f, count);
        }
        const float slope = inv_std * (sum_value(&dot, size) * inv_std) * p->inverse_count;
        float *const dx = p->dx + r * p->dx_r;
        if (p->added)
            added_row(dx, dy, x, p->scale, p->added + r * p->added_r, 0.0f, inv_std, 0.0f, slope, columns);
        else
            slope_row(dx, dy, x, p->scale, 0.0f, inv_std, 0.0f, slope, columns);
    }
}
