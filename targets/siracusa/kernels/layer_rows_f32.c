/* Y = (X - mean) inv_std scale + bias, with the mean of each row and 1 / sqrt(variance + epsilon); the portable kernel defines the
 * order. A core has whole rows. Bias, mean and inv_std may be absent; Relu follows where it is fused. */
#include "layer_rows_f32.h"
#include "centred_sum.h"
#include "hal.h"
#include "layer_row.h"
#include "math_f32.h"

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
        const float mean = __builtin_fmaf(sum_over(0, x, pivot, columns, size), inverse, pivot);
        const float inv_std = rsqrt_f32(__builtin_fmaf(sum_over(1, x, mean, columns, size), inverse, p->epsilon));
        if (p->mean) p->mean[r] = mean;
        if (p->inv_std) p->inv_std[r] = inv_std;
        normalize_row(p->y + r * p->y_r, x, p->scale, p->bias, mean, inv_std, columns, p->relu);
    }
}
