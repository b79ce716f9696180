/* Mean and inv_std = 1 / sqrt(variance + epsilon) of each channel, and rest, by which (X - mean) inv_std is off because the mean
 * is rounded: (mean - exact mean) inv_std. Sums go over images and then within the image, in the order of sum_f32.h.
 * Phase 0 sums X - pivot, with the channel's first element as the pivot: such differences are small where the mean is far
 * larger than the deviation, so the mean is off by little more than its own rounding. Phase 1 sums (X - mean)^2.
 *
 * Between tiles of phase 0 the sum waits in mean and the pivot in inv_std; between those of phase 1 the mean waits in mean,
 * what it lacks in rest and the sum in inv_std. */
#include "channel_moments_f32.h"
#include "hal.h"
#include "mean_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

static void add_values(const channel_moments_f32_args_t *p, uint32_t begins, uint32_t c, float pivot, sum_t *sum) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t n = 0; n < p->n; n++) {
        if (n > 0 || !begins) sum_row(sum, size, p->start);
        for (uint32_t s = 0; s < p->s;)
            for (const uint32_t end = s + sum_next(sum, size, p->start + s, p->s - s); s < end; s++)
                sum->block += p->x[n * p->x_n + c * p->x_c + s] - pivot;
    }
}

static void add_squares(const channel_moments_f32_args_t *p, uint32_t begins, uint32_t c, float mean, sum_t *sum) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t n = 0; n < p->n; n++) {
        if (n > 0 || !begins) sum_row(sum, size, p->start);
        for (uint32_t s = 0; s < p->s;)
            for (const uint32_t end = s + sum_next(sum, size, p->start + s, p->s - s); s < end; s++) {
                const float centred = p->x[n * p->x_n + c * p->x_c + s] - mean;
                sum->block = __builtin_fmaf(centred, centred, sum->block);
            }
    }
}

void channel_moments_f32(const void *args) {
    const channel_moments_f32_args_t *p = args;
    const uint32_t size = sum_size(p->carry), begins = p->image + p->start == 0, both = p->first && p->last;
    const share_t share = share_of(p->c);
    for (uint32_t c = share.begin; c < share.end; c++) {
        const float first = p->x[c * p->x_c];
        float *carry = p->carry ? p->carry + SUM_CARRIED * c : 0, mean = p->mean[c], lacks = p->rest[c];
        if (p->phase == 0) {
            const float pivot = !p->first ? p->inv_std[c] : first - first == 0.0f ? first : 0.0f;
            sum_t sum = sum_begin(p->first, size, mean, carry);
            add_values(p, begins, c, pivot, &sum);
            if (!both) {
                p->mean[c] = sum_wait(&sum, size, p->start + p->s, carry);
                p->inv_std[c] = pivot;
                continue;
            }
            const mean_t found = mean_of(sum_value(&sum, size), p->inverse_count, pivot);
            mean = found.mean, lacks = found.lacks;
        } else if (begins) {
            sum_t sum = sum_begin(0, size, mean, carry);
            const mean_t found = mean_of(sum_value(&sum, size), p->inverse_count, p->inv_std[c]);
            mean = found.mean, lacks = found.lacks;
        }
        sum_t squares = sum_begin(begins, size, p->inv_std[c], carry);
        add_squares(p, begins, c, mean, &squares);
        p->mean[c] = mean;
        if (p->last) {
            p->inv_std[c] = deviation_of(sum_value(&squares, size), p->inverse_count, p->epsilon, lacks);
            p->rest[c] = -lacks * p->inv_std[c];
            sum_end(size, carry);
        } else {
            p->inv_std[c] = sum_wait(&squares, size, p->start + p->s, carry);
            p->rest[c] = lacks;
        }
    }
}
