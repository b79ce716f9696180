/* Y = sum of X over the loops r0..r2, for each index of k0..k2, divided by count. Each output sums with r2 innermost in the
 * order of sum_f32.h, so the bits depend on neither tiles nor cores; between tiles the sum waits in Y. */
#include "hal.h"
#include "reduce_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

void reduce_f32(const void *args) {
    const reduce_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->k0 * p->k1 * p->k2);
    for (uint32_t i = share.begin; i < share.end; i++) {
        const uint32_t k2 = i % p->k2, k01 = i / p->k2, k1 = k01 % p->k1, k0 = k01 / p->k1;
        const float *x = p->x + k0 * p->x_k0 + k1 * p->x_k1 + k2 * p->x_k2;
        float *y = p->y + k0 * p->y_k0 + k1 * p->y_k1 + k2;
        float *carry = p->carry ? p->carry + k0 * p->carry_k0 + k1 * p->carry_k1 + k2 * SUM_CARRIED : 0;
        sum_t sum = sum_begin(p->first, size, *y, carry);
        for (uint32_t r0 = 0; r0 < p->r0; r0++)
            for (uint32_t r1 = 0; r1 < p->r1; r1++) {
                const float *run = x + r0 * p->x_r0 + r1 * p->x_r1;
                if (r0 + r1 > 0 || !p->first) sum_row(&sum, size, p->start);
                for (uint32_t r2 = 0; r2 < p->r2;)
                    for (const uint32_t end = r2 + sum_next(&sum, size, p->start + r2, p->r2 - r2); r2 < end; r2++)
                        sum.block += run[r2 * p->x_r2];
            }
        if (p->last) {
            *y = sum_value(&sum, size) / p->count;
            sum_end(size, carry);
        } else
            *y = sum_wait(&sum, size, p->start + p->r2, carry);
    }
}
