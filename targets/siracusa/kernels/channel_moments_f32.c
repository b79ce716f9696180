/* Mean, 1 / sqrt(variance + epsilon) and rest per channel; the portable kernel defines the order. */
#include "channel_moments_f32.h"
#include "centred_sum.h"
#include "hal.h"
#include "mean_f32.h"

/* An element of the channel, or 0 where it is not finite: the first is what phase 0 subtracts. */
static inline float pivot_of(float first) {
    return first - first == 0.0f ? first : 0.0f;
}

/* Any tile: several images, or a part of the sums. */
static __attribute__((noinline)) void any(const channel_moments_f32_args_t *p) {
    const uint32_t gap = p->x_n - p->s, size = sum_size(p->carry), begins = p->image + p->start == 0;
    const float inverse_count = p->inverse_count;
    for (uint32_t c = hal_core_id(); c < p->c; c += hal_core_count()) {
        const float *const row = p->x + c * p->x_c, *x = row;
        float *const carry = size ? p->carry + SUM_CARRIED * c : 0, mean = p->mean[c], lacks = p->rest[c];
        if (p->phase == 0) {
            const float pivot = p->first ? pivot_of(*x) : p->inv_std[c];
            sum_t sum = sum_begin(p->first, size, mean, carry);
            for (uint32_t n = 0; n < p->n; n++, x += gap) {
                if (n > 0 || !begins) sum_row(&sum, size, p->start);
                centred_add(0, &sum, size, &x, pivot, p->start, p->s);
            }
            if (!(p->first && p->last)) {
                p->mean[c] = sum_wait(&sum, size, p->start + p->s, carry);
                p->inv_std[c] = pivot;
                continue;
            }
            const mean_t found = mean_of(sum_value(&sum, size), inverse_count, pivot);
            mean = found.mean, lacks = found.lacks;
        } else if (begins) {
            sum_t sum = sum_begin(0, size, mean, carry);
            const mean_t found = mean_of(sum_value(&sum, size), inverse_count, p->inv_std[c]);
            mean = found.mean, lacks = found.lacks;
        }
        sum_t spread = sum_begin(begins, size, p->inv_std[c], carry);
        x = row;
        for (uint32_t n = 0; n < p->n; n++, x += gap) {
            if (n > 0 || !begins) sum_row(&spread, size, p->start);
            centred_add(1, &spread, size, &x, mean, p->start, p->s);
        }
        p->mean[c] = mean;
        if (p->last) {
            const float inv_std = deviation_of(sum_value(&spread, size), inverse_count, p->epsilon, lacks);
            p->inv_std[c] = inv_std, p->rest[c] = -lacks * inv_std;
            sum_end(size, carry);
        } else
            p->inv_std[c] = sum_wait(&spread, size, p->start + p->s, carry), p->rest[c] = lacks;
    }
}

/* All of one image whose sums are several blocks. */
static __attribute__((noinline)) void rows(const channel_moments_f32_args_t *p) {
    const uint32_t cores = hal_core_count(), length = p->s;
    const float inverse_count = p->inverse_count, epsilon = p->epsilon;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float *x = p->x + c * p->x_c, *again = x, pivot = pivot_of(*x);
        const mean_t found = mean_of(centred_row(0, &again, pivot, length), inverse_count, pivot);
        const float spread = centred_row(1, &x, found.mean, length);
        const float inv_std = deviation_of(spread, inverse_count, epsilon, found.lacks);
        p->mean[c] = found.mean, p->inv_std[c] = inv_std, p->rest[c] = -found.lacks * inv_std;
        sum_end(1, p->carry + SUM_CARRIED * c);
    }
}

void channel_moments_f32(const void *args) {
    const channel_moments_f32_args_t *p = args;
    if (!(p->first && p->last) || p->n > 1) {
        any(p);
        return;
    }
    if (p->carry) {
        rows(p);
        return;
    }
    const uint32_t id = hal_core_id(), cores = hal_core_count(), length = p->s;
    const float inverse_count = p->inverse_count, epsilon = p->epsilon, *x = p->x + id * p->x_c;
    const uint32_t gap = cores * p->x_c - length;
    float *inv_std = p->inv_std + id, *rest = p->rest + id;
    for (float *mean = p->mean + id, *end = p->mean + p->c; mean < end; mean += cores, inv_std += cores, x += gap) {
        const float *again = x, pivot = pivot_of(*x);
        const mean_t found = mean_of(centred_part(0, 0.0f, &again, pivot, length), inverse_count, pivot);
        const float spread = centred_part(1, 0.0f, &x, found.mean, length);
        const float deviation = deviation_of(spread, inverse_count, epsilon, found.lacks);
        *mean = found.mean, *inv_std = deviation, *rest = -found.lacks * deviation, rest += cores;
    }
}
