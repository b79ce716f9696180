/* Y = (X - mean) inv_std scale + bias, with the mean of each row and 1 / sqrt(variance + epsilon), in the order of sum_f32.h, as
 * channel_moments_f32.c has them, and the rest that it has. A core has whole rows. Bias, mean, inv_std and rest may be absent;
 * Relu follows where it is fused. */
#include "layer_rows_f32.h"
#include "activation_f32.h"
#include "hal.h"
#include "mean_f32.h"
#include "share_f32.h"
#include "sum_f32.h"

void layer_rows_f32(const void *args) {
    const layer_rows_f32_args_t *p = args;
    const share_t share = share_of(p->r);
    const float inverse = p->inverse_count;
    for (uint32_t r = share.begin; r < share.end; r++) {
        const float *x = p->x + r * p->x_r, pivot = x[0] - x[0] == 0.0f ? x[0] : 0.0f;
        float *y = p->y + r * p->y_r;
        sum_t sum = {0}, squares = {0};
        for (uint32_t c = 0; c < p->c;)
            for (const uint32_t end = c + sum_next(&sum, p->block, c, p->c - c); c < end; c++) sum.block += x[c] - pivot;
        const mean_t found = mean_of(sum_value(&sum, p->block), inverse, pivot);
        const float mean = found.mean;
        for (uint32_t c = 0; c < p->c;)
            for (const uint32_t end = c + sum_next(&squares, p->block, c, p->c - c); c < end; c++)
                squares.block = __builtin_fmaf(x[c] - mean, x[c] - mean, squares.block);
        const float inv_std = deviation_of(sum_value(&squares, p->block), inverse, p->epsilon, found.lacks);
        const float rest = -found.lacks * inv_std;
        if (p->mean) p->mean[r] = mean;
        if (p->inv_std) p->inv_std[r] = inv_std;
        if (p->rest) p->rest[r] = rest;
        for (uint32_t c = 0; c < p->c; c++) {
            const float unit = __builtin_fmaf(x[c] - mean, inv_std, rest);
            y[c] = p->bias ? __builtin_fmaf(unit, p->scale[c], p->bias[c]) : unit * p->scale[c];
            if (p->relu) y[c] = relu_f32_of(y[c]);
        }
    }
}
