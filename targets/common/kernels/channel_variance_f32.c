/* Sum of (X - mean)^2 per channel, ascending over images and then within the image; on the last tile times inverse_count.
 * Between tiles the raw sum waits in Y. */
#include "channel_variance_f32.h"
#include "hal.h"
#include "share_f32.h"

void channel_variance_f32(const void *args) {
    const channel_variance_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float mean = p->mean[c];
        float sum = p->first ? 0.0f : p->y[c];
        for (uint32_t n = 0; n < p->n; n++) {
            const float *x = p->x + n * p->x_n + c * p->x_c;
            for (uint32_t s = 0; s < p->s; s++) {
                const float centred = x[s] - mean;
                sum = __builtin_fmaf(centred, centred, sum);
            }
        }
        p->y[c] = p->last ? sum * p->inverse_count : sum;
    }
}
