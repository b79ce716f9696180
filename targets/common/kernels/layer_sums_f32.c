/* Per row the sums of dY scale and of dY scale (X - mean), ascending; on the last tile the second times inv_std. Between
 * tiles the raw sums wait in the outputs. */
#include "layer_sums_f32.h"
#include "hal.h"
#include "share_f32.h"

void layer_sums_f32(const void *args) {
    const layer_sums_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        const float mean = p->mean[r];
        float total = 0.0f, dot = 0.0f;
        if (!p->first) total = p->total[r], dot = p->dot[r];
        for (uint32_t c = 0; c < p->c; c++) {
            const float scaled = dy[c] * p->scale[c];
            total += scaled;
            dot = __builtin_fmaf(scaled, x[c] - mean, dot);
        }
        p->total[r] = total;
        p->dot[r] = p->last ? dot * p->inv_std[r] : dot;
    }
}
