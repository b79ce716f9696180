/* Mean and 1 / sqrt(variance + epsilon) of each channel. Phase 0 sums X, phase 1 (X - mean)^2, over images and then within the
 * image, in the order of sum_f32.h; each sum is multiplied by inverse_count. Between tiles the sums wait in mean and
 * inv_std. */
#include "channel_moments_f32.h"
#include "hal.h"
#include "math_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

static void add_values(const channel_moments_f32_args_t *p, uint32_t c, sum_t *sum) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t n = 0; n < p->n; n++) {
        if (n > 0 || !p->first) sum_row(sum, size, p->start);
        for (uint32_t s = 0; s < p->s;)
            for (const uint32_t end = s + sum_next(sum, size, p->start + s, p->s - s); s < end; s++)
                sum->block += p->x[n * p->x_n + c * p->x_c + s];
    }
}

static void add_squares(const channel_moments_f32_args_t *p, uint32_t c, float mean, sum_t *sum) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t n = 0; n < p->n; n++) {
        if (n > 0 || !p->first) sum_row(sum, size, p->start);
        for (uint32_t s = 0; s < p->s;)
            for (const uint32_t end = s + sum_next(sum, size, p->start + s, p->s - s); s < end; s++) {
                const float centred = p->x[n * p->x_n + c * p->x_c + s] - mean;
                sum->block = __builtin_fmaf(centred, centred, sum->block);
            }
    }
}

void channel_moments_f32(const void *args) {
    const channel_moments_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry);
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        float *carry = p->carry ? p->carry + 2 * SUM_CARRIED * c : 0;
        sum_t sum = sum_begin(p->first, size, p->mean[c], carry);
        sum_t squares = sum_begin(p->first, size, p->inv_std[c], carry + SUM_CARRIED);
        if (p->phase == 0) add_values(p, c, &sum);
        sum_t all = sum;
        const float mean = sum_value(&all, size) * p->inverse_count;
        if (p->phase + p->phases == 2) add_squares(p, c, mean, &squares);
        if (p->last) {
            const float variance = sum_value(&squares, size);
            p->mean[c] = mean;
            p->inv_std[c] = rsqrt_f32(__builtin_fmaf(variance, p->inverse_count, p->epsilon));
            sum_end(size, carry);
            sum_end(size, carry + SUM_CARRIED);
        } else {
            p->mean[c] = sum_wait(&sum, size, carry);
            p->inv_std[c] = sum_wait(&squares, size, carry + SUM_CARRIED);
        }
    }
}
