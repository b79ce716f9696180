/* Sums of dY (X - mean) and of dY per channel, ascending over images and then within the image; on the last tile the first
 * is multiplied by inv_std. Between tiles the raw sums wait in dscale and dbias. */
#include "channel_grad_sums_f32.h"
#include "hal.h"
#include "share_f32.h"

void channel_grad_sums_f32(const void *args) {
    const channel_grad_sums_f32_args_t *p = args;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float mean = p->mean[c];
        float dot = p->first ? 0.0f : p->dscale[c], sum = p->first ? 0.0f : p->dbias[c];
        for (uint32_t n = 0; n < p->n; n++) {
            const float *dy = p->dy + n * p->dy_n + c * p->dy_c;
            const float *x = p->x + n * p->x_n + c * p->x_c;
            for (uint32_t s = 0; s < p->s; s++) {
                dot = __builtin_fmaf(dy[s], x[s] - mean, dot);
                sum += dy[s];
            }
        }
        p->dscale[c] = p->last ? dot * p->inv_std[c] : dot;
        p->dbias[c] = sum;
    }
}
