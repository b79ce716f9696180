/* Sum of (X - mean)^2 per channel, ascending over images and then within the image; on the last tile times 1 / count,
 * and under `inverse` one over the root of that plus epsilon. Between tiles the raw sum waits in Y. */
#include "channel_variance_f32.h"
#include "hal.h"
#include "share_f32.h"

void channel_variance_f32(const void *args) {
    const channel_variance_f32_args_t *p = args;
    const float inverse = 1.0f / p->count;
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
        if (p->last) sum *= inverse;
        if (p->last && p->inverse) sum = 1.0f / __builtin_sqrtf(sum + p->epsilon);
        p->y[c] = sum;
    }
}
