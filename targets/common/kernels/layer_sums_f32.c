/* Per row the sums of dY scale and of dY scale (X - mean), in the order of sum_f32.h; on the last tile the second times
 * inv_std, and where there is a rest, what the mean's own rounding leaves of (X - mean) inv_std, plus the first times that. Between tiles the sums wait in the outputs. */
#include "layer_sums_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void layer_sums_f32(const void *args) {
    const layer_sums_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->r);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        const float mean = p->mean[r];
        float *carry = sum_carry(p->carry, 2 * r), *behind = sum_carry(p->carry, 2 * r + 1);
        sum_t total = sum_begin(p->first, size, p->total[r], carry);
        sum_t dot = sum_begin(p->first, size, p->dot[r], behind);
        for (uint32_t c = 0; c < p->c;) {
            const uint32_t count = sum_next(&total, size, p->start + c, p->c - c);
            sum_next(&dot, size, p->start + c, count);
            for (const uint32_t end = c + count; c < end; c++) {
                const float scaled = dy[c] * p->scale[c];
                total.block += scaled;
                dot.block = __builtin_fmaf(scaled, x[c] - mean, dot.block);
            }
        }
        if (p->last) {
            p->total[r] = sum_value(&total, size);
            p->dot[r] = sum_value(&dot, size) * p->inv_std[r];
            if (p->rest) p->dot[r] = __builtin_fmaf(p->rest[r], p->total[r], p->dot[r]);
            sum_end(size, carry);
            sum_end(size, behind);
        } else {
            p->total[r] = sum_wait(&total, size, p->start + p->c, carry);
            p->dot[r] = sum_wait(&dot, size, p->start + p->c, behind);
        }
    }
}
