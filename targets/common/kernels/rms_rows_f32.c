/* Y = X inv_std scale with inv_std = 1 / sqrt(mean of X X + epsilon) of each row, its squares in the order of sum_f32.h. A core has
 * whole rows. inv_std may be absent. */
#include "rms_rows_f32.h"
#include "hal.h"
#include "mean_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

void rms_rows_f32(const void *args) {
    const rms_rows_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *x = p->x + r * p->x_r;
        float *y = p->y + r * p->y_r;
        sum_t squares = {0};
        for (uint32_t c = 0; c < p->c;)
            for (const uint32_t end = c + sum_next(&squares, p->block, c, p->c - c); c < end; c++)
                squares.block = __builtin_fmaf(x[c], x[c], squares.block);
        const float inv_std = deviation_of(sum_value(&squares, p->block), p->inverse_count, p->epsilon, 0.0f);
        if (p->inv_std) p->inv_std[r] = inv_std;
        for (uint32_t c = 0; c < p->c; c++) y[c] = x[c] * inv_std * p->scale[c];
    }
}
