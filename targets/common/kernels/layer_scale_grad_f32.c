/* Per column the sum of dY (X - mean) inv_std over rows, in the order of sum_f32.h. Between tiles of rows the sum waits in
 * the output. */
#include "layer_scale_grad_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void layer_scale_grad_f32(const void *args) {
    const layer_scale_grad_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c, *x = p->x + c;
        float *carry = p->carry ? p->carry + SUM_CARRIED * c : 0;
        sum_t sum = sum_begin(p->first, size, p->dscale[c], carry);
        for (uint32_t r = 0; r < p->r;)
            for (const uint32_t end = r + sum_next(&sum, size, p->start + r, p->r - r); r < end; r++)
                sum.block = __builtin_fmaf(dy[r * p->dy_r], (x[r * p->x_r] - p->mean[r]) * p->inv_std[r], sum.block);
        if (p->last) {
            p->dscale[c] = sum_value(&sum, size);
            sum_end(size, carry);
        } else
            p->dscale[c] = sum_wait(&sum, size, p->start + p->r, carry);
    }
}
