/* Mean of (X - mean)^2 per channel; the portable kernel defines the order. */
#include "channel_variance_f32.h"
#include "centred_sum.h"
#include "hal.h"

void channel_variance_f32(const void *args) {
    const channel_variance_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), size = sum_size(p->carry), gap = p->x_n - p->s;
    const uint32_t whole = size && p->n == 1 && p->first && p->last;
    for (uint32_t c = hal_core_id(); c < p->c; c += cores) {
        const float mean = p->mean[c], *x = p->x + c * p->x_c;
        float *const carry = size ? p->carry + SUM_CARRIED * c : 0;
        if (whole) {
            p->y[c] = centred_row(1, &x, mean, p->s) * p->inverse_count;
            sum_end(size, carry);
            continue;
        }
        sum_t sum = sum_begin(p->first, size, p->y[c], carry);
        for (uint32_t n = 0; n < p->n; n++, x += gap) {
            if (n > 0 || !p->first) sum_row(&sum, size, p->start);
            centred_add(1, &sum, size, &x, mean, p->start, p->s);
        }
        if (p->last) {
            p->y[c] = sum_value(&sum, size) * p->inverse_count;
            sum_end(size, carry);
        } else
            p->y[c] = sum_wait(&sum, size, p->start + p->s, carry);
    }
}
