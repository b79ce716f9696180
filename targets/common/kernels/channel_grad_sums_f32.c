/* Sums of dY (X - mean) and of dY per channel over images and then within the image, in the order of sum_f32.h; on the last
 * tile the first is multiplied by inv_std, and where there is a rest, what the mean's own rounding leaves of (X - mean) inv_std,
 * the second times that is added. Between tiles the sums wait in dscale and dbias. */
#include "channel_grad_sums_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void channel_grad_sums_f32(const void *args) {
    const channel_grad_sums_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float mean = p->mean[c];
        float *carry = sum_carry(p->carry, 2 * c), *behind = sum_carry(p->carry, 2 * c + 1);
        sum_t dot = sum_begin(p->first, size, p->dscale[c], carry);
        sum_t sum = sum_begin(p->first, size, p->dbias[c], behind);
        for (uint32_t n = 0; n < p->n; n++) {
            const float *dy = p->dy + n * p->dy_n + c * p->dy_c;
            const float *x = p->x + n * p->x_n + c * p->x_c;
            if (n > 0 || !p->first) sum_row(&dot, size, p->start), sum_row(&sum, size, p->start);
            for (uint32_t s = 0; s < p->s;) {
                const uint32_t count = sum_next(&dot, size, p->start + s, p->s - s);
                sum_next(&sum, size, p->start + s, count);
                for (const uint32_t end = s + count; s < end; s++) {
                    dot.block = __builtin_fmaf(dy[s], x[s] - mean, dot.block);
                    sum.block += dy[s];
                }
            }
        }
        if (p->last) {
            p->dbias[c] = sum_value(&sum, size);
            p->dscale[c] = sum_value(&dot, size) * p->inv_std[c];
            if (p->rest) p->dscale[c] = __builtin_fmaf(p->rest[c], p->dbias[c], p->dscale[c]);
            sum_end(size, carry);
            sum_end(size, behind);
        } else {
            p->dscale[c] = sum_wait(&dot, size, p->start + p->s, carry);
            p->dbias[c] = sum_wait(&sum, size, p->start + p->s, behind);
        }
    }
}
