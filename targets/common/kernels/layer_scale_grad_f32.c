/* Per column the sum of dY ((X - mean) inv_std + rest) over rows, and where asked that of dY, in the order of sum_f32.h. The
 * rest of a row, what the mean's own rounding leaves, may be absent. Between tiles of
 * rows the sums wait in the outputs. */
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
        float *carry = sum_carry(p->carry, 2 * c), *behind = sum_carry(p->carry, 2 * c + 1);
        sum_t scale = sum_begin(p->first, size, p->dscale[c], carry);
        sum_t bias = sum_begin(p->first, size, p->dbias ? p->dbias[c] : 0.0f, behind);
        for (uint32_t r = 0; r < p->r;) {
            const uint32_t count = sum_next(&scale, size, p->start + r, p->r - r);
            sum_next(&bias, size, p->start + r, count);
            for (const uint32_t end = r + count; r < end; r++) {
                const float rest = p->rest ? p->rest[r] : 0.0f;
                const float unit = __builtin_fmaf(x[r * p->x_r] - p->mean[r], p->inv_std[r], rest);
                scale.block = __builtin_fmaf(dy[r * p->dy_r], unit, scale.block);
                bias.block += dy[r * p->dy_r];
            }
        }
        const uint32_t end = p->start + p->r;
        sum_leave(p->dscale + c, &scale, p->last, size, end, carry);
        if (p->dbias) sum_leave(p->dbias + c, &bias, p->last, size, end, behind);
    }
}
