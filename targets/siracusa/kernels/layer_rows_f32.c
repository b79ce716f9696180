/* Y = ((X - mean) inv_std + rest) scale + bias, with moments of each row; the portable kernel defines the order. A core has whole
 * rows. Bias, mean, inv_std and rest may be absent; Relu follows where it is fused. */
#include "layer_rows_f32.h"
#include "centred_sum.h"
#include "hal.h"
#include "layer_row.h"
#include "mean_f32.h"

/* The sum over a row of X - centre, or of its square; `squared` is a constant. */
static inline __attribute__((always_inline)) float sum_over(int squared, const float *x, float centre, uint32_t count,
                                                            uint32_t size) {
    return size ? centred_row(squared, &x, centre, count) : centred_part(squared, 0.0f, &x, centre, count);
}

void layer_rows_f32(const void *args) {
    const layer_rows_f32_args_t *p = args;
    const uint32_t cores = hal_core_count(), size = p->block, columns = p->c;
    const float inverse = p->inverse_count;
    for (uint32_t r = hal_core_id(); r < p->r; r += cores) {
        const float *const x = p->x + r * p->x_r, pivot = *x - *x == 0.0f ? *x : 0.0f;
        const mean_t found = mean_of(sum_over(0, x, pivot, columns, size), inverse, pivot);
        const float spread = sum_over(1, x, found.mean, columns, size);
        const float inv_std = deviation_of(spread, inverse, p->epsilon, found.lacks), rest = -found.lacks * inv_std;
        if (p->mean) p->mean[r] = found.mean;
        if (p->inv_std) p->inv_std[r] = inv_std;
        if (p->rest) p->rest[r] = rest;
        normalize_row(p->y + r * p->y_r, x, p->scale, p->bias, found.mean, inv_std, rest, columns, p->relu);
    }
}
