/* Mean and 1 / sqrt(variance + epsilon) of each channel. Phase 0 sums X, phase 1 (X - mean)^2, ascending over images and then
 * within the image; each sum is multiplied by inverse_count. Between tiles the raw sums wait in mean and inv_std. */
#include "channel_moments_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "share_f32.h"

void channel_moments_f32(const void *args) {
    const channel_moments_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        float sum = p->first ? 0.0f : p->mean[c], squares = p->first ? 0.0f : p->inv_std[c];
        if (p->phase == 0)
            for (uint32_t n = 0; n < p->n; n++)
                for (uint32_t s = 0; s < p->s; s++) sum += p->x[n * p->x_n + c * p->x_c + s];
        const float mean = sum * p->inverse_count;
        if (p->phase + p->phases == 2)
            for (uint32_t n = 0; n < p->n; n++)
                for (uint32_t s = 0; s < p->s; s++) {
                    const float centred = p->x[n * p->x_n + c * p->x_c + s] - mean;
                    squares = __builtin_fmaf(centred, centred, squares);
                }
        p->mean[c] = p->last ? mean : sum;
        p->inv_std[c] = p->last ? rsqrt_f32(__builtin_fmaf(squares, p->inverse_count, p->epsilon)) : squares;
    }
}
