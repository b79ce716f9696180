/* Sum of (X - mean)^2 per channel over images and then within the image, in the order of sum_f32.h; on the last tile times
 * inverse_count. Between tiles the sum waits in Y. */
#include "channel_variance_f32.h"
#include "hal.h"
#include "share_f32.h"
#include "sum_f32.h"

void channel_variance_f32(const void *args) {
    const channel_variance_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float mean = p->mean[c];
        float *carry = p->carry ? p->carry + SUM_CARRIED * c : 0;
        sum_t sum = sum_begin(p->first, size, p->y[c], carry);
        for (uint32_t n = 0; n < p->n; n++) {
            const float *x = p->x + n * p->x_n + c * p->x_c;
            if (n > 0 || !p->first) sum_row(&sum, size, p->start);
            for (uint32_t s = 0; s < p->s;)
                for (const uint32_t end = s + sum_next(&sum, size, p->start + s, p->s - s); s < end; s++) {
                    const float centred = x[s] - mean;
                    sum.block = __builtin_fmaf(centred, centred, sum.block);
                }
        }
        if (p->last) {
            p->y[c] = sum_value(&sum, size) * p->inverse_count;
            sum_end(size, carry);
        } else
            p->y[c] = sum_wait(&sum, size, p->start + p->s, carry);
    }
}
