/* Per column the sum of dY X inv_std over rows, in the order of sum_f32.h. Between tiles of rows the sums wait in the outputs. */
#include "rms_scale_grad_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void rms_scale_grad_f32(const void *args) {
    const rms_scale_grad_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float *dy = p->dy + c, *x = p->x + c;
        float *carry = sum_carry(p->carry, c);
        sum_t sum = sum_begin(p->first, size, p->dscale[c], carry);
        for (uint32_t r = 0; r < p->r;)
            for (const uint32_t end = r + sum_next(&sum, size, p->start + r, p->r - r); r < end; r++)
                sum.block = __builtin_fmaf(dy[r * p->dy_r], x[r * p->x_r] * p->inv_std[r], sum.block);
        sum_leave(p->dscale + c, &sum, p->last, size, p->start + p->r, carry);
    }
}
