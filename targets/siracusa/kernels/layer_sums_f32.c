/* Per row the sums of dY scale and of dY scale ((X - mean) inv_std + rest), in the order of sum_f32.h; the portable kernel says how tiles go
 * together. */
#include "layer_sums_f32.h"
#include "hal.h"
#include "layer_sums.h"
#include "share_f32.h"

/* The finished sum of dY scale times normal X, by those of dY scale (X - mean) and of dY scale; rest may be absent. */
static inline float dot_of(const layer_sums_f32_args_t *p, uint32_t r, float dot, float total) {
    const float scaled = dot * p->inv_std[r];
    return p->rest ? __builtin_fmaf(p->rest[r], total, scaled) : scaled;
}

/* Rows of several blocks, or parts of rows. */
static __attribute__((noinline)) void any(const layer_sums_f32_args_t *p, share_t share) {
    const uint32_t size = sum_size(p->carry);
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *dy = p->dy + r * p->dy_r, *x = p->x + r * p->x_r;
        float *carry = p->carry ? p->carry + 2 * SUM_CARRIED * r : 0;
        sum_t total = sum_begin(p->first, size, p->total[r], carry);
        sum_t dot = sum_begin(p->first, size, p->dot[r], carry + SUM_CARRIED);
        for (uint32_t c = 0; c < p->c;) {
            const uint32_t count = sum_next(&total, size, p->start + c, p->c - c);
            sum_next(&dot, size, p->start + c, count);
            add_sums(&total.block, &dot.block, dy + c, x + c, p->scale + c, p->mean[r], count);
            c += count;
        }
        if (p->last) {
            const float sum = sum_value(&total, size);
            p->total[r] = sum;
            p->dot[r] = dot_of(p, r, sum_value(&dot, size), sum);
            sum_end(size, carry);
            sum_end(size, carry + SUM_CARRIED);
        } else {
            p->total[r] = sum_wait(&total, size, p->start + p->c, carry);
            p->dot[r] = sum_wait(&dot, size, p->start + p->c, carry + SUM_CARRIED);
        }
    }
}

void layer_sums_f32(const void *args) {
    const layer_sums_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    if (p->carry || !(p->first && p->last)) {
        any(p, share);
        return;
    }
    for (uint32_t r = share.begin; r < share.end; r++) {
        float total = 0.0f, dot = 0.0f;
        add_sums(&total, &dot, p->dy + r * p->dy_r, p->x + r * p->x_r, p->scale, p->mean[r], p->c);
        p->total[r] = total;
        p->dot[r] = dot_of(p, r, dot, total);
    }
}
