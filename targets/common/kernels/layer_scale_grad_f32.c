/* Per column the sum of dY (X - mean) inv_std, ascending over rows. Between tiles of rows the sum waits in the output. */
#include "layer_scale_grad_f32.h"
#include "hal.h"
#include "share_f32.h"

void layer_scale_grad_f32(const void *args) {
    const layer_scale_grad_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c, *x = p->x + c;
        float sum = p->first ? 0.0f : p->dscale[c];
        for (uint32_t r = 0; r < p->r; r++, dy += p->dy_r, x += p->x_r)
            sum = __builtin_fmaf(*dy, (*x - p->mean[r]) * p->inv_std[r], sum);
        p->dscale[c] = sum;
    }
}
